package progress

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/internal/progress/progresstest"
)

// at returns a time, in seconds after the start of a test.
func at(seconds float64) time.Time {
	return time.Unix(1000, 0).Add(time.Duration(seconds * float64(time.Second)))
}

func TestText(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		seconds float64
		counts  Counts
		want    string
	}{
		{"nothing yet", 1, Counts{Total: 10}, "0 of 10 rows, 0.0 rows/s, 0.0 tokens/s"},
		{"half", 2, Counts{Total: 10, Done: 5, Tokens: 300}, "5 of 10 rows, 2.5 rows/s, 150 tokens/s, 2s left"},
		{"with failures", 50, Counts{Total: 10, Done: 3, Failed: 2, Tokens: 30}, "5 of 10 rows, 2 failed, 0.1 rows/s, 0.6 tokens/s, 50s left"},
		{
			"rows from before do not count for the speed", 10, Counts{Total: 100, Before: 90, Done: 5, Tokens: 100},
			"95 of 100 rows, 0.5 rows/s, 10 tokens/s, 10s left",
		},
		{"a pipe has no end", 10, Counts{Done: 5, Tokens: 100}, "5 rows, 0.5 rows/s, 10 tokens/s"},
		{"all", 2, Counts{Total: 10, Done: 10, Tokens: 60}, "10 of 10 rows, 5.0 rows/s, 30 tokens/s, 0s left"},
	} {
		var m Meter
		m.Add(at(0), Counts{Total: c.counts.Total, Before: c.counts.Before})
		m.Add(at(c.seconds), c.counts)
		require.Equal(t, c.want, joined(m.parts(true)), c.name)
	}
	var m Meter
	require.Equal(t, "0 rows, 0.0 rows/s", joined(m.parts(false)))
}

func TestBytesText(t *testing.T) {
	t.Parallel()
	var m Meter
	m.Add(at(0), Counts{Total: 2_500_000_000, Before: 500_000_000})
	require.Equal(t, "500 MB of 2.5 GB, 0 B/s", joined(m.bytesParts()))
	m.Add(at(10), Counts{Total: 2_500_000_000, Before: 500_000_000, Done: 1_000_000_000})
	require.Equal(t, "1.5 GB of 2.5 GB, 100 MB/s, 10s left", joined(m.bytesParts()))
}

// The speed is that of the last minute, not of the whole time.
func TestSpeedIsOfTheLastMinute(t *testing.T) {
	t.Parallel()
	var m Meter
	done := 0
	for s := range 600 { // 10 rows per second for 5 minutes, then 2 rows per second
		m.Add(at(float64(s)), Counts{Done: done, Tokens: 3 * done})
		if s < 300 {
			done += 10
		} else {
			done += 2
		}
		rows, tokens := m.Speed()
		switch {
		case s == 0:
			require.Zero(t, rows)
		case s <= 300:
			require.InDelta(t, 10, rows, 1e-9, s)
			require.InDelta(t, 30, tokens, 1e-9, s)
		case s >= 360:
			require.InDelta(t, 2, rows, 1e-9, s)
		}
		require.LessOrEqual(t, len(m.samples), 62, "memory does not grow")
	}
	for s := 600; s < 661; s++ {
		m.Add(at(float64(s)), Counts{Total: 2 * done, Done: done})
	}
	rows, _ := m.Speed()
	require.Zero(t, rows, "nothing in the last minute")
	require.NotContains(t, joined(m.parts(true)), "left")
}

// Without a terminal, one line is written every minute, however often Show is called.
func TestLinesAtIntervals(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	d := New(&out, Options{Tokens: true})
	d.Phase("loading the model")
	for s := 0.0; s <= 125; s += 0.1 {
		d.show(at(s), Counts{Total: 260, Done: int(2 * s)})
	}
	_, err := d.Write([]byte("a line of the log\n"))
	require.NoError(t, err)
	d.Close()
	lines := strings.Split(out.String(), "\n")
	require.Len(t, lines, 4, "%s", out.String())
	require.Regexp(t, `^(119|120) of 260 rows, 2\.0 rows/s, 0\.0 tokens/s, 1m1\ds left$`, lines[0])
	require.Regexp(t, `^(239|240) of 260 rows, 2\.0 rows/s, 0\.0 tokens/s, 1\ds left$`, lines[1])
	require.Equal(t, "a line of the log", lines[2])
}

