package prompt

import (
	"errors"
	"fmt"
	"io"

	"github.com/ingot-run/ingot/files/rows"
	"github.com/ingot-run/ingot/files/table"
)

// Answered returns a reader of the selected records from the start, each with the checksum of its
// request, so that answers can be compared with the records. If the requests have been read to
// their end before, and the records have changed since then, reading to the end fails with
// rows.ErrOtherFile.
func (in *Input) Answered() (table.Reader, error) {
	o := in.o
	o.Notice, o.Warn = nil, nil
	s := NewStream(in.Table, o)
	lines, err := s.begin()
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return &answered{s, *in.whole, lines && s.maker.asIs()}, nil
}

type answered struct {
	*Stream
	before fileSum // checksum of the records that were answered; zero if it is not known
	asIs   bool    // requests are lines, so their checksums are those of the records
}

func (a *answered) Columns() []table.Column { return a.records.Columns() }

func (a *answered) Next() (table.Record, error) {
	r, damaged, line, err := a.record()
	if errors.Is(err, io.EOF) && !a.asIs && a.before != (fileSum{}) && a.before != a.current {
		return r, fmt.Errorf("%s was changed while its rows were answered, so the answers were %w: "+
			"run the same command again, which makes the table if the requests are the same", a.in.Name(), rows.ErrOtherFile)
	}
	if err != nil {
		return r, err
	}
	a.current.add(r)
	r.Request = rows.Checksum(line[:min(len(line), rows.MaxLine)])
	r.OwnForm = hasOwnForm(line, a.o.Defaults)
	if damaged != nil {
		damaged.Request = r.Request
		return r, damaged
	}
	return r, nil
}
