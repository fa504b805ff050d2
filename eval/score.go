package eval

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/ingot-run/ingot/eval/task"
)

// Sample is the score of a row after one of the task's pipelines: a line of a samples file.
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
	Logprobs  []float64          `json:"logprobs,omitempty"` // log-probabilities of the choices
	Logprob   float64            `json:"logprob,omitempty"`  // log-probability of the target or text
	Failed    string             `json:"failed,omitempty"`   // the error of a row without an answer
	Truncated bool               `json:"truncated,omitempty"`
	Judge     []string           `json:"judge,omitempty"`             // what the judge wrote about each answer
	Tokens    int                `json:"completion_tokens,omitempty"` // generated tokens
	Latency   float64            `json:"latency_ms,omitempty"`        // time of the slowest request of the row
	Metrics   []string           `json:"metrics"`
	Scores    map[string]float64 `json:"scores"`            // by metric; of metrics made of log-probabilities, the log-probability
	Weights   map[string]float64 `json:"weights,omitempty"` // words, bytes or instructions that a score is per, by metric; 1 without
}

// answer is the part of an answer that scores need.
type answer struct {
	texts     []string // texts of the choices
	truncated bool     // a choice reached max_tokens
	logprobs  scored
	failed    string  // the error; empty for an answer
	tokens    int     // generated tokens
	latency   float64 // from the request to the last token, in milliseconds
	model     string  // SHA-256
}

// scored are the log-probabilities of a text's tokens.
type scored struct {
	Tokens   []string             `json:"tokens"`
	Logprobs []*float64           `json:"token_logprobs"`
	Top      []map[string]float64 `json:"top_logprobs"`
	Offsets  []int                `json:"text_offset"`
}

// readAnswers reads the lines of an output file by their custom ids.
func readAnswers(r io.Reader) (map[string]*answer, error) {
	all := map[string]*answer{}
	lines := bufio.NewReaderSize(r, 1<<20)
	for n := 1; ; n++ {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 && err == nil {
			id, a, err := readAnswer(line)
			if err != nil {
				return nil, fmt.Errorf("read answers, line %d: %w", n, err)
			}
			all[id] = a
		}
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read answers: %w", err)
		}
	}
}

func readAnswer(line []byte) (id string, a *answer, err error) {
	var l struct {
		CustomID string `json:"custom_id"`
		Response *struct {
			Body struct {
				Choices []struct {
					Text    string `json:"text"`
					Message struct {
						Content string `json:"content"`
					} `json:"message"`
					Finish   string `json:"finish_reason"`
					Logprobs scored `json:"logprobs"`
				} `json:"choices"`
				Usage struct {
					Completion int `json:"completion_tokens"`
				} `json:"usage"`
			} `json:"body"`
		} `json:"response"`
		Error *struct {
			Code    string `json:"code"`
			Message string `json:"message"`
		} `json:"error"`
		Stats struct {
			Model string  `json:"model_sha256"`
			Total float64 `json:"total_ms"`
		} `json:"stats"`
	}
	if err := json.Unmarshal(line, &l); err != nil {
		return "", nil, err
	}
	a = &answer{model: l.Stats.Model}
	switch {
	case l.Error != nil:
		a.failed = l.Error.Code + ": " + l.Error.Message
	case l.Response == nil || len(l.Response.Body.Choices) == 0:
		a.failed = "the answer is empty"
	default:
		for _, c := range l.Response.Body.Choices {
			a.texts = append(a.texts, cmp.Or(c.Text, c.Message.Content))
			a.truncated = a.truncated || c.Finish == "length"
		}
		a.tokens, a.latency = l.Response.Body.Usage.Completion, l.Stats.Total
		a.logprobs = l.Response.Body.Choices[0].Logprobs
	}
	return l.CustomID, a, nil
}

// align sets the offsets of tokens in a text. Some servers give none; others count a token before the text, such as the token that begins
// every text. Tokens whose text is not in the text, such as parts of characters, keep the server's offsets.
func (s *scored) align(text string) {
	offsets := make([]int, len(s.Tokens))
	rest := text
	for i, token := range s.Tokens {
		offsets[i] = length(text) - length(rest)
		after, ok := strings.CutPrefix(rest, token)
		switch {
		case ok:
			rest = after
		case rest == "": // generated after it
		case i == 0 && len(s.Logprobs) > 0 && s.Logprobs[0] == nil:
			offsets[0] = -1
		default:
			s.shift(offsets[0])
			return
		}
	}
	s.Offsets = offsets
}

// shift corrects the server's offsets if they count a first token that is not the text.
func (s *scored) shift(first int) {
	if before := length(s.Tokens[0]); first < 0 && len(s.Offsets) > 1 && s.Offsets[0] == 0 && s.Offsets[1] == before {
		for i := range s.Offsets {
			s.Offsets[i] -= before
		}
	}
}

