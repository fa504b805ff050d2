package task

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func instruction(t *testing.T, id, kwargs string) (Prompt, error) {
	t.Helper()
	return read(t, "ifeval").Prompt(NewRow(t, map[string]any{"prompt": "p", "instruction_id_list": []string{id}, "kwargs": []json.RawMessage{json.RawMessage(kwargs)}}), nil)
}

// TestSettingsOfInstructions: a setting that is missing or out of range is an error, and so is an
// expression that is not valid. Limits belong to the allowed values.
func TestSettingsOfInstructions(t *testing.T) {
	t.Parallel()
	without := map[string]bool{
		"detectable_format:constrained_response": true, "detectable_format:json_format": true, "detectable_format:title": true, "combination:two_responses": true,
		"startend:quotation": true, "change_case:english_capital": true, "change_case:english_lowercase": true, "punctuation:no_comma": true,
	}
	const missing = "a setting of the instruction in kwargs is missing or out of range"
	for id := range instructionChecks {
		_, err := instruction(t, id, `{}`)
		if without[id] {
			require.NoError(t, err, id)
		} else {
			require.EqualError(t, err, `instruction "`+id+`": `+missing)
		}
	}
	for _, c := range []struct{ id, kwargs, says string }{
		{"keywords:existence", `{"keywords": ["a", "("]}`, `regular expression "("`},
		{"keywords:frequency", `{"keyword": "(", "frequency": 1, "relation": "at least"}`, `regular expression "("`},
		{"keywords:frequency", `{"keyword": "a", "relation": "at least"}`, missing},
		{"keywords:frequency", `{"keyword": "a", "frequency": 1}`, `relation "" is not "less than" or "at least"`},
		{"keywords:forbidden_words", `{"forbidden_words": ["("]}`, `regular expression "\\b(\\b"`},
		{"keywords:letter_frequency", `{"letter": "ab", "let_frequency": 1, "let_relation": "at least"}`, missing},
		{"keywords:letter_frequency", "{\"letter\": \"`\", \"let_frequency\": 1, \"let_relation\": \"at least\"}", missing},
		{"keywords:letter_frequency", `{"letter": "{", "let_frequency": 1, "let_relation": "at least"}`, missing},
		{"keywords:letter_frequency", `{"letter": "a", "let_frequency": 0, "let_relation": "at least"}`, missing},
		{"keywords:letter_frequency", `{"letter": "A", "let_frequency": 1, "let_relation": "at least"}`, ""},
		{"keywords:letter_frequency", `{"letter": "Z", "let_frequency": 1, "let_relation": "at least"}`, ""},
		{"length_constraints:nth_paragraph_first_word", `{"num_paragraphs": 2, "nth_paragraph": 3, "first_word": "a"}`, missing},
		{"length_constraints:nth_paragraph_first_word", `{"num_paragraphs": 2, "nth_paragraph": 0, "first_word": "a"}`, missing},
		{"length_constraints:nth_paragraph_first_word", `{"num_paragraphs": 2, "nth_paragraph": 2}`, missing},
		{"length_constraints:nth_paragraph_first_word", `{"num_paragraphs": 2, "nth_paragraph": 2, "first_word": "a"}`, ""},
		{"detectable_content:postscript", `{"postscript_marker": "("}`, "regular expression"},
		{"detectable_format:multiple_sections", `{"section_spliter": "(", "num_sections": 2}`, "regular expression"},
		{"detectable_format:multiple_sections", `{"section_spliter": "Part"}`, missing},
		{"startend:end_checker", `{"end_phrase": "  "}`, missing},
		{"punctuation:no_comma", `{"keywords": 5}`, "read instruction_id_list and kwargs: json: "},
	} {
		_, err := instruction(t, c.id, c.kwargs)
		if c.says == "" {
			require.NoError(t, err, "%+v", c)
		} else {
			require.ErrorContains(t, err, c.says, "%+v", c)
		}
	}
	_, err := read(t, "ifeval").Prompt(NewRow(t, map[string]any{"prompt": "p", "instruction_id_list": []string{}, "kwargs": []any{}}), nil)
	require.ErrorContains(t, err, "instruction_id_list has 0 elements and kwargs has 0: both need the same number, at least 1")
	_, err = read(t, "ifeval").Prompt(NewRow(t, map[string]any{"prompt": "p", "instruction_id_list": []string{"punctuation:no_comma"}, "kwargs": []any{map[string]any{}, map[string]any{}}}), nil)
	require.ErrorContains(t, err, "instruction_id_list has 1 elements and kwargs has 2")
}

