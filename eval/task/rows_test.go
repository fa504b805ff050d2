package task

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/internal/ordered"
)

// TestRowsThatFunctionsRefuse: a row that lacks what a function of a task needs is refused with the
// column's name, however it is called.
func TestRowsThatFunctionsRefuse(t *testing.T) {
	t.Parallel()
	field := func(f fieldFunction) func(*ordered.Object) error {
		return func(row *ordered.Object) error { _, err := f(row); return err }
	}
	changed := func(f func(*ordered.Object) (*ordered.Object, error)) func(*ordered.Object) error {
		return func(row *ordered.Object) error { _, err := f(row); return err }
	}
	scored := func(f func(*ordered.Object, Response) (Scores, error)) func(*ordered.Object) error {
		return func(row *ordered.Object) error { _, err := f(row, Response{Logprobs: []float64{-1, -2}}); return err }
	}
	shuffled := func(row *ordered.Object) error {
		_, err := gpqa(0, withoutMarks)([]*ordered.Object{row})
		return err
	}
	for _, c := range []struct {
		of        func(*ordered.Object) error
		row, says string // says is empty for a row that is accepted
	}{
		{changed(dropRow), `{"validated_answers": {}}`, `column "answer" or "validated_answers" is missing`},
		{changed(dropRow), `{"answer": {}}`, `column "answer" or "validated_answers" is missing`},
		{changed(dropRow), `{"answer": {}, "validated_answers": {}}`, `validated_answers: the row has no column "number"`},
		{changed(dropRow), `{"answer": {}, "validated_answers": {"number": ["1"], "date": [{}], "spans": []}}`, `column "spans" needs 1 elements`},
		{changed(dropRow), `{"answer": {}, "validated_answers": {"number": ["1"], "date": 7, "spans": [[]]}}`, `column "date" needs 1 elements`},
		{scored(dropScore), `{}`, `no column "answers"`},
		{field(mathQuestion), `{}`, `no column "problem"`},
		{changed(mathRow), `{"level": "Level 5", "problem": "p"}`, `no column "solution"`},
		{changed(mathRow), `{"level": 5, "problem": "p", "solution": "s"}`, `column "level" is not text`},
		{changed(mathRow), `{"level": "Level 1", "problem": "p", "solution": "s"}`, ""},
		{scored(mathScore), `{"answer": 1}`, `column "answer" is not text`},
		{changed(hellaswag), `{"activity_label": "a", "ctx_a": "b", "endings": []}`, `no column "ctx_b"`},
		{changed(hellaswag), `{"activity_label": "a", "ctx_a": "b", "ctx_b": "c"}`, `no column "endings"`},
		{changed(hellaswag), `{"activity_label": "a", "ctx_a": "b", "ctx_b": "c", "endings": "d"}`, `column "endings" is not a list`},
		{field(winograndeRight), `{}`, `no column "answer"`},
		{field(winograndeRight), `{"answer": "3"}`, `is "3", not "1" or "2"`},
		{field(winograndeEnd), `{"sentence": "no blank"}`, `no blank`},
		{field(winograndeBeginnings), `{}`, `no column "sentence"`},
		{field(winograndeBeginnings), `{"sentence": "a _", "option1": "x"}`, `no column "option2"`},
		{field(wikitextPage), `{"page": 1}`, `column "page" is not text`},
		{func(row *ordered.Object) error { return wikitextCounted(row, new(Prompt)) }, `{}`, `no column "page"`},
		{scored(truthfulMass), `{"mc2_targets": []}`, `column "mc2_targets" is missing or not an object`},
		{scored(truthfulMass), `{"mc2_targets": {}}`, `needs a list "labels" of 2 elements`},
		{scored(truthfulMass), `{"mc2_targets": {"labels": [1]}}`, `needs a list "labels" of 2 elements`},
		{scored(truthfulMass), `{"mc2_targets": {"labels": [1, 0]}}`, ""},
		{changed(truthfulRow), `{}`, `no column "question"`},
		{changed(truthfulRow), `{"question": "q", "incorrect_answers": []}`, `no column "correct_answers"`},
		{changed(truthfulRow), `{"question": "q", "correct_answers": []}`, `no column "incorrect_answers"`},
		{scored(truthfulScore), `{"correct_answers": []}`, `no column "incorrect_answers"`},
		{shuffled, `{"Incorrect Answer 1": "a", "Incorrect Answer 2": "b", "Incorrect Answer 3": "c"}`, `row 1: the row has no column "Correct Answer"`},
		{shuffled, `{"Incorrect Answer 1": "a", "Incorrect Answer 2": null, "Incorrect Answer 3": "c", "Correct Answer": "d"}`, ""},
		{shuffled, `{"Incorrect Answer 1": "a", "Incorrect Answer 2": 1, "Incorrect Answer 3": "c", "Correct Answer": "d"}`, `column "Incorrect Answer 2" is not text`},
		{field(mmluProThinking), `{"options": []}`, `no column "question"`},
		{field(mmluProThinking), `{"question": "q"}`, `no column "options"`},
		{field(mmluProThoughts), `{}`, `no column "cot_content"`},
		{field(mmluProLetters), `{"options": [1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26]}`, ""},
		{field(mmluProLetters), `{"options": [1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27]}`, "at most 26"},
		{field(musrQuestion), `{"narrative": "n", "question": "q", "choices": "['a'"}`, `column "choices" is not a Python list as text`},
		{field(musrQuestion), `{"narrative": "n", "question": "q", "choices": "7"}`, `column "choices" is not a Python list as text`},
		{changed(func(row *ordered.Object) (*ordered.Object, error) {
			_, err := rowsOf("subject")("law")([]*ordered.Object{row})
			return nil, err
		}), `{}`, `row 1: the row has no column "subject"`},
	} {
		err := c.of(parse(t, []byte(c.row)))
		if c.says == "" {
			require.NoError(t, err, c.row)
		} else {
			require.ErrorContains(t, err, c.says, c.row)
		}
	}
}

