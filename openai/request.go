package openai

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/internal/ordered"
)

// maxStops is the maximum number of stop strings. OpenAI allows 4.
const maxStops = 64

// defaultMaxTokens is OpenAI's default for max_tokens on /v1/completions. A chat has no such
// default; only the context limits it.
const defaultMaxTokens = 16

// minTopP replaces a top_p of 0. In OpenAI's API, 0 means only the most likely token; in
// generation.Sampling, 0 means no limit.
const minTopP = 1e-9

// Request is the body of a row after its types were checked and its defaults were set.
type Request struct {
	endpoint Endpoint
	settings generation.Request // all settings except prompt and seed
	chat     *ordered.Object    // the variables of the chat template; nil for /v1/completions
	prompts  []prompt           // prompts of /v1/completions, at least one; nil for /v1/chat/completions

	model   string // model that the request names; empty if it names none
	unknown *Error // error that CheckUnknown returns; nil if all fields are known
	seed    *int64
	echo    bool

	sampling bool // the request sets a sampling option; see Recommend

	formField string // path of the field that gives the form of the answer; empty for none

	tokenIDs bool // the request sets return_token_ids

	stream      bool // the client wants the answer in pieces, while it is generated
	streamUsage bool // the request sets stream_options.include_usage
}

// ParseRequest checks the body of a row. Its errors are *Error and name the field. It accepts
// unknown fields, which CheckUnknown reports.
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
	if e == Chat {
		r.chat = ordered.NewObject()
	}
	for _, f := range fields {
		if f.on(e) {
			f.readFrom(o, r)
		}
	}
	r.finish(o)
	r.sampling = slices.ContainsFunc(fields, func(f *Field) bool { return f.sampling && o.has(f.Name) })
	if live {
		r.readStream(o)
	}
	o.refuse(e, live)
	if o.err != nil {
		return nil, o.err
	}
	if at := ordered.HalfSurrogate(body); at != -1 { // the model would read U+FFFD, and answer another prompt
		return nil, errorf(CodeInvalidText, `the body has half of a surrogate pair at byte %d, which is no text: remove it`, at)
	}
	if r.unknown = o.unknown(e); r.unknown == nil {
		r.unknown = o.nested
	}
	return r, nil
}

// finish sets what depends on several fields, and checks that the fields fit together.
func (r *Request) finish(o *object) {
	s := &r.settings
	s.Sampling.TopP = max(s.Sampling.TopP, minTopP)
	s.Sampling.TopK = max(s.Sampling.TopK, 0)
	if s.MaxTokens > 0 && s.MinTokens > s.MaxTokens {
		o.fail(CodeInvalidValue, `"min_tokens" is %d, more than the %d tokens that may be generated`, s.MinTokens, s.MaxTokens)
	}
	if s.TopLogprobs > 0 && !s.Logprobs {
		o.fail(CodeInvalidValue, `"top_logprobs" needs "logprobs" to be true`)
	}
	if s.PromptOnly && !r.echo {
		o.fail(CodeInvalidValue, `%q is 0, which makes sense only with "echo"`, o.named("max_tokens"))
	}
	r.finishConstraint(o)
	// The engine returns the bytes of a prompt's tokens only with their log-probabilities. The echo
	// of a prompt of token ids needs these bytes.
	tokenPrompt := slices.ContainsFunc(r.prompts, func(p prompt) bool { return p.ids != nil })
	s.PromptLogprobs = r.echo && (s.Logprobs || tokenPrompt)
}

func (r *Request) readStream(o *object) {
	r.stream = o.boolean("stream")
	raw, ok := o.get("stream_options", dict)
	if !ok {
		return
	}
	if !r.stream {
		o.fail(CodeInvalidValue, `"stream_options" needs "stream" to be true`)
	}
	o.inside(raw, "stream_options.", func(options *object) { r.streamUsage = options.boolean("include_usage") })
}

// CheckUnknown returns an *Error if the request has a field that Ingot does not know. It accepts
// fields that do not change an answer, such as metadata.
func (r *Request) CheckUnknown() error {
	if r.unknown == nil {
		return nil
	}
	return r.unknown
}

// Model returns the model that the request names, or an empty string.
func (r *Request) Model() string { return r.model }

