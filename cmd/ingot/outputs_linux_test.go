package main

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestSIGTERMWhileAPipeIsFull: nobody reads the pipe. SIGTERM ends the program.
func TestSIGTERMWhileAPipeIsFull(t *testing.T) {
	t.Parallel()
	for _, out := range []string{"/dev/stdout", "-"} {
		cmd, pipe := started(t, out)
		unread, same := 0, 0
		require.Eventually(t, func() bool { // the pipe is full when its content stays the same
			n, err := unix.IoctlGetInt(int(pipe.Fd()), unix.TIOCINQ)
			same++
			if n != unread {
				unread, same = n, 0
			}
			return err == nil && n > 32<<10 && same > 100
		}, time.Minute, time.Millisecond)
		require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
		require.EqualError(t, cmd.Wait(), "exit status 1", out)
	}
}
