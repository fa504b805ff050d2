package eval_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/eval"
	"github.com/ingot-run/ingot/eval/statistics"
)

// Intervals stay within the possible values of a metric.
func TestIntervalsOfScores(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		score eval.MetricScore
		rows  int
		want  statistics.Interval
	}{
		"all right":     {eval.MetricScore{Metric: "acc", Value: 1, Certain: true}, 20, statistics.Wilson(1, 20)},
		"nearly all":    {eval.MetricScore{Metric: "acc", Value: 0.95, Stderr: 0.05, Certain: true}, 20, statistics.Wilson(0.95, 19)}, // the sample's variance has n-1
		"no error":      {eval.MetricScore{Metric: "acc", Value: 0.4}, 20, statistics.Interval{Low: 0.4, High: 0.4}},
		"perplexity":    {eval.MetricScore{Metric: "perplexity", Value: 1.5, Stderr: 1, Certain: true}, 20, statistics.Interval{Low: 1, High: 1.5 + 1.6448536269514722}},
		"correlation":   {eval.MetricScore{Metric: "mcc", Value: -0.5, Stderr: 1, Certain: true}, 20, statistics.Interval{Low: -1, High: 1}},
		"not a share":   {eval.MetricScore{Metric: "points", Value: 30, Stderr: 1, Certain: true}, 20, statistics.Interval{Low: 30 - 1.6448536269514722, High: 30 + 1.6448536269514722}},
		"none is right": {eval.MetricScore{Metric: "exact_match", Value: 0, Certain: true}, 9, statistics.Wilson(0, 9)},
	} {
		got := c.score.Interval(c.rows)
		require.InDelta(t, c.want.Low, got.Low, 1e-9, name)
		require.InDelta(t, c.want.High, got.High, 1e-9, name)
	}
}
