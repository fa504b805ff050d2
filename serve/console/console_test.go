package console

import (
	"bufio"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/internal/chart"
)

func TestThroughput(t *testing.T) {
	t.Parallel()
	speeds := NewThroughput([]float64{0, 130, 65}, time.Minute, 70)
	require.InDelta(t, 70, speeds.Now, 0)
	require.InDelta(t, 130, speeds.Highest, 0)
	c := speeds.chart()
	require.Len(t, c.Bars, 2, "an interval without tokens has no bar, whose title a browser without graphics would show")
	require.InDelta(t, c.Bars[0].Value, 2*c.Bars[1].Value, 1e-9)
	require.InDelta(t, 1.1, c.Bars[0].From, 1e-9)
	require.InDelta(t, 200, c.Y.Ticks[2].At, 0, "the axis ends above the highest bar")
	hour := NewThroughput(make([]float64, 60), time.Minute, 0).chart()
	require.Equal(t, []chart.Tick{{At: 0, Text: "60 min ago"}, {At: 30, Text: "30 min ago"}, {At: 60, Text: "now"}}, hour.X.Ticks)
	require.Equal(t, "1 min ago: 130 tokens/s", c.Bars[0].Title)
	for _, b := range c.Bars {
		require.InDelta(t, c.Bottom(), c.AtY(0), 1e-9, "bars stand on the axis")
		require.LessOrEqual(t, b.Value, c.Y.High)
	}
}

// TestFirstChoice: the form begins with a model that can chat and has a worker.
func TestFirstChoice(t *testing.T) {
	t.Parallel()
	base, chat := Model{Alias: "base"}, Model{Alias: "chat", Chat: true}
	gone := Model{Alias: "gone", Chat: true, Away: true}
	for want, models := range map[string][]Model{"chat": {gone, base, chat, {Alias: "later", Chat: true}}, "base": {gone, base}, "gone": {gone}, "": nil} {
		require.Equal(t, want, firstChoice(models))
	}
}

func TestRowOf(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]shownRow{
		`{"custom_id":"a","response":{"body":{"choices":[{"message":{"content":"Hi"}},{"message":{"content":"Ho"}}]}}}`: {"a", "Hi\nHo"},
		`{"custom_id":"b","response":{"body":{"choices":[{"text":"Hi"}]}}}`:                                             {"b", "Hi"},
		`{"custom_id":"c","response":{"status_code":400,"body":{"error":{"message":"no"}}}}`:                            {"c", "no"},
		`{"custom_id":"d","error":{"code":"batch_expired","message":"late"}}`:                                           {"d", "late"},
		`nonsense`: {"", "a line that is not a result"},
	} {
		require.Equal(t, want, rowOf([]byte(line)))
	}
	require.Len(t, []rune(excerpt(strings.Repeat("é", 1000))), shownText+1)
	require.Equal(t, strings.Repeat("é", shownText), excerpt(strings.Repeat("é", shownText)))
	in := bufio.NewReaderSize(strings.NewReader(strings.Repeat("x", shownLine+9)+"\nb\nc"), 16)
	for _, want := range []string{"", "b\n", "c"} {
		line, err := readLine(in)
		require.NoError(t, err)
		require.Equal(t, want, string(line), "a line that is too long is left out")
	}
}

func TestLeftText(t *testing.T) {
	t.Parallel()
	for left, wanted := range map[time.Duration]string{
		0: "", 1: "1 s left", 12 * time.Second: "13 s left", 61 * time.Second: "1 min left", 185 * time.Minute: "3 h 5 min left",
	} {
		require.Equal(t, wanted, leftText(left))
	}
}
