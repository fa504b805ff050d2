// Package eval evaluates models. It writes the requests of evaluation tasks as a file of rows,
// scores the answers, and compares the scores of two runs. A run is a directory with
// requests.jsonl, answers.jsonl, results.json and a samples file per task. Results and samples have
// the layout of EleutherAI's lm-evaluation-harness ("the harness" in this module).
package eval

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/ingot-run/ingot/eval/task"
	"github.com/ingot-run/ingot/files/prompt"
	"github.com/ingot-run/ingot/openai"
)

// Prepare makes the directory of a run and writes the requests of its tasks. If the directory
// already holds the same requests, Prepare changes nothing. The error wraps ErrOtherRun if it holds
// other requests, unless nothing has been answered yet.
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
	path := filepath.Join(folder, RequestsFile)
	if unasked(folder) {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("replace the requests of a run: %w", err)
		}
	}
	return writeOnce(path, requests)
}

// unasked reports whether a run has no answer and no batch in a queue.
func unasked(folder string) bool {
	_, err := os.Stat(filepath.Join(folder, batchFile))
	answers, answersErr := os.Stat(filepath.Join(folder, AnswersFile))
	return errors.Is(err, fs.ErrNotExist) && (errors.Is(answersErr, fs.ErrNotExist) || answersErr == nil && answers.Size() == 0)
}

// writeOnce writes requests to a file, unless it holds the same ones. The error wraps ErrOtherRun
// if it holds other requests.
func writeOnce(path string, requests []request) error {
	fresh := path + ".tmp"
	defer os.Remove(fresh) //nolint:errcheck // fails after a success, since the file was renamed
	if err := writeLines(fresh, requests); err != nil {
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

// request is a row for `ingot run` or `ingot enqueue`.
type request struct {
	CustomID string          `json:"custom_id"`
	Method   string          `json:"method"`
	URL      openai.Endpoint `json:"url"`
	Body     body            `json:"body"`
}

type body struct {
	Messages    []message `json:"messages,omitempty"`
	Continue    bool      `json:"continue_final_message,omitempty"`
	Prompt      *string   `json:"prompt,omitempty"`
	MaxTokens   int       `json:"max_tokens"`
	Temperature *float64  `json:"temperature,omitempty"`
	TopP        *float64  `json:"top_p,omitempty"`
	TopK        *int      `json:"top_k,omitempty"`
	Seed        *int64    `json:"seed,omitempty"`
	N           int       `json:"n,omitempty"`
	Stop        []string  `json:"stop,omitempty"`
	Echo        bool      `json:"echo,omitempty"`
	Prefix      bool      `json:"prefix_token,omitempty"` // without it, a model without BOS does not score the first token
	Logprobs    *int      `json:"logprobs,omitempty"`
	Form        *form     `json:"structured_outputs,omitempty"`
}

// form is the form that an answer must have: one of its fields.
type form struct {
	Choice []string `json:"choice,omitempty"`
	Regex  string   `json:"regex,omitempty"`
}

type message = task.Message

// rowID returns the custom id of the request of a row whose answers are generated.
func (s *Set) rowID(item int) string { return s.Name + ":" + strconv.Itoa(item) }

// choiceID returns the custom id of the request for the log-probability of a choice or a text.
func (s *Set) choiceID(item, choice int) string { return s.rowID(item) + ":" + strconv.Itoa(choice) }

// requests returns the requests of a row. The requests for a row's choices are adjacent, so that
// the prefix cache still has their context.
func (s *Set) requests(item *Item) []request {
	p := &item.Prompt
	switch s.Type {
	case task.Generate, task.Judge:
		return []request{s.generate(item)}
	case task.Perplexity:
		return []request{score(s.choiceID(item.Number, 0), "", strings.Join(p.Targets, ""))}
	}
	list := make([]request, len(p.Choices))
	for i, c := range p.Choices {
		list[i] = score(s.choiceID(item.Number, i), p.ContextOf(i), c)
	}
	return list
}

func (s *Set) generate(item *Item) request {
	g := &s.Generation
	b := body{MaxTokens: g.MaxTokens, Temperature: &g.Temperature, N: s.Repeats}
	if g.Seed != nil { // the same seed for all rows would give related answers
		b.Seed = new(prompt.RowSeed(strconv.FormatInt(*g.Seed, 10), item.Number+1))
	}
	for _, stop := range g.Until {
		if stop != "" {
			b.Stop = append(b.Stop, stop)
		}
	}
	if g.TopP > 0 {
		b.TopP = &g.TopP
	}
	if g.TopK > 0 {
		b.TopK = &g.TopK
	}
	if len(g.Choices) > 0 || g.Regex != "" {
		b.Form = &form{g.Choices, g.Regex}
	}
	url := openai.Completions
	if s.Chat {
		url, b.Messages = openai.Chat, item.Prompt.ChatMessages(s.Multiturn)
		b.Continue = b.Messages[len(b.Messages)-1].Role == "assistant"
	} else {
		b.Prompt = &item.Prompt.Context
	}
	return request{s.rowID(item.Number), "POST", url, b}
}

// score returns the request for the log-probability of a text after a context.
func score(id, context, text string) request {
	one := 1
	text = context + text
	return request{id, "POST", openai.Completions, body{Prompt: &text, MaxTokens: 0, Echo: true, Logprobs: &one, Prefix: boundary(context) == 0}}
}

// ErrOtherRun means that a directory holds a run with other requests.
var ErrOtherRun = errors.New("the directory holds another run: give an empty directory, or the same tasks, rows and settings as that run")
