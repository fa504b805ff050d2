package main

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/ingot-run/ingot/internal/bounded"
	"github.com/ingot-run/ingot/internal/progress/progresstest"
)

// terminal opens a pseudo-terminal with width columns. Text that is written to tty can be read from
// screen.
func terminal(t *testing.T, width int) (screen, tty *os.File) {
	t.Helper()
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("the progress bar is not tested: there is no pseudo-terminal: %v", err)
	}
	t.Cleanup(func() { screen.Close() })
	require.NoError(t, unix.IoctlSetPointerInt(int(screen.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(screen.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	require.NoError(t, unix.IoctlSetWinsize(int(screen.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: uint16(width)})) //nolint:gosec // widths are small
	tty, err = os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	return screen, tty
}

// TestRunShowsProgressOnATerminal: if stderr is a terminal, run shows its progress on one line,
// whatever the width is, and removes it before the summary. Tests of package progress change the
// width meanwhile.
func TestRunShowsProgressOnATerminal(t *testing.T) {
	t.Parallel()
	for _, width := range []int{40, 60, 80, 120} {
		t.Run(strconv.Itoa(width), func(t *testing.T) {
			t.Parallel()
			screen, tty := terminal(t, width)
			shown := progresstest.NewScreen(width, true)
			var all bytes.Buffer
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				part := make([]byte, 4096)
				for {
					n, err := screen.Read(part)
					if err != nil {
						return // the terminal is closed
					}
					all.Write(part[:n])
					_, err = shown.Write(part[:n])
					assert.NoError(t, err)
					for _, row := range shown.Rows()[:max(0, len(shown.Rows())-1)] {
						assert.NotRegexp(t, `of \d+ rows|loading`, row, "the progress is on the last row alone")
					}
				}
			}()
			in := write(t, "in.jsonl", strings.Repeat(strings.Replace(askFinland, "{", `{"max_tokens":40,"ignore_eos":true,`, 1)+"\n", 2))
			var stdout bytes.Buffer
			code := run(bounded.Context(t), []string{"run", in, "-o", "-", "--model", tinyLlama, "--concurrency", "2"}, strings.NewReader(""), &stdout, tty)
			require.NoError(t, tty.Close())
			<-ended
			text := all.String()
			require.Equal(t, exitOK, code, text)
			require.Len(t, readAnswers(t, stdout.String()), 2)
			require.Regexp(t, `loading the model \([\d.]+ [kM]B\), \d+%`, text)
			require.Contains(t, text, "2 of 2 rows")
			if width == 120 {
				require.Contains(t, text, "tokens/s, 0s left 100% |███")
			}
			shown.Resize(1000)
			require.Len(t, shown.Rows(), 1, "only the summary is left")
			require.Regexp(t, `^2 rows done, .* tokens/s; the model was loaded in [^ ]+s$`, shown.Rows()[0])
		})
	}
}
