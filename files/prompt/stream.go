package prompt

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/ingot-run/ingot/files/table"
)

// Stream reads the records of an input as request lines: JSON Lines, or the unchanged lines of a
// text file. Line n of the stream is the request of record n; records that a selection leaves out
// become empty lines. A record that cannot be used becomes a line with its error.
type Stream struct {
	in      *table.Input
	o       Options
	records table.Reader  // nil before Start
	content io.ReadCloser // the file itself, if its lines are passed on unchanged; nil otherwise
	first   []item        // records that Start has read to guess the shape
	maker   *maker
	parts   [][]byte // lines that were made but not read yet
	number  int      // number of the last line that was made
	offset  int64
	err     error

	sums    []recordSum // checksums of records, whose lines were made but not yet asked for by RecordSum
	current fileSum     // checksum of the records so far
	whole   *fileSum    // checksum of all records, set when the end is reached; Seek keeps it

	guessed, warned bool // Options.Notice was called; Options.Warn was called because of the encoding

	none   bool       // there are no records
	blanks blankCells // cells without text that a template uses
}

type recordSum struct {
	line int
	sum  [8]byte
}

// fileSum is a checksum of records.
type fileSum [sha256.Size]byte

func (f *fileSum) add(r table.Record) (sum string) {
	sum = r.Sum()
	*f = sha256.Sum256(fmt.Appendf(f[:], "%d:%s", r.Number, sum))
	return sum
}

// maxSums is the number of checksums that a Stream holds if it can be read again. A reader of lines
// is never so many rows ahead of its caller.
const maxSums = 64 << 10

type item struct {
	record table.Record
	err    error
}

// NewStream returns the request lines of an input. It reads nothing yet.
func NewStream(in *table.Input, o Options) *Stream { return &Stream{in: in, o: o, whole: &fileSum{}} }

// If an input can be read more than once, Start reads at most sampleSize records to guess the
// shape, and no more after sampleBytes bytes of values. Otherwise it reads one record.
const (
	sampleSize  = 100
	sampleBytes = 1 << 20
)

// Start opens the input and decides how its records become requests. The error is a *UseError if a
// prompt is missing. Read calls Start if nobody else did.
func (s *Stream) Start() (err error) {
	if s.maker != nil || s.err != nil {
		return s.err
	}
	defer func() { s.err = err }()
	lines, err := s.begin()
	if err != nil {
		return err
	}
	return s.open(lines)
}

