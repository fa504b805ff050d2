package openai

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/ingot-run/ingot/engine/generation"
)

// Stream makes the chunks of a streamed response in OpenAI's order. Each choice has a chunk with
// the role (only in chats), chunks with text, and a chunk with the finish reason. The last chunk of
// all has the usage, if the request sets stream_options.include_usage.
type Stream struct {
	request *Request
	head    head
	choices []streamedChoice // state of each choice, by the choice's index
	noUsage any              // usage in all chunks but the last: JSON null if the last chunk has the usage, else nil (no field)
}

type streamedChoice struct {
	begun   bool
	offsets offsets
}

// NewStream returns the stream of a request's answer.
func (r *Request) NewStream(a Answer) *Stream {
	s := &Stream{request: r, head: r.head(a), choices: make([]streamedChoice, r.NumChoices())}
	if r.endpoint == Chat {
		s.head.Object = "chat.completion.chunk"
	}
	if r.streamUsage {
		s.noUsage = (*usage)(nil)
	}
	return s
}

// Whole reports whether the answer can be sent only when it is complete. An example is the echo of
// a prompt with log-probabilities: these come first in the answer, but the engine returns them at
// the end. For such an answer, Stream.End returns all chunks.
func (r *Request) Whole() bool { return r.settings.PromptLogprobs || r.settings.PromptOnly }

// Chunks returns the chunks for a piece of an answer. prompt is the index of the answered prompt.
// Some pieces give no chunks, for example those without text.
func (s *Stream) Chunks(prompt int, p generation.Piece) (chunks []any) {
	if s.request.Whole() {
		return nil
	}
	index := prompt*s.request.settings.N + p.Choice
	var choices []choice
	if s.request.endpoint == Chat {
		choices = s.chatChoices(index, p)
	} else {
		choices = s.textChoices(prompt, index, p)
	}
	if p.FinishReason != "" {
		end := choice{FinishReason: (*string)(&p.FinishReason), StopReason: p.StopReason}
		if s.request.endpoint == Chat {
			end.Delta = &delta{}
		} else {
			end.Text = new(string)
		}
		choices = append(choices, end)
	}
	for i := range choices {
		choices[i].Index = index
		chunks = append(chunks, s.chunk(choices[i:i+1]))
	}
	return chunks
}

func (s *Stream) chunk(choices any) responseBody { return responseBody{s.head, choices, s.noUsage} }

func (s *Stream) chatChoices(index int, p generation.Piece) (parts []choice) {
	if c := &s.choices[index]; !c.begun {
		c.begun = true
		role := &delta{Role: "assistant", Content: new(string)}
		if len(s.request.settings.Tools) > 0 {
			role.Content = (*string)(nil) // whether there is content is not known yet
		}
		parts = append(parts, choice{Delta: role})
	}
	if p.Reasoning != "" {
		parts = append(parts, choice{Delta: &delta{Reasoning: p.Reasoning}})
	}
	part := choice{Delta: &delta{Content: &p.Text}, choiceIDs: s.ids(p)}
	some := p.Text != "" || part.TokenIDs != nil
	if s.request.settings.Logprobs {
		logprobs := s.request.chatLogprobs(p.Logprobs, p.FinishReason, p.StopReason)
		part.Logprobs = logprobs
		some = some || len(logprobs.Content) > 0
	}
	if some {
		parts = append(parts, part)
	}
	if len(p.ToolCalls) > 0 {
		parts = append(parts, choice{Delta: &delta{ToolCalls: newToolDeltas(p.ToolCalls)}})
	}
	return parts
}

func (s *Stream) textChoices(prompt, index int, p generation.Piece) (parts []choice) {
	c := &s.choices[index]
	if !c.begun && s.request.echo {
		parts = append(parts, choice{Text: &s.request.prompts[prompt].text})
	}
	c.begun = true
	part := choice{Text: &p.Text, choiceIDs: s.ids(p)}
	if s.request.settings.Logprobs {
		logprobs := newLogprobLists(len(p.Logprobs), s.request.settings.TopLogprobs)
		logprobs.addAnswer(p.Logprobs, &c.offsets, s.request.settings.TopLogprobs)
		part.Logprobs = logprobs
	}
	if p.Text != "" || part.Logprobs != nil || part.TokenIDs != nil {
		parts = append(parts, part)
	}
	return parts
}

func (s *Stream) ids(p generation.Piece) choiceIDs {
	if !s.request.tokenIDs {
		return choiceIDs{}
	}
	return choiceIDs{TokenIDs: p.Tokens}
}

// Tokens has the token counts of a response.
type Tokens struct {
	Prompt, Completion int
	Cached             int // prompt tokens that were in the cache
	Reasoning          int // completion tokens of the reasoning
}

// End returns the last chunks of a stream. body is the body that the response would have without a
// stream, and t its token counts.
func (s *Stream) End(body any, t Tokens) ([]any, error) {
	var chunks []any
	if s.request.Whole() {
		text, err := Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("encode the response: %w", err)
		}
		var whole struct {
			Choices json.RawMessage `json:"choices"`
		}
		if err := json.Unmarshal(text, &whole); err != nil {
			return nil, fmt.Errorf("decode the response: %w", err)
		}
		chunks = append(chunks, s.chunk(whole.Choices))
	}
	if s.request.streamUsage {
		chunks = append(chunks, responseBody{s.head, []choice{}, newUsage(t)})
	}
	return chunks, nil
}

// Choices decodes the choices in a response's body: their texts, calls and finish reasons, without
// tokens.
// The result is indexed by prompt, then by choice.
func (r *Request) Choices(body []byte) ([][]generation.Choice, error) {
	var read struct {
		Choices []struct {
			Message *struct {
				Content   string     `json:"content"`
				Reasoning string     `json:"reasoning_content"`
				ToolCalls []toolCall `json:"tool_calls"`
			} `json:"message"`
			Text         string                  `json:"text"`
			FinishReason generation.FinishReason `json:"finish_reason"`
			StopReason   string                  `json:"stop_reason"`
		} `json:"choices"`
	}
	if err := json.Unmarshal(body, &read); err != nil {
		return nil, fmt.Errorf("decode a response: %w", err)
	}
	all := make([][]generation.Choice, r.NumPrompts())
	for i, c := range read.Choices {
		prompt := min(i/r.settings.N, len(all)-1)
		choice := generation.Choice{FinishReason: c.FinishReason, StopReason: c.StopReason}
		if c.Message != nil {
			c.Text, choice.Reasoning, choice.ToolCalls = c.Message.Content, c.Message.Reasoning, callsOf(c.Message.ToolCalls)
		} else if r.echo && r.prompts[prompt].ids == nil {
			c.Text = strings.TrimPrefix(c.Text, r.prompts[prompt].text)
		}
		choice.Text = c.Text
		all[prompt] = append(all[prompt], choice)
	}
	return all, nil
}

// NamesTokens reports whether the response lists the answer's tokens in addition to its text.
func (r *Request) NamesTokens() bool { return r.settings.Logprobs || r.tokenIDs }

// Endpoint returns the endpoint of the request.
func (r *Request) Endpoint() Endpoint { return r.endpoint }
