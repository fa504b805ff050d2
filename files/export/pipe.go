package export

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/ingot-run/ingot/files/table"
)

// isSpecial reports whether a path leads to a pipe, a device or a socket.
func isSpecial(path string) bool {
	info, err := os.Stat(path)
	return err == nil && !info.Mode().IsRegular() && !info.IsDir()
}

// stopWait is the time that a write to a pipe may take after a command was interrupted.
const stopWait = time.Second

// stoppable is a writer to a pipe or a terminal, whose reader may not read. After ctx is done, it
// gives up a write that blocks.
type stoppable struct {
	ctx context.Context //nolint:containedctx // an io.Writer has no other way to get it
	w   io.Writer
}

func (s stoppable) Write(p []byte) (int, error) {
	p = bytes.Clone(p) // a write that was given up may still read it
	return untilStopped(s.ctx, stopWait, func() (int, error) { return s.w.Write(p) })
}

// untilStopped returns what f returns. It gives up when ctx is done and f has not returned after
// wait.
func untilStopped[T any](ctx context.Context, wait time.Duration, f func() (T, error)) (T, error) {
	type outcome struct {
		value T
		err   error
	}
	done := make(chan outcome, 1)
	go func() {
		value, err := f()
		done <- outcome{value, err}
	}()
	select {
	case o := <-done:
		return o.value, o.err
	case <-ctx.Done():
	}
	select {
	case o := <-done:
		return o.value, o.err
	case <-time.After(wait):
		var none T
		return none, ctx.Err()
	}
}

// openSpecial opens a pipe or a device for writing only, so that writing fails when nobody reads.
// Opening a named pipe waits for a reader.
func openSpecial(ctx context.Context, path string) (*os.File, error) {
	f, err := untilStopped(ctx, 0, func() (*os.File, error) { return os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0) })
	return f, withoutReader(path, err)
}

// withoutReader adds to the error of a stopped command that no program read a pipe.
func withoutReader(path string, err error) error {
	if errors.Is(err, context.Canceled) {
		return fmt.Errorf("open %s: stopped while no program read it: %w", path, err)
	}
	return err
}

// writeSpecial calls write with a pipe or a device, which is compressed if its name says so.
func writeSpecial(ctx context.Context, path string, write func(io.Writer) error) error {
	f, err := untilStopped(ctx, 0, func() (*table.File, error) { return table.CreateFile(path) })
	if err != nil {
		return withoutReader(path, err)
	}
	defer f.Discard()
	if err := write(stoppable{ctx, f}); err != nil {
		return err
	}
	_, err = untilStopped(ctx, stopWait, func() (struct{}, error) { return struct{}{}, f.Commit() })
	return err
}
