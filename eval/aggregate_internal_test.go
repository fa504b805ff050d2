package eval

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/eval/statistics"
	"github.com/ingot-run/ingot/eval/task"
)

// The scores of a task and their standard errors, computed by hand.
func TestAggregates(t *testing.T) {
	t.Parallel()
	of := func(pairs ...float64) (samples []Sample) {
		for i := 0; i < len(pairs); i += 2 {
			samples = append(samples, Sample{Scores: map[string]float64{"m": pairs[i]}, Weights: map[string]float64{"m": pairs[i+1]}})
		}
		return samples
	}
	for name, c := range map[string]struct {
		aggregation   string
		samples       []Sample
		value, stderr float64
	}{
		"a mean":                     {"mean", of(1, 0, 0, 0, 0, 0, 1, 0), 0.5, math.Sqrt(1.0 / 3 / 4)},
		"a mean of two":              {"", of(0.25, 0, 0.75, 0), 0.5, 0.25},
		"a mean of one":              {"mean", of(0.7, 0), 0.7, math.NaN()},
		"a weighted mean":            {"weighted_mean", of(1, 1, 0, 3), 0.25, math.Sqrt((1.5*0.25*1.5*0.25 + 1.5*0.25*1.5*0.25) / 2)},
		"a weighted mean of equals":  {"weighted_mean", of(1, 2, 0, 2), 0.5, 0.5},
		"a weighted mean of three":   {"weighted_mean", of(1, 1, 0.5, 2, 0, 1), 0.5, math.Sqrt(2 * 0.375 * 0.375 / 2 / 3)},
		"a median of one":            {"median", of(0.7, 0), 0.7, math.NaN()},
		"a perplexity of one":        {"perplexity", of(-2, 1), math.Exp(2), math.NaN()},
		"a perplexity by words":      {"weighted_perplexity", of(-2, 4, -4, 8), math.Exp(0.5), math.NaN()},
		"bits per byte":              {"bits_per_byte", of(-2*math.Ln2, 3, -4*math.Ln2, 5), 0.75, math.NaN()},
		"the same score in all rows": {"mean", of(0.5, 0, 0.5, 0, 0.5, 0), 0.5, 0},
	} {
		value, stderr := aggregate(&task.Metric{Name: "m", Aggregation: c.aggregation}, c.samples)
		require.InDelta(t, c.value, value, 1e-12, name)
		if math.IsNaN(c.stderr) {
			require.True(t, math.IsNaN(stderr), name)
		} else {
			require.InDelta(t, c.stderr, stderr, 1e-12, name)
		}
	}
}

// The score of a whole task has no standard error for one row, and is not defined without rows.
func TestAggregatesOfFewRows(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "task.yaml")
	require.NoError(t, os.WriteFile(path, []byte("task: a\ndata: rows.jsonl\ndoc_to_text: q\ndoc_to_target: a\nmetric_list: [{metric: bleu}]\n"), 0o600))
	read, err := task.Read(path)
	require.NoError(t, err)
	m := &read.Metrics[0]
	value, _ := aggregate(m, nil)
	require.True(t, math.IsNaN(value))
	sample := Sample{Scores: map[string]float64{"bleu": 1}, statistics: map[string][]float64{"bleu": m.Corpus().Answer("so it is now", "so it is now")}}
	value, stderr := aggregate(m, []Sample{sample})
	require.InDelta(t, 100, value, 1e-9)
	require.True(t, math.IsNaN(stderr))
}

// An infinite perplexity is stored as a large number, since JSON has no infinity: otherwise, the
// results of all tasks would be lost.
func TestEndlessPerplexities(t *testing.T) {
	t.Parallel()
	r := &Results{
		Results: map[string]Values{}, Versions: map[string]string{}, Shots: map[string]int{}, HigherBetter: map[string]map[string]bool{},
		Samples: map[string]Count{}, TaskHashes: map[string]string{}, Margins: map[string]float64{},
	}
	for name, aggregation := range map[string]string{"a": "weighted_perplexity", "b": "perplexity"} {
		s := &Set{Task: &task.Task{Name: name, Metrics: []task.Metric{{Name: "m", Aggregation: aggregation}}}}
		var samples []Sample
		for i, logprob := range []float64{-2000, -3000} {
			samples = append(samples, Sample{DocID: i, Filter: "none", Scores: map[string]float64{"m": logprob}, Weights: map[string]float64{"m": 1}})
		}
		require.NoError(t, r.add(s, samples))
	}
	members := []task.Member{{Task: "a", Weight: 1}, {Task: "b", Weight: 1}}
	r.addGroups([]task.Group{{Name: "both", Members: members, Metrics: []task.GroupMetric{{Metric: "m"}}}})
	for _, scores := range []map[string]float64{r.Results["a"], r.Results["b"], r.Groups["both"]} {
		require.InDelta(t, maxScore, scores["m,none"], 0)
	}
	require.NoError(t, writeJSON(filepath.Join(t.TempDir(), ResultsFile), r))
}

