package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ingot-run/ingot/files/prompt"
	"github.com/ingot-run/ingot/files/rows"
	"github.com/ingot-run/ingot/files/table"
	"github.com/ingot-run/ingot/openai"
)

// inputFlags has the flags that select the input and describe how it becomes requests.
type inputFlags struct {
	flags                  *pflag.FlagSet // nil without flags
	format, shape          string
	prompt, system, layout string
	defaults               map[string]*string // values of the flags for row defaults, by the request's field
	stops                  *[]string
	choose                 table.Selection
	dryRun                 int
}

// Titles of sections of a command's flags in its help.
const (
	prompting = "Prompt"
	choosing  = "Selection"
	sampling  = "Row Default"
)

// requestLines are the flags for an input of JSON Lines whose records are requests.
var requestLines = inputFlags{format: string(table.Lines), shape: string(prompt.Requests)}

func (f *inputFlags) add(flags *pflag.FlagSet) {
	f.flags = flags
	flags.StringVar(&f.format, "format", string(table.Auto),
		"`FORMAT` of IN: "+table.FormatNames()+"; auto uses the file's extension or, if that is unknown, its first bytes")
	flags.StringVar(&f.prompt, "prompt", "", "`TEMPLATE` of the user's message, such as 'Translate: {{.text}}'; @FILE reads it from a file")
	flags.StringVar(&f.system, "system", "", "`TEMPLATE` of a system message, for rows that have none; @FILE reads it from a file")
	flags.StringVar(&f.layout, "template", "", "`FILE` with the templates of several messages, each below a line such as --- user")
	flags.StringVar(&f.shape, "shape", string(prompt.Auto), "`SHAPE` of the records, which --prompt and --template override:"+shapesHelp())
	section(flags, prompting, "prompt", "system", "template", "shape")
	flags.StringVar(&f.choose.Where, "where", "", "answer only rows for which `CONDITION` holds, such as 'lang == \"de\"' or 'int(score) > 3' (see expr-lang.org)")
	flags.IntVar(&f.choose.Skip, "skip", 0, "leave out the first `N` rows")
	flags.IntVar(&f.choose.Sample, "sample", 0, "answer `N` rows drawn at random; --seed changes the draw")
	flags.IntVar(&f.choose.Limit, "limit", 0, "answer at most `N` rows")
	flags.IntVar(&f.dryRun, "dry-run", 0, "print `N` requests, with the number of their prompt tokens if a model is given, and answer none")
	section(flags, choosing, "where", "skip", "sample", "limit", "dry-run")
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

// settingValue is the value of a flag, such as --temperature, that sets the default of a field of requests.
type settingValue struct {
	setting *openai.Field
	text    string
}

// String implements pflag.Value.
func (v *settingValue) String() string { return v.text }

// Set implements pflag.Value.
func (v *settingValue) Set(s string) error {
	v.text = s
	_, err := v.setting.Parse(s)
	return err
}

// Type implements pflag.Value.
func (v *settingValue) Type() string {
	return map[openai.Kind]string{
		openai.Number: "NUMBER", openai.Integer: "N", openai.Boolean: "", openai.String: "WORD", openai.Integers: "IDS", openai.Object: "JSON",
	}[v.setting.Kind]
}

func (f *inputFlags) given(name string) bool { return f.flags != nil && f.flags.Changed(name) }

// options returns the options that the flags set.
func (f *inputFlags) options() (table.Options, prompt.Options, error) {
	format, err := table.ParseFormat(f.format)
	if err != nil {
		return table.Options{}, prompt.Options{}, usagef("--format: %w", err)
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
	choose, err := f.selection()
	return table.Options{Format: format, Select: choose}, o, err
}

// selection returns the selection of rows that the flags set.
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
	if f.given("seed") {
		seed, err := strconv.ParseInt(*f.defaults["seed"], 10, 64)
		if err != nil {
			return choose, usagef("--seed: %w", err)
		}
		choose.Seed = seed
	}
	return choose, nil
}

// templates sets the options of --prompt, --system and --template.
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

// templateText returns the text of a flag. @FILE means the content of a file, without its last line end.
func templateText(s string) (string, error) {
	path, ok := strings.CutPrefix(s, "@")
	if !ok {
		return s, nil
	}
	text, err := readWholeFile(path)
	return strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r"), err
}

// input is an opened input. Read returns its requests as lines. Every input except stdin can be read again.
type input struct {
	*prompt.Stream
	table  *table.Input
	format rows.Format // format of the lines that Read gives
	made   bool        // the lines were made from records; false if the files already have the lines

	reading sync.Mutex // held during a Read
	closed  atomic.Bool
}

// Read implements io.Reader. An interrupted run does not wait for a Read that blocks, so Close may be called during a Read.
func (in *input) Read(p []byte) (int, error) {
	in.reading.Lock()
	defer func() {
		in.reading.Unlock()
		if in.closed.Load() {
			_ = in.Close() // the run that called Read has ended
		}
	}()
	if in.closed.Load() {
		return 0, os.ErrClosed
	}
	return in.Stream.Read(p)
}

// Records reads the records from the start. A record's number is the line number of its row, and of the answer to that row.
func (in *input) Records() (table.Reader, error) { return in.table.Records() }

// Close closes the files. If a Read is running, Close leaves this to the Read, which closes the files when it ends.
func (in *input) Close() error {
	in.closed.Store(true)
	if !in.reading.TryLock() {
		return nil
	}
	defer in.reading.Unlock()
	return errors.Join(in.Stream.Close(), in.table.Close())
}

// refuse returns an error if the output is one of the input's files.
func (in *input) refuse(output string) error {
	for _, path := range in.table.Paths() {
		if sameFile(path, output) {
			return usagef("%s is an input and would be overwritten: choose another file for OUT or --failed", path)
		}
	}
	return nil
}

// hint adds a hint to an error that matches rows.ErrOtherFile: what may have changed since the rows were answered.
func (in *input) hint(err error) error {
	if errors.Is(err, rows.ErrOtherFile) && in.made {
		return fmt.Errorf("%w (the rows depend on the input, on templates and on defaults such as --max-tokens)", err)
	}
	return err
}

// open opens the input: files, the files that match patterns, or stdin. It decides how the records become requests, and prints what it
// guessed.
func (f *inputFlags) open(cmd *cobra.Command, paths []string) (*input, error) {
	to, po, err := f.options()
	if err != nil {
		return nil, err
	}
	to.Stdin = cmd.InOrStdin()
	opened, err := table.Open(paths, to)
	if err != nil {
		return nil, err
	}
	for _, path := range opened.Paths() {
		if err := refuseDevice(path); err != nil {
			return nil, err
		}
	}
	po.Notice = func(text string) { cmd.PrintErrln(printable(text)) }
	in := &input{Stream: prompt.NewStream(opened, po), table: opened, format: rows.FormatAuto, made: !po.AsIs()}
	if !opened.Seekable() {
		if to.Format == table.Text && po.AsIs() {
			in.format = rows.FormatText
		} else if to.Format != table.Auto {
			in.format = rows.FormatJSONL
		}
		return in, nil
	}
	if err := in.Start(); err != nil {
		return nil, errors.Join(err, in.Close())
	}
	in.format = rows.FormatJSONL
	if in.Text() {
		in.format = rows.FormatText
	}
	return in, nil
}

// refuseDevice refuses devices, such as /dev/zero, which may never end.
func refuseDevice(path string) error {
	info, err := os.Stat(path)
	if path == stdio || err != nil || info.Mode()&os.ModeDevice == 0 {
		return nil //nolint:nilerr // opening the file reports it
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(checkInput(path, f), f.Close())
}
