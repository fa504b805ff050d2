package openai

import (
	"encoding/json"
	"math"
	"strings"

	"github.com/ingot-run/ingot/engine/generation"
)

// minLogprob stands for minus infinity, which JSON lacks. OpenAI's responses use the same number.
const minLogprob = -9999.0

type logprob float64

// MarshalJSON writes values that are not finite as minLogprob.
func (l logprob) MarshalJSON() ([]byte, error) {
	v := float64(l)
	if math.IsNaN(v) || math.IsInf(v, 0) {
		v = minLogprob
	}
	return json.Marshal(v)
}

type chatLogprobs struct {
	Content []chatToken `json:"content"`
	Refusal *string     `json:"refusal"` // a field of OpenAI; always null
}

type chatToken struct {
	tokenLogprob
	Top []tokenLogprob `json:"top_logprobs"`
}

// tokenLogprob is a token with its log-probability. Token is the token's text, with U+FFFD in place
// of incomplete characters. Bytes has the token's exact bytes; in JSON it is a list of numbers.
type tokenLogprob struct {
	Token   string  `json:"token"`
	Logprob logprob `json:"logprob"`
	Bytes   []int   `json:"bytes"`
}

// chatLogprobs returns the log-probabilities of a chat's answer, given its tokens, its finish
// reason and the stop string that ended it. It returns nil if the request does not ask for them. It
// omits a stop token at the end, which is not part of the message.
func (r *Request) chatLogprobs(tokens []generation.TokenLogprob, reason generation.FinishReason, stop string) *chatLogprobs {
	if !r.settings.Logprobs {
		return nil
	}
	if n := len(tokens); n > 0 && reason != "" && reason != generation.FinishLength && stop == "" {
		tokens = tokens[:n-1]
	}
	l := &chatLogprobs{Content: make([]chatToken, len(tokens))}
	for i, t := range tokens {
		top := make([]tokenLogprob, len(t.Top))
		for k, other := range t.Top {
			top[k] = newTokenLogprob(other)
		}
		l.Content[i] = chatToken{newTokenLogprob(t), top}
	}
	return l
}

func newTokenLogprob(t generation.TokenLogprob) tokenLogprob {
	bytes := make([]int, len(t.Bytes))
	for i, b := range t.Bytes {
		bytes[i] = int(b)
	}
	return tokenLogprob{t.Text, logprob(t.Logprob), bytes}
}

// completionLogprobs are the log-probabilities of a completion, as lists of equal length. The
// tokens of an echoed prompt come first. The first token of the prompt has neither a
// log-probability nor alternatives, because no token precedes it.
type completionLogprobs struct {
	Tokens     []string             `json:"tokens"`
	Logprobs   []*logprob           `json:"token_logprobs"`
	Top        []map[string]logprob `json:"top_logprobs"` // empty if the request asks for no alternatives
	TextOffset []int                `json:"text_offset"`  // offset of each token in the text, in characters
}

// newCompletionLogprobs returns the lists for a completion. prompt and prefix are the tokens and
// the text of an echoed prompt.
func newCompletionLogprobs(prefix string, prompt, answer []generation.TokenLogprob, top int) *completionLogprobs {
	l := newLogprobLists(len(prompt)+len(answer), top)
	var o offsets
	for i, t := range prompt {
		// If prefix does not begin with the first token, that token is a BOS, which is not in the
		// text.
		inText := i > 0 || strings.HasPrefix(prefix, string(t.Bytes))
		l.add(t, i == 0, o.next(t, inText), top)
	}
	l.addAnswer(answer, &o, top)
	return l
}

func newLogprobLists(n, top int) *completionLogprobs {
	l := &completionLogprobs{Tokens: make([]string, 0, n), Logprobs: make([]*logprob, 0, n), TextOffset: make([]int, 0, n)}
	if top > 0 {
		l.Top = make([]map[string]logprob, 0, n)
	}
	return l
}

func (l *completionLogprobs) addAnswer(tokens []generation.TokenLogprob, o *offsets, top int) {
	for _, t := range tokens {
		l.add(t, false, o.next(t, true), top)
	}
}

// add appends a token to the lists. first reports whether it is the first token of a prompt, which
// has no log-probability.
func (l *completionLogprobs) add(t generation.TokenLogprob, first bool, offset, top int) {
	l.Tokens = append(l.Tokens, t.Text)
	l.TextOffset = append(l.TextOffset, offset)
	var p *logprob
	var others map[string]logprob
	if !first {
		value := logprob(t.Logprob)
		p, others = &value, alternatives(t)
	}
	l.Logprobs = append(l.Logprobs, p)
	if top > 0 {
		l.Top = append(l.Top, others)
	}
}

// offsets computes where tokens begin in a text, in characters. begun is the number of characters
// so far, including an incomplete last one.
type offsets struct{ begun int }

func (o *offsets) next(t generation.TokenLogprob, inText bool) int {
	at := o.begun
	if len(t.Bytes) > 0 && isContinuation(t.Bytes[0]) && at > 0 {
		at-- // the token continues a character of the previous token
	}
	if inText {
		o.begun += characters(t.Bytes)
	}
	return at
}

// alternatives maps the texts of the most likely tokens, and of the chosen token, to their
// log-probabilities. If two tokens have the same text, the larger log-probability is used.
func alternatives(t generation.TokenLogprob) map[string]logprob {
	m := map[string]logprob{}
	for _, o := range t.Top {
		p := logprob(o.Logprob)
		if had, ok := m[o.Text]; ok {
			p = max(p, had)
		}
		m[o.Text] = p
	}
	if _, ok := m[t.Text]; !ok {
		m[t.Text] = logprob(t.Logprob)
	}
	return m
}

// isContinuation reports whether a byte is a UTF-8 continuation byte, which no character begins
// with.
func isContinuation(b byte) bool { return b&0xC0 == 0x80 }

// characters returns the number of characters whose first byte is in bytes.
func characters(bytes []byte) int {
	n := 0
	for _, b := range bytes {
		if !isContinuation(b) {
			n++
		}
	}
	return n
}
