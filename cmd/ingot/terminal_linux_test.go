package main

import (
	"bytes"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// terminal opens a pseudo-terminal. Text that is written to tty can be read from screen.
func terminal(t *testing.T) (screen, tty *os.File) {
	t.Helper()
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("the progress bar is not tested: there is no pseudo-terminal: %v", err)
	}
	t.Cleanup(func() { screen.Close() })
	require.NoError(t, unix.IoctlSetPointerInt(int(screen.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(screen.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	require.NoError(t, unix.IoctlSetWinsize(int(screen.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 100}))
	tty, err = os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	return screen, tty
}

// TestRunShowsProgressOnATerminal: if stderr is a terminal, run shows a progress bar and removes it
// before the summary.
func TestRunShowsProgressOnATerminal(t *testing.T) {
	t.Parallel()
	screen, tty := terminal(t)
	shown := make(chan string, 1)
	go func() {
		var b bytes.Buffer
		io.Copy(&b, screen) //nolint:errcheck // ends with an error when the terminal is closed
		shown <- b.String()
	}()
	in := write(t, "in.jsonl", askMarch+"\n"+askFinland+"\n")
	var stdout bytes.Buffer
	code := run(t.Context(), []string{"run", in, "-o", "-", "--model", tinyLlama}, strings.NewReader(""), &stdout, tty)
	require.NoError(t, tty.Close())
	text := <-shown
	require.Equal(t, exitOK, code, text)
	require.Len(t, readAnswers(t, stdout.String()), 2)
	require.Contains(t, text, "tokens/s, 0s left 100% |███")
	require.Contains(t, text, "2 of 2 rows, ")
	_, summary, found := strings.Cut(text, "\x1b[2K\r2 rows done, ")
	require.True(t, found, "%q", text)
	require.Regexp(t, `^[^\r]+ tokens/s\r\n$`, summary, "nothing comes after the summary")
}