// A row is unchanged if everything that was measured is.
func TestWhatCountsAsAChange(t *testing.T) {
	t.Parallel()
	whole := func() *Sample {
		return &Sample{Scores: map[string]float64{"m": 1}, Responses: []string{"a"}, Logprobs: []float64{-1}, Logprob: -2, Tokens: 5}
	}
	for name, c := range map[string]struct {
		change func(*Sample)
		same   bool
	}{
		"nothing":               {func(*Sample) {}, true},
		"its time and tokens":   {func(s *Sample) { s.Latency, s.Tokens = 7, 9 }, true},
		"the last digit":        {func(s *Sample) { s.Logprob, s.Logprobs = s.Logprob-1e-6, []float64{s.Logprobs[0] - 1e-6} }, true},
		"its score":             {func(s *Sample) { s.Scores["m"] = 0.5 }, false},
		"another score":         {func(s *Sample) { s.Scores["n"] = 1 }, false},
		"its answer":            {func(s *Sample) { s.Responses[0] = "b" }, false},
		"more answers":          {func(s *Sample) { s.Responses = append(s.Responses, "b") }, false},
		"its log-probabilities": {func(s *Sample) { s.Logprobs[0] = -1.5 }, false},
		"its log-probability":   {func(s *Sample) { s.Logprob = -2.5 }, false},
		"it failed":             {func(s *Sample) { s.Failed = "x" }, false},
	} {
		changed := whole()
		c.change(changed)
		require.Equal(t, c.same, pair{whole(), changed}.same(), name)
		require.Equal(t, c.same, pair{changed, whole()}.same(), name)
	}
}

func TestComparedRows(t *testing.T) {
	t.Parallel()
	row := func(score float64, change func(*Sample)) *Sample {
		s := &Sample{Scores: map[string]float64{"m": score, "acc": score, "brier_score": score, "perplexity": score}, Responses: []string{"a"}, Target: "four"}
		if change != nil {
			change(s)
		}
		return s
	}
	fail := func(s *Sample) { s.Failed = "x" }
	cluster := func(name string) func(*Sample) { return func(s *Sample) { s.Cluster = name } }
	logprob := func(s *Sample) { s.Logprob, s.Responses = -3, nil }
	for name, c := range map[string]struct {
		list                        []pair
		metric                      string
		n, clusters, lost, won      int
		changed, failed, cut        int
		baseline, candidate, change float64
	}{
		"scores":                {[]pair{{row(1, nil), row(0, nil)}, {row(0, nil), row(1, nil)}, {row(0, nil), row(0, nil)}, {row(0, nil), row(1, nil)}}, "m", 4, 4, 1, 2, 3, 0, 0, 0.25, 0.5, 0.25},
		"failed rows":           {[]pair{{row(1, nil), row(0, fail)}, {row(1, fail), row(0, nil)}, {row(0, nil), row(1, nil)}}, "m", 1, 1, 0, 1, 3, 1, 0, 0, 1, 1},
		"cut answers":           {[]pair{{row(1, nil), row(1, func(s *Sample) { s.Truncated = true })}, {row(1, nil), row(1, func(s *Sample) { s.Truncated, s.Responses = true, nil })}}, "m", 2, 2, 0, 0, 1, 0, 1, 1, 1, 0},
		"clusters":              {[]pair{{row(1, cluster("t")), row(0, nil)}, {row(0, cluster("t")), row(0, nil)}, {row(1, cluster("u")), row(0, nil)}}, "m", 3, 2, 2, 0, 2, 0, 0, 2.0 / 3, 0, -2.0 / 3},
		"not all have clusters": {[]pair{{row(1, cluster("t")), row(0, nil)}, {row(0, cluster("t")), row(0, nil)}, {row(1, nil), row(0, nil)}}, "m", 3, 3, 2, 0, 2, 0, 0, 2.0 / 3, 0, -2.0 / 3},
		"per byte":              {[]pair{{row(-8, logprob), row(-4, logprob)}}, "perplexity", 1, 1, 0, 1, 1, 0, 0, -2, -1, 1},
		"lower is better":       {[]pair{{row(0.75, nil), row(0.25, nil)}, {row(0.5, nil), row(0.5, nil)}}, "brier_score", 2, 2, 0, 1, 1, 0, 0, 0.625, 0.375, 0.25},
		"another metric is not": {[]pair{{row(1, logprob), row(0, logprob)}}, "m", 1, 1, 1, 0, 1, 0, 0, 1, 0, -1},
		"accuracy is not":       {[]pair{{row(1, logprob), row(0, logprob)}}, "acc", 1, 1, 1, 0, 1, 0, 0, 1, 0, -1},
	} {
		got, _ := comparePairs(c.list, c.metric, c.metric != "brier_score" && c.metric != "perplexity")
		require.Equal(t, []int{c.n, c.clusters, c.lost, c.won}, []int{got.N, got.Clusters, got.Lost, got.Won}, name)
		require.Equal(t, []int{c.changed, c.failed, c.cut}, []int{got.Changed, got.Failed, got.Cut}, name)
		require.InDeltaSlice(t, []float64{c.baseline, c.candidate, c.change}, []float64{got.Baseline, got.Candidate, got.Mean}, 1e-12, name)
	}
}

