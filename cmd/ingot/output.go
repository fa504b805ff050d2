package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ingot-run/ingot/files/export"
	"github.com/ingot-run/ingot/files/rows"
	"github.com/ingot-run/ingot/files/table"
)

// outputFlags has the flags that describe the output.
type outputFlags struct {
	path, format    string
	ordered         bool
	prefix, failed  string
	keepFinish      []string
	match, notMatch []string
	minChars        int
	maxChars        int
	minTokens       int
	maxTokens       int
	unique          []string
	tables          *pflag.FlagSet // flags that apply only to tables
}

// Sections of a command's flags in its help.
const (
	outputs = "Output"
	filters = "Table Filter"
)

func (o *outputFlags) add(flags *pflag.FlagSet, what string) {
	flags.StringVarP(&o.path, "out", "o", "", "write "+what+" to `OUT`; - for stdout")
	flags.StringVar(&o.format, "output-format", "", "write OUT as `FORMAT`: "+formatNames()+" (default by its extension, else batch)")
	flags.BoolVar(&o.ordered, "ordered", false, "at the end, sort batch lines in the order of the input; tables always have this order")
	section(flags, outputs, "output-format", "ordered")

	o.tables = pflag.NewFlagSet("", pflag.ContinueOnError)
	f := o.tables
	f.SortFlags = false
	f.StringVar(&o.prefix, "column-prefix", "", "put `PREFIX` before the names of generated columns")
	f.StringVar(&o.failed, "failed", "", "write rows that failed to `FILE` instead of OUT, in the format and columns of the input")
	f.StringSliceVar(&o.keepFinish, "keep-finish", nil, "keep only answers with a finish reason in `REASON`,..., such as stop")
	f.StringArrayVar(&o.match, "match", nil, "keep only answers that the regular expression `RE` matches; may be repeated")
	f.StringArrayVar(&o.notMatch, "not-match", nil, "drop answers that the regular expression `RE` matches; may be repeated")
	f.IntVar(&o.minChars, "min-chars", 0, "drop answers of fewer than `N` characters")
	f.IntVar(&o.maxChars, "max-chars", 0, "drop answers of more than `N` characters")
	f.IntVar(&o.minTokens, "min-answer-tokens", 0, "drop answers of fewer than `N` tokens")
	f.IntVar(&o.maxTokens, "max-answer-tokens", 0, "drop answers of more than `N` tokens")
	f.StringSliceVar(&o.unique, "unique", nil, "drop answers that have the same text in `COLUMN`,... as an earlier one, such as response")
	f.VisitAll(func(flag *pflag.Flag) {
		flags.AddFlag(flag)
		title := filters
		if flag.Name == "column-prefix" || flag.Name == "failed" {
			title = outputs
		}
		section(flags, title, flag.Name)
	})
}

func formatNames() string {
	names := make([]string, len(export.Formats))
	for i, f := range export.Formats {
		names[i] = string(f)
	}
	return strings.Join(names[:len(names)-1], ", ") + " or " + names[len(names)-1]
}

// options returns the output that the flags describe. Errors are usage errors.
func (o *outputFlags) options() (*output, error) {
	if o.path == "" {
		return nil, usagef("-o OUT is missing")
	}
	out := &output{path: o.path, format: export.FormatOf(o.path), ordered: o.ordered, failed: o.failed}
	if o.format != "" {
		out.format = export.Format(o.format)
		if !slices.Contains(export.Formats, out.format) {
			return nil, usagef("--output-format: %q is not known: use %s", o.format, formatNames())
		}
	}
	if err := out.format.CheckPath(o.path); err != nil {
		return nil, usagef("-o %s: %w", o.path, err)
	}
	if out.format == export.Batch {
		var table string
		o.tables.VisitAll(func(f *pflag.Flag) {
			if f.Changed && table == "" {
				table = f.Name
			}
		})
		if table != "" {
			return nil, usagef("--%s is for tables: end the name of OUT in .csv or .parquet, or give --output-format simple", table)
		}
		if o.ordered && o.path == stdio {
			return nil, usagef("--ordered needs a file as OUT, since stdout cannot be sorted at the end")
		}
	}
	if o.failed != "" {
		if o.failed == stdio || o.failed == o.path || sameFile(o.failed, o.path) {
			return nil, usagef("--failed: give a file other than OUT")
		}
		if err := export.FormatOf(o.failed).CheckPath(o.failed); err != nil {
			return nil, usagef("--failed: %w", err)
		}
	}
	out.table = export.Options{Prefix: o.prefix, Format: out.format}
	var err error
	out.table.Filter, err = o.filter()
	return out, err
}

