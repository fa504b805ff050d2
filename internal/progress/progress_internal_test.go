package progress

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
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
		require.Equal(t, c.want, m.text(true), c.name)
	}
	var m Meter
	require.Equal(t, "0 rows, 0.0 rows/s", m.text(false))
}

func TestBytesText(t *testing.T) {
	t.Parallel()
	var m Meter
	m.Add(at(0), Counts{Total: 2_500_000_000, Before: 500_000_000})
	require.Equal(t, "500 MB of 2.5 GB, 0 B/s", m.bytesText())
	m.Add(at(10), Counts{Total: 2_500_000_000, Before: 500_000_000, Done: 1_000_000_000})
	require.Equal(t, "1.5 GB of 2.5 GB, 100 MB/s, 10s left", m.bytesText())
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
	require.NotContains(t, m.text(true), "left")
}

// Without a terminal, one line is written every 30 seconds, however often Show is called.
func TestLinesAtIntervals(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	d := New(&out, Options{Tokens: true})
	d.Phase("loading the model")
	for s := 0.0; s <= 65; s += 0.1 {
		d.show(at(s), Counts{Total: 130, Done: int(2 * s)})
	}
	_, err := d.Write([]byte("a line of the log\n"))
	require.NoError(t, err)
	d.Close()
	lines := strings.Split(out.String(), "\n")
	require.Len(t, lines, 4, "%s", out.String())
	require.Regexp(t, `^(59|60) of 130 rows, 2\.0 rows/s, 0\.0 tokens/s, 3[56]s left$`, lines[0])
	require.Regexp(t, `^(119|120) of 130 rows, 2\.0 rows/s, 0\.0 tokens/s, [56]s left$`, lines[1])
	require.Equal(t, "a line of the log", lines[2])
}

// The bar is removed before a log line is written.
func TestDisplayKeepsLogLinesWhole(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	d := New(&out, Options{Terminal: true, Tokens: true})
	d.Phase("loading the model")
	require.Contains(t, out.String(), "loading the model")
	d.show(at(0), Counts{Total: 10, Before: 2})
	out.Reset()
	d.show(at(1), Counts{Total: 10, Before: 2, Done: 3, Tokens: 30})
	require.Contains(t, out.String(), "5 of 10 rows, 3.0 rows/s, 30 tokens/s, 2s left")
	require.Contains(t, out.String(), "50%")
	out.Reset()
	d.show(at(1.05), Counts{Total: 10, Before: 2, Done: 4})
	require.Empty(t, out.String(), "too soon")
	_, err := d.Write([]byte("a line of the log\n"))
	require.NoError(t, err)
	require.Regexp(t, "^\x1b\\[2K\ra line of the log\n", out.String())
	out.Reset()
	d.Close()
	require.Equal(t, "\x1b[2K\r", out.String())
}
