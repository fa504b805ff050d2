package openai

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// aliases maps field names of other programs to the fields that have the same meaning here.
var aliases = []struct{ alias, field string }{
	{"max_new_tokens", "max_tokens"},
	{"n_predict", "max_tokens"},
	{"stop_sequences", "stop"},
	{"repeat_penalty", "repetition_penalty"},
}

// supported lists, by endpoint, the fields that reach the engine or the chat template. The fields that both endpoints have are under the
// empty key.
var supported = map[Endpoint][]string{
	"": {
		"model", "temperature", "top_p", "min_p", "top_k", "repetition_penalty", "presence_penalty", "frequency_penalty",
		"logit_bias", "seed", "n", "best_of", "max_tokens", "min_tokens", "ignore_eos", "stop", "stop_token_ids", "logprobs",
		"return_token_ids",
	},
	Chat: {
		"messages", "max_completion_tokens", "top_logprobs", "tools", "tool_choice", "documents", "reasoning_effort",
		"enable_thinking", "add_generation_prompt", "chat_template_kwargs", continueFinal,
	},
	Completions: {"prompt", "echo"},
}

// Fields returns the names of the fields that reach the engine or the chat template on an endpoint. Aliases are not included.
func Fields(e Endpoint) []string { return slices.Concat(supported[""], supported[e]) }

// inert lists fields that are accepted although they do not change an answer: ids and notes of a row, and settings of services. "answer"
// is the expected answer of a row.
var inert = []string{
	"id", "custom_id", "answer", "metadata", "user", "safety_identifier", "store", "service_tier", "verbosity", "prediction",
	"stream_options", "prompt_cache_key", "prompt_cache_options", "prompt_cache_retention",
	"priority", "request_id", "cache_salt", // from vLLM
	"cache_prompt", "id_slot", "timings_per_token", "mirostat_tau", "mirostat_eta", // from llama.cpp
	"keep_alive", // from Ollama
}

// foreign lists fields that change an answer in other programs and are refused here. instead is the hint in the error. A field is accepted
// if its value, as JSON, is in ignored: such a value changes nothing.
var foreign = []struct {
	field   string
	ignored []string
	instead string
}{
	{"extra_body", []string{"{}"}, "put its fields into the body itself"},
	{"sampling_params", []string{"{}"}, "put its fields into the body itself"},
	{"options", []string{"{}"}, "put its fields into the body itself"},
	{"system", []string{`""`}, `add a message with the role "system"`},
	{"images", []string{"[]"}, "only text can be used"},
	{"max_length", nil, `use "max_tokens", which does not count the prompt`},
	{"num_predict", nil, `use "max_tokens"`},
	{"format", []string{`""`}, "output cannot be constrained"},
	{"thinking", nil, `use "enable_thinking" or "chat_template_kwargs"`},
	{"repeat_last_n", []string{"-1"}, "a penalty applies to the whole text"},
	{"mirostat", []string{"0"}, `use "temperature", "top_p", "min_p" and "top_k"`},
	{"typical_p", []string{"1", "1.0"}, `use "temperature", "top_p", "min_p" and "top_k"`},
}

// renameAliases renames fields that were given under an alias. Errors name the alias.
func (o *object) renameAliases() {
	for _, a := range aliases {
		if !o.has(a.alias) {
			continue
		}
		if o.has(a.field) {
			o.fail(CodeInvalidValue, "%q and %q are names of the same setting: give one", o.named(a.field), a.alias)
			return
		}
		if o.given == nil {
			o.given = map[string]string{}
		}
		o.given[a.field] = a.alias
		o.fields[a.field] = o.fields[a.alias]
		delete(o.fields, a.alias)
	}
}

// unknown returns the error of the alphabetically first unknown field, since such a field may be meant to change the answer. It returns
// nil if all fields are known or inert.
func (o *object) unknown(e Endpoint) *Error {
	for _, name := range o.odd(e) {
		if !o.has(name) || slices.Contains(inert, name) {
			continue
		}
		if err := o.unknownField(name); err != nil {
			return err
		}
	}
	return nil
}

func (o *object) unknownField(name string) *Error {
	for _, f := range refused { // refuse has set an error if the value has an effect
		if f.field == name {
			return nil
		}
	}
	for _, f := range foreign {
		if f.field != name {
			continue
		}
		if slices.Contains(f.ignored, compact(o.fields[name])) {
			return nil
		}
		return errorf(CodeUnsupported, "%q is not supported: %s", name, f.instead)
	}
	for e, names := range supported {
		if slices.Contains(names, name) {
			return errorf(CodeUnsupported, "%q is not supported: it is a field of %s", name, e)
		}
	}
	if near := nearest(name); near != "" {
		return errorf(CodeUnknown, "%q is unknown: did you mean %q?", name, near)
	}
	return errorf(CodeUnknown, "%q is unknown: remove it", name)
}

// misplaced returns the error of the alphabetically first field that stands next to "body", but would change the answer only inside
// "body". It returns nil if there is no such field.
func (o *object) misplaced() *Error {
	for _, name := range slices.Sorted(maps.Keys(o.fields)) {
		if !o.has(name) || slices.Contains(inert, name) || name == "model" {
			continue
		}
		if slices.Contains(fieldNames(), name) {
			return errorf(CodeUnknown, `%q stands next to "body", where it has no effect: move it into "body"`, name)
		}
	}
	return nil
}

// fieldNames returns the names of all fields that change an answer.
func fieldNames() []string {
	names := slices.Concat(supported[""], supported[Chat], supported[Completions])
	for _, a := range aliases {
		names = append(names, a.alias)
	}
	return names
}

// nearest returns the known field whose name is most similar to name; empty if more than a third of the characters differ.
func nearest(name string) string {
	best, found := (len(name)+1)/3+1, ""
	for _, f := range fieldNames() {
		if d := distance(strings.ToLower(name), f); d < best {
			best, found = d, f
		}
	}
	return found
}

// CheckUnknown returns an *Error if the request has a field that Ingot does not know. It accepts fields that do not change an answer, such
// as metadata.
func (r *Request) CheckUnknown() error {
	if r.unknown == nil {
		return nil
	}
	return r.unknown
}

// Model returns the model that the request names, or an empty string.
func (r *Request) Model() string { return r.model }

// CheckModel returns an *Error if the request names a model that is not in served. A request need not name a model.
func (r *Request) CheckModel(served ...string) error {
	if r.model == "" || slices.Contains(served, r.model) {
		return nil
	}
	quoted := make([]string, len(served))
	for i, s := range served {
		quoted[i] = fmt.Sprintf("%q", s)
	}
	return errorf(CodeUnknownModel, `"model" is %q, which is not served here: use %s`,
		r.model, strings.Join(quoted, " or "))
}
