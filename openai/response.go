package openai

import (
	"strings"
	"time"
	"unicode/utf8"

	"github.com/ingot-run/ingot/engine/generation"
)

type usage struct {
	PromptTokens     int `json:"prompt_tokens"`
	CompletionTokens int `json:"completion_tokens"`
	TotalTokens      int `json:"total_tokens"`
	PromptDetails    struct {
		CachedTokens int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	CompletionDetails struct {
		ReasoningTokens int `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
}

func newUsage(t Tokens) usage {
	u := usage{PromptTokens: t.Prompt, CompletionTokens: t.Completion, TotalTokens: t.Prompt + t.Completion}
	u.PromptDetails.CachedTokens = t.Cached
	u.CompletionDetails.ReasoningTokens = t.Reasoning
	return u
}

// head has the first fields of both response bodies. Seed is not a field of OpenAI's. If the same
// request is sent with this seed, it gets the same tokens.
type head struct {
	ID          string `json:"id"`
	Object      string `json:"object"`
	Created     int64  `json:"created"`
	Model       string `json:"model"`
	Fingerprint string `json:"system_fingerprint,omitempty"`
	Seed        int64  `json:"seed"`
}

type responseBody struct {
	head
	Choices any `json:"choices"` // []choice, or the same as JSON
	Usage   any `json:"usage,omitempty"`
}

// choice is an answer in a response, or a part of one in a chunk. It has one of Message, Delta and
// Text.
type choice struct {
	Index        int      `json:"index"`
	Message      *message `json:"message,omitempty"`
	Delta        *delta   `json:"delta,omitempty"`
	Text         *string  `json:"text,omitempty"`
	Logprobs     any      `json:"logprobs"`
	FinishReason *string  `json:"finish_reason"`
	StopReason   string   `json:"stop_reason,omitempty"` // as in vLLM: the stop string that ended the choice
	choiceIDs
}

type message struct {
	Role      string     `json:"role"`
	Content   *string    `json:"content"` // null if there are only calls
	Refusal   *string    `json:"refusal"`
	Reasoning string     `json:"reasoning_content,omitempty"` // as in vLLM and DeepSeek's API
	ToolCalls []toolCall `json:"tool_calls,omitempty"`
}

type delta struct {
	Role      string     `json:"role,omitempty"`
	Content   any        `json:"content,omitempty"` // a *string, or JSON null
	Reasoning string     `json:"reasoning_content,omitempty"`
	ToolCalls []toolCall `json:"tool_calls,omitempty"`
}

type choiceIDs struct {
	PromptTokenIDs []int32 `json:"prompt_token_ids,omitempty"`
	TokenIDs       []int32 `json:"token_ids,omitzero"`
}

// Answer has the parts of a response's body that do not come from the completions.
type Answer struct {
	ID          string // id without the prefix of the endpoint, such as cmpl-
	Created     time.Time
	Model       string
	Fingerprint string // system_fingerprint
	Seed        int64
}

func (r *Request) head(a Answer) head {
	h := head{ID: "cmpl-" + a.ID, Object: "text_completion", Created: a.Created.Unix(), Model: a.Model, Fingerprint: a.Fingerprint, Seed: a.Seed}
	if r.endpoint == Chat {
		h.ID, h.Object = "chatcmpl-"+a.ID, "chat.completion"
	}
	return h
}

// Response returns the body of the response, given the completions of all prompts in order.
func (r *Request) Response(a Answer, done []generation.Completion) any {
	var choices []choice
	for i, c := range done {
		for _, answer := range c.Choices {
			reason := string(answer.FinishReason)
			out := choice{Index: len(choices), FinishReason: &reason, StopReason: answer.StopReason, choiceIDs: r.ids(c.PromptTokens, answer.Tokens)}
			if r.endpoint == Chat {
				out.Message = &message{Role: "assistant", Content: &answer.Text, Reasoning: answer.Reasoning, ToolCalls: newToolCalls(answer.ToolCalls)}
				if answer.Text == "" && len(answer.ToolCalls) > 0 {
					out.Message.Content = nil
				}
				out.Logprobs = r.chatLogprobs(answer.Logprobs, answer.FinishReason, answer.StopReason)
			} else {
				out.addText(r, i, c, answer)
			}
			choices = append(choices, out)
		}
	}
	return responseBody{r.head(a), choices, usageOf(done)}
}

// addText adds the text and log-probabilities of an answer to prompt i, after those of the prompt
// if the request asks for its echo.
func (o *choice) addText(r *Request, i int, c generation.Completion, answer generation.Choice) {
	prefix, tokens := "", []generation.TokenLogprob(nil)
	if r.echo {
		prefix, tokens = r.promptText(i, c), c.PromptLogprobs
	}
	text := prefix + answer.Text
	o.Text = &text
	if r.settings.Logprobs {
		o.Logprobs = newCompletionLogprobs(prefix, tokens, answer.Logprobs, r.settings.TopLogprobs)
	}
}

func usageOf(done []generation.Completion) usage {
	var t Tokens
	for _, c := range done {
		t.Prompt += c.Stats.PromptTokens
		t.Completion += c.Stats.CompletionTokens
		t.Cached += c.Stats.CachedTokens
		t.Reasoning += c.Stats.ReasoningTokens
	}
	return newUsage(t)
}

// promptText returns the text of prompt i. For a prompt of token ids, it joins the tokens' bytes.
func (r *Request) promptText(i int, c generation.Completion) string {
	if r.prompts[i].ids == nil {
		return r.prompts[i].text
	}
	var b strings.Builder
	for _, t := range c.PromptLogprobs {
		b.Write(t.Bytes)
	}
	return strings.ToValidUTF8(b.String(), string(utf8.RuneError))
}

func (r *Request) ids(prompt, answer []int32) choiceIDs {
	if !r.tokenIDs {
		return choiceIDs{}
	}
	if answer == nil {
		answer = []int32{}
	}
	return choiceIDs{prompt, answer}
}
