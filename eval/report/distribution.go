package report

import (
	"fmt"
	"path/filepath"
	"slices"

	"github.com/ingot-run/ingot/eval"
)

type quantiles struct {
	What, Run         string
	N                 int
	Median, P95, Most string // with their unit; Most is the largest value
}

// quantile returns the q-quantile of values by the nearest rank; 0 if there are no values.
func quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

// measured holds the answer lengths in tokens and the latencies in ms of a run's rows.
type measured struct{ tokens, latencies []float64 }

func measure(folder string, run *eval.Run) (measured, error) {
	var m measured
	if run == nil {
		return m, nil
	}
	for task := range run.Results.Results {
		samples, err := eval.ReadSamples(filepath.Join(folder, run.Name), task)
		if err != nil {
			return m, err
		}
		last := -1
		for i := range samples {
			s := &samples[i]
			if s.DocID == last || s.Failed != "" { // count a row once, although it has a sample for each filter
				continue
			}
			last = s.DocID
			if s.Tokens > 0 {
				m.tokens = append(m.tokens, float64(s.Tokens))
			}
			if s.Latency > 0 {
				m.latencies = append(m.latencies, s.Latency)
			}
		}
	}
	return m, nil
}

func (c *content) distributions(folder string) error {
	base, err := measure(folder, c.Baseline)
	if err != nil {
		return err
	}
	cand, err := measure(folder, c.Candidate)
	if err != nil {
		return err
	}
	for _, d := range []struct {
		title, note, unit string
		base, cand        []float64
	}{
		{"Length of answers", "generated tokens per row", "tokens", base.tokens, cand.tokens},
		{"Latency", "from a row's start to its last token; rows run concurrently", "ms", base.latencies, cand.latencies},
	} {
		if len(d.cand) == 0 {
			continue
		}
		first, second := d.base, d.cand
		if len(first) == 0 {
			first, second = second, nil
		}
		chart := distribution(first, second, d.unit, fmt.Sprintf("%s of %d rows", d.title, len(d.cand)))
		svg, err := chart.SVG()
		if err != nil {
			return err
		}
		c.Figures = append(c.Figures, figure{d.title, d.note, svg})
		for _, run := range []struct {
			name   string
			values []float64
		}{{"baseline", d.base}, {"candidate", d.cand}} {
			if len(run.values) > 0 {
				shown := func(q float64) string { return fmt.Sprintf("%.4g %s", quantile(run.values, q), d.unit) }
				c.Quantiles = append(c.Quantiles, quantiles{d.title, run.name, len(run.values), shown(0.5), shown(0.95), shown(1)})
			}
		}
	}
	return nil
}
