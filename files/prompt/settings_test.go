package prompt_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/files/prompt"
	"github.com/ingot-run/ingot/openai"
)

// TestSettingsAreAllFields: every request field can have a default, except the question itself and
// fields for which a default makes no sense.
func TestSettingsAreAllFields(t *testing.T) {
	t.Parallel()
	ofRows := []string{
		"model", "messages", "prompt", "tools", "tool_choice", "parallel_tool_calls", "documents", "add_generation_prompt", "chat_template_kwargs", "echo", "prefix_token", "literal_ranges",
		"best_of",               // covered by n
		"max_completion_tokens", // covered by max_tokens
		// covered by flags for the form of answers
		"response_format", "structured_outputs", "guided_json", "guided_regex", "guided_choice", "guided_grammar", "json_schema", "grammar", "format",
	}
	var want, got []string
	for _, e := range []openai.Endpoint{openai.Chat, openai.Completions} {
		for _, f := range openai.Fields(e) {
			if !slices.Contains(ofRows, f.Name) && !slices.Contains(want, f.Name) {
				want = append(want, f.Name)
			}
		}
	}
	for _, s := range prompt.Settings {
		got = append(got, s.Name)
		if s.Only == "" {
			require.True(t, slices.ContainsFunc(openai.Fields(openai.Completions), func(f *openai.Field) bool { return f.Name == s.Name }))
		}
	}
	require.ElementsMatch(t, want, got)
}

func TestValuesOfSettings(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ field, text, want, err string }{
		{"temperature", "0.5", "0.5", ""},
		{"temperature", "3", "", `--temperature: "temperature" must be between 0 and 2, not 3`},
		{"temperature", "hot", "", `"hot" is not a number`},
		{"max_tokens", "7", "7", ""},
		{"max_tokens", "7.5", "", `"7.5" is not a whole number`},
		{"seed", "-9223372036854775808", "-9223372036854775808", ""},
		{"ignore_eos", "true", "true", ""},
		{"ignore_eos", "maybe", "", `"maybe" is not true or false`},
		{"stop_token_ids", "1, 2", "[1,2]", ""},
		{"stop_token_ids", "1;2", "", "is not a list of token ids"},
		{"logit_bias", `{"5":-100}`, `{"5":-100}`, ""},
		{"logit_bias", `{"x":1}`, "", "must have token ids as keys"},
		{"logit_bias", `{`, "", "is not JSON"},
		{"reasoning_effort", "low", `"low"`, ""},
		{"top_logprobs", "3", "3", ""},
		{"continue_final_message", "true", "true", ""},
	} {
		i := slices.IndexFunc(prompt.Settings, func(s *openai.Field) bool { return s.Name == c.field })
		value, err := prompt.Settings[i].Parse(c.text)
		if err == nil {
			err = prompt.CheckDefaults([]prompt.Default{{Setting: prompt.Settings[i], Value: value}})
		}
		if c.err != "" {
			require.ErrorContains(t, err, c.err)
			continue
		}
		require.NoError(t, err, c.field)
		require.Equal(t, c.want, string(value))
	}
}
