package openai

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/ingot-run/ingot/generation"
	"github.com/ingot-run/ingot/ordered"
)

// Limits of a request that are not OpenAI's.
const (
	maxPrompts = 2048 // in an array
	maxStops   = 64
)

// completionTokens is OpenAI's default of max_tokens on /v1/completions. A chat has no limit but the context.
const completionTokens = 16

// leastTopP stands in for a top_p of 0, which OpenAI takes as the best token alone; in generation.Sampling 0 is off.
const leastTopP = 1e-9

// Request is the body of a row with its types checked and its defaults filled in.
type Request struct {
	endpoint Endpoint
	settings generation.Request // without a prompt, and without a seed
	chat     *ordered.Object    // of /v1/chat/completions
	prompts  []prompt           // of /v1/completions, at least one

	seed     *int64
	echo     bool
	tokenIDs bool // return_token_ids
}

// prompt is one prompt of a completion: ids where they are not nil, else text.
type prompt struct {
	text string
	ids  []int32
}

// ParseRequest checks a body of an endpoint. Its errors are *Error and name the field.
func ParseRequest(e Endpoint, body []byte) (*Request, error) {
	o, err := parseObject(body, "")
	if err != nil {
		return nil, err
	}
	r := &Request{endpoint: e}
	if e == Chat {
		r.chat = o.chatContext()
	} else {
		r.prompts = o.prompts()
	}
	r.readSampling(o)
	r.readLength(o)
	r.readStops(o)
	r.readOutput(o)
	o.refuse(e)
	if o.err != nil {
		return nil, o.err
	}
	return r, nil
}

// NumPrompts is the number of prompts: more than one only if a completion's prompt is an array of prompts.
func (r *Request) NumPrompts() int { return max(1, len(r.prompts)) }

// Seed is the request's own seed, or def if it names none.
func (r *Request) Seed(def int64) int64 {
	if r.seed != nil {
		return *r.seed
	}
	return def
}

// Generation is what to ask the engine for prompt i. Its seed is seed+i. Chat templates print date.
func (r *Request) Generation(i int, seed int64, date time.Time) generation.Request {
	req := r.settings
	req.Date = date
	req.Sampling.Seed = uint64(seed) + uint64(i)
	if r.endpoint == Chat {
		req.Chat = r.chat
		return req
	}
	req.Text, req.Tokens = r.prompts[i].text, r.prompts[i].ids
	return req
}

func (r *Request) readSampling(o *object) {
	s := &r.settings.Sampling
	s.Temperature = o.number("temperature", 0, 2, 1)
	s.TopP = max(o.number("top_p", 0, 1, 1), leastTopP)
	s.MinP = o.number("min_p", 0, 1, 0)
	s.PresencePenalty = o.number("presence_penalty", -2, 2, 0)
	s.FrequencyPenalty = o.number("frequency_penalty", -2, 2, 0)
	s.RepetitionPenalty = o.number("repetition_penalty", 0, 100, 1)
	if s.RepetitionPenalty == 0 {
		o.fail(CodeInvalidValue, `"repetition_penalty" must be greater than 0`)
	}
	k, _ := o.integer("top_k", -1, math.MaxInt32)
	s.TopK = int(max(k, 0))
	s.LogitBias = o.logitBias()
	if seed, ok := o.integer("seed", math.MinInt64, math.MaxInt64); ok {
		r.seed = &seed
	}
	r.settings.N = 1
	if n, ok := o.integer("n", 1, 128); ok {
		r.settings.N = int(n)
	}
}

func (o *object) logitBias() map[int32]float64 {
	raw, ok := o.get("logit_bias", dict)
	if !ok {
		return nil
	}
	inner, err := parseObject(raw, "logit_bias.")
	if err != nil {
		o.err = err
		return nil
	}
	bias := make(map[int32]float64, len(inner.fields))
	for _, key := range slices.Sorted(maps.Keys(inner.fields)) { // in order, so that the same field is named each time
		id, err := strconv.ParseInt(key, 10, 32)
		if err != nil || id < 0 {
			o.fail(CodeInvalidValue, `a key of "logit_bias" must be a token id, not %q`, key)
			return nil
		}
		bias[int32(id)] = inner.number(key, -100, 100, 0)
	}
	if o.err == nil {
		o.err = inner.err
	}
	return bias
}

func (r *Request) readLength(o *object) {
	low := int64(1)
	if r.endpoint == Completions {
		r.settings.MaxTokens = completionTokens
		low = 0
	}
	if n, ok := o.integer("max_tokens", low, math.MaxInt32); ok {
		r.settings.MaxTokens = int(n)
		r.settings.PromptOnly = n == 0
	}
	if r.endpoint == Chat { // the newer name goes first
		if n, ok := o.integer("max_completion_tokens", 1, math.MaxInt32); ok {
			r.settings.MaxTokens = int(n)
		}
	}
	n, _ := o.integer("min_tokens", 0, math.MaxInt32)
	r.settings.MinTokens = int(n)
	if most := r.settings.MaxTokens; n > 0 && most > 0 && int(n) > most {
		o.fail(CodeInvalidValue, `"min_tokens" is %d, more than the %d tokens that may be generated`, n, most)
	}
	r.settings.IgnoreEOS = o.boolean("ignore_eos")
}

func (r *Request) readStops(o *object) {
	if raw, ok := o.get("stop", text, array); ok {
		list := []json.RawMessage{raw}
		if kindOf(raw) == array {
			list = o.elements("stop", raw)
		}
		if len(list) > maxStops {
			o.fail(CodeInvalidValue, `"stop" has %d strings, more than %d`, len(list), maxStops)
		}
		for i, e := range list {
			if k := kindOf(e); k != text {
				o.fail(CodeInvalidType, `"stop[%d]" must be a string, not %s`, i, k)
				return
			}
			var s string
			if err := json.Unmarshal(e, &s); err != nil || s == "" {
				o.fail(CodeInvalidValue, `"stop" holds an empty string`)
				return
			}
			r.settings.Stop = append(r.settings.Stop, s)
		}
	}
	if raw, ok := o.get("stop_token_ids", array); ok {
		r.settings.StopIDs = o.ids("stop_token_ids", raw)
	}
}

func (r *Request) readOutput(o *object) {
	r.tokenIDs = o.boolean("return_token_ids")
	if r.endpoint == Chat {
		r.settings.Logprobs = o.boolean("logprobs")
		top, ok := o.integer("top_logprobs", 0, 20)
		if ok && top > 0 && !r.settings.Logprobs {
			o.fail(CodeInvalidValue, `"top_logprobs" needs "logprobs" to be true`)
		}
		r.settings.TopLogprobs = int(top)
		return
	}
	top, ok := o.integer("logprobs", 0, 20)
	r.settings.Logprobs, r.settings.TopLogprobs = ok, int(top)
	r.echo = o.boolean("echo")
	if r.settings.PromptOnly && !r.echo {
		o.fail(CodeInvalidValue, `"max_tokens" is 0, which makes sense only with "echo"`)
	}
	// A prompt of ids has no text of its own to echo: its tokens' bytes come with their log-probabilities.
	r.settings.PromptLogprobs = r.echo && (ok || r.anyIDs())
}

func (r *Request) anyIDs() bool {
	for _, p := range r.prompts {
		if p.ids != nil {
			return true
		}
	}
	return false
}
