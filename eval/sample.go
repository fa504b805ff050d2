package eval

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/ingot-run/ingot/eval/task"
	"github.com/ingot-run/ingot/internal/ordered"
)

// Sample is a line of a samples file: the answers and scores of a row after one of the task's
// filter pipelines.
type Sample struct {
	DocID      int             `json:"doc_id"` // number of the row in its file, from 0
	Doc        json.RawMessage `json:"doc"`
	Cluster    string          `json:"cluster,omitempty"`
	Context    string          `json:"context"`
	Target     string          `json:"target"`
	DocHash    string          `json:"doc_hash"`
	PromptHash string          `json:"prompt_hash"`
	TargetHash string          `json:"target_hash"`

	Responses []string           `json:"resps"`
	Filter    string             `json:"filter"`
	Filtered  []string           `json:"filtered_resps"`
	Choices   []string           `json:"choices,omitempty"`
	Logprobs  []float64          `json:"logprobs,omitempty"`  // log-probabilities of the choices
	Greedy    []bool             `json:"greedy,omitempty"`    // for each choice, or for the target: every token is the most probable one
	Logprob   float64            `json:"logprob,omitempty"`   // log-probability of the target or text
	Failed    string             `json:"failed,omitempty"`    // why the row has no score; empty if it has one
	Undecided []string           `json:"undecided,omitempty"` // metrics whose score may not be the harness's, because the comparison needs a program for algebra
	Truncated bool               `json:"truncated,omitempty"`
	Judge     []string           `json:"judge,omitempty"` // the judge's reply about each answer
	Tokens    int                `json:"completion_tokens,omitempty"`
	Latency   float64            `json:"latency_ms,omitempty"` // time of the slowest request of the row, in ms
	Metrics   []string           `json:"metrics"`
	Scores    Values             `json:"scores"`            // by metric; for perplexities, the log-probability
	Weights   map[string]float64 `json:"weights,omitempty"` // by metric: number of words, bytes or instructions of the row; see aggregate

	statistics map[string][]float64     // by metric; see task.Corpus
	items      map[string]ordered.Value // by metric that a Python function aggregates
	by         map[string]*task.Metric  // metrics of the scores if a Python function computes them; nil for those of the task
}

// FirstFailure returns the number of the first row of a task without a score, from 1, and why it
// has none. If all rows have a score, the number is 0.
func FirstFailure(folder, task string) (row int, reason string, err error) {
	samples, err := ReadSamples(folder, task)
	if i := slices.IndexFunc(samples, func(s Sample) bool { return s.Failed != "" }); i >= 0 {
		row, reason = samples[i].DocID+1, samples[i].Failed
	}
	return row, reason, err
}

// SamplesFile is the name of a task's samples file.
func SamplesFile(task string) string { return "samples_" + task + ".jsonl" }

// ReadSamples reads the samples of a task of a run, or those that lm-evaluation-harness has saved.
func ReadSamples(folder, task string) ([]Sample, error) {
	path := filepath.Join(folder, SamplesFile(task))
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		dir, at, savedErr := savedRun(folder)
		switch {
		case savedErr != nil:
			return nil, savedErr
		case at != "":
			return readSavedSamples(filepath.Join(dir, "samples_"+task+"_"+at+".jsonl"))
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read samples: %w", err)
	}
	defer f.Close() //nolint:errcheck // the file was only read
	var all []Sample
	for dec := json.NewDecoder(f); ; {
		var s Sample
		switch err := dec.Decode(&s); {
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			return nil, fmt.Errorf("read %s: %w", path, err)
		}
		all = append(all, s)
	}
}
