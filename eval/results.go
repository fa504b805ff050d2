package eval

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/ingot-run/ingot/eval/task"
	"github.com/ingot-run/ingot/openai"
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
	Skipped   int `json:"skipped"`   // left out, because a score would need something that is not supported
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

// SamplesFile is the name of a task's samples file.
func SamplesFile(task string) string { return "samples_" + task + ".jsonl" }

// Prepare makes the directory of a run, with the requests of its tasks. If the directory holds the same requests, it is left as it is. The
// error is ErrOtherRun if it holds others.
func Prepare(folder string, sets []*Set) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("make the directory of a run: %w", err)
	}
	var requests []request
	for _, s := range sets {
		for i := range s.Items {
			requests = append(requests, s.requests(&s.Items[i])...)
		}
	}
	return writeOnce(filepath.Join(folder, RequestsFile), requests)
}

// writeOnce writes requests to a file. A file that holds the same ones is left as it is; the error is ErrOtherRun if it holds others.
func writeOnce(path string, requests []request) error {
	fresh := path + ".tmp"
	f, err := os.Create(fresh)
	if err != nil {
		return fmt.Errorf("write requests: %w", err)
	}
	defer os.Remove(fresh) //nolint:errcheck // it is renamed, or of no use
	if err := errors.Join(writeRequests(f, requests), f.Close()); err != nil {
		return fmt.Errorf("write requests: %w", err)
	}
	before, err := fileSum(path)
	if errors.Is(err, fs.ErrNotExist) {
		return os.Rename(fresh, path)
	}
	now, freshErr := fileSum(fresh)
	if err := errors.Join(err, freshErr); err != nil {
		return err
	}
	if before != now {
		return fmt.Errorf("%s: %w", filepath.Dir(path), ErrOtherRun)
	}
	return nil
}

func writeRequests(f io.Writer, requests []request) error {
	w := bufio.NewWriter(f)
	for _, r := range requests {
		line, err := openai.Marshal(r)
		if err != nil {
			return err
		}
		w.Write(append(line, '\n')) //nolint:errcheck // Flush reports it
	}
	return w.Flush()
}

func fileSum(path string) (string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read a run: %w", err)
	}
	return sum(string(data)), nil
}

// Score scores the answers in the directory of a run and writes its results and samples.
func Score(folder string, sets []*Set, groups []task.Group, c Config) (*Results, error) {
	answers, err := readAnswersFile(filepath.Join(folder, AnswersFile))
	if err != nil {
		return nil, err
	}
	judged, err := readJudged(folder)
	if err != nil {
		return nil, err
	}
	for _, a := range answers {
		if a.model != "" && !slices.Contains(c.ModelSHA256, a.model) {
			c.ModelSHA256 = append(c.ModelSHA256, a.model)
		}
	}
	slices.Sort(c.ModelSHA256)
	r := &Results{
		Results: map[string]map[string]float64{}, Versions: map[string]string{}, Shots: map[string]int{},
		HigherBetter: map[string]map[string]bool{}, Samples: map[string]Count{}, TaskHashes: map[string]string{}, Margins: map[string]float64{},
		Config: c, Date: time.Now().UTC().Truncate(time.Millisecond),
	}
	for _, s := range sets {
		samples, err := s.score(answers, judged)
		if err != nil {
			return nil, err
		}
		if err := writeSamples(filepath.Join(folder, SamplesFile(s.Name)), samples); err != nil {
			return nil, err
		}
		r.add(s, samples)
	}
	r.addGroups(groups)
	text, err := json.MarshalIndent(r, "", "  ")
	if err == nil {
		err = replaceFile(filepath.Join(folder, ResultsFile), append(text, '\n'))
	}
	if err != nil {
		return nil, fmt.Errorf("write results: %w", err)
	}
	return r, nil
}

func (r *Results) add(s *Set, samples []Sample) {
	name := s.Name
	r.Versions[name], r.Shots[name], r.TaskHashes[name], r.Margins[name] = s.Version, s.Shots, s.Hash, s.Margin
	r.Results[name], r.HigherBetter[name] = map[string]float64{}, map[string]bool{}
	count := Count{Original: len(s.Items)}
	for _, n := range s.Skipped {
		count.Skipped += n
	}
	scored := map[string][]Sample{}
	last := -1
	for _, sample := range samples {
		if sample.DocID != last {
			last = sample.DocID
			switch {
			case sample.Failed != "":
				count.Failed++
			case sample.Truncated && s.Type.Generates():
				count.Truncated++
			}
		}
		if sample.Failed == "" {
			scored[sample.Filter] = append(scored[sample.Filter], sample)
		}
	}
	count.Effective = count.Original - count.Failed
	r.Samples[name] = count
	for filter, list := range scored {
		for i := range s.Metrics {
			m := &s.Metrics[i]
			r.HigherBetter[name][m.Name] = m.HigherBetter
			value, stderr := aggregate(m, list)
			r.Results[name][m.Name+","+filter] = value
			if !math.IsNaN(stderr) {
				r.Results[name][m.Name+"_stderr,"+filter] = stderr
			}
		}
	}
}

func writeSamples(path string, samples []Sample) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("write samples: %w", err)
	}
	defer func() {
		if err = errors.Join(err, f.Close()); err != nil {
			err = fmt.Errorf("write samples: %w", err)
		}
	}()
	enc := json.NewEncoder(f)
	enc.SetEscapeHTML(false)
	for i := range samples {
		if err := enc.Encode(&samples[i]); err != nil {
			return err
		}
	}
	return nil
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

// ReadSamples reads the samples of a task of a run.
func ReadSamples(folder, task string) ([]Sample, error) {
	path := filepath.Join(folder, SamplesFile(task))
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read samples: %w", err)
	}
	defer f.Close() //nolint:errcheck // it was only read
	var all []Sample
	for dec := json.NewDecoder(f); dec.More(); {
		var s Sample
		if err := dec.Decode(&s); err != nil {
			return nil, fmt.Errorf("read %s: %w", path, err)
		}
		all = append(all, s)
	}
	return all, nil
}
