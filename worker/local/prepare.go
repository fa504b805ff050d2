package local

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/files/rows"
	"github.com/ingot-run/ingot/worker"
)

// Prepared is an input that was read and compared with an output, before a model is loaded.
type Prepared struct {
	rows.Survey
	Known bool // false for an input that cannot be read twice, such as a pipe: its numbers are 0
}

// PrepareOptions are the settings of Prepare.
type PrepareOptions struct {
	Format    rows.Format           // as Options.Format
	RecordSum func(line int) string // as rows.Options.RecordSum

	RetryFailed bool         // error lines of the output are answered anew
	FailedToo   map[int]bool // rows whose answers RetryFailed treats as error lines
	Overwrite   bool         // answers to rows that have changed are dropped, and those to rows that the input does not have
	Selected    bool         // the input leaves out rows, so that Overwrite keeps answers to rows that it does not have

	// Missing is called with the number of results of rows that the input does not have, if there
	// are some and Overwrite is not set. May be nil.
	Missing func(results int) error
}

// Prepare reads an input and compares its rows with the results in an output. Rows that failed and
// have changed since are answered anew, and so are all rows of an output without any answer. The
// error is a *rows.ChangedError if rows with an answer have changed. The input is then at the
// offset at which it was before.
func Prepare(in io.Reader, out *rows.Output, o PrepareOptions) (Prepared, error) {
	c := comparison{out: out, options: o, failed: out.Failed()}
	if o.RetryFailed {
		for line := range o.FailedToo {
			if out.Has(line) {
				c.failed[line] = true
			}
		}
	}
	p, err := survey(in, rows.SurveyOptions{Format: o.Format, Line: c.row})
	if err != nil {
		return p, err
	}
	if p.Known {
		if err := c.check(); err != nil {
			return p, err
		}
	}
	allFailed := c.answers() == 0
	if !allFailed && !o.Overwrite && !o.RetryFailed && len(c.changed) == 0 {
		return p, nil
	}
	return p, out.Drop(func(r rows.Result) bool {
		switch {
		case r.Failed || c.failed[r.Line]:
			return o.RetryFailed || allFailed || c.changed[r.Line]
		case !o.Overwrite || !p.Known:
			return false
		}
		return c.changed[r.Line] || !c.present[r.Line] && !o.Selected
	})
}

// comparison has the lines in which an input and an output differ.
type comparison struct {
	out     *rows.Output
	options PrepareOptions
	failed  map[int]bool // lines of the output whose results are errors, or count as such
	changed map[int]bool // lines of rows that are not those of their results
	present map[int]bool // lines of rows with a result; nil unless they are needed
	results int          // number of rows with a result
	first   *changedRow  // the first row that is not that of its answer
}

type changedRow struct {
	line        int
	sum, record string
}

func (c *comparison) answers() int { return c.out.Kept() - len(c.failed) }

func (c *comparison) row(l rows.Line) {
	if !c.out.Has(l.Number) {
		return
	}
	c.results++
	if c.options.Overwrite {
		if c.present == nil {
			c.present = map[int]bool{}
		}
		c.present[l.Number] = true
	}
	sum := l.Sum()
	if present, same := c.out.Compare(l.Number, sum); !present || same {
		return
	}
	if c.changed == nil {
		c.changed = map[int]bool{}
	}
	c.changed[l.Number] = true
	if c.first == nil && !c.failed[l.Number] {
		c.first = &changedRow{line: l.Number, sum: sum}
		if c.options.RecordSum != nil {
			c.first.record = c.options.RecordSum(l.Number)
		}
	}
}

// check returns an error if results cannot be kept, and may not be dropped.
func (c *comparison) check() error {
	if c.options.Overwrite {
		return nil
	}
	if c.first != nil {
		e := &rows.ChangedError{Output: c.out.Path(), Answers: c.answers(), Line: c.first.line}
		for line := range c.changed {
			if !c.failed[line] {
				e.Changed++
			}
		}
		before, err := c.out.Record(c.first.line)
		if err != nil {
			return err
		}
		e.SameRecord = before == c.first.record || c.first.record == "" && before == c.first.sum
		return e
	}
	if missing := c.out.Kept() - c.results; missing > 0 && c.options.Missing != nil && c.answers() > 0 {
		return c.options.Missing(missing)
	}
	return nil
}

// survey reads the rest of an input and returns to the offset at which it was before.
func survey(in io.Reader, o rows.SurveyOptions) (p Prepared, err error) {
	s, ok := in.(io.Seeker)
	if !ok {
		return p, nil
	}
	start, err := s.Seek(0, io.SeekCurrent)
	if err != nil {
		return p, nil //nolint:nilerr // pipes have a Seek that fails
	}
	p.Known = true
	if p.Survey, err = rows.ReadSurvey(in, o); err != nil {
		return p, err
	}
	if _, err := s.Seek(start, io.SeekStart); err != nil {
		return p, fmt.Errorf("return to the start of the rows: %w", err)
	}
	return p, nil
}

// ErrNoTemplate means that all rows are chats, and the model has no chat template.
var ErrNoTemplate = errors.New("the model has no chat template, so it cannot answer chats")

// checkTemplate calls NoTemplate, if the model has no chat template, with the number of rows that
// need one. The error is ErrNoTemplate if no row can be answered.
func (o *Options) checkTemplate(in io.Reader, info engine.Info) error {
	if info.Chat || o.NoTemplate == nil {
		return nil
	}
	p, err := survey(in, rows.SurveyOptions{Format: o.Format, Chats: true})
	switch {
	case err != nil || p.Chats == 0:
		return err
	case p.Chats == p.Rows:
		return ErrNoTemplate
	}
	o.NoTemplate(p.Chats)
	return nil
}

// dropOthers removes the answers that depend on something in which this run differs.
func dropOthers(ctx context.Context, eng worker.Engine, out *rows.Output) error {
	if out.Answers() == 0 {
		return nil
	}
	own, err := modelOf(ctx, eng)
	if err != nil {
		return err
	}
	return out.Drop(func(r rows.Result) bool { return !r.Failed && own.Differs(r.Model) })
}

// dropTooShort removes the errors about prompts that were too long for a context that was shorter
// than the engine's.
func dropTooShort(eng worker.Engine, out *rows.Output) error {
	context := eng.Info().Context
	if !out.HasTooShort(context) {
		return nil
	}
	return out.Drop(func(r rows.Result) bool { return r.TooShort > 0 && r.TooShort < context })
}
