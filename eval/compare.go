package eval

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/ingot-run/ingot/eval/statistics"
	"github.com/ingot-run/ingot/internal/textfmt"
)

// Compared is the comparison of a candidate run with a baseline run, for one task, metric and
// filter.
type Compared struct {
	Task   string `json:"task"`
	Metric string `json:"metric"`
	Filter string `json:"filter"`

	Baseline  float64 `json:"baseline"`
	Candidate float64 `json:"candidate"`
	statistics.Comparison

	Adjusted float64            `json:"p_adjusted"` // one-sided p-value of a loss, adjusted for the number of comparisons; see statistics.MaxT
	Margin   float64            `json:"margin"`
	Changed  int                `json:"changed"` // rows whose answer or score differs
	Failed   int                `json:"failed"`  // rows without a score in the candidate (see Sample.Failed), or whose score is NaN there alone
	Cut      int                `json:"cut"`     // rows whose answer in the candidate was cut off at the token limit; they are scored like others
	Verdict  statistics.Verdict `json:"verdict"`
}

// ErrOtherPrompts means that two runs have different prompts, or different settings of a task.
var ErrOtherPrompts = errors.New("the prompts or the task's settings differ, so the scores cannot be compared: run the same tasks with the same rows and settings")

// ErrOtherTasks means that a gate got two runs with different tasks.
var ErrOtherTasks = errors.New("only one of the runs has the task, so a gate cannot compare it: run the baseline's tasks, or pin another baseline")

// ErrOtherScores means that two runs have the same prompts, but score the answers differently.
var ErrOtherScores = errors.New("the metrics, the filters or the Python functions differ: score both runs again with the same task files (ingot eval run keeps existing answers)")

// maxFailedShare is the maximum share of rows without a score. A run with a larger share fails its
// gate, whatever its other rows score.
const maxFailedShare = 0.01

// TooManyFailed reports whether so many rows have no score that the run fails, whatever its other
// rows score.
func TooManyFailed(failed, rows int) bool { return float64(failed) > maxFailedShare*float64(rows) }

// CompareAll compares two runs like Compare, but its error wraps ErrOtherTasks if one run has a
// task that the other lacks.
func CompareAll(baseline, candidate string, margin float64) ([]Compared, error) {
	return compare(baseline, candidate, margin, true)
}

// Compare compares two runs, given by their directories, on all tasks that both have. margin is the
// accepted loss. If it is negative, each task's Margin is used.
func Compare(baseline, candidate string, margin float64) ([]Compared, error) {
	return compare(baseline, candidate, margin, false)
}

func compare(baseline, candidate string, margin float64, sameTasks bool) ([]Compared, error) {
	from, to, err := openRuns(baseline, candidate)
	if err != nil {
		return nil, err
	}
	base, cand := from.results, to.results
	if sameTasks {
		for _, runs := range [][2]*Results{{base, cand}, {cand, base}} {
			for _, task := range slices.Sorted(maps.Keys(runs[0].Results)) {
				if _, ok := runs[1].Results[task]; !ok {
					return nil, fmt.Errorf("compare %s and %s: task %s: %w", baseline, candidate, task, ErrOtherTasks)
				}
			}
		}
	}
	var list []Compared
	var tests [][]statistics.Observation
	for _, task := range slices.Sorted(maps.Keys(base.Results)) {
		if _, ok := cand.Results[task]; !ok {
			continue
		}
		if base.TaskHashes[task] != cand.TaskHashes[task] {
			return nil, fmt.Errorf("compare task %s of %s and %s: %w", task, baseline, candidate, ErrOtherPrompts)
		}
		if err := checkScoring(task, from, to); err != nil {
			return nil, err
		}
		m := base.Margins[task]
		if margin >= 0 {
			m = margin
		}
		all, err := pairs(task, from, to)
		if err != nil {
			return nil, err
		}
		compared, observed := compareTask(task, all, m, base.HigherBetter[task])
		list, tests = append(list, compared...), append(tests, observed...)
	}
	if len(list) == 0 {
		return nil, nothingInCommon(baseline, candidate)
	}
	setVerdicts(list, tests)
	return list, nil
}

func nothingInCommon(baseline, candidate string) error {
	return fmt.Errorf("compare %s and %s: they have no task in common, or no row of one", baseline, candidate)
}