// TestLimitsOfInstructions: whether an answer at a limit, or just beside it, follows an
// instruction.
func TestLimitsOfInstructions(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		id, kwargs, answer string
		want               bool
	}{
		{"length_constraints:number_words", `{"relation": "less than", "num_words": 3}`, "one two", true},
		{"length_constraints:number_words", `{"relation": "less than", "num_words": 3}`, "one two three", false},
		{"length_constraints:number_words", `{"relation": "at least", "num_words": 3}`, "one two three", true},
		{"length_constraints:number_words", `{"relation": "at least", "num_words": 3}`, "one two", false},
		{"length_constraints:number_paragraphs", `{"num_paragraphs": 2}`, "a\n***\nb", true},
		{"length_constraints:number_paragraphs", `{"num_paragraphs": 2}`, "***\na\n***\nb\n***", true},
		{"length_constraints:number_paragraphs", `{"num_paragraphs": 2}`, "a *** *** b", false},
		{"length_constraints:number_paragraphs", `{"num_paragraphs": 1}`, "a", true},
		{"length_constraints:number_paragraphs", `{"num_paragraphs": 1}`, "***", false},
		{"keywords:existence", `{"keywords": ["a", "b"]}`, "A b", true},
		{"keywords:existence", `{"keywords": ["a", "b"]}`, "a", false},
		{"keywords:forbidden_words", `{"forbidden_words": ["a", "b"]}`, "abba", true},
		{"keywords:forbidden_words", `{"forbidden_words": ["a", "b"]}`, "say B", false},
		{"keywords:frequency", `{"keyword": " a ", "frequency": 2, "relation": "at least"}`, "A a", true},
		{"keywords:frequency", `{"keyword": " a ", "frequency": 2, "relation": "less than"}`, "A a", false},
		{"keywords:letter_frequency", `{"letter": "E", "let_frequency": 2, "let_relation": "at least"}`, "eE", true},
		{"detectable_content:number_placeholders", `{"num_placeholders": 2}`, "[a] [b]", true},
		{"detectable_content:number_placeholders", `{"num_placeholders": 2}`, "[a] b", false},
		{"detectable_content:postscript", `{"postscript_marker": "P.S."}`, "Text.\np. s. more", true},
		{"detectable_content:postscript", `{"postscript_marker": "P.S."}`, "Text. ps more", false},
		{"detectable_content:postscript", `{"postscript_marker": "P.P.S"}`, "Text.\nP. P.S more", true},
		{"detectable_content:postscript", `{"postscript_marker": "P.P.S"}`, "Text. P.S.", false},
		{"detectable_content:postscript", `{"postscript_marker": " Note "}`, "a note on it", true},
		{"detectable_format:number_bullet_lists", `{"num_bullets": 2}`, "* a\n- b", true},
		{"detectable_format:number_bullet_lists", `{"num_bullets": 2}`, "* a\n- b\n- c", false},
		{"detectable_format:number_highlighted_sections", `{"num_highlights": 2}`, "*a* and *b*", true},
		{"detectable_format:number_highlighted_sections", `{"num_highlights": 2}`, "*a* and * *", false},
		{"detectable_format:number_highlighted_sections", `{"num_highlights": 1}`, "**a**", true},
		{"detectable_format:number_highlighted_sections", `{"num_highlights": 1}`, "****", false},
		{"detectable_format:multiple_sections", `{"section_spliter": "Part", "num_sections": 2}`, "Part 1 a Part 2 b", true},
		{"detectable_format:multiple_sections", `{"section_spliter": "Part", "num_sections": 2}`, "Part 1 a Part b", false},
		{"detectable_format:title", `{}`, "<<a>>", true},
		{"detectable_format:title", `{}`, "<< >>", false},
		{"detectable_format:json_format", `{}`, "```json\n{\"a\": 1}\n```", true},
		{"detectable_format:json_format", `{}`, "{a: 1}", false},
		{"detectable_format:constrained_response", `{}`, "My answer is maybe. So.", true},
		{"detectable_format:constrained_response", `{}`, "My answer is perhaps.", false},
		{"combination:repeat_prompt", `{"prompt_to_repeat": " Say it "}`, "  say it: yes", true},
		{"combination:repeat_prompt", `{"prompt_to_repeat": "Say it"}`, "I say it", false},
		{"startend:end_checker", `{"end_phrase": " The End "}`, "so, \"the end\" ", true},
		{"startend:end_checker", `{"end_phrase": "The End"}`, "the end.", false},
		{"startend:quotation", `{}`, ` "a" `, true},
		{"startend:quotation", `{}`, `"`, false},
		{"startend:quotation", `{}`, `"a`, false},
		{"startend:quotation", `{}`, `a"`, false},
		{"startend:quotation", `{}`, `""`, true},
		{"punctuation:no_comma", `{}`, "a; b", true},
		{"punctuation:no_comma", `{}`, "a, b", false},
		{"punctuation:no_comma", `{}`, "  ", false},
	} {
		p, err := instruction(t, c.id, c.kwargs)
		require.NoError(t, err, "%+v", c)
		strict, _ := p.Follow(c.answer)
		require.Equal(t, c.want, strict == 1, "%+v", c)
	}
}

// TestLooseAnswers: an answer follows loosely if it does without its first line, its last line,
// both, or its asterisks.
func TestLooseAnswers(t *testing.T) {
	t.Parallel()
	p, err := instruction(t, "startend:quotation", `{}`)
	require.NoError(t, err)
	for answer, loosely := range map[string]bool{
		`"a"`: true, "Here:\n\"a\"": true, "\"a\"\nDone.": true, "Here:\n\"a\"\nDone.": true, `*"a"*`: true, "Here:\n**\"a\"**\nDone.": true,
		"Here it\nis:\n\"a\"": false, "\"a\"\nDone\nnow.": false, "a": false, "": false, "\n": false, "a\nb": false,
	} {
		_, loose := p.Follow(answer)
		require.Equal(t, loosely, loose == 1, answer)
	}
	two, err := read(t, "ifeval").Prompt(NewRow(t, map[string]any{"prompt": "p", "instruction_id_list": []string{"startend:quotation", "punctuation:no_comma"}, "kwargs": []any{map[string]any{}, map[string]any{}}}), nil)
	require.NoError(t, err)
	require.Equal(t, []string{"startend:quotation", "punctuation:no_comma"}, []string{two.Instructions[0].ID, two.Instructions[1].ID})
	for answer, want := range map[string][2]int{`"a"`: {2, 2}, `"a, b"`: {1, 1}, "a": {1, 1}, "So,\n\"a\"": {0, 2}, strings.Repeat(",", 3): {0, 0}} {
		strict, loose := two.Follow(answer)
		require.Equal(t, want, [2]int{strict, loose}, answer)
	}
}
