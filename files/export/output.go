package export

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ingot-run/ingot/files/rows"
	"github.com/ingot-run/ingot/files/table"
	"github.com/ingot-run/ingot/internal/textfmt"
)

const stdout = "-"

// Output is a file of answers that an interrupted command can continue. Batch lines of one model
// are appended to the file at Path as the answers finish. Otherwise the answers of each model are
// first appended to a separate file, and the file at Path is made from these files at the end.
type Output struct {
	Path    string // - for stdout
	Format  Format
	Ordered bool         // batch lines are sorted by row at the end
	Failed  string       // path of the rows that failed; empty for none
	Table   Options      // Answers, Input and Failed are set by Write
	Stdout  io.Writer    // may be nil if Path is a file
	Summary func(string) // called with a line that describes the table that was written

	temp string // folder of the files of answers, if Path is stdout; empty until it is made
}

// Appends reports whether the answers of a single model are appended to the file at Path itself.
func (o *Output) Appends() bool {
	_, compressed := table.TrimCompression(o.Path)
	return o.Format == Batch && !compressed
}

// answersPath returns the path of the file to which a model's answers are appended. model is empty
// if the command uses only one model.
func (o *Output) answersPath(model string) (string, error) {
	if o.Appends() && model == "" {
		return o.Path, nil
	}
	name := ".answers.jsonl"
	if model != "" {
		name = "." + strings.ReplaceAll(model, string(filepath.Separator), "_") + name
	}
	if o.Path != stdout {
		return o.Path + name, nil
	}
	if o.temp == "" {
		var err error
		if o.temp, err = os.MkdirTemp("", "ingot-answers-"); err != nil {
			return "", err
		}
	}
	return filepath.Join(o.temp, "answers"+name), nil
}

// Close removes temporary files.
func (o *Output) Close() error {
	if o.temp == "" {
		return nil
	}
	return os.RemoveAll(o.temp)
}

// Guard returns an error if the file at Path exists but no file of answers of models does. Another
// program made such a file, so it must not be replaced. The model of a command with only one is "".
func (o *Output) Guard(models ...string) error {
	if !isFile(o.Path) {
		return nil
	}
	first := ""
	for _, model := range models {
		path, err := o.answersPath(model)
		if err != nil || isFile(path) { // path may be o.Path itself
			return err
		}
		first = cmp.Or(first, path)
	}
	return fmt.Errorf("%s was not made by this command, since %s does not exist: choose another OUT, or remove %[1]s", o.Path, first)
}

// Open opens the file of a model's answers, to which results of a batch are appended. The model of
// a command with only one is "".
func (o *Output) Open(model, batch string) (*rows.Output, error) {
	path, err := o.answersPath(model)
	if err != nil {
		return nil, err
	}
	if path == stdout {
		return rows.NewOutput(o.Stdout, batch), nil
	}
	return rows.OpenOutput(path, batch)
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// Finish makes the file at Path from the answers of models. in returns a reader of the rows that
// were answered; it is nil if the rows are not known.
func (o *Output) Finish(ctx context.Context, in func() (table.Reader, error), models ...string) error {
	if o.Appends() && slices.Equal(models, []string{""}) {
		if o.Ordered {
			return Order(ctx, o.Path)
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
	return o.write(ctx, paths, models, in)
}

// Write makes the file at Path from files of answers. in returns a reader of the rows that were
// answered; it is nil if the rows are not known.
func (o *Output) Write(ctx context.Context, paths []string, in func() (table.Reader, error)) error {
	return o.write(ctx, paths, make([]string, len(paths)), in)
}

// write makes the file at Path from files of answers. models are the values of the column model, as
// Answers.Model.
func (o *Output) write(ctx context.Context, paths, models []string, in func() (table.Reader, error)) error {
	var all []*Answers
	defer func() {
		for _, a := range all {
			a.Close() //nolint:errcheck // the file was only read
		}
	}()
	for i, path := range paths {
		a, err := OpenAnswers(path)
		if err != nil {
			return err
		}
		a.Model = models[i]
		all = append(all, a)
	}
	if o.Format == Batch {
		return o.to(o.Path, func(w io.Writer) error { return WriteLines(ctx, w, all) })
	}
	options := o.Table
	options.Answers, options.Input = all, in
	var counts Counts
	writeTable := func(w io.Writer) (err error) {
		counts, err = WriteTable(ctx, w, options)
		return err
	}
	err := o.to(o.Path, func(w io.Writer) error {
		if o.Failed == "" {
			return writeTable(w)
		}
		return o.to(o.Failed, func(failed io.Writer) error {
			options.Failed = NewFailedRows(failed, FormatOf(o.Failed))
			return writeTable(w)
		})
	})
	if err != nil {
		return fmt.Errorf("write %s: %w", o.Path, err)
	}
	o.Summary(o.describe(counts))
	return nil
}

// to calls write with stdout if path is "-", else with a new file. The file appears at path only
// when it is complete.
func (o *Output) to(path string, write func(io.Writer) error) error {
	if path == stdout {
		return write(o.Stdout)
	}
	return writeFile(path, write)
}

func writeFile(path string, write func(io.Writer) error) error {
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

func (o *Output) describe(c Counts) string {
	name := o.Path
	if name == stdout {
		name = "stdout"
	}
	countRows := func(n int) string { return textfmt.Count(n, "row") }
	text := name + ": " + textfmt.Count(c.Records, "record")
	var dropped []string
	total := 0
	for _, reason := range Reasons {
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
		text += fmt.Sprintf("; %s in %s", countRows(c.Failed), o.Failed)
	}
	if c.Unreadable > 0 {
		text += fmt.Sprintf("; not in %s: %s that cannot be read", o.Failed, countRows(c.Unreadable))
	}
	return text
}

// Stopped returns the error of a command that was interrupted.
func (o *Output) Stopped() error {
	if o.Appends() {
		return errors.New("stopped before the end: run the same command again to continue")
	}
	return fmt.Errorf("stopped before the end: run the same command again to continue and to make %s", o.Path)
}