// checkScoring returns an error that wraps ErrOtherScores if two runs score the answers of a task
// differently. Runs of earlier versions have only the names of metrics and filters.
func checkScoring(task string, baseline, candidate run) error {
	base, cand := baseline.results, candidate.results
	a, b := base.ScoreHashes[task], cand.ScoreHashes[task]
	if a == b || a == "" || b == "" {
		if sameScores(base.Results[task], cand.Results[task]) {
			return nil
		}
	}
	return fmt.Errorf("compare task %s of %s and %s: %w", task, baseline.folder, candidate.folder, ErrOtherScores)
}

// sameScores reports whether two runs have scores of a task by the same metrics and filters. It is
// also true if a run has no scores at all, because it has no answers: TooManyFailed decides about
// such a run.
func sameScores(base, cand map[string]float64) bool {
	names := func(scores map[string]float64) (list []string) {
		for _, v := range Scores(scores) {
			list = append(list, v.Metric+","+v.Filter)
		}
		return list
	}
	return len(base) == 0 || len(cand) == 0 || slices.Equal(names(base), names(cand))
}

// setVerdicts sets the Verdict of each comparison. It first adjusts their p-values for the number
// of comparisons. tests has the differences of each.
func setVerdicts(list []Compared, tests [][]statistics.Observation) {
	for i, p := range statistics.MaxT(tests) {
		c := &list[i]
		c.Adjusted = max(c.Worse, p)
		c.Verdict = c.Gate(c.Margin, c.Adjusted, c.Changed == 0)
		if TooManyFailed(c.Failed, c.N+c.Failed) {
			c.Verdict = statistics.Fail
		}
	}
}

// Verdict returns the verdict of a gate: the worst verdict of its comparisons.
func Verdict(list []Compared) statistics.Verdict {
	verdict := statistics.Pass
	for _, c := range list {
		if c.Verdict == statistics.Fail {
			return statistics.Fail
		}
		if c.Verdict == statistics.Inconclusive {
			verdict = statistics.Inconclusive
		}
	}
	return verdict
}

type run struct {
	folder  string
	results *Results
}

// openRuns reads the results of two runs. If only one of them is in the harness's format, the files
// that Save wrote about the other one are read.
func openRuns(baseline, candidate string) (from, to run, err error) {
	folders := []string{baseline, candidate}
	_, baseErr := os.Stat(filepath.Join(baseline, ResultsFile))
	_, candErr := os.Stat(filepath.Join(candidate, ResultsFile))
	if (baseErr == nil) != (candErr == nil) {
		for i := range folders {
			saved := filepath.Join(folders[i], "lm-eval")
			if _, at, err := savedRun(saved); err == nil && at != "" {
				folders[i] = saved
			}
		}
	}
	if from, err = openRun(folders[0]); err == nil {
		to, err = openRun(folders[1])
	}
	return from, to, err
}

func openRun(folder string) (r run, err error) {
	r.folder = folder
	r.results, err = ReadResults(folder)
	return r, err
}

type sampleKey struct {
	doc    int
	filter string
}

// samples returns the samples of a task, and the same by row and filter. It returns an error unless
// all rows of the run have a sample: a gate must not pass because rows are missing from a file.
func (r run) samples(task string) ([]Sample, map[sampleKey]*Sample, error) {
	all, err := ReadSamples(r.folder, task)
	if err != nil {
		return nil, nil, err
	}
	byKey, rows := map[sampleKey]*Sample{}, map[int]bool{}
	for i := range all {
		byKey[sampleKey{all[i].DocID, all[i].Filter}] = &all[i]
		rows[all[i].DocID] = true
	}
	if want := r.results.Samples[task].Original; len(rows) != want || len(byKey) != len(all) {
		return nil, nil, fmt.Errorf("%s is damaged: it has %s of %s, but %s counts %d: run the evaluation again in this directory, which keeps its answers",
			filepath.Join(r.folder, SamplesFile(task)), textfmt.Count(len(all), "sample"), textfmt.Count(len(rows), "row"), ResultsFile, want)
	}
	return all, byKey, nil
}

type pair struct{ base, cand *Sample }

// pairs joins the samples of two runs by row and filter. It leaves out samples that only one of the
// runs has.
func pairs(task string, baseline, candidate run) ([]pair, error) {
	base, _, err := baseline.samples(task)
	if err != nil {
		return nil, err
	}
	_, byKey, err := candidate.samples(task)
	if err != nil {
		return nil, err
	}
	var list []pair
	for i := range base {
		b := &base[i]
		c, ok := byKey[sampleKey{b.DocID, b.Filter}]
		if !ok {
			continue
		}
		if b.PromptHash != c.PromptHash || b.DocHash != c.DocHash {
			return nil, fmt.Errorf("compare row %d of task %s: %w", b.DocID+1, task, ErrOtherPrompts)
		}
		list = append(list, pair{b, c})
	}
	return list, nil
}

