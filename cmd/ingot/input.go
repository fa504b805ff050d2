package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ingot-run/ingot/files/prompt"
	"github.com/ingot-run/ingot/files/table"
	"github.com/ingot-run/ingot/internal/progress"
	"github.com/ingot-run/ingot/internal/textfmt"
	"github.com/ingot-run/ingot/openai"
)

type inputFlags struct {
	flags     *pflag.FlagSet // nil without flags
	file      table.Flags
	shape     string
	templates prompt.TemplateFlags
	defaults  map[string]func() (json.RawMessage, error) // values of the flags for row defaults, by the request's field
	form      prompt.FormFlags
	dryRun    int
	notes     *progress.Notes // receives notes about the input; nil before open
}

// stdio is the path that means stdin or stdout.
const stdio = table.Stdin

// Titles of sections of a command's flags in its help.
const (
	prompting = "Prompt"
	choosing  = "Selection"
	sampling  = "Row Default"
)

var requestLines = inputFlags{file: table.Flags{Format: string(table.Lines)}, shape: string(prompt.Requests)}

func (f *inputFlags) add(flags *pflag.FlagSet) {
	f.flags = flags
	flags.StringVar(&f.file.Format, "format", string(table.Auto),
		"`FORMAT` of IN: "+table.FormatNames()+"; auto uses the file's extension or, if that is unknown, its first bytes")
	addEncoding(flags, &f.file, "IN")
	flags.StringVar(&f.templates.Prompt, "prompt", "", "`TEMPLATE` of the user's message, such as 'Translate: {{.text}}'; @FILE reads it from a file")
	flags.StringVar(&f.templates.System, "system", "", "`TEMPLATE` of a system message, for rows that have none; @FILE reads it from a file")
	flags.StringVar(&f.templates.File, "template", "", "`FILE` with the templates of several messages, each below a line such as --- user")
	flags.StringVar(&f.shape, "shape", string(prompt.Auto), "`SHAPE` of the records, which --prompt and --template override:"+shapesHelp())
	section(flags, prompting, "prompt", "system", "template", "shape")
	addForm(flags, &f.form)
	flags.StringVar(&f.file.Select.Where, "where", "", "answer only rows for which `CONDITION` holds, such as 'lang == \"de\"' or 'int(score) > 3' (see expr-lang.org)")
	flags.IntVar(&f.file.Select.Skip, "skip", 0, "leave out the first `N` rows")
	flags.IntVar(&f.file.Select.Sample, "sample", 0, "answer `N` rows drawn at random; --sample-seed changes the draw")
	flags.Int64Var(&f.file.Select.Seed, "sample-seed", 0, "seed `N` of the draw for --sample")
	flags.IntVar(&f.file.Select.Limit, "limit", 0, "answer at most `N` rows")
	flags.IntVar(&f.dryRun, "dry-run", 0, "print `N` requests, with the number of their prompt tokens if a model is given, and answer none")
	section(flags, choosing, "where", "skip", "sample", "sample-seed", "limit", "dry-run")
	f.defaults = map[string]func() (json.RawMessage, error){}
	for _, s := range prompt.Settings {
		if s.Kind == openai.Strings {
			list := flags.StringArray(s.Flag(), nil, s.Help)
			f.defaults[s.Name] = func() (json.RawMessage, error) { return json.Marshal(*list) }
		} else {
			v := &openai.FlagValue{Field: s}
			f.defaults[s.Name] = func() (json.RawMessage, error) { return s.Parse(v.Text) }
			flag := flags.VarPF(v, s.Flag(), "", s.Help)
			if s.Kind == openai.Boolean {
				flag.NoOptDefVal = "true"
			}
		}
		section(flags, sampling, s.Flag())
	}
}

func shapesHelp() string {
	var names []string
	for name := range prompt.Shapes() {
		names = append(names, string(name))
	}
	return " auto, " + strings.Join(names, ", ")
}

func (f *inputFlags) given(name string) bool { return f.flags != nil && f.flags.Changed(name) }

func (f *inputFlags) options() (table.Options, prompt.Options, error) {
	to, po, err := f.read()
	if err != nil {
		err = &usageError{err}
	}
	return to, po, err
}

func (f *inputFlags) read() (to table.Options, po prompt.Options, err error) {
	if to, err = f.file.Options(f.given); err != nil {
		return to, po, err
	}
	if po.Shape, err = prompt.ParseShape(f.shape); err != nil {
		return to, po, fmt.Errorf("--shape: %w", err)
	}
	if err := f.templates.AddTo(&po, f.given); err != nil {
		return to, po, err
	}
	if po.Defaults, err = prompt.ReadDefaults(f.defaults, f.given); err != nil {
		return to, po, err
	}
	if err = f.form.AddTo(&po, f.given); err != nil || !f.given("dry-run") {
		return to, po, err
	}
	if f.dryRun < 1 {
		return to, po, fmt.Errorf("--dry-run: %d is not allowed: give a number of at least 1", f.dryRun)
	}
	if to.Select.Limit == 0 || f.dryRun < to.Select.Limit {
		to.Select.Limit = f.dryRun
	}
	return to, po, nil
}

// addEncoding adds the flags that say how the text of a file is written.
func addEncoding(flags *pflag.FlagSet, f *table.Flags, file string) {
	flags.StringVar(&f.Delimiter, "delimiter", "", "`CHARACTER` that separates the columns of "+file+", if it is CSV, such as ';' or tab (default a comma)")
	flags.StringVar(&f.Encoding, "encoding", "", "`NAME` of the encoding of "+file+", such as windows-1252 or shift_jis (default UTF-8)")
}

func (f *inputFlags) open(cmd *cobra.Command, paths []string) (*prompt.Input, error) {
	to, po, err := f.options()
	if err != nil {
		return nil, err
	}
	to.Stdin = cmd.InOrStdin()
	f.notes = progress.NewNotes(cmd.ErrOrStderr())
	po.Notice, po.Warn = f.notes.Print, f.notes.Print
	return prompt.Open(paths, to, po)
}

// noteNoRows prints a note if an input has no rows.
func noteNoRows(cmd *cobra.Command, in *prompt.Input) {
	if text := in.NoRows(); text != "" {
		cmd.PrintErrln(textfmt.Printable(text))
	}
}

// makesMessages reports whether flags make messages of the rows.
func (f *inputFlags) makesMessages() bool { return f.given("template") || f.given("system") }

// texts reports whether rows with "prompt" are meant to be continued as texts.
func (f *inputFlags) texts() bool { return f.flags == nil || f.shape == string(prompt.Completion) }

type unknownFlag string

// Values of unknownFlag.
const (
	unknownError  = "error"
	unknownIgnore = "ignore"
)

func (u *unknownFlag) add(flags *pflag.FlagSet, usage string) {
	flags.StringVar((*string)(u), "unknown-fields", unknownError, usage)
}

func (u *unknownFlag) ignores() (bool, error) {
	if *u != unknownError && *u != unknownIgnore {
		return false, usagef("--unknown-fields: %q is not known: use %s or %s", *u, unknownError, unknownIgnore)
	}
	return *u == unknownIgnore, nil
}
