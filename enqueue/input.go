package enqueue

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"

	"github.com/ingot-run/ingot/files/rows"
)

// input is a file of rows. Its SHA-256 and its number of rows are known before the first row is
// read.
type input struct {
	io.Reader
	rows.Survey
	sha256 string
	lines  int // including empty lines
	close  func()
}

// readTwice reads r to its end and returns its content as an input. If r can seek, readTwice seeks
// back. Otherwise, it makes a temporary copy, which the input's function close removes. If ctx is
// done first, a read that blocks is abandoned, and r must not be used any longer.
func readTwice(ctx context.Context, r io.Reader, o rows.SurveyOptions) (*input, error) {
	in := &input{Reader: r, close: func() {}}
	seeker, ok := r.(io.Seeker)
	var start int64
	if ok {
		var err error
		start, err = seeker.Seek(0, io.SeekCurrent)
		ok = err == nil // pipes have a Seek that fails
	}
	if !ok {
		temp, err := os.CreateTemp("", "ingot-rows-*")
		if err != nil {
			return nil, fmt.Errorf("copy the input to a temporary file: %w", err)
		}
		os.Remove(temp.Name()) //nolint:errcheck // the open file can still be read; the system deletes the data when it is closed
		r = io.TeeReader(r, temp)
		seeker, in.Reader, in.close = temp, temp, func() { temp.Close() } //nolint:errcheck // the copy was only read
	}
	ended := make(chan error, 1)
	go func() { ended <- in.survey(r, o) }()
	select {
	case <-ctx.Done():
		return nil, ctx.Err() // a copy is closed, and thereby deleted, when it is garbage-collected
	case err := <-ended:
		if err == nil {
			_, err = seeker.Seek(start, io.SeekStart)
		}
		if err != nil {
			in.close()
		}
		return in, err
	}
}

func (in *input) survey(r io.Reader, o rows.SurveyOptions) (err error) {
	h := sha256.New()
	var lines lineCounter
	in.Survey, err = rows.ReadSurvey(io.TeeReader(r, io.MultiWriter(h, &lines)), o)
	in.sha256, in.lines = hex.EncodeToString(h.Sum(nil)), lines.count()
	return err
}

type lineCounter struct {
	ends int
	open bool // the last line has no line end yet
}

func (c *lineCounter) Write(p []byte) (int, error) {
	c.ends += bytes.Count(p, []byte("\n"))
	c.open = !bytes.HasSuffix(p, []byte("\n"))
	return len(p), nil
}

func (c *lineCounter) count() int {
	if c.open {
		return c.ends + 1
	}
	return c.ends
}