func compareTask(task string, all []pair, margin float64, higher map[string]bool) (list []Compared, tests [][]statistics.Observation) {
	byFilter := map[string][]pair{}
	for _, p := range all {
		byFilter[p.base.Filter] = append(byFilter[p.base.Filter], p)
	}
	for _, filter := range slices.Sorted(maps.Keys(byFilter)) {
		for _, metric := range slices.Sorted(maps.Keys(higher)) {
			if onlyOfRuns(byFilter[filter], metric) {
				continue
			}
			c, observed := comparePairs(byFilter[filter], metric, higher[metric])
			c.Task, c.Filter, c.Margin = task, filter, margin
			for i := range observed {
				observed[i].Unit = task + "\x00" + observed[i].Unit
			}
			list, tests = append(list, c), append(tests, observed)
		}
	}
	return list, tests
}

// onlyOfRuns reports whether the rows have no scores by a metric, as in samples of the harness that
// have texts for BLEU.
func onlyOfRuns(list []pair, metric string) bool {
	scored := false
	for _, p := range list {
		scored = scored || p.base.Failed == ""
		if _, ok := p.base.Scores[metric]; ok {
			return false
		}
	}
	return scored
}

// comparePairs compares the scores of rows that both runs answered. Log-probabilities are compared
// per byte of the text; higher is better, even if the metric is a perplexity. Scores of other
// metrics of which lower is better are negated for the comparison. higher reports whether a higher
// value of the metric is better.
func comparePairs(list []pair, metric string, higher bool) (Compared, []statistics.Observation) {
	c := Compared{Metric: metric}
	var base, cand []float64
	var clusters, rows []string
	sign := 1.0
	for _, p := range list {
		if !p.same() {
			c.Changed++
		}
		if p.cand.Failed != "" {
			c.Failed++
		}
		if p.cand.Truncated && len(p.cand.Responses) > 0 { // only generated answers have responses
			c.Cut++
		}
		if p.base.Failed != "" || p.cand.Failed != "" {
			continue
		}
		if !isNumber(p.base.Scores[metric]) || !isNumber(p.cand.Scores[metric]) {
			if isNumber(p.base.Scores[metric]) {
				c.Failed++
			}
			continue
		}
		unit := 1.0
		if p.base.Logprob != 0 && ofLogprobs[metric] {
			unit = float64(max(1, len(p.base.Target)))
		} else if !higher {
			unit, sign = -1, -1
		}
		base, cand = append(base, p.base.Scores[metric]/unit), append(cand, p.cand.Scores[metric]/unit)
		rows = append(rows, strconv.Itoa(p.base.DocID))
		if p.base.Cluster != "" {
			clusters = append(clusters, p.base.Cluster)
		}
	}
	if len(clusters) < len(base) {
		clusters = nil
	} else {
		rows = clusters
	}
	c.Comparison = statistics.Compare(base, cand, clusters)
	for i := range base {
		c.Baseline += sign * base[i] / float64(len(base))
		c.Candidate += sign * cand[i] / float64(len(base))
	}
	return c, observations(rows, base, cand)
}

// ofLogprobs are the metrics whose scores of rows are log-probabilities.
var ofLogprobs = map[string]bool{"perplexity": true, "word_perplexity": true, "byte_perplexity": true, "bits_per_byte": true}

// observations returns the differences of rows, or their sums by cluster. units has the number or
// the cluster of each row.
func observations(units []string, base, cand []float64) []statistics.Observation {
	var list []statistics.Observation
	at := map[string]int{}
	for i, unit := range units {
		k, known := at[unit]
		if !known {
			k = len(list)
			at[unit] = k
			list = append(list, statistics.Observation{Unit: unit})
		}
		list[k].Difference += cand[i] - base[i]
	}
	return list
}

// same reports whether a row has the same answer and the same scores in both runs. A judge
// can give different scores to the same answer.
func (p pair) same() bool {
	return maps.EqualFunc(p.base.Scores, p.cand.Scores, near) && p.base.Failed == p.cand.Failed && slices.Equal(p.base.Responses, p.cand.Responses) &&
		slices.EqualFunc(p.base.Logprobs, p.cand.Logprobs, near) && near(p.base.Logprob, p.cand.Logprob)
}

// near reports whether two log-probabilities or scores differ by no more than rounding: the last
// digits of float32 depend on the device.
func near(a, b float64) bool {
	return math.Abs(a-b) <= 1e-5*max(1, math.Abs(a)) || math.IsNaN(a) && math.IsNaN(b)
}