// begin reads the first records and decides how records become requests. It reports whether the
// input consists of lines.
func (s *Stream) begin() (lines bool, err error) {
	if s.records, err = s.in.Records(); err != nil {
		return false, err
	}
	size := 1
	if s.in.Seekable() {
		size = sampleSize
	}
	var sample []table.Record
	for read := 0; len(s.first) < size && read < sampleBytes; {
		r, err := s.records.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		var damaged *table.RecordError
		if err != nil && !errors.As(err, &damaged) {
			return false, err
		}
		each := item{cloneRecord(r), err}
		for _, f := range each.record.Fields {
			read += len(f.Value)
		}
		if damaged != nil {
			kept := cloneRecord(damaged.Record())
			damaged.Line, damaged.Fields = kept.Line, kept.Fields
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
		m, err = &maker{o: s.o, raw: true}, nil // one record is too little to guess from: records that are not requests become errors
	}
	if err != nil {
		return false, fmt.Errorf("read %s: %w", s.in.Name(), err)
	}
	if guess != "" && s.o.Notice != nil && !s.guessed {
		s.guessed = true
		s.o.Notice(guess)
	}
	s.maker, s.none = m, len(s.first) == 0
	if s.o.Template != nil && s.o.Warn != nil && !s.guessed && !s.none {
		s.guessed = true
		if text := s.o.warning(columnNames(s.records.Columns(), sample)); text != "" {
			s.o.Warn(text)
		}
	}
	for _, each := range s.first {
		s.warnOfEncoding(each.err)
	}
	return lines, nil
}

// warnOfEncoding warns of the first record that is not text.
func (s *Stream) warnOfEncoding(err error) {
	var damaged *table.RecordError
	if hint := table.EncodingHint(err); hint != "" && s.o.Warn != nil && !s.warned && errors.As(err, &damaged) {
		s.warned = true
		s.o.Warn(fmt.Sprintf("%s: row %d cannot be used, since %v: %s", s.in.Name(), damaged.Number, damaged.Err, hint))
	}
}

// open opens the file itself if its lines are passed on unchanged and can be read again. Large
// lines then need not be held in memory.
func (s *Stream) open(lines bool) (err error) {
	if !lines || !s.maker.asIs() || !s.in.Seekable() {
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
	s.records = nil // frees the memory of its last line, which may be large
	return err
}

func cloneRecord(r table.Record) table.Record {
	r.Fields, r.Line = slices.Clone(r.Fields), bytes.Clone(r.Line)
	for i := range r.Fields {
		r.Fields[i].Value = bytes.Clone(r.Fields[i].Value)
	}
	return r
}

// Text reports whether the lines are those of a text file rather than requests in JSON. Start must
// have been called before.
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
	for len(s.parts) == 0 {
		if s.err = s.next(); s.err != nil {
			return 0, s.err
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
	return n, nil
}

var lineEnd = []byte("\n")

func (s *Stream) next() error {
	r, _, line, err := s.record()
	if errors.Is(err, io.EOF) {
		*s.whole = s.current
		if text := s.blanks.text(); text != "" && s.o.Warn != nil {
			s.o.Warn(s.in.Name() + text)
		}
		s.blanks.reported = true
	}
	if err != nil {
		return err
	}
	sum := s.current.add(r)
	if !isLine(line, r) {
		if s.in.Seekable() && len(s.sums) == maxSums {
			s.sums = append(s.sums[:0], s.sums[maxSums/2:]...) // nobody asks for them
		}
		s.sums = append(s.sums, recordSum{r.Number, [8]byte([]byte(sum))})
	}
	s.parts = append(s.parts[:0], bytes.Repeat(lineEnd, r.Number-s.number-1), line, lineEnd)
	s.number = r.Number
	return nil
}

func isLine(line []byte, r table.Record) bool { return r.Line != nil && bytes.Equal(line, r.Line) }

// record returns the next record and its request line. For a record that cannot be read, damaged
// says why, and r is what could be read of it.
func (s *Stream) record() (r table.Record, damaged *table.RecordError, line []byte, err error) {
	var each item
	if len(s.first) > 0 {
		each, s.first[0] = s.first[0], item{}
		s.first = s.first[1:]
	} else {
		each.record, each.err = s.records.Next()
	}
	switch {
	case errors.As(each.err, &damaged):
		s.warnOfEncoding(damaged)
		r = damaged.Record()
		if line = r.Line; line == nil || !s.maker.asIs() && !s.maker.raw {
			line = failed(damaged)
		}
	case each.err != nil:
		return r, nil, nil, each.err
	default:
		r = each.record
		s.blanks.count(r, s.o.columns())
		if line, err = s.maker.line(r); err != nil {
			line = failed(err)
		}
	}
	return r, damaged, line, nil
}

// RecordSum returns the checksum of the record from which a line was made; empty if the line is
// that of the input. It must be called with the lines that were read, in ascending order.
func (s *Stream) RecordSum(line int) string {
	for len(s.sums) > 0 && s.sums[0].line < line {
		s.sums = s.sums[1:]
	}
	if len(s.sums) == 0 || s.sums[0].line != line {
		return ""
	}
	return string(s.sums[0].sum[:])
}

// Seek implements io.Seeker for the current offset and for the start, from which the input is read
// again.
func (s *Stream) Seek(offset int64, whence int) (int64, error) {
	switch {
	case !s.in.Seekable():
		return 0, errors.New("the input is a pipe or a terminal: it cannot be read again")
	case whence == io.SeekCurrent && offset == 0:
		return s.offset, nil
	case whence != io.SeekStart || offset != 0:
		return 0, errors.New("requests can only be read again from the start")
	}
	if err := s.Close(); err != nil {
		return 0, err
	}
	*s = Stream{in: s.in, o: s.o, whole: s.whole, guessed: s.guessed, warned: s.warned, blanks: blankCells{reported: s.blanks.reported}}
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
