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

// input is a file of rows. Its SHA-256 and its number of rows are known before the first row is read.
type input struct {
	io.Reader
	sha256 string
	rows   int
	lines  int // including empty lines
	close  func()
}

// readTwice reads r to its end and returns its content as an input. If r can seek, readTwice seeks back. Otherwise, it makes a temporary
// copy, which the input's function close removes. If ctx is done first, a read that blocks is abandoned, and r must not be used any longer.
func readTwice(ctx context.Context, r io.Reader, f rows.Format) (*input, error) {
	if s, ok := r.(io.Seeker); ok {
		if start, err := s.Seek(0, io.SeekCurrent); err == nil { // pipes have a Seek that fails
			in, err := survey(r, f)
			if err == nil {
				_, err = s.Seek(start, io.SeekStart)
			}
			in.Reader, in.close = r, func() {}
			return in, err
		}
	}
	temp, err := os.CreateTemp("", "ingot-rows-*")
	if err != nil {
		return nil, fmt.Errorf("copy the input to a temporary file: %w", err)
	}
	os.Remove(temp.Name()) //nolint:errcheck // the open file can still be read; the system deletes the data when it is closed
	type surveyed struct {
		in  *input
		err error
	}
	done := make(chan surveyed, 1)
	go func() {
		in, err := survey(io.TeeReader(r, temp), f)
		done <- surveyed{in, err}
	}()
	select {
	case <-ctx.Done():
		return nil, ctx.Err() // the file is closed, and thereby deleted, when temp is garbage-collected
	case d := <-done:
		if d.err == nil {
			_, d.err = temp.Seek(0, io.SeekStart)
		}
		if d.err != nil {
			temp.Close() //nolint:errcheck // the copy is not needed any more
			return nil, d.err
		}
		d.in.Reader, d.in.close = temp, func() { temp.Close() } //nolint:errcheck // the copy was only read
		return d.in, nil
	}
}

// survey reads r to its end. It returns the SHA-256 of the file and its numbers of rows and lines.
func survey(r io.Reader, f rows.Format) (*input, error) {
	h := sha256.New()
	var lines lineCounter
	n, err := rows.Count(io.TeeReader(r, io.MultiWriter(h, &lines)), f)
	return &input{sha256: hex.EncodeToString(h.Sum(nil)), rows: n, lines: lines.count()}, err
}

// lineCounter counts the lines of the text that is written to it.
type lineCounter struct {
	ends int
	open bool // the last line has no line end yet
}

// Write implements io.Writer.
func (c *lineCounter) Write(p []byte) (int, error) {
	c.ends += bytes.Count(p, []byte("\n"))
	if len(p) > 0 {
		c.open = p[len(p)-1] != '\n'
	}
	return len(p), nil
}

func (c *lineCounter) count() int {
	if c.open {
		return c.ends + 1
	}
	return c.ends
}
