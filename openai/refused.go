package openai

import (
	"bytes"
	"encoding/json"
	"slices"
)

// refused lists fields that would change the answer but that Ingot does not support. Such a field is an error, unless its value has no
// effect.
var refused = []struct {
	field   string
	only    Endpoint // the endpoint that has the field; empty for both
	ignored []string // values that have no effect, as JSON
	why     string
}{
	{"stream", "", []string{"false"}, "a row's result is written when it is complete"},
	{"response_format", "", []string{`{"type":"text"}`}, "output cannot be constrained"},
	{"structured_outputs", "", nil, "output cannot be constrained"},
	{"guided_json", "", nil, "output cannot be constrained"},
	{"guided_regex", "", nil, "output cannot be constrained"},
	{"guided_choice", "", nil, "output cannot be constrained"},
	{"guided_grammar", "", nil, "output cannot be constrained"},
	{"grammar", "", []string{`""`}, "output cannot be constrained"},
	{"json_schema", "", nil, "output cannot be constrained"},
	{"allowed_token_ids", "", nil, `use "logit_bias"`},
	{"bad_words", "", []string{"[]"}, `use "logit_bias"`},
	{"logits_processors", "", []string{"[]"}, "custom code is not run"},
	{"use_beam_search", "", []string{"false"}, "there is no beam search"},
	{"length_penalty", "", []string{"1", "1.0"}, "there is no beam search"},
	{"prompt_logprobs", "", nil, `use "echo" and "logprobs" on /v1/completions`},
	{"include_stop_str_in_output", "", []string{"false"}, "stop strings are left out of the text"},
	{"skip_special_tokens", "", []string{"true"}, `special tokens are left out of the text; use "return_token_ids"`},
	{"return_tokens_as_token_ids", "", []string{"false"}, `use "return_token_ids"`},
	{"truncate_prompt_tokens", "", nil, "prompts are not truncated"},
	{"prompt_embeds", "", nil, "prompts are text or token ids"},

	{"functions", Chat, []string{"[]"}, `use "tools"`},
	{"function_call", Chat, []string{`"auto"`, `"none"`}, `use "tools"`},
	{"modalities", Chat, []string{`["text"]`}, "only text is generated"},
	{"audio", Chat, nil, "only text is generated"},
	{"parallel_tool_calls", Chat, []string{"true"}, "output cannot be constrained"},
	{"web_search_options", Chat, nil, "there is no web search"},
	{"chat_template", Chat, nil, "the model's own template is used"},
	{"add_special_tokens", Chat, []string{"false"}, "the chat template writes the special tokens"},
	{"echo", Chat, []string{"false"}, "use /v1/completions"},

	{"suffix", Completions, []string{`""`}, "text cannot be inserted before a suffix"},
	{"add_special_tokens", Completions, []string{"true"}, "give the prompt as token ids instead"},
}

// understood lists long names of supported fields. A name that differs from one of them in only one or two characters is an error even if
// unknown fields are ignored.
var understood = []string{
	"temperature", "max_tokens", "max_completion_tokens", "presence_penalty", "frequency_penalty", "repetition_penalty",
	"logit_bias", "logprobs", "top_logprobs", "min_tokens", "ignore_eos", "stop_token_ids", "return_token_ids",
	"add_generation_prompt", "chat_template_kwargs", continueFinal,
}

// refuse sets an error for unsupported fields and misspelt names. A live request may set "stream".
func (o *object) refuse(e Endpoint, live bool) {
	odd := o.odd(e)
	for _, f := range refused {
		if len(odd) == 0 {
			break
		}
		if !o.has(f.field) || (f.only != "" && f.only != e) || live && f.field == "stream" {
			continue
		}
		if !slices.Contains(f.ignored, compact(o.fields[f.field])) {
			o.fail(CodeUnsupported, "%q is not supported: %s", f.field, f.why)
		}
	}
	if best, ok := o.integer("best_of", 1, 128); ok && e == Completions {
		n, _ := o.integer("n", 1, 128)
		if best != max(n, 1) {
			o.fail(CodeUnsupported, `"best_of" is not supported: use "n" with "logprobs", and choose the best answer yourself`)
		}
	}
	for _, name := range odd {
		if meant := misspelt(name); meant != "" {
			o.fail(CodeInvalidValue, "%q is unknown: did you mean %q?", name, meant)
		}
	}
}

// odd returns the names of the fields that reach neither the engine nor the chat template, in alphabetical order.
func (o *object) odd(e Endpoint) []string {
	var names []string
	for name := range o.fields {
		if !slices.Contains(supported[""], name) && !slices.Contains(supported[e], name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func compact(raw json.RawMessage) string {
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		return string(raw)
	}
	return b.String()
}

// misspelt returns the supported field whose name was probably meant, or an empty string.
func misspelt(name string) string {
	for _, f := range understood {
		if name == f {
			return ""
		}
	}
	for _, f := range understood {
		if d := len(name) - len(f); d >= -2 && d <= 2 && distance(name, f) <= 2 {
			return f
		}
	}
	return ""
}

// distance returns the Levenshtein distance: the number of characters to insert, delete or replace to turn a into b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}
