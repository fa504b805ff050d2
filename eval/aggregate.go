package eval

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/ingot-run/ingot/eval/task"
	"github.com/ingot-run/ingot/internal/ordered"
)

// aggregatedInPython returns what a Python function makes of the values of rows. ok is false if it
// is no number. As in the harness, it has no standard error.
func aggregatedInPython(m *task.Metric, samples []Sample) (value float64, ok bool, err error) {
	var items []ordered.Value
	for i := range samples {
		if v, ok := samples[i].items[m.Name]; ok {
			items = append(items, v)
		}
	}
	return m.Aggregate(items)
}

// aggregate returns a task's score by a metric, and the score's standard error. The standard error
// is NaN if it is not defined: for perplexities per word or byte and bits per byte, and for fewer
// than two rows.
func aggregate(m *task.Metric, samples []Sample) (value, stderr float64) {
	var total, weight float64
	var scores []float64
	for i := range samples {
		v, ok := samples[i].Scores[m.Name]
		if !ok && samples[i].by != nil { // the function does not score this row by this metric
			continue
		}
		total += v
		weight += samples[i].Weights[m.Name]
		scores = append(scores, v)
	}
	n := float64(len(scores))
	if c := m.Corpus(); c != nil && len(samples) > 0 && samples[0].statistics[m.Name] != nil {
		return corpusScore(c, m.Name, samples)
	}
	switch m.Aggregation {
	case "median":
		return bootstrapped(scores, func(list []float64) float64 { // as in the harness, the upper one of an even number
			slices.Sort(list) // NaN first
			if math.IsNaN(list[0]) {
				return list[0]
			}
			return list[len(list)/2]
		})
	case "nanmean": // without the rows whose score is NaN
		return bootstrapped(scores, func(list []float64) float64 {
			sum, n := 0.0, 0.0
			for _, v := range list {
				if !math.IsNaN(v) {
					sum, n = sum+v, n+1
				}
			}
			return sum / n
		})
	case "brier_score":
		return total / n, math.NaN()
	case "perplexity":
		return perplexityOf(scores)
	case "weighted_perplexity":
		return math.Exp(-total / weight), math.NaN()
	case "bits_per_byte":
		return -total / weight / math.Ln2, math.NaN()
	}
	mean, squares := total/n, 0.0
	if m.Aggregation == "weighted_mean" { // the weighted mean of the scores, with the standard error of a ratio
		mean = 0
		for i := range samples {
			mean += scores[i] * samples[i].Weights[m.Name] / weight
		}
		for i := range samples {
			d := (scores[i] - mean) * samples[i].Weights[m.Name] * n / weight
			squares += d * d
		}
		return mean, math.Sqrt(squares / (n - 1) / n)
	}
	for _, v := range scores {
		squares += (v - mean) * (v - mean)
	}
	return mean, math.Sqrt(squares / (n - 1) / n)
}

// corpusScore returns a metric that is computed from the sums of the statistics of rows, and its
// standard error.
func corpusScore(c *task.Corpus, metric string, samples []Sample) (value, stderr float64) {
	longest := 0
	for i := range samples {
		longest = max(longest, len(samples[i].statistics[metric]))
	}
	of := func(at func(i int) int) float64 {
		sums := make([]float64, longest)
		for i := range samples {
			for k, v := range samples[at(i)].statistics[metric] {
				sums[k] += v
			}
		}
		return c.Value(sums)
	}
	value, stderr = of(func(i int) int { return i }), math.NaN()
	n := bootstraps
	if c.Slow {
		n = corpusBootstraps
	}
	if len(samples) > 1 && !c.Uncertain {
		stderr = bootstrapError(len(samples), n, func(rows []int) float64 {
			return of(func(i int) int { return rows[i] })
		})
	}
	return value, stderr
}

