package eval

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ingot-run/ingot/eval/task"
)

// Change is a row whose answers or scores differ between two runs.
type Change struct {
	Task                string
	Row                 int // number of the row in its file, from 0
	Context             string
	Target              string
	Baseline, Candidate []string
	Scores              [2]map[string]float64 // in the baseline and in the candidate
}

// Changes lists the rows of a task whose answers or scores differ between two runs, which are given
// by their directories. An empty name stands for all tasks of both runs.
func Changes(task, baseline, candidate string) ([]Change, error) {
	from, to, err := openRuns(baseline, candidate)
	if err != nil {
		return nil, err
	}
	tasks := []string{task}
	if task == "" {
		tasks = commonTasks(from.results, to.results)
	} else if _, ok := from.results.Results[task]; !ok {
		return nil, fmt.Errorf("%s has no task %q: its tasks are %s", baseline, task, strings.Join(slices.Sorted(maps.Keys(from.results.Results)), ", "))
	}
	var list []Change
	common := 0 // rows that both runs have
	for _, name := range tasks {
		if err := checkScoring(name, from, to); err != nil {
			return nil, err
		}
		all, err := pairs(name, from, to)
		if err != nil {
			return nil, err
		}
		list, common = append(list, changesOf(name, all)...), common+len(all)
	}
	if common == 0 { // "no row differs" would read like a success
		return nil, nothingInCommon(baseline, candidate)
	}
	return list, nil
}

func commonTasks(a, b *Results) []string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(a.Results)) {
		if _, ok := b.Results[name]; ok {
			list = append(list, name)
		}
	}
	return list
}

func changesOf(task string, all []pair) (list []Change) {
	for _, p := range all {
		if p.same() {
			continue
		}
		list = append(list, Change{
			Task: task, Row: p.base.DocID, Context: p.base.Context, Target: p.base.Target,
			Baseline: p.base.texts(), Candidate: p.cand.texts(), Scores: [2]map[string]float64{p.base.Scores, p.cand.Scores},
		})
	}
	return list
}

// texts returns what is shown to people as a sample's answers: the error of the sample, its
// generated answers, or its log-probabilities, with the likeliest choice if there are choices.
func (s *Sample) texts() []string {
	switch {
	case s.Failed != "":
		return []string{s.Failed}
	case len(s.Logprobs) == len(s.Choices) && len(s.Logprobs) > 0:
		best := task.Likeliest(s.Logprobs, nil)
		each := make([]string, len(s.Choices))
		for i, choice := range s.Choices {
			each[i] = fmt.Sprintf("%q %.4f", choice, s.Logprobs[i])
		}
		return []string{fmt.Sprintf("%q (log-probabilities %s)", s.Choices[best], strings.Join(each, ", "))}
	case len(s.Logprobs) > 0:
		return []string{fmt.Sprintf("log-probabilities %.4f", s.Logprobs)}
	case len(s.Responses) > 0:
		return s.Responses
	}
	return []string{fmt.Sprintf("log-probability %.4f", s.Logprob)}
}