// between adds up the log-probabilities of the tokens that begin at or after one character and before another. greedy reports whether each of them is the
// likeliest token of its place. ok is false if there is none, or one has no log-probability.
func (s *scored) between(from, to int) (sum float64, greedy, ok bool) {
	greedy = true
	for i, offset := range s.Offsets {
		if offset < from || offset >= to {
			continue
		}
		if i >= len(s.Logprobs) || s.Logprobs[i] == nil {
			return 0, false, false
		}
		sum += *s.Logprobs[i]
		ok = true
		greedy = greedy && i < len(s.Top)
		if greedy {
			for _, p := range s.Top[i] {
				greedy = greedy && p <= *s.Logprobs[i]
			}
		}
	}
	return sum, greedy, ok
}

// score scores the rows of a task. judged are the judge's answers. Rows without an answer yet are an error.
func (s *Set) score(answers, judged map[string]*answer) ([]Sample, error) {
	var all []Sample
	for i := range s.Items {
		item := &s.Items[i]
		var given []*answer
		for _, r := range s.requests(item) {
			a, ok := answers[r.CustomID]
			if !ok {
				return nil, s.unanswered(item)
			}
			given = append(given, a)
		}
		all = append(all, s.samples(item, given, judged)...)
	}
	return all, nil
}

func (s *Set) unanswered(item *Item) error {
	return fmt.Errorf("task %s: row %d has no answer yet: run the evaluation again for the rest", s.Name, item.Number)
}

func (s *Set) samples(item *Item, given []*answer, judged map[string]*answer) []Sample {
	base := s.sample(item)
	for _, a := range given {
		base.Responses = append(base.Responses, a.texts...)
		base.Truncated = base.Truncated || a.truncated
		base.Failed = cmp.Or(base.Failed, a.failed)
		base.Tokens += a.tokens
		base.Latency = max(base.Latency, a.latency)
	}
	if base.Failed != "" {
		base.Filter = s.Filters[0].Name
		return []Sample{base}
	}
	switch s.Type {
	case task.MultipleChoice:
		return []Sample{s.choice(base, item, given)}
	case task.LogLikelihood, task.Perplexity:
		return []Sample{s.likelihood(base, item, given[0])}
	}
	list := make([]Sample, len(s.Filters))
	for i := range s.Filters {
		list[i] = s.generated(base, item, &s.Filters[i], judged)
	}
	return list
}

// sample returns what all samples of a row have in common.
func (s *Set) sample(item *Item) Sample {
	p := &item.Prompt
	target := strings.Join(p.Targets, "\n")
	if p.Right >= 0 {
		target = p.Choices[p.Right]
	}
	sample := Sample{
		DocID: item.Number, Doc: item.Doc, Target: target, Context: p.Context, Filter: "none", Scores: map[string]float64{},
		DocHash: sum(string(item.Doc)), PromptHash: sum(append([]string{p.Context}, p.Choices...)...), TargetHash: sum(target),
	}
	if s.Cluster != "" {
		var doc map[string]any
		if json.Unmarshal(item.Doc, &doc) == nil {
			sample.Cluster = fmt.Sprint(doc[s.Cluster])
		}
	}
	for _, m := range s.Metrics {
		sample.Metrics = append(sample.Metrics, m.Name)
	}
	return sample
}

