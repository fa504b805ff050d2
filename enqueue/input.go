package enqueue

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
)

// input is a file of rows whose SHA-256 is known before its first row is read.
type input struct {
	io.Reader
	sha256 string
	close  func()
}

// readTwice reads r to its end and returns what it read. It seeks back if r can; otherwise it makes a temporary copy, which
// close removes. If ctx is done first, a read that blocks is abandoned, and r cannot be used any more.
func readTwice(ctx context.Context, r io.Reader) (*input, error) {
	if s, ok := r.(io.Seeker); ok {
		if start, err := s.Seek(0, io.SeekCurrent); err == nil { // pipes have a Seek that fails
			sha, err := hashOf(r)
			if err == nil {
				_, err = s.Seek(start, io.SeekStart)
			}
			return &input{r, sha, func() {}}, err
		}
	}
	f, err := os.CreateTemp("", "ingot-rows-*")
	if err != nil {
		return nil, err
	}
	os.Remove(f.Name()) //nolint:errcheck // it is read through its descriptor; the system deletes it when that is closed
	type read struct {
		sha string
		err error
	}
	done := make(chan read, 1)
	go func() {
		sha, err := hashOf(io.TeeReader(r, f))
		done <- read{sha, err}
	}()
	select {
	case <-ctx.Done():
		return nil, ctx.Err() // the copy is deleted when f is garbage
	case d := <-done:
		if d.err == nil {
			_, d.err = f.Seek(0, io.SeekStart)
		}
		if d.err != nil {
			f.Close() //nolint:errcheck // it is not needed
			return nil, d.err
		}
		return &input{f, d.sha, func() { f.Close() }}, nil //nolint:errcheck // it was read
	}
}

func hashOf(r io.Reader) (string, error) {
	h := sha256.New()
	_, err := io.Copy(h, r)
	return hex.EncodeToString(h.Sum(nil)), err
}
