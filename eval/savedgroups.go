package eval

import (
	"cmp"
	"slices"
	"strings"

	"github.com/ingot-run/ingot/eval/task"
)

// addSavedGroups adds groups to the harness's results, as the harness does: a group lists the
// tasks and groups in its own list; only groups with metrics have scores; and a group has the
// number of examples of its list if that is one number.
func addSavedGroups(all map[string]any, groups []task.Group, r *Results) {
	type object = map[string]any
	table := func(key string) object { return all[key].(object) } // savedResults made them
	scored := object{}
	for _, g := range slices.Backward(groups) { // a group is after those in its list
		table("group_subtasks")[g.Name] = g.Children
		table("versions")[g.Name] = cmp.Or(g.Version, "N/A")
		group := savedScores(g.Name, cmp.Or(g.Alias, g.Name), r.Groups[g.Name])
		if len(g.Metrics) > 0 {
			addCounts(group, &g, r)
			scored[g.Name] = group
		}
		table("results")[g.Name] = group
		if n := sameIn(g.Children, table("n-shot")); n != nil {
			table("n-shot")[g.Name] = n
		}
		if better := betterOf(g.Children, table("higher_is_better")); len(better) > 0 {
			table("higher_is_better")[g.Name] = better
		}
	}
	if len(scored) > 0 {
		all["groups"] = scored
	}
}

// addCounts adds the number of rows of a group, and of those whose tasks have a score.
func addCounts(group map[string]any, g *task.Group, r *Results) {
	rows, byScore := 0, map[string]int{}
	for _, m := range g.Members {
		n := r.Samples[m.Task].Effective
		rows += n
		for key := range r.Results[m.Task] {
			if _, ok := r.Groups[g.Name][key]; ok && !strings.Contains(key, "_stderr,") {
				byScore[key] += n
			}
		}
	}
	group["sample_len"] = rows
	if len(byScore) > 0 {
		group["sample_count"] = byScore
	}
}

// sameIn returns the value of all names that a table has, or nil if they differ or it has none.
func sameIn(names []string, table map[string]any) any {
	var found any
	for _, name := range names {
		v, ok := table[name]
		switch {
		case !ok:
		case found != nil && found != v:
			return nil
		default:
			found = v
		}
	}
	return found
}

// betterOf returns for each metric of the named tasks whether a higher score is better: nil if they
// do not agree.
func betterOf(names []string, table map[string]any) map[string]any {
	better := map[string]any{}
	for _, name := range names {
		of, _ := table[name].(map[string]any)
		for metric, v := range of {
			if known, ok := better[metric]; ok && known != v {
				v = nil
			}
			better[metric] = v
		}
	}
	return better
}
