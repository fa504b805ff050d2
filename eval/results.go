package eval

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ingot-run/ingot/internal/textfmt"
)

// Names of the files in a run's directory.
const (
	RequestsFile = "requests.jsonl"
	AnswersFile  = "answers.jsonl"
	ResultsFile  = "results.json"
)

// Results are the scores of a run, as in results.json. The key of a score is "metric,filter", that
// of its standard error "metric_stderr,filter".
type Results struct {
	Results      map[string]Values          `json:"results"`
	Groups       map[string]Values          `json:"groups,omitempty"`
	Subtasks     map[string][]string        `json:"group_subtasks,omitempty"` // the tasks of each group
	Versions     map[string]string          `json:"versions"`
	Shots        map[string]int             `json:"n-shot"`
	HigherBetter map[string]map[string]bool `json:"higher_is_better"`
	Samples      map[string]Count           `json:"n-samples"`
	TaskHashes   map[string]string          `json:"task_hashes"`
	ScoreHashes  map[string]string          `json:"score_hashes,omitempty"` // task.Task.Scoring of the tasks; empty in runs of earlier versions
	Margins      map[string]float64         `json:"margins"`
	Config       Config                     `json:"config"`
	Date         time.Time                  `json:"date"`
}

// Count has the numbers of a task's rows.
type Count struct {
	Original  int `json:"original"`            // all rows of the run, with or without a score
	Effective int `json:"effective"`           // rows with a score
	Failed    int `json:"failed"`              // rows without a score; Sample.Failed has the reason
	Truncated int `json:"truncated"`           // rows whose answer was cut off at the token limit
	Undecided int `json:"undecided,omitempty"` // rows with a score that may not be the harness's; see Sample.Undecided
	NaN       int `json:"nan,omitempty"`       // rows with a score that is NaN, so that the mean is NaN
	Skipped   int `json:"skipped"`             // rows that were left out because their score needs something that is not supported
}

// MetricScore is a score of a task or a group.
type MetricScore struct {
	Metric, Filter string
	Value, Stderr  float64
	Certain        bool // Stderr is known
}

// Name returns the name of the score: the metric, and the filter if it has a name.
func (v MetricScore) Name() string {
	if v.Filter == "none" {
		return v.Metric
	}
	return v.Metric + "," + v.Filter
}

// Score returns a score of a task. ok is false if the run does not have it.
func (r *Results) Score(task, metric, filter string) (v MetricScore, ok bool) {
	scores := r.Results[task]
	v = MetricScore{Metric: metric, Filter: filter}
	v.Value, ok = scores[metric+","+filter]
	v.Stderr, v.Certain = scores[metric+"_stderr,"+filter]
	return v, ok
}

// Scores returns the scores in one of the maps of Results, in the order of metrics and filters.
func Scores(scores map[string]float64) []MetricScore {
	var list []MetricScore
	for _, key := range slices.Sorted(maps.Keys(scores)) {
		metric, filter, _ := strings.Cut(key, ",")
		if strings.HasSuffix(metric, "_stderr") {
			continue
		}
		v := MetricScore{Metric: metric, Filter: filter, Value: scores[key]}
		v.Stderr, v.Certain = scores[metric+"_stderr,"+filter]
		list = append(list, v)
	}
	return list
}

// Unanswered describes the tasks that lack so many answers that a gate would fail the run; it is
// empty if there are none.
func (r *Results) Unanswered() string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(r.Samples)) {
		if n := r.Samples[name]; TooManyFailed(n.Failed, n.Original) {
			parts = append(parts, fmt.Sprintf("%s: %d of %s have no answer", name, n.Failed, textfmt.Count(n.Original, "row")))
		}
	}
	return strings.Join(parts, "; ")
}

// Config describes the model, program and settings of a run.
type Config struct {
	Model        string   `json:"model,omitempty"`                // file name of the model, or its name on the server
	Server       string   `json:"server,omitempty"`               // address of the server that answered; empty for a local run
	ModelSHA256  []string `json:"model_sha256"`                   // hashes of all models that answered
	ChatTemplate string   `json:"chat_template_sha256,omitempty"` // SHA-256 of the chat template in the model file
	Limit        int      `json:"limit,omitempty"`                // maximum number of rows per task; 0 for all
	Version      string   `json:"ingot_version"`
}

// ReadResults reads the results of a run, or the newest results that lm-evaluation-harness has
// saved in the directory.
func ReadResults(folder string) (*Results, error) {
	text, err := os.ReadFile(filepath.Join(folder, ResultsFile))
	if errors.Is(err, fs.ErrNotExist) {
		dir, at, savedErr := savedRun(folder)
		switch {
		case savedErr != nil:
			return nil, savedErr
		case at != "":
			return readSavedResults(filepath.Join(dir, "results_"+at+".json"))
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read the results of a run: %w", err)
	}
	r := new(Results)
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("read %s: %w", filepath.Join(folder, ResultsFile), err)
	}
	return r, nil
}
