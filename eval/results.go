package eval

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// The files of a run's directory.
const (
	RequestsFile = "requests.jsonl"
	AnswersFile  = "answers.jsonl"
	ResultsFile  = "results.json"
)

// Results are the scores of a run: the content of results.json. Keys of scores are "metric,filter", and "metric_stderr,filter" for the
// standard error.
type Results struct {
	Results      map[string]map[string]float64 `json:"results"`
	Groups       map[string]map[string]float64 `json:"groups,omitempty"`
	Subtasks     map[string][]string           `json:"group_subtasks,omitempty"` // the tasks of each group
	Versions     map[string]string             `json:"versions"`
	Shots        map[string]int                `json:"n-shot"`
	HigherBetter map[string]map[string]bool    `json:"higher_is_better"`
	Samples      map[string]Count              `json:"n-samples"`
	TaskHashes   map[string]string             `json:"task_hashes"`
	Margins      map[string]float64            `json:"margins"`
	Config       Config                        `json:"config"`
	Date         time.Time                     `json:"date"`
}

// Count is the number of rows of a task.
type Count struct {
	Original  int `json:"original"`
	Effective int `json:"effective"` // with a score
	Failed    int `json:"failed"`    // without an answer: an error, not a wrong answer
	Truncated int `json:"truncated"` // whose answer reached the limit of tokens
	Skipped   int `json:"skipped"`   // left out: a score needs something that is not supported
}

// Config is what a run was made with.
type Config struct {
	Model        string   `json:"model,omitempty"`                // the name of its file, or that under which it is served
	Server       string   `json:"server,omitempty"`               // the address of the server that answered
	ModelSHA256  []string `json:"model_sha256"`                   // hashes of all models that answered
	ChatTemplate string   `json:"chat_template_sha256,omitempty"` // hash of the template in the model's file
	Limit        int      `json:"limit,omitempty"`
	Version      string   `json:"ingot_version"`
}

// ReadResults reads the results of a run.
func ReadResults(folder string) (*Results, error) {
	text, err := os.ReadFile(filepath.Join(folder, ResultsFile))
	if err != nil {
		return nil, fmt.Errorf("read the results of a run: %w", err)
	}
	r := new(Results)
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("read %s: %w", filepath.Join(folder, ResultsFile), err)
	}
	return r, nil
}
