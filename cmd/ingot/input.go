package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ingot-run/ingot/files/export"
	"github.com/ingot-run/ingot/files/prompt"
	"github.com/ingot-run/ingot/files/table"
	"github.com/ingot-run/ingot/internal/textfmt"
	"github.com/ingot-run/ingot/openai"
)

type inputFlags struct {
	flags                  *pflag.FlagSet // nil without flags
	format, shape          string
	encoding, delimiter    string
	prompt, system, layout string
	defaults               map[string]*string // values of the flags for row defaults, by the request's field
	stops                  *[]string
	form                   formFlags
	choose                 table.Selection
	dryRun                 int
	notes                  *notes // receives notes about the input; nil before open
}

// notes writes notes about an input to a writer that can be replaced. A read of the input that was
// abandoned may still write one.
type notes struct {
	mu sync.Mutex
	to io.Writer
}

func (n *notes) print(text string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	fmt.Fprintln(n.to, textfmt.Printable(text)) //nolint:errcheck // a note is best effort
}

// divert writes later notes to w, which shows the progress, until the returned function is called.
func (n *notes) divert(w io.Writer) (end func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	before := n.to
	n.to = w
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.to = before
	}
}

// stdio is the path that means stdin or stdout.
const stdio = table.Stdin

// Titles of sections of a command's flags in its help.
const (
	prompting = "Prompt"
	choosing  = "Selection"
	sampling  = "Row Default"
)

var requestLines = inputFlags{format: string(table.Lines), shape: string(prompt.Requests)}