func indicator(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// generated scores a generated answer after a pipeline.
func (s *Set) generated(base Sample, item *Item, p *task.Pipeline, judged map[string]*answer) Sample {
	base.Filter, base.Filtered, base.Scores = p.Name, p.Apply(base.Responses), map[string]float64{}
	if s.Type == task.Judge {
		return s.judged(base, item, judged)
	}
	if item.Prompt.Instructions != nil {
		return s.followed(base, item)
	}
	n := len(base.Filtered)
	for i := range s.Metrics {
		m := &s.Metrics[i]
		sum := 0.0
		for _, a := range base.Filtered {
			sum += m.Score(a, item.Prompt.Targets)
		}
		switch {
		case m.K > n:
			base.Failed = fmt.Sprintf("%d answers are left after the filters, and %s needs %d", n, m.Name, m.K)
			return base
		case m.K > 0:
			base.Scores[m.Name] = task.PassAtK(n, int(sum), m.K)
		case n == 0:
			base.Scores[m.Name] = 0
		default:
			base.Scores[m.Name] = sum / float64(n)
		}
	}
	return base
}

// choiceText returns a choice without what precedes it in the prompt.
func (s *Set) choiceText(p *task.Prompt, i int) string {
	if p.Contexts != nil {
		return strings.TrimPrefix(p.Contexts[i], p.Context)
	}
	return strings.TrimPrefix(p.Choices[i], s.TargetDelimiter)
}

// followed scores the answer of an IFEval row.
func (s *Set) followed(base Sample, item *Item) Sample {
	first := ""
	if len(base.Filtered) > 0 {
		first = base.Filtered[0]
	}
	strict, loose := item.Prompt.Follow(first)
	n := len(item.Prompt.Instructions)
	base.Weights = map[string]float64{task.InstructionStrict: float64(n), task.InstructionLoose: float64(n)}
	base.Scores[task.PromptStrict], base.Scores[task.PromptLoose] = indicator(strict == n), indicator(loose == n)
	base.Scores[task.InstructionStrict] = float64(strict) / float64(n)
	base.Scores[task.InstructionLoose] = float64(loose) / float64(n)
	return base
}

// boundary is where the continuation of a context begins, in characters: spaces at the end of a context belong to the continuation.
func boundary(context string) int { return length(strings.TrimRight(context, " \t\n")) }

// length is the length of a text in characters, as offsets count them.
func length(text string) int { return utf8.RuneCountInString(text) }

func (s *Set) choice(base Sample, item *Item, given []*answer) Sample {
	p := &item.Prompt
	base.Responses = nil
	for i, a := range given {
		text := p.ContextOf(i) + p.Choices[i]
		a.logprobs.align(text)
		total, _, ok := a.logprobs.between(boundary(p.ContextOf(i)), length(text))
		if !ok {
			base.Failed = fmt.Sprintf("choice %d has no log-probabilities", i+1)
			return base
		}
		base.Logprobs, base.Choices = append(base.Logprobs, total), append(base.Choices, s.choiceText(p, i))
	}
	plain := func(i int) string { return base.Choices[i] }
	for _, m := range s.Metrics {
		var size func(i int) int
		switch m.Name {
		case "acc_norm":
			size = func(i int) int { return length(plain(i)) }
		case "acc_bytes":
			size = func(i int) int { return len(plain(i)) }
		}
		base.Scores[m.Name] = indicator(task.Likeliest(base.Logprobs, size) == p.Right)
	}
	return base
}

func (s *Set) likelihood(base Sample, item *Item, a *answer) Sample {
	base.Responses = nil
	p := &item.Prompt
	text := strings.Join(p.Targets, "")
	from, to := boundary(p.Context), length(p.Context+text)
	a.logprobs.align(p.Context + text)
	if s.Type == task.Perplexity {
		from, to = 0, length(text)
		a.logprobs.skipFirst()
	}
	total, greedy, ok := a.logprobs.between(from, to)
	if !ok {
		base.Failed = "the text has no log-probabilities"
		return base
	}
	if p.Counted != "" {
		text = p.Counted
	}
	base.Logprob, base.Weights = total, map[string]float64{}
	for _, m := range s.Metrics {
		switch m.Name {
		case "acc":
			base.Scores[m.Name] = indicator(greedy)
		case "perplexity":
			base.Scores[m.Name], base.Weights[m.Name] = total, 1
		case "word_perplexity":
			base.Scores[m.Name], base.Weights[m.Name] = total, float64(task.Words(text))
		default: // byte_perplexity, bits_per_byte
			base.Scores[m.Name], base.Weights[m.Name] = total, float64(len(text))
		}
	}
	return base
}

// skipFirst leaves out the first token if it has no log-probability, because nothing precedes it.
func (s *scored) skipFirst() {
	if len(s.Logprobs) > 0 && len(s.Offsets) > 0 && len(s.Tokens) > 0 && s.Logprobs[0] == nil {
		s.Logprobs, s.Offsets, s.Tokens = s.Logprobs[1:], s.Offsets[1:], s.Tokens[1:]
		s.Top = s.Top[min(1, len(s.Top)):]
	}
}

// aggregate returns the score of a task by a metric, and the standard error of the score, or NaN if there is no standard error.
func aggregate(m *task.Metric, samples []Sample) (value, stderr float64) {
	var total, weight float64
	var scores []float64
	for i := range samples {
		v := samples[i].Scores[m.Name]
		total += v
		weight += samples[i].Weights[m.Name]
		scores = append(scores, v)
	}
	n := float64(len(scores))
	switch m.Aggregation {
	case "perplexity", "weighted_perplexity":
		return math.Exp(-total / weight), math.NaN()
	case "bits_per_byte":
		return -total / weight / math.Ln2, math.NaN()
	}
	mean, squares := total/n, 0.0
	if m.Aggregation == "weighted_mean" { // the ratio of sums, and the standard error of a ratio
		mean = 0
		for i := range samples {
			mean += scores[i] * samples[i].Weights[m.Name] / weight
		}
		for i := range samples {
			d := (scores[i] - mean) * samples[i].Weights[m.Name] * n / weight
			squares += d * d
		}
		return mean, math.Sqrt(squares / (n - 1) / n)
	}
	for _, v := range scores {
		squares += (v - mean) * (v - mean)
	}
	return mean, math.Sqrt(squares / (n - 1) / n)
}
