package eval

import (
	"math"

	"github.com/ingot-run/ingot/eval/statistics"
)

// possible has the possible values of metrics that are not shares.
var possible = map[string]statistics.Interval{
	"perplexity": {Low: 1, High: math.Inf(1)}, "word_perplexity": {Low: 1, High: math.Inf(1)}, "byte_perplexity": {Low: 1, High: math.Inf(1)},
	"bits_per_byte": {High: math.Inf(1)}, "brier_score": {High: 2}, "mcc": {Low: -1, High: 1},
	"bleu": {High: 100}, "chrf": {High: 100}, "chrf++": {High: 100}, "ter": {High: math.Inf(1)},
}

// Possible returns the lowest and the highest possible value of a metric; 0 and 1 for metrics that
// are not known.
func Possible(metric string) statistics.Interval {
	if p, ok := possible[metric]; ok {
		return p
	}
	return statistics.Interval{High: 1}
}

// Interval returns the confidence interval of a score of a number of rows. That of a share is
// Wilson's, with as many rows as its standard error corresponds to. Other intervals are normal, and
// end at the possible values. Without a standard error, both ends are the value.
func (v MetricScore) Interval(rows int) statistics.Interval {
	p, other := possible[v.Metric]
	if !other && (v.Value < 0 || v.Value > 1) {
		p, other = statistics.Interval{Low: math.Inf(-1), High: math.Inf(1)}, true
	}
	switch {
	case !v.Certain:
		return statistics.Interval{Low: v.Value, High: v.Value}
	case other:
		return statistics.Normal(v.Value, v.Stderr, p)
	case v.Stderr == 0:
		return statistics.Wilson(v.Value, float64(rows))
	}
	return statistics.Wilson(v.Value, v.Value*(1-v.Value)/v.Stderr/v.Stderr)
}