func (f *inputFlags) add(flags *pflag.FlagSet) {
	f.flags = flags
	flags.StringVar(&f.format, "format", string(table.Auto),
		"`FORMAT` of IN: "+table.FormatNames()+"; auto uses the file's extension or, if that is unknown, its first bytes")
	addEncoding(flags, &f.encoding, &f.delimiter, "IN")
	flags.StringVar(&f.prompt, "prompt", "", "`TEMPLATE` of the user's message, such as 'Translate: {{.text}}'; @FILE reads it from a file")
	flags.StringVar(&f.system, "system", "", "`TEMPLATE` of a system message, for rows that have none; @FILE reads it from a file")
	flags.StringVar(&f.layout, "template", "", "`FILE` with the templates of several messages, each below a line such as --- user")
	flags.StringVar(&f.shape, "shape", string(prompt.Auto), "`SHAPE` of the records, which --prompt and --template override:"+shapesHelp())
	section(flags, prompting, "prompt", "system", "template", "shape")
	f.form.add(flags)
	flags.StringVar(&f.choose.Where, "where", "", "answer only rows for which `CONDITION` holds, such as 'lang == \"de\"' or 'int(score) > 3' (see expr-lang.org)")
	flags.IntVar(&f.choose.Skip, "skip", 0, "leave out the first `N` rows")
	flags.IntVar(&f.choose.Sample, "sample", 0, "answer `N` rows drawn at random; --sample-seed changes the draw")
	flags.Int64Var(&f.choose.Seed, "sample-seed", 0, "seed `N` of the draw for --sample")
	flags.IntVar(&f.choose.Limit, "limit", 0, "answer at most `N` rows")
	flags.IntVar(&f.dryRun, "dry-run", 0, "print `N` requests, with the number of their prompt tokens if a model is given, and answer none")
	section(flags, choosing, "where", "skip", "sample", "sample-seed", "limit", "dry-run")
	f.defaults = map[string]*string{}
	for i := range prompt.Settings {
		s := prompt.Settings[i]
		switch s.Kind {
		case openai.Strings:
			f.stops = flags.StringArray(s.Flag(), nil, s.Help)
		default:
			v := &settingValue{setting: s}
			f.defaults[s.Name] = &v.text
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

type settingValue struct {
	setting *openai.Field
	text    string
}

func (v *settingValue) String() string { return v.text }

func (v *settingValue) Set(s string) error {
	v.text = s
	_, err := v.setting.Parse(s)
	return err
}

func (v *settingValue) Type() string {
	return map[openai.Kind]string{
		openai.Number: "NUMBER", openai.Integer: "N", openai.Boolean: "", openai.String: "WORD", openai.Integers: "IDS", openai.Object: "JSON",
	}[v.setting.Kind]
}

func (f *inputFlags) given(name string) bool { return f.flags != nil && f.flags.Changed(name) }

func (f *inputFlags) options() (table.Options, prompt.Options, error) {
	format, err := table.ParseFormat(f.format)
	if err != nil {
		return table.Options{}, prompt.Options{}, usagef("--format: %w", err)
	}
	comma, err := checkEncoding(f.encoding, f.delimiter)
	if err != nil {
		return table.Options{}, prompt.Options{}, err
	}
	o := prompt.Options{}
	if o.Shape, err = prompt.ParseShape(f.shape); err != nil {
		return table.Options{}, o, usagef("--shape: %w", err)
	}
	if err := f.templates(&o); err != nil {
		return table.Options{}, o, &usageError{err}
	}
	for i := range prompt.Settings {
		s := prompt.Settings[i]
		if !f.given(s.Flag()) {
			continue
		}
		d := prompt.Default{Setting: s}
		if s.Kind == openai.Strings {
			d.Value, err = json.Marshal(*f.stops)
		} else {
			d.Value, err = s.Parse(*f.defaults[s.Name])
		}
		if err != nil {
			return table.Options{}, o, usagef("--%s: %w", s.Flag(), err)
		}
		o.Defaults = append(o.Defaults, d)
	}
	if err := prompt.CheckDefaults(o.Defaults); err != nil {
		return table.Options{}, o, &usageError{err}
	}
	if err := f.form.addTo(&o, f.given); err != nil {
		return table.Options{}, o, &usageError{err}
	}
	choose, err := f.selection()
	return table.Options{Format: format, Encoding: f.encoding, Comma: comma, Select: choose}, o, err
}

// addEncoding adds the flags that say how the text of a file is written.
func addEncoding(flags *pflag.FlagSet, encoding, delimiter *string, file string) {
	flags.StringVar(delimiter, "delimiter", "", "`CHARACTER` that separates the columns of "+file+", if it is CSV, such as ';' or tab (default a comma)")
	flags.StringVar(encoding, "encoding", "", "`NAME` of the encoding of "+file+", such as windows-1252 or shift_jis (default UTF-8)")
}

func checkEncoding(name, delimiter string) (comma rune, err error) {
	if name != "" {
		if err := table.CheckEncoding(name); err != nil {
			return 0, usagef("--encoding: %w", err)
		}
	}
	if delimiter != "" {
		if comma, err = table.ParseComma(delimiter); err != nil {
			return 0, usagef("--delimiter: %w", err)
		}
	}
	return comma, nil
}

func (f *inputFlags) selection() (table.Selection, error) {
	choose := f.choose
	for _, n := range []struct {
		flag  string
		value int
	}{{"skip", choose.Skip}, {"sample", choose.Sample}, {"limit", choose.Limit}, {"dry-run", f.dryRun}} {
		if f.given(n.flag) && n.value < 1 {
			return choose, usagef("--%s: %d is not allowed: give a number of at least 1", n.flag, n.value)
		}
	}
	if f.given("where") && choose.Where == "" {
		return choose, usagef("--where: the condition is empty")
	}
	if f.given("dry-run") && (choose.Limit == 0 || f.dryRun < choose.Limit) {
		choose.Limit = f.dryRun
	}
	return choose, nil
}

func (f *inputFlags) templates(o *prompt.Options) error {
	if f.given("prompt") && f.given("template") {
		return errors.New("--prompt and --template cannot be combined: give one")
	}
	if f.given("system") {
		text, err := templateText(f.system)
		if err != nil {
			return fmt.Errorf("--system: %w", err)
		}
		o.System = &prompt.Template{}
		if err := o.System.Add("system", "--system", text); err != nil {
			return err
		}
	}
	switch {
	case f.given("prompt"):
		text, err := templateText(f.prompt)
		if err != nil {
			return fmt.Errorf("--prompt: %w", err)
		}
		o.Template = &prompt.Template{}
		return o.Template.Add("user", "--prompt", text)
	case f.given("template"):
		text, err := readWholeFile(f.layout)
		if err != nil {
			return fmt.Errorf("--template: %w", err)
		}
		o.Template = &prompt.Template{}
		return o.Template.AddFile(f.layout, string(text))
	}
	return nil
}

// templateText returns the text of a flag. @FILE means the content of a file, without its last line
// end.
func templateText(s string) (string, error) {
	path, ok := strings.CutPrefix(s, "@")
	if !ok {
		return s, nil
	}
	text, err := readWholeFile(path)
	return strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r"), err
}

func (f *inputFlags) open(cmd *cobra.Command, paths []string) (*prompt.Input, error) {
	to, po, err := f.options()
	if err != nil {
		return nil, err
	}
	to.Stdin = cmd.InOrStdin()
	f.notes = &notes{to: cmd.ErrOrStderr()}
	po.Notice, po.Warn = f.notes.print, f.notes.print
	return prompt.Open(paths, to, po)
}

// noteNoRows prints a note if an input has no rows.
func noteNoRows(cmd *cobra.Command, in *prompt.Input) {
	if text := in.NoRows(); text != "" {
		cmd.PrintErrln(textfmt.Printable(text))
	}
}

// warnOfNoTemplate returns a function that warns of n rows that need a chat template.
func (f *inputFlags) warnOfNoTemplate(to io.Writer, title string) func(n int) {
	return func(n int) {
		fmt.Fprintf(to, "%s%s cannot be answered, since the model has no chat template: %s\n", title, countRows(n), f.withoutTemplate()) //nolint:errcheck // a warning is best effort
	}
}

// withoutTemplate says how a model without a chat template can answer the rows.
func (f *inputFlags) withoutTemplate() string {
	const or = ", or a model with a chat template"
	if f.given("template") || f.given("system") {
		return "give --prompt alone, with --shape completion, so that the model continues each prompt as text" + or
	}
	return "give --shape completion, so that the model continues each prompt as text (rows with \"messages\" need \"prompt\" instead)" + or
}

// warnOfContinued returns a function that warns of n rows whose "prompt" a model for chats
// continues. It returns nil if the flags say that rows are texts to continue.
func (f *inputFlags) warnOfContinued(to io.Writer, title string) func(n int) {
	if f.flags == nil || f.shape == string(prompt.Completion) {
		return nil
	}
	const text = "%s%s with \"prompt\": the model has a chat template, but continues such rows as text. " +
		"To send them as chats, give --shape prompt; to keep texts without this warning, --shape completion\n"
	return func(n int) {
		fmt.Fprintf(to, text, title, countRows(n)) //nolint:errcheck // a warning is best effort
	}
}

// refuseInput returns an error if OUT or the file of failed rows is one of the inputs.
func refuseInput(out *export.Output, inputs []string) error {
	for _, path := range inputs {
		if path == out.Path && path != stdio || table.SameFile(path, out.Path) || table.SameFile(path, out.Failed) {
			return usagef("%s is an input and would be overwritten: choose another file for OUT or --failed", path)
		}
	}
	return nil
}

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

// maxWhole is the maximum size of a file that a command reads as a whole, in bytes.
const maxWhole = 64 << 20

func readWhole(r io.Reader) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxWhole+1))
	if err == nil && len(text) > maxWhole {
		err = fmt.Errorf("the text is larger than %d MiB", maxWhole>>20)
	}
	return text, err
}

func readWholeFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // the file was only read
	return readWhole(f)
}
