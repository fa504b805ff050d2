package eval

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/ingot-run/ingot/eval/task"
	"github.com/ingot-run/ingot/openai"
)

// Names of the judge's files in the directory of a run. Only runs with tasks of type judge have
// them.
const (
	JudgeRequestsFile = "judge_requests.jsonl"
	JudgeAnswersFile  = "judge_answers.jsonl"
)

// Judged reports whether any of the tasks needs a judge.
func Judged(sets []*Set) bool {
	return slices.ContainsFunc(sets, func(s *Set) bool { return s.Type == task.Judge })
}

// PrepareJudge writes the requests to the judge. The answers of the run must be complete. If the
// directory already holds the same requests to the judge, PrepareJudge changes nothing. The error
// wraps ErrOtherRun if it holds other requests.
func PrepareJudge(folder string, sets []*Set) error {
	answers, err := readAnswers(filepath.Join(folder, AnswersFile))
	if err != nil {
		return err
	}
	var requests []request
	for _, s := range sets {
		if s.Type != task.Judge {
			continue
		}
		list, err := s.judgeRequests(answers)
		if err != nil {
			return err
		}
		requests = append(requests, list...)
	}
	return writeOnce(filepath.Join(folder, JudgeRequestsFile), requests)
}

// judgeID returns the custom id of a request to the judge, which is about one answer. item is the
// number of the row, pipeline the index of the filter pipeline, and answer the index among the
// answers that this pipeline returns.
func (s *Set) judgeID(item, pipeline, answer int) string {
	return s.rowID(item) + ":judge:" + strconv.Itoa(pipeline) + ":" + strconv.Itoa(answer)
}

func (s *Set) judgeRequests(answers map[string]*answer) ([]request, error) {
	var list []request
	for i := range s.Items {
		item := &s.Items[i]
		a, ok := answers[s.rowID(item.Number)]
		if !ok {
			return nil, s.unanswered(item)
		}
		if a.failed != "" {
			continue
		}
		for f := range s.Filters {
			filtered, err := s.Filters[f].Apply(a.texts, &item.Prompt)
			if err != nil {
				return nil, fmt.Errorf("filter the answer to row %d of task %s: %w", item.Number+1, s.Name, err)
			}
			for n, text := range filtered.Texts() {
				prompt, err := s.Rubric.Prompt(item.Prompt.Row(), &item.Prompt, text)
				if err != nil {
					return nil, fmt.Errorf("make the judge's prompt: task %s: row %d: rubric: %w", s.Name, item.Number+1, err)
				}
				zero := 0.0
				list = append(list, request{s.judgeID(item.Number, f, n), "POST", openai.Chat,
					body{Messages: []message{{Role: "user", Content: prompt}}, MaxTokens: s.Rubric.MaxTokens, Temperature: &zero}})
			}
		}
	}
	return list, nil
}

// judged scores a row by the judge's replies. If the judge fails or gives no score, the row has no
// score instead of a low one.
func (s *Set) judged(base Sample, item *Item, answers map[string]*answer) Sample {
	pipeline := 0
	for i := range s.Filters {
		if s.Filters[i].Name == base.Filter {
			pipeline = i
		}
	}
	sum := 0.0
	for n := range base.Filtered {
		a, ok := answers[s.judgeID(item.Number, pipeline, n)]
		switch {
		case !ok:
			base.Failed = "the judge has not answered"
			return base
		case a.failed != "":
			base.Failed = "the judge failed: " + a.failed
			return base
		}
		base.Judge = append(base.Judge, a.texts[0])
		v, ok := s.Rubric.Score(a.texts[0])
		if !ok {
			base.Failed = "the judge's reply has no score within the range"
			return base
		}
		sum += v
	}
	if len(base.Filtered) == 0 {
		base.Failed = "no answer is left after the filters"
		return base
	}
	base.Scores["judge_score"] = sum / float64(len(base.Filtered))
	return base
}

// readJudged reads the judge's replies. It returns none for a run without a judge.
func readJudged(folder string) (map[string]*answer, error) {
	answers, err := readAnswers(filepath.Join(folder, JudgeAnswersFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return answers, err
}
