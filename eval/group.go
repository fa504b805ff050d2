package eval

import (
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/ingot-run/ingot/eval/task"
)

// addGroups adds the scores of groups. A group's score by a metric is the weighted mean of its
// tasks' scores. Tasks without the metric or filter are left out. A group without a list of metrics
// gets no scores.
func (r *Results) addGroups(groups []task.Group) {
	for _, g := range groups {
		if r.Groups == nil {
			r.Groups, r.Subtasks = map[string]Values{}, map[string][]string{}
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
	var list []part
	for _, member := range g.Members {
		value, ok := r.Results[member.Task][m.Metric+","+filter]
		if !ok {
			continue
		}
		p := part{value: value, stderr: math.NaN(), rows: float64(r.Samples[member.Task].Effective), weight: member.Weight}
		if stderr, ok := r.Results[member.Task][m.Metric+"_stderr,"+filter]; ok {
			p.stderr = stderr
		}
		list = append(list, p)
	}
	value, stderr := groupScore(list, m.BySize)
	store(r.Groups[g.Name], m.Metric, filter, value, stderr)
	if slices.ContainsFunc(list, func(p part) bool { return math.IsNaN(p.value) }) {
		r.Groups[g.Name][m.Metric+","+filter] = math.NaN()
	}
}

// part is the score of a task of a group. stderr is NaN if it is not known.
type part struct{ value, stderr, rows, weight float64 }

// groupScore returns the score of a group and its standard error. With bySize, the standard error
// is the harness's pooled one: that of the mean over all rows, without the differences between
// tasks. If tasks have weights of their own, which the harness lacks, and without bySize, the
// tasks' errors are independent. Values that are not known are NaN.
func groupScore(list []part, bySize bool) (value, stderr float64) {
	var sum, squares, weights, rows, pooled float64
	equal := true
	for _, p := range list {
		w := p.weight
		if bySize {
			w *= p.rows
		}
		sum, weights = sum+w*p.value, weights+w
		squares += w * w * p.stderr * p.stderr
		rows, pooled = rows+p.rows, pooled+(p.rows-1)*p.rows*p.stderr*p.stderr
		equal = equal && p.weight == list[0].weight
	}
	if bySize && equal {
		return sum / weights, math.Sqrt(pooled / (rows - float64(len(list))) / rows)
	}
	return sum / weights, math.Sqrt(squares) / weights
}
