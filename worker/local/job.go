package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/files/export"
	"github.com/ingot-run/ingot/files/prompt"
	"github.com/ingot-run/ingot/files/rows"
	"github.com/ingot-run/ingot/internal/progress"
	"github.com/ingot-run/ingot/internal/textfmt"
)

// Job answers the rows of an input with one model after another, and makes a file of the answers.
type Job struct {
	Name   string // of the input, for errors
	In     *prompt.Input
	Out    *export.Output
	Models []Model
	Find   func(model string) (size int64, err error) // returns the size of a model's file in bytes; 0 if it is not known
	Open   Open

	RetryFailed   bool // answer the failed rows of the output again
	Overwrite     bool // as Options.Overwrite, and for rows that have changed
	MixModels     bool // as Options.MixModels
	IgnoreUnknown bool // as Options.IgnoreUnknown
	FailFast      int  // as Options.FailFast
	Concurrency   int  // as Options.Concurrency
	Version       string

	Stderr     io.Writer                      // receives the progress, notes and summaries
	NoProgress bool                           // something else is printed to Stderr
	Notes      *progress.Notes                // those about the input, which must not disturb the progress
	Log        func(w io.Writer) *slog.Logger // returns a logger that writes to w
	Templates  bool                           // flags make messages of the rows
	Texts      bool                           // rows with "prompt" are meant to be continued as texts

	totals  Totals
	loading time.Duration // time for which the last model was loaded; 0 if none was needed
}

// Open loads a model. It logs to stderr, and calls loading, if it is not nil, with the number of
// bytes that it has read.
type Open func(ctx context.Context, m Model, stderr io.Writer, loading func(done, total int64)) (*engine.Engine, error)

// Model is a model of a Job.
type Model struct {
	Alias string // name in answers and in rows; empty if the job has only this model
	Name  string // its file, or the name of a pulled model

	size int64 // of its file
}

// Run answers the rows with each model, makes the output, and prints the outcome. Failed rows are
// not an error.
func (j *Job) Run(ctx context.Context) (Totals, error) {
	j.totals = Totals{Errors: map[string]int{}}
	defer j.Out.Close() //nolint:errcheck // a temporary folder
	if err := j.Out.CheckInput(j.In.Table, len(j.Models)); err != nil {
		return j.totals, err
	}
	names := make([]string, len(j.Models))
	for i, m := range j.Models {
		names[i] = m.Alias
	}
	j.Out.Overwrite = j.Overwrite
	if err := j.Out.Guard(names...); err != nil {
		return j.totals, err
	}
	for i := range j.Models { // before the input is read as a whole
		var err error
		if j.Models[i].size, err = j.Find(j.Models[i].Name); err != nil {
			return j.totals, err
		}
	}
	if text := j.In.NoRows(); text != "" {
		j.print(textfmt.Printable(text))
	}
	for i, m := range j.Models {
		if i > 0 {
			if _, err := j.In.Seek(0, io.SeekStart); err != nil {
				return j.totals, err
			}
		}
		if err := j.runModel(ctx, m); err != nil {
			return j.totals, err
		}
	}
	if err := j.Out.Finish(ctx, j.In.Answered, names...); err != nil {
		if ctx.Err() != nil {
			return j.totals, j.Out.Stopped()
		}
		return j.totals, j.In.Hint(err)
	}
	j.totals.addUnparsed(j.Out.Unparsed)
	return j.totals, nil
}

func (j *Job) print(text string) {
	fmt.Fprintln(j.Stderr, text) //nolint:errcheck // there is nowhere to report it
}

func (j *Job) runModel(ctx context.Context, m Model) (err error) {
	out, err := j.Out.Open(ctx, m.Alias, Batch)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = out.Abandon() // answering may have failed with the same error
			return
		}
		err = out.Close()
	}()
	j.loading = 0
	sum, err := j.answer(ctx, m, out)
	var stopped *FailFastError
	if err != nil && ctx.Err() == nil && !errors.As(err, &stopped) {
		return err
	}
	j.report(j.title(m), sum, out)
	switch {
	case stopped != nil:
		return fmt.Errorf("%w: correct the cause and run the command again, or give --fail-fast 0 to answer the other rows anyway", stopped)
	case err != nil:
		return j.Out.Stopped()
	}
	return nil
}

// report adds the outcome of a model to the totals, and prints it.
func (j *Job) report(title string, sum Summary, out *rows.Output) {
	codes := out.Codes()
	j.totals.add(sum, codes, j.loading)
	text := title + sum.String()
	if j.loading > 0 {
		text += fmt.Sprintf("; the model was loaded in %s", j.loading.Round(time.Millisecond))
	}
	j.print(text)
	if text := rows.WarnOfEmpty(sum.Empty, sum.Done); text != "" {
		j.print(title + text)
	}
	for _, line := range rows.DescribeFailures(codes) {
		j.print(title + line)
	}
}

