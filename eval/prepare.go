// Package eval evaluates models: it makes the rows of evaluation tasks, which are answered as any file of rows is, scores the answers,
// and compares the scores of two runs. A run is a directory: requests.jsonl, answers.jsonl, results.json and a samples file per task,
// the last two laid out as EleutherAI's lm-evaluation-harness does.
package eval

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/ingot-run/ingot/eval/task"
	"github.com/ingot-run/ingot/openai"
	"github.com/ingot-run/ingot/ordered"
)

// Item is a row of a task with its prompt.
type Item struct {
	Number int // in the file of rows, from 0
	Doc    json.RawMessage
	Prompt task.Prompt
}

// Set is a task with its items.
type Set struct {
	*task.Task
	Items   []Item
	Hash    string         // hash of the task's settings and rows
	Skipped map[string]int // numbers of rows that are left out, by reason
}

// maxRow is the longest row of a file in bytes.
const maxRow = 16 << 20

// Load reads the rows of a task and makes their prompts. limit is the maximum number of rows; 0 for all.
func Load(t *task.Task, limit int) (*Set, error) {
	if t.Data == "" {
		return nil, fmt.Errorf("task %s: its rows are missing: name their file with \"data\" in the task, or with --data", t.Name)
	}
	docs, objects, err := readRows(t.Data)
	if err != nil {
		return nil, fmt.Errorf("task %s: %w", t.Name, err)
	}
	shots, err := newExamples(t, objects)
	if err != nil {
		return nil, fmt.Errorf("task %s: %w", t.Name, err)
	}
	s := &Set{Task: t, Skipped: map[string]int{}}
	hash := sha256.New()
	settings, err := json.Marshal([]any{t.Type, t.Repeats, t.Chat, t.Generation, t.Rubric})
	if err != nil {
		return nil, fmt.Errorf("task %s: %w", t.Name, err)
	}
	hash.Write(settings)
	for i, doc := range docs {
		if limit > 0 && len(s.Items) == limit {
			break
		}
		chosen, err := shots.choose(i, objects[i])
		if err != nil {
			return nil, fmt.Errorf("task %s: row %d of %s: %w", t.Name, i+1, t.Data, err)
		}
		p, err := t.Prompt(objects[i], chosen)
		if errors.Is(err, task.ErrSkip) {
			s.Skipped[err.Error()]++
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("task %s: row %d of %s: %w", t.Name, i+1, t.Data, err)
		}
		s.Items = append(s.Items, Item{i, doc, p})
		fmt.Fprintf(hash, "%q %q %q %q %d\n", p.Context, p.Contexts, p.Choices, p.Targets, p.Right) //nolint:errcheck // a hash does not fail
	}
	if len(s.Items) == 0 {
		reason := "it has no rows"
		for skipped := range s.Skipped {
			reason = skipped
		}
		return nil, fmt.Errorf("task %s: no row of %s can be asked: %s", t.Name, t.Data, reason)
	}
	s.Hash = hex.EncodeToString(hash.Sum(nil))
	return s, nil
}

func readRows(path string) (docs []json.RawMessage, objects []*ordered.Object, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, fmt.Errorf("read rows: %w", err)
	}
	defer f.Close() //nolint:errcheck // it was only read
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, maxRow)
	for n := 1; lines.Scan(); n++ {
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 {
			continue
		}
		v, err := ordered.ParseJSON(line)
		if err != nil {
			return nil, nil, fmt.Errorf("read %s:%d: %w", path, n, err)
		}
		object, ok := v.(*ordered.Object)
		if !ok {
			return nil, nil, fmt.Errorf("read %s:%d: the row is not a JSON object", path, n)
		}
		docs, objects = append(docs, bytes.Clone(line)), append(objects, object)
	}
	if err := lines.Err(); err != nil {
		return nil, nil, fmt.Errorf("read %s: %w", path, err)
	}
	return docs, objects, nil
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
	Prompt      *string   `json:"prompt,omitempty"`
	MaxTokens   int       `json:"max_tokens"`
	Temperature *float64  `json:"temperature,omitempty"`
	TopP        *float64  `json:"top_p,omitempty"`
	TopK        *int      `json:"top_k,omitempty"`
	Seed        *int64    `json:"seed,omitempty"`
	N           int       `json:"n,omitempty"`
	Stop        []string  `json:"stop,omitempty"`
	Echo        bool      `json:"echo,omitempty"`
	Logprobs    *int      `json:"logprobs,omitempty"`
}

type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// id identifies the request of a row, or of one of its choices.
func (s *Set) id(item, choice int) string {
	id := s.Name + ":" + strconv.Itoa(item)
	if s.Type.Generates() {
		return id
	}
	return id + ":" + strconv.Itoa(choice)
}

// requests returns the requests of a row. Choices follow one another, so that their context is computed once.
func (s *Set) requests(item *Item) []request {
	p := &item.Prompt
	switch s.Type {
	case task.Generate, task.Judge:
		return []request{s.generate(item)}
	case task.Perplexity:
		return []request{score(s.id(item.Number, 0), strings.Join(p.Targets, ""))}
	}
	list := make([]request, len(p.Choices))
	for i, c := range p.Choices {
		list[i] = score(s.id(item.Number, i), p.ContextOf(i)+c)
	}
	return list
}

func (s *Set) generate(item *Item) request {
	g := &s.Generation
	b := body{MaxTokens: g.MaxTokens, Temperature: &g.Temperature, Seed: g.Seed, N: s.Repeats}
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
	url := openai.Completions
	if s.Chat {
		url, b.Messages = openai.Chat, []message{{"user", item.Prompt.Context}}
	} else {
		b.Prompt = &item.Prompt.Context
	}
	return request{s.id(item.Number, 0), "POST", url, b}
}

// score asks for the log-probabilities of a text.
func score(id, text string) request {
	one := 1
	return request{id, "POST", openai.Completions, body{Prompt: &text, MaxTokens: 0, Echo: true, Logprobs: &one}}
}

// ErrOtherRun means that a directory holds a run with other requests.
var ErrOtherRun = errors.New("the directory holds another run: give an empty one, or the same tasks, rows and settings")

// sum is the start of a text's SHA-256, to compare texts of two runs.
func sum(parts ...string) string {
	h := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(h[:16])
}