// TestDropSpans: the right answers of a row are its number, its spans or its date, each once.
func TestDropSpans(t *testing.T) {
	t.Parallel()
	type list = []ordered.Value
	row := parse(t, []byte(`{"query_id": "q7", "answer": {"number": "", "spans": [], "date": {"day": "3", "month": "May", "year": ""}},
		"validated_answers": {"number": ["12", "", "", ""], "spans": [["x"], ["a", "b"], [], ["a", "b"]], "date": [{}, {}, {"day": "", "month": "", "year": "1999"}, {}]}}`))
	made, err := dropRow(row)
	require.NoError(t, err)
	answers, _ := made.Get("answers")
	require.Equal(t, list{list{"3 May"}, list{"12"}, list{"a", "b"}, list{"1999"}}, answers)
	id, _ := made.Get("id")
	require.Equal(t, "q7", id)
	_, ok := row.Get("answers")
	require.False(t, ok, "the row itself stays")
	for _, c := range []struct {
		answers, given string
		em, f1         float64
	}{
		{`[["3 May"]]`, "the 3 may!", 1, 1}, {`[["3 May"]]`, "4 May", 0, 0}, {`[["x y"], ["y"]]`, "y", 1, 1}, {`[["x y"]]`, "y", 0, 0.67},
		{`[["a cat", "dog"]]`, "cat", 0, 0.5}, {`[["1,000"]]`, "1000.0", 1, 1}, {`[[" "], []]`, "", 0, 0}, {`[["red"]]`, "", 0, 0}, {`[["well-known man"]]`, "man", 0, 0.5},
		{`[["an"]]`, "the", 1, 1}, {`[["3 of 4"]]`, "3", 0, 0.5}, {`[["5_0"]]`, "50", 1, 1},
	} {
		s, err := dropScore(parse(t, []byte(`{"answers": `+c.answers+`}`)), Response{Answers: []string{c.given}})
		require.NoError(t, err)
		require.InDelta(t, c.em, s.Values["em"], 1e-9, "%+v", c)
		require.InDelta(t, c.f1, s.Values["f1"], 1e-9, "%+v", c)
	}
}

// TestMathAnswers: normal forms are those of the appendix of the paper that the harness follows.
func TestMathAnswers(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"x = 5": "5", "1,000": "1000", "1,x": "1,x", "$5$": "5", `\text{5 cm}`: "5", `\frac12`: `\frac{1}{2}`, `\frac{1}{2}`: `\frac{1}{2}`, `\sqrt2`: `\sqrt{2}`, `\sqrt{2}`: `\sqrt{2}`,
		`12 square inches`: "12", `\boxed{7}`: "7", `\textbf{(A)}`: "(A)", `\overline{AB}`: "AB", "an apple": "apple", "a b": "b", "8^\\circ": "8", `\$3.50`: "3.50", "so $4$.": "4", "a=b=c": "c", "": "",
		`1\text{and}2`: "12", `\ 3`: "3", `5\mbox{ cm}`: "5",
	} {
		require.Equal(t, want, normalMath(text), text)
	}
	for solution, want := range map[string]string{
		`so \boxed{5}.`: "5", `\boxed{1}, \boxed{2}`: "2", `\boxed{\frac{1}{2}} done`: `\frac{1}{2}`, `$\boxed 7$`: "7", `\fbox{3}`: noAnswer, "none": noAnswer, `\boxed{open`: noAnswer, `\boxedx`: noAnswer,
	} {
		require.Equal(t, want, boxed(solution), solution)
	}
	row := parse(t, []byte(`{"answer": "1/2"}`))
	for _, c := range []struct {
		answer    string
		equal     float64
		undecided []string
	}{
		{"Final Answer: The final answer is 1/2. I hope it is correct.", 1, []string{"exact_match"}},
		{"Final Answer: The final answer is $1/2$. ", 1, []string{"exact_match"}},
		{"Final Answer: The final answer is 0.5. I hope it is correct.", 0, []string{"exact_match", "exact_match_original"}},
		{"1/2", 0, []string{"exact_match"}},
	} {
		s, err := mathScore(row, Response{Answers: []string{c.answer}})
		require.NoError(t, err)
		require.Equal(t, map[string]float64{"exact_match": c.equal, "exact_match_original": c.equal}, s.Values, c.answer)
		require.Equal(t, c.undecided, s.Undecided, c.answer)
	}
	made, err := mathRow(parse(t, []byte(`{"level": "Level 5", "problem": "p", "solution": "\\boxed{3}"}`)))
	require.NoError(t, err)
	answer, _ := made.Get("answer")
	require.Equal(t, "3", answer)
	question, err := mathQuestion(made)
	require.NoError(t, err)
	require.Equal(t, "Problem:\np\n\nSolution:", question)
}