// title returns the beginning of a message about a model: its alias if there are several models.
func (j *Job) title(m Model) string {
	if m.Alias == "" {
		return ""
	}
	return textfmt.Printable(m.Alias) + ": "
}

// Loading describes the time in which a model is loaded.
const Loading = "loading the model"

// answer answers the rows with one model, which it loads if there are rows to answer. It shows the
// progress.
func (j *Job) answer(ctx context.Context, m Model, out *rows.Output) (sum Summary, err error) {
	stderr := j.Stderr
	var show func(Progress)
	var loading func(done, total int64)
	if !j.NoProgress {
		d := progress.New(stderr, progress.Options{Terminal: textfmt.IsTerminal(stderr), Tokens: true})
		defer d.Close()
		end := j.Notes.Divert(d)
		defer end()
		text := Loading
		if m.size > 0 {
			text += " (" + humanize.Bytes(uint64(m.size)) + ")"
		}
		d.Phase(text)
		loading = d.Share(text)
		stderr, show = d, func(p Progress) {
			d.Show(progress.Counts{Total: p.Total, Before: p.Kept, Done: p.Done, Failed: p.Failed, Tokens: p.Generated})
		}
	}
	prepared, err := j.prepare(ctx, m, out)
	if err != nil || prepared.Known && prepared.Rows == 0 {
		return sum, err
	}
	start := time.Now()
	eng, err := j.Open(ctx, m, stderr, loading)
	if err != nil {
		return sum, err
	}
	j.loading = time.Since(start)
	defer func() { err = errors.Join(err, eng.Close()) }()
	o := j.options(m, stderr)
	o.Prepared, o.Progress = &prepared, show
	if sum, err = Run(ctx, eng, j.In, out, o); err != nil {
		err = j.refused(err)
	}
	return sum, err
}

func (j *Job) prepare(ctx context.Context, m Model, out *rows.Output) (p Prepared, err error) {
	o := PrepareOptions{
		Format: j.In.Format, RecordSum: j.In.RecordSum,
		RetryFailed: j.RetryFailed, Overwrite: j.Overwrite, Selected: j.Out.Table.Selected, Missing: j.missing,
	}
	if j.RetryFailed && j.In.Table.Seekable() {
		if o.FailedToo, err = j.Out.FailedAnswers(ctx, m.Alias, j.In.Answered); err != nil {
			return p, j.In.Hint(err)
		}
	}
	if p, err = Prepare(j.In, out, o); err != nil {
		err = j.refused(err)
	}
	return p, err
}

// options returns the options of a model's run. Warnings and the log go to stderr.
func (j *Job) options(m Model, stderr io.Writer) Options {
	o := Options{
		Format: j.In.Format, RecordSum: j.In.RecordSum, IgnoreUnknown: j.IgnoreUnknown, MixModels: j.MixModels, Overwrite: j.Overwrite,
		FailFast: j.FailFast, Concurrency: j.Concurrency, Version: j.Version, Alias: m.Alias, Logger: j.Log(stderr),
	}
	warn := func(text string) { fmt.Fprintln(stderr, j.title(m)+text) } //nolint:errcheck // a warning is best effort
	o.NoTemplate = func(chats int) { warn(prompt.WarnOfNoTemplate(chats, j.Templates)) }
	if !j.Texts {
		o.Continued = func(n int) { warn(prompt.WarnOfContinued(n)) }
	}
	if m.Alias == "" {
		return o
	}
	o.Models = []string{m.Alias}
	for _, other := range j.Models {
		if other.Alias != m.Alias {
			o.Others = append(o.Others, other.Alias)
		}
	}
	return o
}

// missing is called with the number of results in the output of rows that the input does not have.
// It returns an error if they show that the input is another one, or if a table would lose them.
func (j *Job) missing(results int) error {
	if j.Out.Appends() && len(j.Models) == 1 {
		return nil // lines stay
	}
	if !j.Out.Table.Selected {
		return fmt.Errorf("%s was %w: it has %s that the input does not have: choose another OUT (-o), or give --overwrite to drop them",
			j.Out.Path, rows.ErrOtherFile, textfmt.Count(results, "answered row"))
	}
	if !j.Out.Exists() {
		return nil // the results are of a run that did not end
	}
	return fmt.Errorf("%s has %s that this command leaves out (--where, --skip, --sample or --limit): "+
		"choose another OUT (-o), or give --overwrite to write it without them", j.Out.Path, textfmt.Count(results, "answered row"))
}

// refused adds the input's name and a remedy to an error of answering rows.
func (j *Job) refused(err error) error {
	var changed *rows.ChangedError
	switch {
	case errors.As(err, &changed):
		err = fmt.Errorf("%w: choose another OUT (-o), or give --overwrite to answer these rows again", j.In.Hint(err))
	case errors.Is(err, ErrNoTemplate):
		err = fmt.Errorf("%w: %s", err, prompt.AdviseNoTemplate(j.Templates))
	default:
		err = j.In.Hint(err)
	}
	return fmt.Errorf("run %s: %w", j.Name, err)
}
