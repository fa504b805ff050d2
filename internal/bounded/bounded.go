// Package bounded limits how long a test waits for a program, so that one that hangs costs a run of
// all tests minutes, not its whole time.
package bounded

import (
	"context"
	"errors"
	"os/exec"
	"testing"
	"time"
)

// Limit is how long a test waits. Tests take seconds, and a few a minute on a slow machine.
const Limit = 6 * time.Minute

// Context returns a context that ends with the test. If the test is still running after Limit, the
// context ends then, and the test fails.
func Context(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Limit)
	t.Cleanup(func() {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			t.Errorf("the test took longer than %s", Limit)
		}
		cancel()
	})
	return ctx
}

// Command returns a program that is killed when the test ends. It is killed after Limit too, and
// the test fails. Wait then returns, even if a program that it started has its output open.
func Command(t testing.TB, name string, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Limit)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.WaitDelay = time.Second
	cmd.Cancel = func() error {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			t.Errorf("%s did not end within %s", name, Limit)
		}
		return cmd.Process.Kill()
	}
	return cmd
}

// Receive returns the next value of a channel. If there is none within Limit, the test fails.
func Receive[T any](t testing.TB, from <-chan T) (value T) {
	t.Helper()
	select {
	case value = <-from:
	case <-time.After(Limit):
		t.Fatalf("the test waited longer than %s", Limit)
	}
	return value
}
