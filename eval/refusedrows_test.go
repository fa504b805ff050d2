package eval_test

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/eval"
	"github.com/ingot-run/ingot/eval/task"
)

// TestRowsThatLoadRefuses: rows that a task or its metrics cannot use are refused before they are
// asked, with the row's number.
func TestRowsThatLoadRefuses(t *testing.T) {
	t.Parallel()
	const choice = "output_type: multiple_choice\ndoc_to_text: q\ndoc_to_choice: [x, y]\ndoc_to_target: t\n"
	const three = "output_type: multiple_choice\ndoc_to_text: q\ndoc_to_choice: [x, y, z]\ndoc_to_target: t\n"
	const plain = "doc_to_text: q\ndoc_to_target: t\n"
	for _, c := range []struct{ settings, rows, says string }{
		{choice, `{"q": 2, "t": 7}`, "row 1 of rows.jsonl: doc_to_text: 2 is not the number"},
		{choice, `{"q": "a", "t": 7}`, `doc_to_target gives none of the choices in any row of `},
		{choice, `{"q": "a", "t": 7}` + "\n" + `{"q": "a", "t": 1}`, ""},
		{choice + "metric_list: [{metric: mcc}]\n", `{"q": "a", "t": 1}` + "\n" + `{"q": "a", "t": 7}`, "row 2 of rows.jsonl: metric mcc needs one right choice, but doc_to_target gives none or a list"},
		{choice + "metric_list: [{metric: brier_score}]\n", `{"q": "a", "t": [1, 0]}`, "row 1 of rows.jsonl: metric brier_score needs one right choice"},
		{choice + "metric_list: [{metric: exact_match}]\n", `{"q": "a", "t": [1, 0]}`, ""},
		{choice + "metric_list: [{metric: exact_match}]\n", `{"q": "a", "t": [1, 7]}`, "metric exact_match needs one right choice"},
		{choice + "metric_list: [{metric: exact_match}]\n", `{"q": "a", "t": []}` + "\n" + `{"q": "a", "t": [1]}`, "row 1 of rows.jsonl: metric exact_match needs one right choice"},
		{choice, `{"q": "a", "t": []}` + "\n" + `{"q": "a", "t": [1]}`, ""},
		{choice + "metric_list: [{metric: f1}]\n", `{"q": "a", "t": 1}`, ""},
		{three + "metric_list: [{metric: acc}, {metric: f1}]\n", `{"q": "a", "t": 1}`, "metric f1 needs two choices, but the row has 3: use mcc"},
		{three + "metric_list: [{metric: f1, aggregation: !function utils.weighted_f1_score}]\n", `{"q": "a", "t": 1}`, ""},
		{three + "metric_list: [{metric: mcc}]\n", `{"q": "a", "t": 1}`, ""},
		{plain + "metric_list: [{metric: contains}]\n", `{"q": "a", "t": ""}` + "\n" + `{"q": "a", "t": ""}`, "doc_to_target gives an empty text in every row of rows.jsonl, which the metric contains cannot find in an answer"},
		{plain + "metric_list: [{metric: contains}]\n", `{"q": "a", "t": ""}` + "\n" + `{"q": "a", "t": "b"}`, ""},
		{plain + "cluster: c\n", `{"q": "a", "t": "b", "c": 1}` + "\n" + `{"q": "a", "t": "b"}`, "row 2 of rows.jsonl: cluster: "},
		{plain + "num_fewshot: 1\nfewshot_config: {same: c}\n", `{"q": "a", "t": "b"}`, `row 1 of rows.jsonl: the row has no column "c", by which its examples are chosen`},
		{plain + "num_fewshot: 1\nfewshot_config: {same: c, samples: [{q: o, t: b, c: one}]}\n", `{"q": "a", "t": "b", "c": "one"}`, ""},
		{plain + "num_fewshot: 1\nfewshot_config: {same: c, samples: [{q: o, t: b, c: one}]}\n", `{"q": "a", "t": "b", "c": "two"}`, `no example row has the same value in column "c" as the row: add one, or set num_fewshot to 0`},
		{plain + "num_fewshot: 2\nfewshot_config: {same: c, samples: [{q: o, t: b, c: one}]}\n", `{"q": "a", "t": "b", "c": "one"}`, `the task has 1 examples for the row, but num_fewshot is 2`},
		{plain + "num_fewshot: 1\nfewshot_config: {samples: []}\n", `{"q": "a", "t": "b"}`, "the task has 0 examples for the row"},
		{"process_docs: !function utils.process_law\n" + plain, `{"q": "a", "t": "b"}`, `change the rows of `},
	} {
		folder := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(folder, "rows.jsonl"), []byte(c.rows), 0o600))
		path := filepath.Join(folder, "task.yaml")
		require.NoError(t, os.WriteFile(path, []byte("task: mmmlu_law\ndata: rows.jsonl\n"+c.settings), 0o600))
		read, err := task.Read(path)
		require.NoError(t, err, "%+v", c)
		_, err = eval.Load(read, 0)
		if c.says == "" {
			require.NoError(t, err, "%+v", c)
			continue
		}
		require.Error(t, err, "%+v", c)
		require.Contains(t, strings.ReplaceAll(err.Error(), folder+"/", ""), c.says, "%+v", c)
		require.ErrorContains(t, err, "load task mmmlu_law: ")
	}
	skipped, err := task.Read("ifeval")
	require.NoError(t, err)
	skipped.Data = filepath.Join(t.TempDir(), "rows.jsonl")
	require.NoError(t, os.WriteFile(skipped.Data, []byte(`{"prompt": "p", "instruction_id_list": ["a:new_one"], "kwargs": [{}]}`), 0o600))
	_, err = eval.Load(skipped, 0)
	require.ErrorContains(t, err, "no row of "+skipped.Data+" can be used: for example, the row is left out: instruction \"a:new_one\"")
	read, err := task.Read(filepath.Join(tasks, "answers.yaml"))
	require.NoError(t, err)
	read.Generation.TopP = math.NaN()
	_, err = eval.Load(read, 0)
	require.ErrorContains(t, err, "load task answers: json: unsupported value: NaN")
}

