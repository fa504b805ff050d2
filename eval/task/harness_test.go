package task

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/internal/ordered"
)

// pythonResults holds recorded results of the harness's Python functions. testdata/record.py has
// recorded them.
type pythonResults struct {
	Winogrande []struct {
		Row          json.RawMessage   `json:"row"`
		Shots        []json.RawMessage `json:"shots"`
		Contexts     []string          `json:"contexts"`
		Continuation string            `json:"continuation"`
		Right        int               `json:"right"`
	} `json:"winogrande"`
	Wikitext []struct {
		Row   json.RawMessage `json:"row"`
		Text  string          `json:"text"`
		Words int             `json:"words"`
		Bytes int             `json:"bytes"`
	} `json:"wikitext"`
	Hellaswag []struct {
		Row     json.RawMessage `json:"row"`
		Query   string          `json:"query"`
		Choices []string        `json:"choices"`
	} `json:"hellaswag"`
	IFEval []struct {
		Instruction string          `json:"instruction"`
		Kwargs      json.RawMessage `json:"kwargs"`
		Strict      string          `json:"strict"` // a digit for each answer: 1 if the answer follows the instruction
		Loose       string          `json:"loose"`
	} `json:"ifeval"`
	Answers []string `json:"answers"`
}

func recordedFunctions(t *testing.T) pythonResults {
	t.Helper()
	var f pythonResults
	text, err := os.ReadFile(filepath.Join("testdata", "harness.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &f))
	return f
}

func read(t *testing.T, path string) *Task {
	t.Helper()
	task, err := Read(path)
	require.NoError(t, err)
	return task
}

func TestWinogrande(t *testing.T) {
	t.Parallel()
	task := read(t, "winogrande")
	for _, c := range recordedFunctions(t).Winogrande {
		var shots []*ordered.Object
		for _, s := range c.Shots {
			shots = append(shots, parse(t, s))
		}
		p, err := task.Prompt(parse(t, c.Row), shots)
		require.NoError(t, err)
		require.Equal(t, c.Contexts, p.Contexts)
		require.Equal(t, []string{c.Continuation, c.Continuation}, p.Choices)
		require.Equal(t, c.Right, p.Right)
	}
	for row, says := range map[string]string{
		`{"sentence": "no blank", "option1": "a", "option2": "b", "answer": "1"}`: "no blank",
		`{"sentence": "a _ b", "option1": "a", "option2": "b", "answer": "3"}`:    `"3"`,
		`{"sentence": "a _ b", "option1": "a", "answer": "1"}`:                    `"option2"`,
		`{"sentence": 1, "option1": "a", "option2": "b", "answer": "1"}`:          "not text",
	} {
		_, err := task.Prompt(parse(t, []byte(row)), nil)
		require.ErrorContains(t, err, says)
	}
}

func TestWikitext(t *testing.T) {
	t.Parallel()
	task := read(t, "wikitext")
	for _, c := range recordedFunctions(t).Wikitext {
		p, err := task.Prompt(parse(t, c.Row), nil)
		require.NoError(t, err)
		require.Equal(t, []string{c.Text}, p.Targets)
		require.Equal(t, c.Words, Words(p.Counted))
		require.Len(t, p.Counted, c.Bytes)
	}
}

func TestHellaswag(t *testing.T) {
	t.Parallel()
	task := read(t, "hellaswag")
	for _, c := range recordedFunctions(t).Hellaswag {
		rows, err := task.Rows([]*ordered.Object{parse(t, c.Row)})
		require.NoError(t, err)
		p, err := task.Prompt(rows[0], nil)
		require.NoError(t, err)
		require.Equal(t, c.Query, p.Context)
		for i, choice := range c.Choices {
			require.Equal(t, " "+choice, p.Choices[i])
		}
	}
}

// TestInstructions compares the checks of instructions with those of the harness on many answers.
func TestInstructions(t *testing.T) {
	t.Parallel()
	all := recordedFunctions(t)
	checked := map[string]bool{}
	for _, c := range all.IFEval {
		checked[c.Instruction] = true
		row := NewRow(t, map[string]any{"prompt": "p", "instruction_id_list": []string{c.Instruction}, "kwargs": []json.RawMessage{c.Kwargs}})
		p, err := read(t, "ifeval").Prompt(row, nil)
		require.NoError(t, err)
		for i, answer := range all.Answers {
			strict, loose := p.Follow(answer)
			require.Equal(t, int(c.Strict[i]-'0'), strict, "%s %s, strictly: %q", c.Instruction, c.Kwargs, answer)
			require.Equal(t, int(c.Loose[i]-'0'), loose, "%s %s, loosely: %q", c.Instruction, c.Kwargs, answer)
		}
	}
	ours := map[string]bool{"change_case:english_capital": true, "change_case:english_lowercase": true, "change_case:capital_word_frequency": true}
	for id := range instructionChecks {
		require.NotEqual(t, checked[id], ours[id], "%s must be tested here or in TestInstructionsOfCase, and not in both", id)
	}
}

// NewRow makes a row from Go values.
func NewRow(t *testing.T, v any) *ordered.Object {
	t.Helper()
	text, err := json.Marshal(v)
	require.NoError(t, err)
	return parse(t, text)
}

// TestInstructionsOfCase tests the instructions about case. Their checks differ from the harness's,
// which use NLTK and langdetect.
func TestInstructionsOfCase(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		id, kwargs, answer string
		follows            bool
	}{
		{"change_case:english_capital", `{}`, "LOUD, 3 TIMES.", true},
		{"change_case:english_capital", `{}`, "LOUD, 3 times.", false},
		{"change_case:english_capital", `{}`, "123", false},
		{"change_case:english_lowercase", `{}`, "quiet, 3 times.", true},
		{"change_case:english_lowercase", `{}`, "Quiet", false},
		{"change_case:capital_word_frequency", `{"capital_frequency": 2, "capital_relation": "at least"}`, "NASA and the EU-US deal", true},
		{"change_case:capital_word_frequency", `{"capital_frequency": 2, "capital_relation": "at least"}`, "NASA and Esa", false},
		{"change_case:capital_word_frequency", `{"capital_frequency": 2.0, "capital_relation": "less than"}`, "I am", true},
	} {
		row := NewRow(t, map[string]any{"prompt": "p", "instruction_id_list": []string{c.id}, "kwargs": []json.RawMessage{json.RawMessage(c.kwargs)}})
		p, err := read(t, "ifeval").Prompt(row, nil)
		require.NoError(t, err)
		strict, _ := p.Follow(c.answer)
		require.Equal(t, c.follows, strict == 1, "%s: %q", c.id, c.answer)
	}
}

// TestInstructionsThatCannotBeChecked checks that a row with such an instruction is left out, and
// that the instruction is named. A row without the settings of an instruction is an error.
func TestInstructionsThatCannotBeChecked(t *testing.T) {
	t.Parallel()
	task := read(t, "ifeval")
	for _, id := range []string{"language:response_language", "length_constraints:number_sentences", "a:new_one"} {
		_, err := task.Prompt(NewRow(t, map[string]any{"prompt": "p", "instruction_id_list": []string{"punctuation:no_comma", id}, "kwargs": []any{map[string]any{}, map[string]any{}}}), nil)
		require.ErrorIs(t, err, ErrSkip)
		require.ErrorIs(t, err, ErrUnsupported)
		require.ErrorContains(t, err, id)
	}
	for id := range instructionChecks {
		_, err := task.Prompt(NewRow(t, map[string]any{"prompt": "p", "instruction_id_list": []string{id}, "kwargs": []any{}}), nil)
		require.ErrorContains(t, err, "kwargs has 0")
	}
	_, err := task.Prompt(NewRow(t, map[string]any{"prompt": "p", "instruction_id_list": []string{"keywords:frequency"}, "kwargs": []any{map[string]any{"keyword": "a", "frequency": 1, "relation": "about"}}}), nil)
	require.ErrorContains(t, err, `"about"`)
}

// TestBuiltin compares prompts and scores of the built-in tasks with those of the harness's files
// of the same names.
func TestBuiltin(t *testing.T) {
	t.Parallel()
	folder := harness(t)
	files := map[string]string{
		"arc_easy": "arc/arc_easy.yaml", "arc_challenge": "arc/arc_challenge.yaml", "gsm8k": "gsm8k/gsm8k.yaml", "hellaswag": "hellaswag/hellaswag.yaml",
		"ifeval": "ifeval/ifeval.yaml", "lambada_openai": "lambada/lambada_openai.yaml", "mmlu": "mmlu/default/mmlu_anatomy.yaml",
		"wikitext": "wikitext/wikitext.yaml", "winogrande": "winogrande/default.yaml",
	}
	require.Len(t, Builtin(), len(files))
	for _, name := range Builtin() {
		ours, theirs := read(t, name), read(t, filepath.Join(folder, files[name]))
		require.Equal(t, theirs.Type, ours.Type, name)
		require.Equal(t, theirs.Generation, ours.Generation, name)
		require.Equal(t, theirs.Shots, ours.Shots, name)
		require.Equal(t, theirs.Text.source, ours.Text.source, name)
		require.Equal(t, theirs.Target.source, ours.Target.source, name)
		require.Equal(t, theirs.Choices.source, ours.Choices.source, name)
		require.Equal(t, theirs.Choices.constant, ours.Choices.constant, name)
		require.Equal(t, theirs.convert == nil, ours.convert == nil, name)
		require.Equal(t, theirs.results.prepare == nil, ours.results.prepare == nil, name)
		require.Len(t, ours.Filters, len(theirs.Filters), name)
		for i := range theirs.Filters {
			require.Equal(t, theirs.Filters[i].Name, ours.Filters[i].Name)
			for _, answer := range []string{"so it is 1,204.\n#### 1,204", "$5 and 17", "none"} {
				require.Equal(t, apply(t, &theirs.Filters[i], []string{answer}, nil), apply(t, &ours.Filters[i], []string{answer}, nil))
			}
		}
		require.Equal(t, names(theirs.Metrics), names(ours.Metrics), name)
	}
	row := parse(t, []byte(`{"question": "Where? ", "subject": "high_school_biology", "choices": ["a", "b", "c", "d"], "answer": 2}`))
	p, err := read(t, "mmlu").Prompt(row, nil)
	require.NoError(t, err)
	require.Equal(t, "The following are multiple choice questions (with answers) about high school biology.\n\nWhere?\nA. a\nB. b\nC. c\nD. d\nAnswer:", p.Context)
	require.Equal(t, 2, p.Right)
}

func names(list []Metric) (all []string) {
	for _, m := range list {
		all = append(all, m.Name+" "+m.Aggregation)
	}
	return all
}
