package openai

import (
	"encoding/json"
	"math"
	"strings"

	"github.com/ingot-run/ingot/generation"
)

// leastLogprob stands for impossible tokens, as in OpenAI's responses: JSON has no infinity.
const leastLogprob = -9999.0

// logprob is a log-probability that JSON can hold.
type logprob float64

// MarshalJSON writes what is not finite as leastLogprob.
func (l logprob) MarshalJSON() ([]byte, error) {
	v := float64(l)
	if math.IsNaN(v) || math.IsInf(v, 0) {
		v = leastLogprob
	}
	return json.Marshal(v)
}

// scored are the tokens of an answer whose log-probabilities are shown: all but a stop id.
func scored(c generation.Choice) []generation.TokenLogprob {
	if n := len(c.Logprobs); n > 0 && c.FinishReason == generation.FinishStop && c.StopReason == "" {
		return c.Logprobs[:n-1]
	}
	return c.Logprobs
}

// chatLogprobs are the log-probabilities of a chat's answer.
type chatLogprobs struct {
	Content []chatToken `json:"content"`
	Refusal *string     `json:"refusal"` // OpenAI's; always null
}

type chatToken struct {
	tokenLogprob
	Top []tokenLogprob `json:"top_logprobs"`
}

// tokenLogprob is a token. Bytes is a list of numbers in JSON, exact where Token is part of a character.
type tokenLogprob struct {
	Token   string  `json:"token"`
	Logprob logprob `json:"logprob"`
	Bytes   []int   `json:"bytes"`
}

func newChatLogprobs(tokens []generation.TokenLogprob) *chatLogprobs {
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

// completionLogprobs are the log-probabilities of a completion, lists of equal length. Where the prompt is echoed its tokens
// come first; the first of them follows nothing, so that it has neither a log-probability nor alternatives.
type completionLogprobs struct {
	Tokens     []string             `json:"tokens"`
	Logprobs   []*logprob           `json:"token_logprobs"`
	Top        []map[string]logprob `json:"top_logprobs"` // empty where none were asked for
	TextOffset []int                `json:"text_offset"`  // in characters
}

// newCompletionLogprobs lists the tokens of an echoed prompt, which reads prefix, and those of the answer.
func newCompletionLogprobs(prefix string, prompt, answer []generation.TokenLogprob, top int) *completionLogprobs {
	n := len(prompt) + len(answer)
	l := &completionLogprobs{make([]string, 0, n), make([]*logprob, 0, n), make([]map[string]logprob, 0, n), make([]int, 0, n)}
	begun := 0 // characters begun so far
	for i := range n {
		var t generation.TokenLogprob
		if i < len(prompt) {
			t = prompt[i]
		} else {
			t = answer[i-len(prompt)]
		}
		offset := begun
		if len(t.Bytes) > 0 && continues(t.Bytes[0]) && begun > 0 {
			offset-- // inside the character that the token before began
		}
		if i > 0 || len(prompt) == 0 || strings.HasPrefix(prefix, string(t.Bytes)) { // else it is a BOS that the text lacks
			begun += characters(t.Bytes)
		}
		l.Tokens = append(l.Tokens, t.Text)
		l.TextOffset = append(l.TextOffset, offset)
		if i == 0 && len(prompt) > 0 {
			l.Logprobs = append(l.Logprobs, nil)
			l.Top = append(l.Top, nil)
			continue
		}
		p := logprob(t.Logprob)
		l.Logprobs = append(l.Logprobs, &p)
		l.Top = append(l.Top, alternatives(t, top))
	}
	if top == 0 {
		l.Top = nil
	}
	return l
}

// alternatives are the most likely tokens and the one chosen, by their texts. Of two tokens of one text the likelier counts.
func alternatives(t generation.TokenLogprob, top int) map[string]logprob {
	if top == 0 {
		return nil
	}
	m := make(map[string]logprob, len(t.Top)+1)
	for _, o := range t.Top {
		if had, ok := m[o.Text]; !ok || logprob(o.Logprob) > had {
			m[o.Text] = logprob(o.Logprob)
		}
	}
	if _, ok := m[t.Text]; !ok {
		m[t.Text] = logprob(t.Logprob)
	}
	return m
}

// continues tells whether a byte is inside a UTF-8 character.
func continues(b byte) bool { return b&0xC0 == 0x80 }

func characters(bytes []byte) int {
	n := 0
	for _, b := range bytes {
		if !continues(b) {
			n++
		}
	}
	return n
}
