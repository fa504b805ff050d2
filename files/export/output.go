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
	Path      string // - for stdout
	Format    Format
	Ordered   bool         // batch lines are sorted by row at the end
	Failed    string       // path of the rows that failed; empty for none
	Overwrite bool         // Guard allows another program's file at Path
	Table     Options      // Answers, Input and Failed are set by Write
	Stdout    io.Writer    // may be nil if Path is a file
	Summary   func(string) // called with a line that describes the table that was written

	// Unparsed is the number of answers whose texts could not become columns. It is set when the
	// table is made.
	Unparsed int

	temp string   // folder of the files of answers, if Path is not a regular file; empty until it is made
	pipe *os.File // opened by Open, if Path is a pipe or a device

	guarded bool        // Guard was called
	before  os.FileInfo // the file at Path when Guard was called; nil if there was none
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
	name := answersExtension
	if model != "" {
		name = "." + strings.ReplaceAll(model, string(filepath.Separator), "_") + name
	}
	if o.Regular() {
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

// Regular reports whether Path is a regular file, or will be one when it is created.
func (o *Output) Regular() bool { return o.Path != stdout && !isSpecial(o.Path) }

// Close closes a pipe and removes temporary files.
func (o *Output) Close() error {
	var err error
	if o.pipe != nil {
		err = o.pipe.Close()
		o.pipe = nil
	}
	if o.temp == "" {
		return err
	}
	return errors.Join(err, os.RemoveAll(o.temp))
}

// Guard returns an error if the file at Path exists but no file of answers of models does. Another
// program made such a file, so it must not be replaced. The model of a command with only one is "".
// The error of CheckFailed concerns the file of failed rows.
func (o *Output) Guard(models ...string) error {
	if err := CheckFailed(o.Failed); err != nil {
		return err
	}
	o.guarded = true
	if !isFile(o.Path) {
		return nil
	}
	var err error
	if o.before, err = os.Stat(o.Path); err != nil || o.Overwrite {
		return err
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

// checkUnchanged returns rows.ErrNotOurs if another file has been put at Path since Guard.
func (o *Output) checkUnchanged() error {
	now, err := os.Stat(o.Path)
	if err != nil || !o.guarded || !now.Mode().IsRegular() || o.before != nil && os.SameFile(o.before, now) {
		return nil //nolint:nilerr // there is no file to replace
	}
	return fmt.Errorf("%w: %s was made by another program meanwhile: remove it, and run the same command again", rows.ErrNotOurs, o.Path)
}

// Exists reports whether there is a file at Path.
func (o *Output) Exists() bool { return o.Path != stdout && isFile(o.Path) }

// Open opens the file of a model's answers, to which results of a batch are appended. The model of
// a command with only one is "". If the file is a pipe, Open waits for a reader until ctx is done.
func (o *Output) Open(ctx context.Context, model, batch string) (*rows.Output, error) {
	path, err := o.answersPath(model)
	switch {
	case err != nil:
		return nil, err
	case path == stdout:
		return rows.NewOutput(stoppable{ctx, o.Stdout}, batch), nil
	case !isSpecial(path):
		return rows.OpenOutput(path, batch)
	}
	if o.pipe, err = openSpecial(ctx, path); err != nil {
		return nil, err
	}
	return rows.NewOutput(stoppable{ctx, o.pipe}, batch), nil
}

// AnswersOf returns the path of the answers from which a table was made, if path is that of a table
// and they are there; otherwise path.
func AnswersOf(path string) string {
	if answers := path + answersExtension; path != stdout && isFile(path) && isFile(answers) {
		return answers
	}
	return path
}

// answersExtension is added to the path of a table for the file of its answers.
const answersExtension = ".answers.jsonl"

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
	if err := o.checkUnchanged(); err != nil {
		return err
	}
	if o.Format == Batch {
		return o.to(ctx, o.Path, func(w io.Writer) error { return WriteLines(ctx, w, all) })
	}
	options := o.Table
	options.Answers, options.Input = all, in
	var counts Counts
	writeTable := func(w io.Writer) (err error) {
		counts, err = WriteTable(ctx, w, options)
		return err
	}
	err := o.to(ctx, o.Path, func(w io.Writer) error {
		if o.Failed == "" {
			return writeTable(w)
		}
		if err := CheckFailed(o.Failed); err != nil {
			return err
		}
		return o.to(ctx, o.Failed, func(failed io.Writer) error {
			options.Failed = NewFailedRows(failed, FormatOf(o.Failed))
			return writeTable(w)
		})
	})
	if err != nil {
		return fmt.Errorf("write %s: %w", o.Path, err)
	}
	o.Unparsed = counts.Unparsed
	o.Summary(o.describe(counts))
	return nil
}

// to calls write with stdout if path is "-", with a pipe or a device, or with a new file. The file
// appears at path only when it is complete.
func (o *Output) to(ctx context.Context, path string, write func(io.Writer) error) error {
	switch {
	case path == stdout:
		return write(stoppable{ctx, o.Stdout})
	case isSpecial(path):
		return writeSpecial(ctx, path, write)
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
	if c.Unparsed > 0 {
		text += fmt.Sprintf("; %s without the columns of their text", textfmt.Count(c.Unparsed, "answer"))
	}
	if c.Failed > 0 {
		text += fmt.Sprintf("; %s in %s", countRows(c.Failed), o.Failed)
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