// The p-values of a gate are adjusted for the number of its comparisons, unless these are about the
// same rows, and too many rows without a score fail it.
func TestVerdictsOfAGate(t *testing.T) {
	t.Parallel()
	lost := Compared{Changed: 1, Margin: 0.1, Comparison: statistics.Comparison{Worse: 0.0327, Difference: statistics.Difference{
		N: 11, Clusters: 11, Mean: -7. / 11, Interval: statistics.Interval{Low: -0.9, High: -0.2}}}}
	rows := func(task string) (list []statistics.Observation) { // 9 of 11 are lost
		for i := range 11 {
			list = append(list, statistics.Observation{Unit: fmt.Sprint(task, i), Difference: []float64{-1, 1}[i/9]})
		}
		return list
	}
	for _, c := range []struct {
		tasks []string
		want  statistics.Verdict
		p     float64
	}{
		{[]string{"a"}, statistics.Fail, 0.0327},
		{[]string{"a", "a"}, statistics.Fail, 0.0327},
		{[]string{"a", "b", "c"}, statistics.Inconclusive, 0.095},
	} {
		var list []Compared
		var tests [][]statistics.Observation
		for _, task := range c.tasks {
			list, tests = append(list, lost), append(tests, rows(task))
		}
		setVerdicts(list, tests)
		for i := range list {
			require.Equal(t, c.want, list[i].Verdict, c.tasks)
			require.InDelta(t, c.p, list[i].Adjusted, 0.01, c.tasks)
		}
	}
	for failed, want := range map[int]statistics.Verdict{0: statistics.Pass, 10: statistics.Pass, 11: statistics.Fail} {
		list := []Compared{{Failed: failed, Comparison: statistics.Comparison{Difference: statistics.Difference{N: 1000 - failed}}}}
		setVerdicts(list, make([][]statistics.Observation, 1))
		require.Equal(t, want, list[0].Verdict, failed)
	}
	for _, c := range []struct {
		list []statistics.Verdict
		want statistics.Verdict
	}{
		{nil, statistics.Pass},
		{[]statistics.Verdict{statistics.Pass, statistics.Pass}, statistics.Pass},
		{[]statistics.Verdict{statistics.Pass, statistics.Inconclusive, statistics.Pass}, statistics.Inconclusive},
		{[]statistics.Verdict{statistics.Inconclusive, statistics.Fail, statistics.Pass}, statistics.Fail},
	} {
		var list []Compared
		for _, v := range c.list {
			list = append(list, Compared{Verdict: v})
		}
		require.Equal(t, c.want, Verdict(list))
	}
}

func TestShownAnswers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		s    Sample
		want []string
	}{
		{Sample{Failed: "it broke", Responses: []string{"a"}}, []string{"it broke"}},
		{Sample{Choices: []string{"x", "y"}, Logprobs: []float64{-2, -1}}, []string{`"y" (log-probabilities "x" -2.0000, "y" -1.0000)`}},
		{Sample{Logprobs: []float64{-2, -1}}, []string{"log-probabilities [-2.0000 -1.0000]"}},
		{Sample{Responses: []string{"a", "b"}}, []string{"a", "b"}},
		{Sample{Logprob: -1.5}, []string{"log-probability -1.5000"}},
	} {
		require.Equal(t, c.want, c.s.texts())
	}
}
