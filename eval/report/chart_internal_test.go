package report

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/eval"
	"github.com/ingot-run/ingot/eval/statistics"
	"github.com/ingot-run/ingot/internal/chart"
)

// TestTokenAxisEndsAtTheLongestAnswer: the axis of few different lengths has no empty part.
func TestTokenAxisEndsAtTheLongestAnswer(t *testing.T) {
	t.Parallel()
	lengths := distribution([]float64{1, 2, 2, 3, 8}, nil, "tokens", "lengths")
	drawn, err := lengths.SVG()
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
	scores := history(points, []string{"a", "b"}, eval.Possible("acc"), "scores")
	require.InDeltaSlice(t, []float64{0, 1}, []float64{scores.Y.Low, scores.Y.High}, 0)
	drawn, err := scores.SVG()
	require.NoError(t, err)
	require.Contains(t, string(drawn), ">1.0<")
	require.NotContains(t, string(drawn), ">1.2<")
	require.NotContains(t, string(drawn), ">-0")
	require.Equal(t, 2, strings.Count(string(drawn), "<path "))
	require.NotRegexp(t, `<circle [^>]*cy="-`, string(drawn))
}

// TestHistory: a chart of scores has a point for each run, with its interval, and a mark before a
// run with other settings. The names of some runs are on the axis, and always that of the last one.
func TestHistory(t *testing.T) {
	t.Parallel()
	var points []point
	var names []string
	for i := range 8 {
		v := 0.5 + 0.01*float64(i)
		points = append(points, point{value: v, Interval: statistics.Interval{Low: v - 0.05, High: v + 0.05}, name: fmt.Sprint("run-", i)})
		names = append(names, fmt.Sprint("#", i))
	}
	points[1].change, points[7].change = "model", "engine"
	points[2].role, points[6].role = "baseline", "candidate"
	c := history(points, names, statistics.Interval{High: 1}, "of runs")
	require.Equal(t, []any{"of runs", 380.0, 210.0}, []any{c.Label, c.Width, c.Height})
	require.Equal(t, []chart.Mark{{At: 0.5, Text: "model"}, {At: 6.5, Text: "engine", Left: true}}, c.Marks)
	require.Equal(t, []chart.Tick{{At: 7, Text: "#7"}, {At: 5, Text: "#5"}, {At: 3, Text: "#3"}, {At: 1, Text: "#1"}}, c.X.Ticks)
	require.InDeltaSlice(t, []float64{-0.5, 7.5, 0.4296, 0.6404}, []float64{c.X.Low, c.X.High, c.Y.Low, c.Y.High}, 1e-9) // 0.12 of 0.45 to 0.62 as room
	require.NotEmpty(t, c.Y.Ticks)
	require.Len(t, c.Points, 8)
	require.Equal(t, chart.Point{X: 3, Y: 0.53, Low: points[3].Low, High: points[3].High, Color: "var(--ink)", Radius: 3, Title: "run-3: 0.5300"}, c.Points[3])
	require.Equal(t, []any{"var(--baseline)", 5.0}, []any{c.Points[2].Color, c.Points[2].Radius})
	require.Equal(t, []any{"var(--candidate)", 5.0}, []any{c.Points[6].Color, c.Points[6].Radius})
	for _, n := range []int{1, 5, 6, 7} { // with few runs, there is room to the right of the last mark
		c := history(points[8-n:], names[8-n:], statistics.Interval{High: 1}, "")
		require.False(t, c.Marks[len(c.Marks)-1].Left, n)
		require.Len(t, c.X.Ticks, map[int]int{1: 1, 5: 5, 6: 3, 7: 4}[n])
	}
	flat := history([]point{{value: 200, Interval: statistics.Interval{Low: 200, High: 200}}}, []string{"a"}, statistics.Interval{High: math.Inf(1)}, "")
	require.InDeltaSlice(t, []float64{199.8, 200.2}, []float64{flat.Y.Low, flat.Y.High}, 1e-9)
	zero := history([]point{{}}, []string{"a"}, statistics.Interval{Low: math.Inf(-1), High: 1}, "")
	require.InDeltaSlice(t, []float64{-1e-6, 1e-6}, []float64{zero.Y.Low, zero.Y.High}, 1e-12)
}