// CheckModel returns an *Error if the request names a model that is not in served. A request need
// not name a model.
func (r *Request) CheckModel(served ...string) error {
	if r.model == "" || slices.Contains(served, r.model) {
		return nil
	}
	quoted := make([]string, len(served))
	for i, s := range served {
		quoted[i] = fmt.Sprintf("%q", s)
	}
	return errorf(CodeUnknownModel, `"model" is %.100q, which is not served here: use %s`,
		r.model, strings.Join(quoted, " or "))
}

// Streamed reports whether the client wants the answer in pieces, while it is generated.
func (r *Request) Streamed() bool { return r.stream }

// NumPrompts returns the number of prompts. It is 1 unless a completion's prompt is an array of
// prompts.
func (r *Request) NumPrompts() int { return max(1, len(r.prompts)) }

// NumChoices returns the number of choices of all prompts together.
func (r *Request) NumChoices() int { return r.NumPrompts() * r.settings.N }

// Seed returns the seed that the request sets, or def if it sets none.
func (r *Request) Seed(def int64) int64 {
	if r.seed != nil {
		return *r.seed
	}
	return def
}

// Generation returns the engine's request for prompt i. The seed of that request is seed+i. date is
// the day that chat templates print.
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

func (r *Request) readLogitBias(o *object, f *Field) {
	raw, ok := o.get(f.Name, dict)
	if !ok {
		return
	}
	if key, ok := repeated(raw); ok {
		o.fail(CodeInvalidValue, `"logit_bias" has the key %.100q twice`, key)
	}
	o.inside(raw, "logit_bias.", func(inner *object) {
		bias := make(map[int32]float64, len(inner.fields))
		for _, key := range slices.Sorted(maps.Keys(inner.fields)) { // sorted, so that errors do not depend on the order of a map
			id, err := strconv.ParseInt(key, 10, 32)
			_, given := bias[int32(id)]
			switch {
			case err != nil || id < 0:
				o.fail(CodeInvalidValue, `"logit_bias" must have token ids as keys, not %.100q`, key)
			case given:
				o.fail(CodeInvalidValue, `"logit_bias" has token %d twice, once as %.100q`, id, key)
			}
			bias[int32(id)] = inner.number(key, -100, 100, 0)
		}
		r.settings.Sampling.LogitBias = bias
	})
}

func (r *Request) readSeed(o *object, f *Field) {
	if seed, ok := o.integer(f.Name, math.MinInt64, math.MaxInt64); ok {
		r.seed = &seed
	}
}

func (r *Request) checkBestOf(o *object, f *Field) {
	best, ok := o.integer(f.Name, int64(f.Low), int64(f.High))
	if ok && r.endpoint == Completions && int(best) != r.settings.N {
		o.fail(CodeUnsupported, `"best_of" is not supported: use "n" with "logprobs", and choose the best answer yourself`)
	}
}

func (r *Request) readMaxTokens(o *object, f *Field) {
	low := int64(1)
	if r.endpoint == Completions {
		r.settings.MaxTokens = defaultMaxTokens
		low = 0
	}
	if n, ok := o.integer(f.Name, low, int64(f.High)); ok {
		r.settings.MaxTokens = int(n)
		r.settings.PromptOnly = n == 0
	}
}

func (r *Request) readStop(o *object, f *Field) {
	raw, ok := o.get(f.Name, text, array)
	if !ok {
		return
	}
	list := []json.RawMessage{raw}
	if typeOf(raw) == array {
		list = slices.Collect(ordered.Items(raw))
	}
	if len(list) > maxStops {
		o.fail(CodeInvalidValue, "%q has %d strings, more than %d", o.named(f.Name), len(list), maxStops)
	}
	for i, e := range list {
		var s string
		if t := typeOf(e); t != text {
			o.fail(CodeInvalidType, `"%s[%d]" must be a string, not %s`, o.named(f.Name), i, t)
		} else if err := json.Unmarshal(e, &s); err != nil || s == "" {
			o.fail(CodeInvalidValue, "%q has an empty string", o.named(f.Name))
		}
		r.settings.Stop = append(r.settings.Stop, s)
	}
}

func (r *Request) readStopIDs(o *object, f *Field) {
	if raw, ok := o.get(f.Name, array); ok {
		r.settings.StopIDs = o.ids(f.Name, raw)
	}
}

// readLogprobs reads "logprobs" of /v1/completions, which is the number of alternatives.
func (r *Request) readLogprobs(o *object, f *Field) {
	top, ok := o.integer(f.Name, int64(f.Low), int64(f.High))
	r.settings.Logprobs, r.settings.TopLogprobs = ok, int(top)
}