// The parts that matter least are left out if there is too little room.
func TestPartsThatFit(t *testing.T) {
	t.Parallel()
	var m Meter
	m.Add(at(0), Counts{Total: 40})
	m.Add(at(10), Counts{Total: 40, Done: 10, Failed: 2, Tokens: 1000, Running: 8})
	for room, want := range map[int]string{
		200: "12 of 40 rows, 2 failed, 8 running, 1.2 rows/s, 100 tokens/s, 23s left",
		60:  "12 of 40 rows, 2 failed, 1.2 rows/s, 100 tokens/s, 23s left",
		50:  "12 of 40 rows, 2 failed, 100 tokens/s, 23s left",
		40:  "12 of 40 rows, 2 failed, 23s left",
		30:  "12 of 40 rows, 2 failed",
		10:  "12 of 40 rows",
	} {
		require.Equal(t, want, fit(m.parts(true), room))
	}
}

// TestOneLineAtAnyWidth draws on terminals whose width changes between the drawings. There is never
// more than one line about the progress, and the lines of the log stay as they were.
func TestOneLineAtAnyWidth(t *testing.T) {
	t.Parallel()
	for _, reflow := range []bool{true, false} {
		for _, widths := range [][]int{{40}, {60}, {80}, {120}, {120, 40}, {120, 60, 40, 80, 41, 120}, {80, 30, 29, 100}, {120, 5, 120}} {
			screen := progresstest.NewScreen(widths[0], reflow)
			d := New(screen, Options{Terminal: true, Tokens: true, Width: screen.Width})
			d.Phase("loading the model")
			logged := 0
			for i := range 60 {
				screen.Resize(widths[i%len(widths)])
				if i%13 == 5 {
					_, err := d.Write([]byte("log\n"))
					require.NoError(t, err)
					logged++
				} else {
					d.show(at(float64(i)), Counts{Total: 60, Done: i - i/10, Failed: i / 10, Tokens: 1000 * i, Running: 12})
				}
				rows := screen.Rows()
				name := fmt.Sprintf("widths %v, reflow %v, %q", widths, reflow, rows)
				if reflow {
					require.Len(t, rows, logged+1, name)
					require.Equal(t, logged, strings.Count(strings.Join(rows[:logged], "\n")+"\n", "log\n"), name)
				}
				require.NotContains(t, strings.Join(rows[:len(rows)-1], "\n"), "rows", name)
				require.LessOrEqual(t, utf8.RuneCountInString(rows[len(rows)-1]), screen.Width(), name)
			}
			if widths[0] >= 80 && len(widths) == 1 {
				require.Contains(t, screen.Rows()[logged], "%", "%q has a percentage", screen.Rows())
			}
			d.Close()
			if reflow {
				require.Len(t, screen.Rows(), logged, "only the log is left")
			}
		}
	}
}

// The line about the progress is removed before a log line is written.
func TestDisplayKeepsLogLinesWhole(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	d := New(&out, Options{Terminal: true, Tokens: true})
	d.Phase("loading the model")
	require.Contains(t, out.String(), "loading the model")
	d.show(at(0), Counts{Total: 10, Before: 2})
	out.Reset()
	d.show(at(1), Counts{Total: 10, Before: 2, Done: 3, Tokens: 30})
	require.Contains(t, out.String(), "5 of 10 rows, 3.0 rows/s, 30 tokens/s, 2s left  50% |█████")
	out.Reset()
	d.show(at(1.05), Counts{Total: 10, Before: 2, Done: 4})
	require.Empty(t, out.String(), "too soon")
	_, err := d.Write([]byte("a line of the log\n"))
	require.NoError(t, err)
	require.Regexp(t, "^\r\x1b\\[2Ka line of the log\n", out.String())
	out.Reset()
	d.Close()
	require.Equal(t, "\r\x1b[2K", out.String())
}
