package eval

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ingot-run/ingot/eval/task"
)

// savedRun returns the directory with the files of a run of lm-evaluation-harness, and the time in
// the names of the newest ones. folder is this directory, or the one that the harness was given,
// which has a directory for each model. dir is empty if there are no such files. It is an error if
// there are several models.
func savedRun(folder string) (dir, at string, err error) {
	if at = savedIn(folder); at != "" {
		return folder, at, nil
	}
	entries, _ := os.ReadDir(folder) // the caller finds no run
	for _, e := range entries {
		model := filepath.Join(folder, e.Name())
		t := savedIn(model)
		if t != "" && dir != "" {
			return "", "", fmt.Errorf("read a run of the harness: %s has runs of several models, %q and %q: give the directory of one of them", folder, filepath.Base(dir), e.Name())
		}
		if t != "" {
			dir, at = model, t
		}
	}
	return dir, at, nil
}

// savedIn returns the time in the names of the harness's newest files in a directory. It is empty
// if there are none.
func savedIn(dir string) string {
	entries, _ := os.ReadDir(dir) // there are none
	for _, e := range slices.Backward(entries) {
		after, ok := strings.CutPrefix(e.Name(), "results_")
		if at, isJSON := strings.CutSuffix(after, ".json"); ok && isJSON {
			return at
		}
	}
	return ""
}

// readSavedResults reads results that lm-evaluation-harness has saved.
func readSavedResults(path string) (*Results, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read results of the harness: %w", err)
	}
	var saved struct {
		Results map[string]map[string]any   `json:"results"`
		Groups  map[string]map[string]any   `json:"groups"`
		Shots   map[string]int              `json:"n-shot"`
		Higher  map[string]map[string]*bool `json:"higher_is_better"`
		Samples map[string]Count            `json:"n-samples"`
		Hashes  map[string]string           `json:"task_hashes"`
		Date    float64                     `json:"date"`
		Model   string                      `json:"model_name"`
	}
	if err := json.Unmarshal(text, &saved); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	r := &Results{
		Results: map[string]Values{}, Groups: map[string]Values{}, Versions: map[string]string{}, Shots: saved.Shots,
		HigherBetter: map[string]map[string]bool{}, Samples: map[string]Count{}, TaskHashes: saved.Hashes, Margins: map[string]float64{},
		Config: Config{Model: saved.Model}, Date: time.UnixMilli(int64(saved.Date * 1000)).UTC(),
	}
	for name, scores := range saved.Results {
		n, isTask := saved.Samples[name]
		if !isTask { // a group
			r.Groups[name] = numbers(scores)
			continue
		}
		r.Results[name], r.HigherBetter[name], r.Margins[name] = numbers(scores), map[string]bool{}, task.DefaultMargin
		for metric, higher := range saved.Higher[name] {
			r.HigherBetter[name][metric] = higher == nil || *higher
		}
		n.Original = n.Effective // the rows beyond the limit are not in the samples
		r.Samples[name] = n
	}
	return r, nil
}

// numbers returns the scores among the values of a task's results.
func numbers(values map[string]any) map[string]float64 {
	scores := map[string]float64{}
	for key, v := range values {
		metric, _, ok := strings.Cut(key, ",")
		switch n, number := v.(float64); {
		case !ok:
		case number:
			scores[key] = n
		case v == nil && !strings.HasSuffix(metric, "_stderr"):
			scores[key] = math.NaN()
		}
	}
	return scores
}