// TestAnswersByTheTasksOwnScores: a task's own score sees answers or log-probabilities. An error of
// it is the reason why the row has no score.
func TestAnswersByTheTasksOwnScores(t *testing.T) {
	t.Parallel()
	score := func(s *eval.Set, answers ...string) []eval.Sample {
		dir := t.TempDir()
		require.NoError(t, eval.Prepare(dir, []*eval.Set{s}))
		require.NoError(t, os.WriteFile(filepath.Join(dir, eval.AnswersFile), []byte(strings.Join(answers, "\n")+"\n"), 0o600))
		_, err := eval.Score(dir, []*eval.Set{s}, nil, eval.Config{})
		require.NoError(t, err)
		samples, err := eval.ReadSamples(dir, s.Name)
		require.NoError(t, err)
		return samples
	}
	text := func(id string, texts ...string) string {
		return `{"custom_id":"` + id + `","response":{"body":{"choices":[{"text":"` + strings.Join(texts, `"},{"text":"`) + `"}]}}}`
	}
	drop := written(t, "drop", "doc_to_text: q\ndoc_to_target: q\nprocess_results: !function utils.process_results\nmetric_list: [{metric: em}]\n", []map[string]any{{"q": "Q", "answers": []any{[]string{"red"}}}, {"q": "Q"}})
	samples := score(drop, text("drop:0", "Red"), text("drop:1", "red"))
	require.InDelta(t, 1, samples[0].Scores["em"], 0)
	require.Empty(t, samples[0].Failed)
	require.Equal(t, `the row has no column "answers"`, samples[1].Failed)
	require.Empty(t, samples[1].Scores)

	changed := written(t, "truthfulqa_gen", "doc_to_text: q\ndoc_to_target: correct_answers\nprocess_docs: !function utils.process_docs_gen\n",
		[]map[string]any{{"q": "Q", "question": " Why? ", "correct_answers": []string{"So"}, "incorrect_answers": []string{}}})
	require.JSONEq(t, `{"q": "Q", "question": "Why?", "correct_answers": ["So.", "I have no comment."], "incorrect_answers": []}`, string(changed.Items[0].Doc))

	mass := written(t, "truthfulqa_mc2", "output_type: multiple_choice\ndoc_to_text: q\ndoc_to_choice: [x, y]\ndoc_to_target: 0\nprocess_results: !function utils.process_results_mc2\nmetric_list: [{metric: acc}]\n",
		[]map[string]any{{"q": "Q", "mc2_targets": map[string]any{"labels": []int{0, 1}}}})
	logprobs := func(choice, text string, p string) string {
		return `{"custom_id":"truthfulqa_mc2:0:` + choice + `","response":{"body":{"choices":[{"text":"","logprobs":{"tokens":["Q","` + text + `"],"token_logprobs":[null,` + p + `],"text_offset":[0,1]}}]}}}`
	}
	samples = score(mass, logprobs("0", " x", "0"), logprobs("1", " y", "-1.0986122886681098"))
	require.InDelta(t, 0.25, samples[0].Scores["acc"], 1e-9)

	for kind, greedy := range map[string][]bool{"loglikelihood": {true}, "loglikelihood_rolling": nil} {
		likely := written(t, "a", "output_type: "+kind+"\ndoc_to_text: ''\ndoc_to_target: q\n", []map[string]any{{"q": "Qx"}})
		likely.Items[0].Prompt.Score = func(r task.Response) (task.Scores, error) {
			require.Equal(t, task.Response{Logprobs: []float64{-3}, Greedy: greedy}, r)
			return task.Scores{Values: map[string]float64{"own": 0.5}, Undecided: []string{"own"}}, nil
		}
		samples = score(likely, `{"custom_id":"a:0:0","response":{"body":{"choices":[{"text":"","logprobs":{"tokens":["Q","x"],"token_logprobs":[-2,-1],"top_logprobs":[{"Q":-2},{"x":-1}],"text_offset":[0,1]}}]}}}`)
		require.Equal(t, eval.Values{"own": 0.5}, samples[0].Scores)
		require.Equal(t, []string{"own"}, samples[0].Undecided)
	}

	twice := written(t, "b", "doc_to_text: q\ndoc_to_target: a\nrepeats: 2\nfilter_list: [{name: all, filter: [{function: take_first_k, k: 2}]}, {name: one, filter: [{function: take_first}]}]\nmetric_list: [{metric: exact_match}, {metric: bleu}]\n",
		[]map[string]any{{"q": "Q", "a": "a b c d e"}, {"q": "Q", "a": []string{"a", "b"}}})
	samples = score(twice, text("b:0", "a b c d e", "x"), text("b:1", "b", "x"))
	require.Equal(t, "bleu needs one answer and one target, but the row has 2 and 1", samples[0].Failed)
	require.Empty(t, samples[1].Failed)
	require.InDelta(t, 1, samples[1].Scores["bleu"], 1e-9)
	require.Equal(t, "bleu needs one answer and one target, but the row has 2 and 2", samples[2].Failed)
	require.Equal(t, "bleu needs one answer and one target, but the row has 1 and 2", samples[3].Failed)
}

