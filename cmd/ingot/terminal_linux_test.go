package main

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/ingot-run/ingot/internal/progress/progresstest"
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

// TestRunShowsProgressOnATerminal: if stderr is a terminal, run shows its progress on one line,
// whatever the width is and while it changes, and removes it before the summary.
func TestRunShowsProgressOnATerminal(t *testing.T) {
	t.Parallel()
	for name, widths := range map[string][]int{"40": {40}, "60": {60}, "80": {80}, "120": {120}, "changing": {120, 40, 60, 80, 30, 120}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			screen, tty := terminal(t)
			resize := func(width int) {
				require.NoError(t, unix.IoctlSetWinsize(int(screen.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: uint16(width)})) //nolint:gosec // widths are small
			}
			resize(widths[0])
			rows := 2
			if len(widths) > 1 {
				rows = 60 // many redraws
			}
			shown := progresstest.NewScreen(widths[0], true)
			var all bytes.Buffer
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				part := make([]byte, 4096)
				for i, at := 1, time.Now(); ; i, at = i+1, time.Now() {
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
					// The window changes between two drawings, 100 ms apart until the end.
					if time.Since(at) > 50*time.Millisecond && !regexp.MustCompile(`[56]\d of 60`).Match(all.Bytes()) {
						width := widths[i%len(widths)]
						resize(width)
						shown.Resize(width)
					}
				}
			}()
			in := write(t, "in.jsonl", strings.Repeat(strings.Replace(askFinland, "{", `{"max_tokens":40,"ignore_eos":true,`, 1)+"\n", rows))
			var stdout bytes.Buffer
			code := run(t.Context(), []string{"run", in, "-o", "-", "--model", tinyLlama, "--concurrency", "2"}, strings.NewReader(""), &stdout, tty)
			require.NoError(t, tty.Close())
			<-ended
			text := all.String()
			require.Equal(t, exitOK, code, text)
			require.Len(t, readAnswers(t, stdout.String()), rows)
			require.Contains(t, text, "loading the model (")
			require.Contains(t, text, fmt.Sprintf("%d of %d rows", rows, rows))
			if name == "120" {
				require.Contains(t, text, "tokens/s, 0s left 100% |███")
			}
			shown.Resize(1000)
			require.Len(t, shown.Rows(), 1, "only the summary is left")
			require.Regexp(t, fmt.Sprintf(`^%d rows done, .* tokens/s; the model was loaded in [^ ]+s$`, rows), shown.Rows()[0])
		})
	}
}