func readSavedSamples(path string) (all []Sample, err error) {
	err = readLines(path, func(line []byte) error {
		s, err := readSavedSample(line)
		all = append(all, s)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read samples of the harness: %w", err)
	}
	return all, nil
}

// readSavedSample converts a line of the harness's samples to a sample.
func readSavedSample(line []byte) (Sample, error) {
	var saved savedSample
	var scores map[string]json.RawMessage
	if err := cmp.Or(json.Unmarshal(line, &saved), json.Unmarshal(line, &scores)); err != nil {
		return Sample{}, err
	}
	s := Sample{
		DocID: saved.DocID, Doc: saved.Doc, Target: saved.Target, Filter: saved.Filter, Metrics: saved.Metrics, Scores: map[string]float64{},
		DocHash: saved.DocHash, PromptHash: saved.PromptHash, TargetHash: saved.TargetHash,
	}
	for _, metric := range saved.Metrics {
		if v, ok := savedNumber(metric, scores[metric]); ok {
			s.Scores[metric] = v
		}
	}
	err := s.readResponses(&saved)
	var brier []json.RawMessage // the number of the right choice, and the choices' probabilities, as text in the harness
	var right int
	if json.Unmarshal(scores["brier_score"], &brier) == nil && len(brier) == 2 && json.Unmarshal(brier[0], &right) == nil && len(s.Logprobs) > 0 {
		s.Scores["brier_score"] = task.Brier(s.Logprobs, right)
	}
	return s, err
}

// savedNumber returns the score of a row by a metric: a number or a boolean, or what a list of the
// harness stands for: log-probability and number of words, or the numbers of the right and the
// chosen choice. Other lists, such as texts for BLEU, have no score of their own.
func savedNumber(metric string, raw json.RawMessage) (float64, bool) {
	var number float64
	var yes bool
	var list []float64
	switch {
	case string(raw) == "null":
		return math.NaN(), true
	case json.Unmarshal(raw, &number) == nil:
		return number, true
	case json.Unmarshal(raw, &yes) == nil:
		return indicator(yes), true
	case json.Unmarshal(raw, &list) != nil || len(list) != 2:
		return 0, false
	case metric == "f1" || metric == "mcc":
		return indicator(list[0] == list[1]), true
	}
	_, perplexity := possible[metric]
	return list[0], perplexity
}

// readResponses sets the answers or log-probabilities of a sample from the requests of its row.
func (s *Sample) readResponses(saved *savedSample) error {
	for i, each := range saved.Responses {
		arguments, _ := saved.Arguments[fmt.Sprintf("gen_args_%d", i)].(map[string]any)
		answers, ok := each.([]any)
		if !ok || len(answers) == 0 {
			return fmt.Errorf("row %d: the response %d is not a list", saved.DocID, i)
		}
		if i == 0 {
			s.Context, _ = arguments["arg_0"].(string)
		}
		_, generated := arguments["arg_1"].(map[string]any)
		for _, a := range answers {
			text, isText := a.(string)
			if generated && isText {
				s.Responses = append(s.Responses, text)
			}
		}
		if generated {
			continue
		}
		if err := s.readLogprob(answers[0], arguments, len(saved.Responses)); err != nil {
			return fmt.Errorf("row %d: %w", saved.DocID, err)
		}
	}
	if list, ok := saved.Filtered.([]any); ok && s.Responses != nil {
		for _, f := range list {
			s.Filtered = append(s.Filtered, fmt.Sprint(f))
		}
	}
	return nil
}

// readLogprob reads a log-probability, or a list of it and whether it is that of the most probable
// text. A row with several requests has choices.
func (s *Sample) readLogprob(v any, arguments map[string]any, requests int) error {
	if list, ok := v.([]any); ok && len(list) > 0 {
		v = list[0]
	}
	logprob, err := strconv.ParseFloat(fmt.Sprint(v), 64)
	if err != nil {
		return fmt.Errorf("read a log-probability: %w", err)
	}
	continuation, hasContext := arguments["arg_1"].(string)
	switch {
	case requests > 1:
		s.Logprobs, s.Choices = append(s.Logprobs, logprob), append(s.Choices, continuation)
	case hasContext:
		s.Logprob, s.Target = logprob, continuation
	default:
		s.Logprob, s.Target, s.Context = logprob, s.Context, ""
	}
	return nil
}
