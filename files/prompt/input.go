package prompt

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/ingot-run/ingot/files/rows"
	"github.com/ingot-run/ingot/files/table"
)

// Input is an opened input, whose records are read as request lines. Every input except a pipe or a
// terminal can be read again.
type Input struct {
	*Stream
	Table  *table.Input
	Format rows.Format // format of the lines that Read gives

	noRows  string     // see NoRows
	made    bool       // the lines are made from records; false if the files already have the lines
	reading sync.Mutex // held during a Read
	closed  atomic.Bool
}

// Open opens files, the files that match patterns, or stdin, and decides how their records become
// requests.
func Open(paths []string, to table.Options, o Options) (*Input, error) {
	t, err := table.Open(paths, to)
	if err != nil {
		return nil, err
	}
	in := &Input{Stream: NewStream(t, o), Table: t, Format: rows.FormatAuto, made: !o.AsIs()}
	if !t.Seekable() {
		if to.Format == table.Text && o.AsIs() {
			in.Format = rows.FormatText
		} else if to.Format != table.Auto {
			in.Format = rows.FormatJSONL
		}
		return in, nil
	}
	if err := in.Start(); err != nil {
		return nil, errors.Join(err, in.Close())
	}
	in.Format = rows.FormatJSONL
	if in.Text() {
		in.Format = rows.FormatText
	}
	if in.none {
		in.noRows = noRows(t.Name(), to.Select)
	}
	return in, nil
}

// NoRows says that the input has no rows, or that no row was selected. It is empty if there are
// rows, or if the input can be read only once.
func (in *Input) NoRows() string { return in.noRows }

func noRows(name string, s table.Selection) string {
	switch {
	case s.Where != "":
		return fmt.Sprintf("no row of %s satisfies --where '%s': check the spelling of values, and that numbers of CSV files are converted, such as int(x)", name, s.Where)
	case s.Skip > 0:
		return fmt.Sprintf("%s has no more than %d rows, which --skip leaves out", name, s.Skip)
	}
	return name + " has no rows"
}

// Read implements io.Reader. An interrupted run does not wait for a Read that blocks, so Close may
// be called during a Read.
func (in *Input) Read(p []byte) (int, error) {
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

// Close closes the files. If a Read is running, Close leaves this to the Read, which closes the
// files when it ends.
func (in *Input) Close() error {
	in.closed.Store(true)
	if !in.reading.TryLock() {
		return nil
	}
	defer in.reading.Unlock()
	return errors.Join(in.Stream.Close(), in.Table.Close())
}

// Hint adds a hint to an error that matches rows.ErrOtherFile: what may have changed since the rows
// were answered.
func (in *Input) Hint(err error) error {
	if !errors.Is(err, rows.ErrOtherFile) || !in.made {
		return err
	}
	var changed *rows.ChangedError
	if !errors.As(err, &changed) { // which says it itself
		err = fmt.Errorf("%w (the rows depend on the input, on templates and on flags such as --max-tokens and --schema)", err)
	}
	if slices.ContainsFunc(in.o.Defaults, func(d Default) bool { return d.Setting.Name == seedField }) {
		err = fmt.Errorf("%w; answers that an earlier version made with --seed cannot be continued, because it gave all rows the same seed: "+
			"start anew with another OUT (-o) or batch (--batch)", err)
	}
	return err
}