// TestDistribution: bars have the shares of the rows in percent. Those of two runs stand side by
// side, and the highest hundredth of the values is in the last bar.
func TestDistribution(t *testing.T) {
	t.Parallel()
	bars := func(c chart.Chart) (all []float64) {
		for _, b := range c.Bars {
			all = append(all, b.From, b.To, b.Value)
		}
		return all
	}
	c := distribution([]float64{1, 2, 2, 3, 8}, nil, "tokens", "lengths")
	require.InDeltaSlice(t, []float64{0.56, 1.4, 20, 1.56, 2.4, 40, 2.56, 3.4, 20, 7.56, 8.4, 20}, bars(c), 1e-9)
	require.InDeltaSlice(t, []float64{0.5, 8.5, 0, 40}, []float64{c.X.Low, c.X.High, c.Y.Low, c.Y.High}, 1e-9)
	require.Equal(t, []any{"lengths", "tokens", "% of rows", 380.0, 210.0}, []any{c.Label, c.X.Title, c.Y.Title, c.Width, c.Height})
	require.Equal(t, chart.Ticks(1, 8), c.X.Ticks)
	require.Equal(t, chart.Ticks(0, c.Y.High), c.Y.Ticks)

	c = distribution([]float64{0, 16}, []float64{8, 8, 15.9, 16}, "ms", "")
	require.InDeltaSlice(t, []float64{0.06, 0.48, 50, 15.06, 15.48, 50, 8.48, 8.9, 50, 15.48, 15.9, 50}, bars(c), 1e-9)
	require.Equal(t, "var(--baseline) var(--candidate)", c.Bars[0].Color+" "+c.Bars[2].Color)
	require.InDeltaSlice(t, []float64{0, 16, 50}, []float64{c.X.Low, c.X.High, c.Y.High}, 1e-9)

	c = distribution([]float64{1, 40}, nil, "tokens", "") // bars of three lengths each
	require.InDeltaSlice(t, []float64{0.68, 3.2, 50, 39.68, 42.2, 50}, bars(c), 1e-9)
	require.InDelta(t, 42.5, c.X.High, 1e-9)
	c = distribution([]float64{7, 7}, nil, "ms", "")
	require.InDeltaSlice(t, []float64{7.00375, 7.05625, 100}, bars(c), 1e-9)
	outlier := make([]float64, 300)
	outlier[0], outlier[1] = 5, 1000
	require.InDelta(t, 1.0, distribution(outlier, nil, "ms", "").X.High, 1e-9)
	require.Len(t, distribution(outlier, nil, "ms", "").Bars, 2, "a bar of less than one percent is drawn")
}

func TestQuantile(t *testing.T) {
	t.Parallel()
	values := []float64{5, 1, 4, 2, 3}
	for q, want := range map[float64]float64{0: 1, 0.19: 1, 0.2: 2, 0.5: 3, 0.95: 5, 1: 5} {
		require.InDelta(t, want, quantile(values, q), 0, "%v", q)
	}
	require.Zero(t, quantile(nil, 0.5))
	require.Equal(t, []float64{5, 1, 4, 2, 3}, values)
}

// TestHistories: each score of the candidate gets a chart of the runs that have it.
func TestHistories(t *testing.T) {
	t.Parallel()
	at := func(name string, day int, value float64, sum, version, hash string) eval.Run {
		return eval.Run{Name: name, Results: &eval.Results{
			Date: time.Date(2026, 3, day, 0, 0, 0, 0, time.UTC), Config: eval.Config{ModelSHA256: []string{sum}, Version: version},
			Results:      map[string]eval.Values{"a": {"acc,none": value, "ter,strict": 2 * value}},
			HigherBetter: map[string]map[string]bool{"a": {"acc": true}}, TaskHashes: map[string]string{"a": hash},
			Samples: map[string]eval.Count{"a": {Effective: 10}},
		}}
	}
	runs := []eval.Run{
		at("one", 1, 0.25, "x", "v1", "h"), at("two", 2, math.NaN(), "x", "v1", "h"), at("three", 3, math.Inf(1), "x", "v1", "h"),
		at("four", 4, 0.5, "y", "v2", "i"), at("five", 5, math.Inf(-1), "y", "v2", "i"),
	}
	delete(runs[3].Results.Results["a"], "ter,strict")
	runs[0].Results.Results["b"] = map[string]float64{"acc,none": 1}
	c := &content{Candidate: &runs[0], Baseline: &runs[3]}
	c.Scores = append(scoresOf(runs[0].Results), scored{Task: "none", MetricScore: eval.MetricScore{Metric: "acc", Filter: "none"}})
	require.NoError(t, c.histories(runs))
	var titles, notes []string
	for _, f := range c.Histories {
		titles, notes = append(titles, f.Title), append(notes, f.Note)
	}
	require.Equal(t, []string{"a · acc", "a · ter · strict", "b · acc"}, titles)
	require.Equal(t, []string{"", "lower is better", "lower is better"}, notes)
	drawn := string(c.Histories[0].Chart)
	for _, text := range []string{"a · acc over 2 runs, from 0.2500 to 0.5000", ">Mar 1<", ">Mar 4<", ">model, engine, task<", "four: 0.5000", "var(--candidate)", "var(--baseline)"} {
		require.Contains(t, drawn, text)
	}
	require.NotContains(t, string(c.Histories[1].Chart), "engine")
}

// What changed from one run to the next is marked. The scoring of runs of earlier versions is not
// known, and no change.
func TestChangesBetweenRuns(t *testing.T) {
	t.Parallel()
	of := func(model, version, task, scoring string) *eval.Results {
		return &eval.Results{
			Config:     eval.Config{ModelSHA256: []string{model}, Version: version},
			TaskHashes: map[string]string{"a": task}, ScoreHashes: map[string]string{"a": scoring},
		}
	}
	before := of("m", "v", "t", "s")
	for want, after := range map[string]*eval.Results{
		"": of("m", "v", "t", "s"), "model": of("n", "v", "t", "s"), "engine": of("m", "w", "t", "s"), "task": of("m", "v", "u", "s"),
		"model, engine, task": of("n", "w", "t", "other"),
	} {
		require.Equal(t, want, changesOf(before, after, "a"))
	}
	require.Empty(t, changesOf(before, of("m", "v", "t", ""), "a"))
	require.Empty(t, changesOf(of("m", "v", "t", ""), before, "a"))
	require.Equal(t, "task", changesOf(before, of("m", "v", "t", "x"), "a"))
}