func (o *outputFlags) filter() (export.Filter, error) {
	f := export.Filter{
		FinishReasons: o.keepFinish, MinChars: o.minChars, MaxChars: o.maxChars, MinTokens: o.minTokens, MaxTokens: o.maxTokens, Unique: o.unique,
	}
	for _, n := range []struct {
		name     string
		min, max int
	}{{"chars", o.minChars, o.maxChars}, {"answer-tokens", o.minTokens, o.maxTokens}} {
		if n.min < 0 || n.max < 0 || n.max > 0 && n.max < n.min {
			return f, usagef("--min-%[1]s is %[2]d and --max-%[1]s is %[3]d: give no negative numbers, and a maximum that is not below the minimum",
				n.name, n.min, n.max)
		}
	}
	for _, list := range []struct {
		flag  string
		texts []string
		to    *[]*regexp.Regexp
	}{{"match", o.match, &f.Match}, {"not-match", o.notMatch, &f.NotMatch}} {
		for _, text := range list.texts {
			re, err := regexp.Compile(text)
			if err != nil {
				return f, usagef("--%s: %w", list.flag, err)
			}
			*list.to = append(*list.to, re)
		}
	}
	return f, nil
}

// output is where a command writes its answers. Batch lines of one model are appended to OUT as the answers finish. Otherwise the answers
// of each model are first appended to a separate file, and OUT is made from these files at the end.
type output struct {
	path    string
	format  export.Format
	ordered bool
	failed  string         // path of the rows that failed; empty for none
	table   export.Options // Answers and Input are not set before the table is written
	temp    string         // folder of the files of answers, if OUT is stdout; empty until it is made
}

// answersFile returns an output that appends batch lines to the file at path.
func answersFile(path string) *output { return &output{path: path, format: export.Batch} }

// direct reports whether the answers of a single model are appended to OUT itself.
func (o *output) direct() bool {
	_, compressed := table.TrimCompression(o.path)
	return o.format == export.Batch && !compressed
}

// answersPath returns the path of the file to which a model's answers are appended. model is empty if the command uses only one model.
func (o *output) answersPath(model string) (string, error) {
	if o.direct() && model == "" {
		return o.path, nil
	}
	name := ".answers.jsonl"
	if model != "" {
		name = "." + strings.ReplaceAll(model, string(filepath.Separator), "_") + name
	}
	if o.path != stdio {
		return o.path + name, nil
	}
	if o.temp == "" {
		var err error
		if o.temp, err = os.MkdirTemp("", "ingot-answers-"); err != nil {
			return "", err
		}
	}
	return filepath.Join(o.temp, "answers"+name), nil
}

// clean removes the temporary folder, if there is one.
func (o *output) clean() error {
	if o.temp == "" {
		return nil
	}
	return os.RemoveAll(o.temp)
}

// guard returns an error if OUT exists but no file of answers does. This command did not make such an OUT, so it must not replace it.
func (o *output) guard(models []string) error {
	if !exists(o.path) {
		return nil
	}
	first := ""
	for _, model := range models {
		path, err := o.answersPath(model)
		if err != nil || exists(path) { // path may be OUT itself
			return err
		}
		if first == "" {
			first = path
		}
	}
	return fmt.Errorf("%s was not made by this command, since %s does not exist: choose another OUT, or remove %[1]s", o.path, first)
}

// open opens the file of a model's answers.
func (o *output) open(cmd *cobra.Command, model, batch string) (*rows.Output, error) {
	path, err := o.answersPath(model)
	if err != nil {
		return nil, err
	}
	return openOutput(cmd, path, batch)
}

