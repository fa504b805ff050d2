package report

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/eval"
	"github.com/ingot-run/ingot/eval/statistics"
)

// TestTokenAxisEndsAtTheLongestAnswer: the axis of few different lengths has no empty part.
func TestTokenAxisEndsAtTheLongestAnswer(t *testing.T) {
	t.Parallel()
	drawn, err := distribution([]float64{1, 2, 2, 3, 8}, nil, "tokens", "lengths")
	require.NoError(t, err)
	require.Contains(t, string(drawn), ">8<")
	require.NotRegexp(t, `text-anchor="middle"[^>]*>[19]\d?<`, string(drawn))
}

// TestNamesOfRuns: a chart shows dates, times, names or numbers, but never a part of a name.
func TestNamesOfRuns(t *testing.T) {
	t.Parallel()
	day := time.Date(2026, 3, 1, 2, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		names []string
		hours []int // after day
		want  []string
	}{
		"days":         {[]string{"a", "b"}, []int{0, 24}, []string{"Mar 1", "Mar 2"}},
		"one day":      {[]string{"a", "b"}, []int{0, 1}, []string{"02:00", "03:00"}},
		"names":        {[]string{"a", "b", "c"}, []int{0, 1, 24}, []string{"a", "b", "c"}},
		"a long name":  {[]string{"a", "nightly-of-all", "c"}, []int{0, 1, 24}, []string{"#1", "#2", "#3"}},
		"at one point": {[]string{"0123456789", "b"}, []int{0, 0}, []string{"0123456789", "b"}},
	} {
		var runs []eval.Run
		for i, run := range c.names {
			runs = append(runs, eval.Run{Name: run, Results: &eval.Results{Date: day.Add(time.Duration(c.hours[i]) * time.Hour)}})
		}
		var got []string
		for _, run := range c.names {
			got = append(got, axisNames(runs)[run])
		}
		require.Equal(t, c.want, got, name)
	}
}

// TestAxisOfShares: the axis of a share ends at 0 and 1, and the texts of marks stand above it.
func TestAxisOfShares(t *testing.T) {
	t.Parallel()
	points := []point{{value: 0, Interval: statistics.Wilson(0, 20)}, {value: 1, Interval: statistics.Wilson(1, 20), change: "model"}}
	drawn, err := history(points, []string{"a", "b"}, eval.Possible("acc"), "scores")
	require.NoError(t, err)
	require.Contains(t, string(drawn), ">1.0<")
	require.NotContains(t, string(drawn), ">1.2<")
	require.NotContains(t, string(drawn), ">-0")
	require.Equal(t, 2, strings.Count(string(drawn), "<path "))
	require.NotRegexp(t, `<circle [^>]*cy="-`, string(drawn))
}
