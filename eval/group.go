package eval

import (
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/ingot-run/ingot/eval/task"
)

// addGroups adds the scores of groups. A group's score by a metric is the weighted mean of its
// tasks' scores. The standard error of that mean assumes that the scores are independent. Tasks
// without the metric or filter are left out. A group without a list of metrics gets no scores.
func (r *Results) addGroups(groups []task.Group) {
	for _, g := range groups {
		if r.Groups == nil {
			r.Groups, r.Subtasks = map[string]map[string]float64{}, map[string][]string{}
		}
		r.Groups[g.Name] = map[string]float64{}
		for _, m := range g.Members {
			r.Subtasks[g.Name] = append(r.Subtasks[g.Name], m.Task)
		}
		for _, m := range g.Metrics {
			for _, filter := range r.filtersOf(&g, m.Metric) {
				if m.Filters == nil || slices.Contains(m.Filters, filter) {
					r.addGroup(&g, &m, filter)
				}
			}
		}
	}
}

func (r *Results) filtersOf(g *task.Group, metric string) []string {
	all := map[string]bool{}
	for _, m := range g.Members {
		for key := range r.Results[m.Task] {
			if name, filter, _ := strings.Cut(key, ","); name == metric {
				all[filter] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(all))
}

func (r *Results) addGroup(g *task.Group, m *task.GroupMetric, filter string) {
	var sum, squares, weights float64
	certain := true
	for _, member := range g.Members {
		value, ok := r.Results[member.Task][m.Metric+","+filter]
		if !ok {
			continue
		}
		weight := member.Weight
		if m.BySize {
			weight *= float64(r.Samples[member.Task].Effective)
		}
		stderr, ok := r.Results[member.Task][m.Metric+"_stderr,"+filter]
		certain = certain && ok
		sum += weight * value
		squares += weight * weight * stderr * stderr
		weights += weight
	}
	if weights == 0 {
		return
	}
	r.Groups[g.Name][m.Metric+","+filter] = sum / weights
	if certain {
		r.Groups[g.Name][m.Metric+"_stderr,"+filter] = math.Sqrt(squares) / weights
	}
}