// bootstrapped returns a statistic of scores, and its standard error by the bootstrap. of may
// change the order of the list that it gets.
func bootstrapped(scores []float64, of func(list []float64) float64) (value, stderr float64) {
	n := len(scores)
	if n == 0 {
		return math.NaN(), math.NaN()
	}
	value, stderr = of(slices.Clone(scores)), math.NaN()
	if n > 1 {
		stderr = bootstrapError(n, bootstraps, func(rows []int) float64 {
			drawn := make([]float64, n)
			for i, row := range rows {
				drawn[i] = scores[row]
			}
			return of(drawn)
		})
	}
	return value, stderr
}

// perplexityOf returns the perplexity of texts from their log-probabilities.
func perplexityOf(logprobs []float64) (value, stderr float64) {
	n := len(logprobs)
	of := func(at func(i int) float64) float64 {
		sum := 0.0
		for i := range n {
			sum += at(i)
		}
		return math.Exp(-sum / float64(n))
	}
	value, stderr = of(func(i int) float64 { return logprobs[i] }), math.NaN()
	if n > 1 {
		stderr = bootstrapError(n, bootstraps, func(rows []int) float64 {
			return of(func(i int) float64 { return logprobs[rows[i]] })
		})
	}
	return value, stderr
}

func (r *Results) add(s *Set, samples []Sample) (err error) {
	name := s.Name
	r.Versions[name], r.Shots[name], r.TaskHashes[name], r.Margins[name] = s.Version, s.Shots, s.Hash, s.Margin
	if s.Scoring != "" {
		r.ScoreHashes[name] = s.Scoring
	}
	r.Results[name], r.HigherBetter[name] = Values{}, map[string]bool{}
	count := Count{Original: len(s.Items)}
	for _, n := range s.Skipped {
		count.Skipped += n
	}
	scored := map[string][]Sample{}
	last := -1
	for _, sample := range samples {
		if sample.DocID != last {
			last = sample.DocID
			switch {
			case sample.Failed != "":
				count.Failed++
			case sample.Truncated && s.Type.Generates():
				count.Truncated++
			}
			if len(sample.Undecided) > 0 {
				count.Undecided++
			}
			if slices.ContainsFunc(slices.Collect(maps.Values(sample.Scores)), math.IsNaN) {
				count.NaN++
			}
		}
		if sample.Failed == "" {
			scored[sample.Filter] = append(scored[sample.Filter], sample)
		}
	}
	count.Effective = count.Original - count.Failed
	r.Samples[name] = count
	for filter, list := range scored {
		for _, m := range metricsOf(s, list) {
			r.HigherBetter[name][m.Name] = m.HigherBetter
			value, stderr, isNaN := math.NaN(), math.NaN(), false
			if !m.Aggregated() {
				value, stderr = aggregate(m, list)
				isNaN = slices.ContainsFunc(list, func(s Sample) bool { return math.IsNaN(s.Scores[m.Name]) })
			} else if v, ok, err := aggregatedInPython(m, list); err != nil {
				return fmt.Errorf("aggregate the metric %s of task %s: %w", m.Name, name, err)
			} else if ok {
				value, isNaN = v, math.IsNaN(v)
			}
			store(r.Results[name], m.Name, filter, value, stderr)
			if isNaN && math.IsNaN(value) {
				r.Results[name][m.Name+","+filter] = value
			}
		}
	}
	return nil
}

// metricsOf returns the metrics of samples: those of the task, or those that Python functions have
// given scores of.
func metricsOf(s *Set, samples []Sample) (list []*task.Metric) {
	by := map[string]*task.Metric{}
	for i := range s.Metrics {
		if m := &s.Metrics[i]; samples[0].by == nil || slices.Contains(samples[0].Metrics, m.Name) {
			by[m.Name] = m
		}
	}
	for i := range samples {
		maps.Copy(by, samples[i].by)
	}
	for _, name := range slices.Sorted(maps.Keys(by)) {
		list = append(list, by[name])
	}
	return list
}

// store adds a score and its standard error. A value that is not known (NaN) is left out.
func store(scores map[string]float64, metric, filter string, value, stderr float64) {
	for key, v := range map[string]float64{metric + "," + filter: value, metric + "_stderr," + filter: stderr} {
		if !math.IsNaN(v) {
			scores[key] = max(-maxScore, min(v, maxScore))
		}
	}
}
