package job

import (
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/ingot-run/ingot/generation"
)

// usage is OpenAI's count of a response's tokens.
type usage struct {
	PromptTokens     int `json:"prompt_tokens"`
	CompletionTokens int `json:"completion_tokens"`
	TotalTokens      int `json:"total_tokens"`
	PromptDetails    struct {
		CachedTokens int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
}

// head is what both response bodies begin with. Seed is not OpenAI's: it is what to ask for to get the same tokens again.
type head struct {
	ID          string `json:"id"`
	Object      string `json:"object"`
	Created     int64  `json:"created"`
	Model       string `json:"model"`
	Fingerprint string `json:"system_fingerprint"`
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
	StopReason   string        `json:"stop_reason,omitempty"` // vLLM's: the stop string that ended it
	choiceIDs
}

type message struct {
	Role    string  `json:"role"`
	Content string  `json:"content"`
	Refusal *string `json:"refusal"`
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

// choiceIDs are vLLM's return_token_ids.
type choiceIDs struct {
	PromptTokenIDs []int32 `json:"prompt_token_ids,omitempty"`
	TokenIDs       []int32 `json:"token_ids,omitzero"`
}

// Response is the body that answers a request, and its figures, from what the engine made of each of its prompts. from goes
// into the figures.
func (r *Request) Response(j *Job, done []generation.Completion, finished time.Time, from Origin) (body any, s Stats) {
	s = sumStats(done)
	s.Origin = from
	u := usage{PromptTokens: s.PromptTokens, CompletionTokens: s.CompletionTokens, TotalTokens: s.PromptTokens + s.CompletionTokens}
	u.PromptDetails.CachedTokens = s.CachedTokens
	h := head{
		Created:     finished.Unix(),
		Model:       from.Model,
		Fingerprint: from.Fingerprint(),
		Seed:        r.seedOf(j),
	}
	id := j.Batch + "-" + strconv.Itoa(j.Line)
	if r.endpoint == Chat {
		h.ID, h.Object = "chatcmpl-"+id, "chat.completion"
		return chatBody{h, r.chatChoices(done), u}, s
	}
	h.ID, h.Object = "cmpl-"+id, "text_completion"
	return completionBody{h, r.completionChoices(done), u}, s
}

func (r *Request) chatChoices(done []generation.Completion) []chatChoice {
	var choices []chatChoice
	for _, c := range done {
		for _, answer := range c.Choices {
			choice := chatChoice{
				Index:        len(choices),
				Message:      message{Role: "assistant", Content: answer.Text},
				FinishReason: string(answer.FinishReason),
				StopReason:   answer.StopReason,
				choiceIDs:    r.ids(c, answer),
			}
			if r.settings.Logprobs {
				choice.Logprobs = newChatLogprobs(scored(answer))
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
				choice.Logprobs = newCompletionLogprobs(prefix, tokens, scored(answer), r.settings.TopLogprobs)
			}
			choices = append(choices, choice)
		}
	}
	return choices
}

// promptText is prompt i as it was written, or what the bytes of its ids spell.
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

// sumStats are the figures of a row over its prompts, which ran side by side: counts and times in steps add up, and the
// row's first and last moments are those of all prompts together.
func sumStats(done []generation.Completion) Stats {
	var s Stats
	var prefill, decode, ttft, total time.Duration
	later := 0 // tokens after the first of each choice
	for i, c := range done {
		e := c.Stats
		s.PromptTokens += e.PromptTokens
		s.CachedTokens += e.CachedTokens
		s.CompletionTokens += e.CompletionTokens
		s.Steps += e.Steps
		s.DraftTokens += e.DraftTokens
		s.AcceptedTokens += e.AcceptedTokens
		s.BatchMean += e.BatchMean * float64(e.Steps)
		prefill += e.Prefill
		if e.CompletionTokens == 0 { // all of it was the prompt's
			prefill += e.Total
		}
		decode += e.Decode
		later += max(0, e.CompletionTokens-len(c.Choices))
		total = max(total, e.Total)
		if i == 0 || e.TTFT < ttft {
			ttft = e.TTFT
		}
	}
	s.TTFTMS, s.TotalMS = milliseconds(ttft), milliseconds(total)
	s.PrefillTPS = rate(s.PromptTokens-s.CachedTokens, prefill)
	s.DecodeTPS = rate(later, decode)
	s.BatchMean = round(s.BatchMean/float64(max(s.Steps, 1)), 100)
	return s
}

func milliseconds(d time.Duration) float64 { return round(float64(d)/float64(time.Millisecond), 1000) }

func rate(n int, d time.Duration) float64 {
	if d <= 0 {
		return 0
	}
	return round(float64(n)/d.Seconds(), 100)
}

func round(v, parts float64) float64 { return math.Round(v*parts) / parts }
