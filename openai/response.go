package openai

import (
	"strings"
	"time"
	"unicode/utf8"

	"github.com/ingot-run/ingot/engine/generation"
)

// usage has OpenAI's counts of a response's tokens.
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

// head has the first fields of both response bodies. Seed is not a field of OpenAI's. If the same request is sent with this seed, it gets
// the same tokens.
type head struct {
	ID          string `json:"id"`
	Object      string `json:"object"`
	Created     int64  `json:"created"`
	Model       string `json:"model"`
	Fingerprint string `json:"system_fingerprint,omitempty"`
	Seed        int64  `json:"seed"`
}

type chatBody struct {
	head
	Choices []chatChoice `json:"choices"`
	Usage   usage        `json:"usage"`
}

type chatChoice struct {
	Index        int           `json:"index"`
	Message      message       `json:"message"`
	Logprobs     *chatLogprobs `json:"logprobs"`
	FinishReason string        `json:"finish_reason"`
	StopReason   string        `json:"stop_reason,omitempty"` // as in vLLM: the stop string that ended the choice
	choiceIDs
}

type message struct {
	Role      string  `json:"role"`
	Content   string  `json:"content"`
	Refusal   *string `json:"refusal"`
	Reasoning string  `json:"reasoning_content,omitempty"` // as in vLLM and DeepSeek's API
}

type completionBody struct {
	head
	Choices []completionChoice `json:"choices"`
	Usage   usage              `json:"usage"`
}

type completionChoice struct {
	Index        int                 `json:"index"`
	Text         string              `json:"text"`
	Logprobs     *completionLogprobs `json:"logprobs"`
	FinishReason string              `json:"finish_reason"`
	StopReason   string              `json:"stop_reason,omitempty"`
	choiceIDs
}

// choiceIDs has the fields that vLLM adds for return_token_ids.
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

// head returns the first fields of the response's body.
func (r *Request) head(a Answer) head {
	h := head{ID: "cmpl-" + a.ID, Object: "text_completion", Created: a.Created.Unix(), Model: a.Model, Fingerprint: a.Fingerprint, Seed: a.Seed}
	if r.endpoint == Chat {
		h.ID, h.Object = "chatcmpl-"+a.ID, "chat.completion"
	}
	return h
}

// Response returns the body of the response, given the completions of all prompts in order.
func (r *Request) Response(a Answer, done []generation.Completion) any {
	h := r.head(a)
	u := usageOf(done)
	if r.endpoint == Chat {
		return chatBody{h, r.chatChoices(done), u}
	}
	return completionBody{h, r.completionChoices(done), u}
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

func (r *Request) chatChoices(done []generation.Completion) []chatChoice {
	var choices []chatChoice
	for _, c := range done {
		for _, answer := range c.Choices {
			choice := chatChoice{
				Index:        len(choices),
				Message:      message{Role: "assistant", Content: answer.Text, Reasoning: answer.Reasoning},
				FinishReason: string(answer.FinishReason),
				StopReason:   answer.StopReason,
				choiceIDs:    r.ids(c, answer),
			}
			if r.settings.Logprobs {
				choice.Logprobs = newChatLogprobs(shownLogprobs(answer.Logprobs, answer.FinishReason, answer.StopReason))
			}
			choices = append(choices, choice)
		}
	}
	return choices
}

func (r *Request) completionChoices(done []generation.Completion) []completionChoice {
	var choices []completionChoice
	for i, c := range done {
		prefix, tokens := "", []generation.TokenLogprob(nil)
		if r.echo {
			prefix, tokens = r.promptText(i, c), c.PromptLogprobs
		}
		for _, answer := range c.Choices {
			choice := completionChoice{
				Index:        len(choices),
				Text:         prefix + answer.Text,
				FinishReason: string(answer.FinishReason),
				StopReason:   answer.StopReason,
				choiceIDs:    r.ids(c, answer),
			}
			if r.settings.Logprobs {
				choice.Logprobs = newCompletionLogprobs(prefix, tokens, answer.Logprobs, r.settings.TopLogprobs)
			}
			choices = append(choices, choice)
		}
	}
	return choices
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

func (r *Request) ids(c generation.Completion, answer generation.Choice) choiceIDs {
	if !r.tokenIDs {
		return choiceIDs{}
	}
	ids := choiceIDs{c.PromptTokens, answer.Tokens}
	if ids.TokenIDs == nil {
		ids.TokenIDs = []int32{}
	}
	return ids
}
