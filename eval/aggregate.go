package eval

import (
	"math"

	"github.com/ingot-run/ingot/eval/task"
)

// aggregate returns a task's score by a metric, and the score's standard error. The standard error
// is NaN if it is not defined: for perplexities and bits per byte, and for fewer than two rows.
func aggregate(m *task.Metric, samples []Sample) (value, stderr float64) {
	var total, weight float64
	var scores []float64
	for i := range samples {
		v := samples[i].Scores[m.Name]
		total += v
		weight += samples[i].Weights[m.Name]
		scores = append(scores, v)
	}
	n := float64(len(scores))
	switch m.Aggregation {
	case "perplexity", "weighted_perplexity":
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

func (r *Results) add(s *Set, samples []Sample) {
	name := s.Name
	r.Versions[name], r.Shots[name], r.TaskHashes[name], r.Margins[name] = s.Version, s.Shots, s.Hash, s.Margin
	r.Results[name], r.HigherBetter[name] = map[string]float64{}, map[string]bool{}
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
		}
		if sample.Failed == "" {
			scored[sample.Filter] = append(scored[sample.Filter], sample)
		}
	}
	count.Effective = count.Original - count.Failed
	r.Samples[name] = count
	for filter, list := range scored {
		for i := range s.Metrics {
			m := &s.Metrics[i]
			r.HigherBetter[name][m.Name] = m.HigherBetter
			value, stderr := aggregate(m, list)
			r.Results[name][m.Name+","+filter] = value
			if !math.IsNaN(stderr) {
				r.Results[name][m.Name+"_stderr,"+filter] = stderr
			}
		}
	}
}
