package openai

import (
	"bytes"
	"encoding/json"
	"slices"
)

// unsupported lists the fields that change an answer in other programs and that Ingot does not
// have. Such a field is an error, unless its value has no effect.
var unsupported = []struct {
	field     string
	ignorable bool     // the field is accepted if unknown fields are ignored
	only      Endpoint // the endpoint that refuses the field; empty for both
	neutral   []string // values that have no effect, as JSON
	instead   string
}{
	{"stream", false, "", []string{"false"}, "a row's result is written when it is complete"},
	{"guided_whitespace_pattern", false, "", nil, "white space in JSON is bounded"},
	{"allowed_token_ids", false, "", nil, `use "logit_bias"`},
	{"bad_words", false, "", []string{"[]"}, `use "logit_bias"`},
	{"logits_processors", false, "", []string{"[]"}, "custom code is not run"},
	{"use_beam_search", false, "", []string{"false"}, "there is no beam search"},
	{"length_penalty", false, "", []string{"1", "1.0"}, "there is no beam search"},
	{"prompt_logprobs", false, "", nil, `use "echo" and "logprobs" on /v1/completions`},
	{"include_stop_str_in_output", false, "", []string{"false"}, "stop strings are left out of the text"},
	{"skip_special_tokens", false, "", []string{"true"}, `special tokens are left out of the text; use "return_token_ids"`},
	{"return_tokens_as_token_ids", false, "", []string{"false"}, `use "return_token_ids"`},
	{"truncate_prompt_tokens", false, "", nil, "prompts are not truncated"},
	{"prompt_embeds", false, "", nil, "prompts are text or token ids"},
	{"functions", false, Chat, []string{"[]"}, `use "tools"`},
	{"function_call", false, Chat, []string{`"auto"`, `"none"`}, `use "tools"`},
	{"modalities", false, Chat, []string{`["text"]`}, "only text is generated"},
	{"audio", false, Chat, nil, "only text is generated"},
	{"web_search_options", false, Chat, nil, "there is no web search"},
	{"chat_template", false, Chat, nil, "the model's own template is used"},
	{"add_special_tokens", false, Chat, []string{"false"}, "the chat template writes the special tokens"},
	{"echo", false, Chat, []string{"false"}, "use /v1/completions"},
	{"suffix", false, Completions, []string{`""`}, "text cannot be inserted before a suffix"},
	{"add_special_tokens", false, Completions, []string{"true"}, "give the prompt as token ids instead"},

	{"extra_body", true, "", []string{"{}"}, "put its fields into the body itself"},
	{"sampling_params", true, "", []string{"{}"}, "put its fields into the body itself"},
	{"options", true, "", []string{"{}"}, "put its fields into the body itself"},
	{"system", true, "", []string{`""`}, `add a message with the role "system"`},
	{"images", true, "", []string{"[]"}, "only text can be used"},
	{"max_length", true, "", nil, `use "max_tokens", which does not count the prompt`},
	{"num_predict", true, "", nil, `use "max_tokens"`},
	{"thinking", true, "", nil, `use "enable_thinking" or "chat_template_kwargs"`},
	{"repeat_last_n", true, "", []string{"-1"}, "a penalty applies to the whole text"},
	{"mirostat", true, "", []string{"0"}, `use "temperature", "top_p", "min_p" and "top_k"`},
	{"typical_p", true, "", []string{"1", "1.0"}, `use "temperature", "top_p", "min_p" and "top_k"`},
}

// inert lists fields that are accepted although they do not change an answer: ids and notes of a
// row, and settings of services. "answer" is the expected answer of a row.
var inert = []string{
	"id", "custom_id", "answer", "metadata", "user", "safety_identifier", "store", "service_tier", "verbosity", "prediction",
	"stream_options", "prompt_cache_key", "prompt_cache_options", "prompt_cache_retention",
	"priority", "request_id", "cache_salt", "guided_decoding_backend", // from vLLM
	"cache_prompt", "id_slot", "timings_per_token", "mirostat_tau", "mirostat_eta", // from llama.cpp
	"keep_alive",  // from Ollama
	"ingot_error", // why a row failed before, in files of failed rows
}

// refuse sets an error for unsupported fields and misspelt names. A live request may set "stream".
func (o *object) refuse(e Endpoint, live bool) {
	for _, f := range unsupported {
		if f.ignorable || !o.has(f.field) || (f.only != "" && f.only != e) || live && f.field == "stream" {
			continue
		}
		if !slices.Contains(f.neutral, compact(o.fields[f.field])) {
			o.fail(CodeUnsupported, "%q is not supported: %s", f.field, f.instead)
		}
	}
	for _, name := range o.odd(e) {
		if meant := misspelt(name); meant != "" {
			o.fail(CodeInvalidValue, "%q is unknown: did you mean %q?", name, meant)
		}
	}
}

func compact(raw json.RawMessage) string {
	var b bytes.Buffer
	json.Compact(&b, raw) //nolint:errcheck // the value of a field is valid JSON
	return b.String()
}
