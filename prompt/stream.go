package prompt

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/ingot-run/ingot/table"
)

// Stream reads the records of an input as request lines: JSON Lines, or the lines of a text file as they stand. The number of a line is
// that of its record; the lines of records that a selection leaves out are empty. A record that cannot be used is an error line.
type Stream struct {
	in      *table.Input
	o       Options
	records table.Reader  // nil before the start
	content io.ReadCloser // the file as it stands, if its lines stay as they are; nil otherwise
	first   []item        // records that were read before the shape was known
	maker   *maker
	parts   [][]byte // of the text that is not read yet
	number  int      // of the last line
	offset  int64
	err     error
}

// item is a record or the error of one.
type item struct {
	record table.Record
	err    error
}

// NewStream returns the requests of an input. It reads nothing yet.
func NewStream(in *table.Input, o Options) *Stream { return &Stream{in: in, o: o} }

// The records by which the shape of an input without columns is recognised: at most sampleSize, and no more after sampleBytes.
const (
	sampleSize  = 100
	sampleBytes = 1 << 20
)

// Start opens the input, and decides how its records become requests. A *UseError means that nothing says how. Read calls Start if
// it was not called before.
func (s *Stream) Start() (err error) {
	if s.maker != nil || s.err != nil {
		return s.err
	}
	defer func() { s.err = err }()
	if s.records, err = s.in.Records(); err != nil {
		return err
	}
	size := 1
	if s.in.Seekable() {
		size = sampleSize
	}
	var sample []table.Record
	lines := false
	for read := 0; len(s.first) < size && read < sampleBytes; {
		r, err := s.records.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		var damaged *table.RecordError
		if err != nil && !errors.As(err, &damaged) {
			return err
		}
		each := item{cloneRecord(r), err}
		for _, f := range each.record.Fields {
			read += len(f.Value)
		}
		if damaged != nil {
			damaged.Line = bytes.Clone(damaged.Line)
			read += len(damaged.Line)
			lines = lines || damaged.Line != nil
		} else {
			lines = lines || r.Line != nil
			sample = append(sample, each.record)
		}
		s.first = append(s.first, each)
	}
	m, guess, err := newMaker(s.o, lines, s.records.Columns(), sample)
	var unused *UseError
	if errors.As(err, &unused) && size == 1 && s.records.Columns() == nil {
		m, err = &maker{o: s.o, raw: true}, nil // one record says too little: those that are no requests become errors
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", s.in.Name(), err)
	}
	if guess != "" && s.o.Notice != nil {
		s.o.Notice(guess)
		s.o.Notice = nil // once is enough
	}
	s.maker = m
	return s.open(lines)
}

// open opens the file as it stands if the lines stay as they are and can be read again: they may be large, and need not be held here.
func (s *Stream) open(lines bool) (err error) {
	if !lines || !s.maker.asIs() {
		return nil
	}
	if s.content, err = s.in.Content(); errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	if err != nil {
		return err
	}
	s.first = nil
	err = s.records.Close()
	s.records = nil // it may hold a large line
	return err
}

func cloneRecord(r table.Record) table.Record {
	r.Fields, r.Line = slices.Clone(r.Fields), bytes.Clone(r.Line)
	for i := range r.Fields {
		r.Fields[i].Value = bytes.Clone(r.Fields[i].Value)
	}
	return r
}

// Text reports whether the lines are those of a text file, not requests in JSON. Start must have been called.
func (s *Stream) Text() bool { return s.maker.plain && s.maker.asIs() }

// Read implements io.Reader.
func (s *Stream) Read(p []byte) (int, error) {
	if err := s.Start(); err != nil {
		return 0, err
	}
	if s.content != nil {
		n, err := s.content.Read(p)
		s.offset += int64(n)
		return n, err
	}
	for len(s.parts) == 0 && s.err == nil {
		if s.err = s.next(); s.err != nil {
			break
		}
	}
	n := 0
	for len(s.parts) > 0 && n < len(p) {
		copied := copy(p[n:], s.parts[0])
		n += copied
		if s.parts[0] = s.parts[0][copied:]; len(s.parts[0]) == 0 {
			s.parts = s.parts[1:]
		}
	}
	s.offset += int64(n)
	if n > 0 {
		return n, nil
	}
	return 0, s.err
}

var lineEnd = []byte("\n")

// next reads a record and makes its line.
func (s *Stream) next() error {
	var each item
	if len(s.first) > 0 {
		each, s.first[0] = s.first[0], item{}
		s.first = s.first[1:]
	} else {
		each.record, each.err = s.records.Next()
	}
	number := each.record.Number
	var line []byte
	var damaged *table.RecordError
	switch {
	case errors.As(each.err, &damaged):
		number = damaged.Number
		if line = damaged.Line; line == nil || !s.maker.asIs() && !s.maker.raw {
			line = failed(damaged)
		}
	case each.err != nil:
		return each.err
	default:
		var err error
		if line, err = s.maker.line(each.record); err != nil {
			line = failed(err)
		}
	}
	if number <= s.number {
		return fmt.Errorf("record %d comes after record %d", number, s.number)
	}
	s.parts = append(s.parts[:0], bytes.Repeat(lineEnd, number-s.number-1), line, lineEnd)
	s.number = number
	return nil
}

// Seek implements io.Seeker for the current offset and for the start, from which the input is read again.
func (s *Stream) Seek(offset int64, whence int) (int64, error) {
	switch {
	case !s.in.Seekable():
		return 0, errors.New("stdin cannot be read again")
	case whence == io.SeekCurrent && offset == 0:
		return s.offset, nil
	case whence != io.SeekStart || offset != 0:
		return 0, errors.New("requests are read from their start")
	}
	if err := s.Close(); err != nil {
		return 0, err
	}
	*s = *NewStream(s.in, s.o)
	return 0, nil
}

// Close closes the files.
func (s *Stream) Close() error {
	var err error
	if s.records != nil {
		err = s.records.Close()
	}
	if s.content != nil {
		err = errors.Join(err, s.content.Close())
	}
	s.records, s.content = nil, nil
	return err
}