// TestLinesOfAnswersThatCannotBeRead: a damaged line is named; the run does not count as
// unanswered.
func TestLinesOfAnswersThatCannotBeRead(t *testing.T) {
	t.Parallel()
	s := written(t, "a", "doc_to_text: q\ndoc_to_target: a\n", rowsOf(1))
	dir := t.TempDir()
	require.NoError(t, eval.Prepare(dir, []*eval.Set{s}))
	require.NoError(t, os.WriteFile(filepath.Join(dir, eval.AnswersFile), []byte("{}\n{\n"), 0o600))
	_, err := eval.Score(dir, []*eval.Set{s}, nil, eval.Config{})
	require.ErrorContains(t, err, "read answers: "+filepath.Join(dir, eval.AnswersFile)+": line 2: ")
	_, err = eval.Changes("a", filepath.Join(dir, "none"), dir)
	require.ErrorContains(t, err, "read the results of a run: ")
	cache := eval.Cache{Folder: filepath.Join(t.TempDir(), "store"), Identity: "m", Batch: "x"}
	require.NoError(t, os.Remove(filepath.Join(dir, eval.AnswersFile)))
	err = cache.Answer(t.Context(), filepath.Join(dir, eval.RequestsFile), filepath.Join(dir, eval.AnswersFile), func(int) error {
		require.NoError(t, os.WriteFile(cache.Folder, nil, 0o600)) // no folder can be made in it
		line := `{"custom_id":"a:0","response":{"body":{"choices":[{"text":"x"}]}},"error":null}` + "\n"
		return os.WriteFile(filepath.Join(dir, eval.AnswersFile), []byte(line), 0o600)
	})
	require.ErrorContains(t, err, "store answers in the cache: "+filepath.Join(dir, eval.AnswersFile)+": line 1: ")
}