func exists(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// check returns an error if a column of the input has the name of a column that the table adds. It is called before the first row is
// answered. in returns a reader of the input; if in is nil, nothing is checked.
func (o *output) check(in func() (table.Reader, error)) error {
	if o.format == export.Batch || in == nil {
		return nil
	}
	r, err := in()
	if err != nil {
		return err
	}
	columns, err := table.Columns(r)
	if err := errors.Join(err, r.Close()); err != nil {
		return err
	}
	if err := export.CheckColumns(columns, o.table.Prefix); err != nil {
		return &usageError{err}
	}
	return nil
}

// finish makes OUT from the answers of models. in returns a reader of the rows that were answered; it is nil if the rows are not known.
func (o *output) finish(cmd *cobra.Command, models []string, in func() (table.Reader, error)) error {
	if o.direct() && len(models) == 1 && models[0] == "" {
		if o.ordered {
			return export.Order(cmd.Context(), o.path)
		}
		return nil
	}
	paths := make([]string, len(models))
	for i, model := range models {
		var err error
		if paths[i], err = o.answersPath(model); err != nil {
			return err
		}
	}
	all, err := openAnswers(paths)
	defer closeAnswers(all)
	if err != nil {
		return err
	}
	for i, a := range all {
		a.Model = models[i]
	}
	return o.write(cmd, all, in)
}

// openAnswers opens files of answers. If one cannot be opened, it returns the error and the files opened so far, which the caller closes.
func openAnswers(paths []string) ([]*export.Answers, error) {
	var all []*export.Answers
	for _, path := range paths {
		a, err := export.OpenAnswers(path)
		if err != nil {
			return all, err
		}
		all = append(all, a)
	}
	return all, nil
}

func closeAnswers(all []*export.Answers) {
	for _, a := range all {
		a.Close() //nolint:errcheck // the file was only read
	}
}

// write makes OUT from answers and prints how many records were written or dropped.
func (o *output) write(cmd *cobra.Command, all []*export.Answers, in func() (table.Reader, error)) error {
	if o.format == export.Batch {
		return o.to(cmd, o.path, func(w io.Writer) error { return export.WriteLines(cmd.Context(), w, all) })
	}
	options := o.table
	options.Answers, options.Input = all, in
	var counts export.Counts
	table := func(w io.Writer) (err error) {
		counts, err = export.WriteTable(cmd.Context(), w, options)
		return err
	}
	err := o.to(cmd, o.path, func(w io.Writer) error {
		if o.failed == "" {
			return table(w)
		}
		return o.to(cmd, o.failed, func(failed io.Writer) error {
			options.Failed = export.NewFailedRows(failed, export.FormatOf(o.failed))
			return table(w)
		})
	})
	if err != nil {
		return fmt.Errorf("write %s: %w", o.path, err)
	}
	cmd.PrintErrln(o.summary(counts))
	return nil
}

// to calls write with stdout if path is "-", else with a new file. The file appears at path only when it is complete.
func (o *output) to(cmd *cobra.Command, path string, write func(io.Writer) error) error {
	if path == stdio {
		return write(cmd.OutOrStdout())
	}
	f, err := table.CreateFile(path)
	if err != nil {
		return err
	}
	defer f.Discard()
	if err := write(f); err != nil {
		return err
	}
	return f.Commit()
}

// summary describes a table in one line.
func (o *output) summary(c export.Counts) string {
	name := o.path
	if name == stdio {
		name = "stdout"
	}
	text := fmt.Sprintf("%s: %s", name, count(c.Records, "record"))
	var dropped []string
	total := 0
	for _, reason := range export.Reasons {
		if n := c.Dropped[reason]; n > 0 {
			dropped = append(dropped, fmt.Sprintf("%s %d", reason, n))
			total += n
		}
	}
	if total > 0 {
		text += fmt.Sprintf(", %d dropped (%s)", total, strings.Join(dropped, ", "))
	}
	if c.Unanswered > 0 {
		text += fmt.Sprintf("; %s without an answer", countRows(c.Unanswered))
	}
	if c.Failed > 0 {
		text += fmt.Sprintf("; %s in %s", countRows(c.Failed), o.failed)
	}
	if c.Unreadable > 0 {
		text += fmt.Sprintf("; not in %s: %s that cannot be read", o.failed, countRows(c.Unreadable))
	}
	return text
}

// stopped is the error of a command that was interrupted.
func (o *output) stopped() error {
	if o.direct() {
		return errors.New("stopped before the end: run the same command again to continue")
	}
	return fmt.Errorf("stopped before the end: run the same command again to continue and to make %s", o.path)
}
