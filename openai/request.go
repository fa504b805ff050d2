package openai

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/internal/ordered"
)

// maxStops is the maximum number of stop strings. OpenAI allows 4.
const maxStops = 64

// defaultMaxTokens is OpenAI's default for max_tokens on /v1/completions. A chat has no such default; only the context limits it.
const defaultMaxTokens = 16

// minTopP replaces a top_p of 0. In OpenAI's API, 0 means only the most likely token; in generation.Sampling, 0 means no limit.
const minTopP = 1e-9

// Request is the body of a row after its types were checked and its defaults were set.
type Request struct {
	endpoint Endpoint
	settings generation.Request // all settings except prompt and seed
	chat     *ordered.Object    // the variables of the chat template; nil for /v1/completions
	prompts  []prompt           // prompts of /v1/completions, at least one; nil for /v1/chat/completions

	model    string // model that the request names; empty if it names none
	unknown  *Error // error that CheckUnknown returns; nil if all fields are known
	seed     *int64
	echo     bool
	tokenIDs bool // the request sets return_token_ids

	stream      bool // the client wants the answer in pieces, while it is generated
	streamUsage bool // the request sets stream_options.include_usage
}

// ParseRequest checks the body of a row. Its errors are *Error and name the field. It accepts unknown fields, which CheckUnknown reports.
func ParseRequest(e Endpoint, body []byte) (*Request, error) { return parseRequest(e, body, false) }

// ParseLive is ParseRequest for a request over HTTP, which may ask for a streamed answer.
func ParseLive(e Endpoint, body []byte) (*Request, error) { return parseRequest(e, body, true) }

func parseRequest(e Endpoint, body []byte, live bool) (*Request, error) {
	o, err := parseObject(body, "")
	if err != nil {
		return nil, err
	}
	o.renameAliases()
	r := &Request{endpoint: e}
	r.model, _ = o.text("model")
	if e == Chat {
		r.chat = o.chatContext()
	} else {
		r.prompts = o.prompts()
	}
	r.readSampling(o)
	r.readLength(o)
	r.readStops(o)
	r.readOutput(o)
	if live {
		r.readStream(o)
	}
	o.refuse(e, live)
	if o.err != nil {
		return nil, o.err
	}
	r.unknown = o.unknown(e)
	return r, nil
}

// readStream reads "stream" and "stream_options".
func (r *Request) readStream(o *object) {
	r.stream = o.boolean("stream")
	raw, ok := o.get("stream_options", dict)
	if !ok {
		return
	}
	if !r.stream {
		o.fail(CodeInvalidValue, `"stream_options" needs "stream" to be true`)
		return
	}
	options, err := parseObject(raw, "stream_options.")
	if err != nil {
		o.err = err
		return
	}
	r.streamUsage = options.boolean("include_usage")
	if o.err == nil {
		o.err = options.err
	}
}

// Streamed reports whether the client wants the answer in pieces, while it is generated.
func (r *Request) Streamed() bool { return r.stream }

// NumPrompts returns the number of prompts. It is 1 unless a completion's prompt is an array of prompts.
func (r *Request) NumPrompts() int { return max(1, len(r.prompts)) }

// Seed returns the seed that the request sets, or def if it sets none.
func (r *Request) Seed(def int64) int64 {
	if r.seed != nil {
		return *r.seed
	}
	return def
}

// Generation returns the engine's request for prompt i. The seed of that request is seed+i. date is the day that chat templates print.
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
	s.TopP = max(o.number("top_p", 0, 1, 1), minTopP)
	s.MinP = o.number("min_p", 0, 1, 0)
	s.PresencePenalty = o.number("presence_penalty", -2, 2, 0)
	s.FrequencyPenalty = o.number("frequency_penalty", -2, 2, 0)
	s.RepetitionPenalty = o.number("repetition_penalty", 0, 100, 1)
	if s.RepetitionPenalty == 0 {
		o.fail(CodeInvalidValue, "%q must be greater than 0", o.named("repetition_penalty"))
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
	if key, ok := repeated(raw); ok {
		o.fail(CodeInvalidValue, `"logit_bias" has the key %q twice`, key)
		return nil
	}
	bias := make(map[int32]float64, len(inner.fields))
	for _, key := range slices.Sorted(maps.Keys(inner.fields)) { // sorted, so that errors do not depend on the order of a map
		id, err := strconv.ParseInt(key, 10, 32)
		if err != nil || id < 0 {
			o.fail(CodeInvalidValue, `a key of "logit_bias" must be a token id, not %q`, key)
			return nil
		}
		if _, given := bias[int32(id)]; given {
			o.fail(CodeInvalidValue, `"logit_bias" has token %d twice, once as %q`, id, key)
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
		r.settings.MaxTokens = defaultMaxTokens
		low = 0
	}
	if n, ok := o.integer("max_tokens", low, math.MaxInt32); ok {
		r.settings.MaxTokens = int(n)
		r.settings.PromptOnly = n == 0
	}
	if r.endpoint == Chat { // max_completion_tokens, the newer name, takes precedence
		if n, ok := o.integer("max_completion_tokens", 1, math.MaxInt32); ok {
			r.settings.MaxTokens = int(n)
		}
	}
	n, _ := o.integer("min_tokens", 0, math.MaxInt32)
	r.settings.MinTokens = int(n)
	if limit := r.settings.MaxTokens; n > 0 && limit > 0 && int(n) > limit {
		o.fail(CodeInvalidValue, `"min_tokens" is %d, more than the %d tokens that may be generated`, n, limit)
	}
	r.settings.IgnoreEOS = o.boolean("ignore_eos")
}

func (r *Request) readStops(o *object) {
	if raw, ok := o.get("stop", text, array); ok {
		list := []json.RawMessage{raw}
		if kindOf(raw) == array {
			list = slices.Collect(ordered.Items(raw))
		}
		if len(list) > maxStops {
			o.fail(CodeInvalidValue, "%q has %d strings, more than %d", o.named("stop"), len(list), maxStops)
		}
		for i, e := range list {
			if k := kindOf(e); k != text {
				o.fail(CodeInvalidType, `"%s[%d]" must be a string, not %s`, o.named("stop"), i, k)
				return
			}
			var s string
			if err := json.Unmarshal(e, &s); err != nil || s == "" {
				o.fail(CodeInvalidValue, "%q has an empty string", o.named("stop"))
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
		o.fail(CodeInvalidValue, `%q is 0, which makes sense only with "echo"`, o.named("max_tokens"))
	}
	// The engine returns the bytes of a prompt's tokens only with their log-probabilities. The echo of a prompt of token ids needs these
	// bytes.
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
