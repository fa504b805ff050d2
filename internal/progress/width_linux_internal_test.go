package progress

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestWidthFollowsTheTerminal checks that the terminal's width is asked each time.
func TestWidthFollowsTheTerminal(t *testing.T) {
	t.Parallel()
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("the width is not tested: there is no pseudo-terminal: %v", err)
	}
	defer terminal.Close()
	d := New(terminal, Options{Terminal: true})
	require.Equal(t, defaultWidth, d.width(), "a new terminal reports no width")
	for _, width := range []uint16{120, 40, 60} {
		require.NoError(t, unix.IoctlSetWinsize(int(terminal.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: width}))
		require.Equal(t, int(width), d.width())
	}
}
