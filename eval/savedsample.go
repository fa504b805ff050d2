package eval

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/ingot-run/ingot/engine/jinja"
	"github.com/ingot-run/ingot/eval/task"
	"github.com/ingot-run/ingot/internal/ordered"
)

// savedSample is a line of the harness's samples file. The scores have the names of the metrics as
// keys.
type savedSample struct {
	DocID      int             `json:"doc_id"`
	Doc        json.RawMessage `json:"doc"`
	Target     string          `json:"target"`
	Arguments  map[string]any  `json:"arguments"`
	Responses  []any           `json:"resps"`
	Filtered   any             `json:"filtered_resps"`
	Filter     string          `json:"filter"`
	Metrics    []string        `json:"metrics"`
	DocHash    string          `json:"doc_hash"`
	PromptHash string          `json:"prompt_hash"`
	TargetHash string          `json:"target_hash"`
	scores     map[string]any
}

// MarshalJSON adds the scores to the fields.
func (s *savedSample) MarshalJSON() ([]byte, error) {
	type plain savedSample
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode((*plain)(s))
	text := bytes.TrimSuffix(b.Bytes(), []byte("}\n"))
	scores, scoresErr := json.Marshal(s.scores) // a sample has at least one
	return slices.Concat(text, []byte(","), bytes.TrimPrefix(scores, []byte("{"))), cmp.Or(err, scoresErr)
}

// saved returns the lines of a task's samples file, and the hash of the task. As in the harness,
// all rows of a filter precede those of the next one. Rows without a score are left out.
func (s *Set) saved(samples []Sample) (lines []savedSample, hash string) {
	items := map[int]*Item{}
	for i := range s.Items {
		items[s.Items[i].Number] = &s.Items[i]
	}
	var hashes strings.Builder
	for _, filter := range s.savedFilters() {
		for i := range samples {
			if samples[i].Filter == filter && samples[i].Failed == "" {
				line := s.savedSample(&samples[i], &items[samples[i].DocID].Prompt)
				lines = append(lines, line)
				hashes.WriteString(line.DocHash + line.PromptHash + line.TargetHash)
			}
		}
	}
	return lines, hexSum(hashes.String())
}

func (s *Set) savedFilters() []string {
	if !s.Type.Generates() {
		return []string{"none"}
	}
	var names []string
	for i := range s.Filters {
		names = append(names, s.Filters[i].Name)
	}
	return names
}

func (s *Set) savedSample(sample *Sample, p *task.Prompt) savedSample {
	doc := ordered.AppendJSON(nil, p.Row())
	line := savedSample{
		DocID: sample.DocID, Doc: doc, Target: p.Target, Arguments: map[string]any{}, Filter: sample.Filter, Metrics: sample.Metrics,
		DocHash: hexSum(indented(doc)), TargetHash: hexSum(p.Target), scores: map[string]any{},
	}
	for _, metric := range sample.Metrics {
		line.scores[metric] = s.savedScore(sample, p, metric)
	}
	prompt := p.ContextOf(0)
	switch {
	case s.Type == task.Perplexity:
		prompt = strings.Join(p.Targets, "")
		line.add([]any{jinja.Str(sample.Logprob)}, prompt)
	case !s.Type.Generates():
		for i, choice := range p.Choices {
			logprob := sample.Logprob
			if s.Type == task.MultipleChoice {
				logprob = sample.Logprobs[i]
			}
			line.add([]any{[]string{jinja.Str(logprob), jinja.Str(sample.Greedy[i])}}, p.ContextOf(i), choice)
		}
	default:
		if s.Chat {
			prompt = messagesText(p.ChatMessages(s.Multiturn))
		}
		line.add(sample.Responses, prompt, s.savedGeneration())
	}
	line.PromptHash, line.Filtered = hexSum(prompt), line.filtered(s, sample)
	return line
}

// add adds a request and the list of its responses.
func (s *savedSample) add(responses any, arguments ...any) {
	named := map[string]any{}
	for i, a := range arguments {
		named[fmt.Sprintf("arg_%d", i)] = a
	}
	s.Arguments[fmt.Sprintf("gen_args_%d", len(s.Responses))] = named
	s.Responses = append(s.Responses, responses)
}

// filtered returns the responses after the filters: of each request, the only one or a list.
func (s *savedSample) filtered(set *Set, sample *Sample) any {
	switch {
	case set.Type.Generates() && len(sample.Filtered) == 1:
		return sample.Filtered
	case set.Type.Generates():
		return [][]string{sample.Filtered}
	}
	list := make([]any, len(s.Responses))
	for i, each := range s.Responses {
		list[i] = each.([]any)[0] // see savedSample
	}
	return list
}

// savedScore returns what the harness logs as the score of a row by a metric: for metrics that are
// not means, what they are computed from.
func (s *Set) savedScore(sample *Sample, p *task.Prompt, metric string) any {
	v := sample.Scores[metric]
	switch metric {
	case "word_perplexity", "byte_perplexity", "bits_per_byte":
		return []float64{v, sample.Weights[metric]}
	case "f1", "mcc":
		if s.Type == task.MultipleChoice {
			return []int{p.Right, task.Likeliest(sample.Logprobs, nil)}
		}
	case "bleu", "chrf", "chrf++":
		return []string{p.Targets[0], sample.Filtered[0]}
	case "brier_score":
		return []any{p.Right, task.Probabilities(sample.Logprobs)}
	}
	return orNull(v)
}

// orNull returns a number as JSON can have it: the harness writes NaN, which is not valid.
func orNull(v float64) any {
	if math.IsNaN(v) {
		return nil
	}
	return max(-maxScore, min(v, maxScore))
}

func messagesText(messages []task.Message) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.Encode(messages) //nolint:errcheck,errchkjson // texts can be encoded
	return strings.TrimSuffix(b.String(), "\n")
}

// indented returns JSON as the harness writes a row before it hashes it.
func indented(doc []byte) string {
	var b bytes.Buffer
	json.Indent(&b, doc, "", "  ") //nolint:errcheck // it is JSON
	return strings.NewReplacer(`\u2028`, "\u2028", `\u2029`, "\u2029").Replace(b.String())
}
