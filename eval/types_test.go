package eval_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/eval"
	"github.com/ingot-run/ingot/eval/task"
)

// answerWith writes an answer to each request in a file of a run's directory. texts returns the
// answer's choices; if it returns none, the row fails.
func answerWith(t *testing.T, folder, requests, answers string, texts func(id string) []string) {
	t.Helper()
	in, err := os.Open(filepath.Join(folder, requests))
	require.NoError(t, err)
	defer in.Close()
	out, err := os.Create(filepath.Join(folder, answers))
	require.NoError(t, err)
	type choice map[string]any
	for d, enc := json.NewDecoder(in), json.NewEncoder(out); d.More(); {
		var r struct {
			CustomID string `json:"custom_id"`
		}
		require.NoError(t, d.Decode(&r))
		line := map[string]any{"custom_id": r.CustomID}
		var choices []choice
		for _, text := range texts(r.CustomID) {
			choices = append(choices, choice{"text": text, "finish_reason": "stop"})
		}
		if choices == nil {
			line["error"] = map[string]string{"code": "failed", "message": "it broke"}
		} else {
			line["response"] = map[string]any{"body": map[string]any{"choices": choices, "usage": map[string]int{"completion_tokens": 7}}}
			line["stats"] = map[string]any{"total_ms": 12.5}
		}
		require.NoError(t, enc.Encode(line))
	}
	require.NoError(t, out.Close())
}

func rowsOf(n int) []map[string]any {
	list := make([]map[string]any, n)
	for i := range list {
		list[i] = map[string]any{"q": "question", "a": "yes"}
	}
	return list
}

// TestPassAtKOfRuns checks that the answers to a row give one pass@k score for each k.
func TestPassAtKOfRuns(t *testing.T) {
	t.Parallel()
	s := written(t, "many", "doc_to_text: q\ndoc_to_target: a\nrepeats: 4\nmetric_list: [{metric: pass@k, k: [1, 2, 4]}]\n", rowsOf(3))
	folder := t.TempDir()
	require.NoError(t, eval.Prepare(folder, []*eval.Set{s}))
	answerWith(t, folder, eval.RequestsFile, eval.AnswersFile, func(id string) []string {
		return map[string][]string{"many:0": {"yes", "no", "no", "no"}, "many:1": {"no", "no", "no", "no"}, "many:2": {"yes", "yes"}}[id]
	})
	r, err := eval.Score(folder, []*eval.Set{s}, nil, eval.Config{})
	require.NoError(t, err)
	require.InDelta(t, (0.25+0)/2, r.Results["many"]["pass@1,none"], 1e-12)
	require.InDelta(t, (0.5+0)/2, r.Results["many"]["pass@2,none"], 1e-12)
	require.InDelta(t, (1.0+0)/2, r.Results["many"]["pass@4,none"], 1e-12)
	require.Equal(t, 1, r.Samples["many"].Failed, "a row with two answers has no pass@4")
	samples, err := eval.ReadSamples(folder, "many")
	require.NoError(t, err)
	require.Equal(t, 7, samples[0].Tokens)
	require.InDelta(t, 12.5, samples[0].Latency, 0)
	require.Contains(t, samples[2].Failed, "2 answers are left after the filters, but pass@4 needs 4")
}

// TestJudge runs a task of type judge. The judge is asked about each answer. Answers that it cannot
// score count as failed.
func TestJudge(t *testing.T) {
	t.Parallel()
	s := written(t, "kind", "output_type: judge\ndoc_to_text: q\njudge: {range: [0, 4], rubric: 'Is it kind? {{answer}}'}\n", rowsOf(5))
	sets := []*eval.Set{s}
	require.True(t, eval.Judged(sets))
	folder := t.TempDir()
	require.NoError(t, eval.Prepare(folder, sets))
	require.ErrorContains(t, eval.PrepareJudge(folder, sets), "read answers")
	answerWith(t, folder, eval.RequestsFile, eval.AnswersFile, func(id string) []string {
		if id == "kind:4" {
			return nil
		}
		return []string{"answer of " + id}
	})
	require.NoError(t, eval.PrepareJudge(folder, sets))
	require.NoError(t, eval.PrepareJudge(folder, sets), "preparing the same requests again changes nothing")
	asked, err := os.ReadFile(filepath.Join(folder, eval.JudgeRequestsFile))
	require.NoError(t, err)
	require.Contains(t, string(asked), `"content":"Is it kind? answer of kind:1"`)
	require.NotContains(t, string(asked), "kind:4", "the judge is not asked about a failed row")
	answerWith(t, folder, eval.JudgeRequestsFile, eval.JudgeAnswersFile, func(id string) []string {
		return map[string][]string{"kind:0:judge:0:0": {"Score: 4"}, "kind:1:judge:0:0": {"Fine.\nScore: 1"}, "kind:2:judge:0:0": {"I cannot say."}}[id]
	})
	r, err := eval.Score(folder, sets, nil, eval.Config{})
	require.NoError(t, err)
	require.InDelta(t, (1+0.25)/2, r.Results["kind"]["judge_score,none"], 1e-12)
	require.Equal(t, eval.Count{Original: 5, Effective: 2, Failed: 3}, r.Samples["kind"])
	samples, err := eval.ReadSamples(folder, "kind")
	require.NoError(t, err)
	require.Equal(t, []string{"Fine.\nScore: 1"}, samples[1].Judge)
	require.Equal(t, "the judge's reply has no score within the range", samples[2].Failed)
	require.Equal(t, "the judge failed: failed: it broke", samples[3].Failed)
	require.Equal(t, "failed: it broke", samples[4].Failed)
}

// TestIFEvalRun scores answers to IFEval rows. A row with an instruction that cannot be checked is
// left out, and the instruction is named.
func TestIFEvalRun(t *testing.T) {
	t.Parallel()
	s := loadText(t, "ifeval", `{"key": 1, "prompt": "Say it.", "instruction_id_list": ["punctuation:no_comma", "startend:quotation"], "kwargs": [{}, {"relation": null}]}
{"key": 2, "prompt": "Say it in French.", "instruction_id_list": ["language:response_language"], "kwargs": [{"language": "fr"}]}
{"key": 3, "prompt": "List it.", "instruction_id_list": ["detectable_format:number_bullet_lists"], "kwargs": [{"num_bullets": 2}]}
`)
	require.Len(t, s.Skipped, 1)
	folder := t.TempDir()
	require.NoError(t, eval.Prepare(folder, []*eval.Set{s}))
	answerWith(t, folder, eval.RequestsFile, eval.AnswersFile, func(id string) []string {
		return map[string][]string{"ifeval:0": {"No quotation"}, "ifeval:2": {"- Here:\n- one\n- two"}}[id]
	})
	r, err := eval.Score(folder, []*eval.Set{s}, nil, eval.Config{})
	require.NoError(t, err)
	scores := r.Results["ifeval"]
	require.InDelta(t, 0, scores["prompt_level_strict_acc,none"], 0)
	require.InDelta(t, 0.5, scores["prompt_level_loose_acc,none"], 0, "the answer follows the instruction without its first line")
	require.InDelta(t, 1.0/3, scores["inst_level_strict_acc,none"], 1e-12, "the share of instructions, not the mean of rows")
	require.InDelta(t, 2.0/3, scores["inst_level_loose_acc,none"], 1e-12)
	require.Equal(t, eval.Count{Original: 2, Effective: 2, Skipped: 1}, r.Samples["ifeval"])
}

// TestGroupScores compares group means by size and by weight, and their standard errors, with
// values computed by hand.
func TestGroupScores(t *testing.T) {
	t.Parallel()
	sets := []*eval.Set{
		written(t, "a", "doc_to_text: q\ndoc_to_target: a\n", rowsOf(2)),
		written(t, "b", "doc_to_text: q\ndoc_to_target: a\n", rowsOf(6)),
	}
	folder := t.TempDir()
	require.NoError(t, eval.Prepare(folder, sets))
	answerWith(t, folder, eval.RequestsFile, eval.AnswersFile, func(id string) []string {
		if id == "a:0" || id == "b:0" || id == "b:1" || id == "b:2" {
			return []string{"yes"}
		}
		return []string{"no"}
	})
	members := []task.Member{{Task: "a", Weight: 1}, {Task: "b", Weight: 3}}
	r, err := eval.Score(folder, sets, []task.Group{
		{Name: "size", Members: []task.Member{{Task: "a", Weight: 1}, {Task: "b", Weight: 1}}, Metrics: []task.GroupMetric{{Metric: "exact_match", BySize: true}}},
		{Name: "weight", Members: members, Metrics: []task.GroupMetric{{Metric: "exact_match", Filters: []string{"none"}}}},
		{Name: "nothing", Members: members, Metrics: []task.GroupMetric{{Metric: "exact_match", Filters: []string{"strict"}}, {Metric: "acc"}}},
	}, eval.Config{})
	require.NoError(t, err)
	// Task a: 1 of 2 rows is right, standard error sqrt(0.5/2)=0.5; task b: 3 of 6,
	// sqrt(0.3/6)=0.2236068.
	require.InDelta(t, 0.5, r.Groups["size"]["exact_match,none"], 1e-12)
	require.InDelta(t, 0.2041241, r.Groups["size"]["exact_match_stderr,none"], 1e-6) // sqrt((1*2*0.5²+5*6*0.2236068²)/(8-2)/8)
	require.InDelta(t, 0.2091650, r.Groups["weight"]["exact_match_stderr,none"], 1e-6)
	require.Empty(t, r.Groups["nothing"])
	require.Equal(t, []string{"a", "b"}, r.Subtasks["weight"])
	kept, err := eval.ReadResults(folder)
	require.NoError(t, err)
	require.Equal(t, r.Groups, kept.Groups)
}

// TestHashes checks that a task's hash depends only on its settings and rows.
func TestHashes(t *testing.T) {
	t.Parallel()
	const settings = "doc_to_text: q\ndoc_to_target: a\n"
	first := written(t, "a", settings+"generation_kwargs: {seed: 5}\n", rowsOf(2)).Hash
	require.Equal(t, first, written(t, "a", settings+"generation_kwargs: {seed: 5}\n", rowsOf(2)).Hash)
	require.NotEqual(t, first, written(t, "a", settings+"generation_kwargs: {seed: 6}\n", rowsOf(2)).Hash)
	require.NotEqual(t, first, written(t, "a", settings+"generation_kwargs: {seed: 5}\nrepeats: 2\n", rowsOf(2)).Hash)
	require.NotEqual(t, first, written(t, "a", settings+"generation_kwargs: {seed: 5}\n", rowsOf(3)).Hash)
}

// TestExamplesOfTheSameColumn checks that examples have the same value as the row in the given
// column, and that a seed changes the random choice.
func TestExamplesOfTheSameColumn(t *testing.T) {
	t.Parallel()
	var rows []map[string]any
	for i := range 40 {
		rows = append(rows, map[string]any{"q": i, "a": "yes", "subject": i % 2})
	}
	const settings = "doc_to_text: 'Q{{subject}}: {{q}}'\ndoc_to_target: a\nnum_fewshot: 3\n"
	s := written(t, "a", settings+"fewshot_config: {same: subject}\n", rows)
	for i, item := range s.Items {
		require.NotContains(t, item.Prompt.Context, []string{"Q1", "Q0"}[i%2])
	}
	again := written(t, "a", settings+"fewshot_config: {same: subject, seed: 7}\n", rows)
	require.NotEqual(t, s.Items, again.Items)
	require.Equal(t, s.Items, written(t, "a", settings+"fewshot_config: {same: subject, seed: 1234}\n", rows).Items)
}

// TestExamplesOfSplits: a split of examples is one of its own, even if its file is that of the
// rows, and counts more than listed examples. Both are so in the harness.
func TestExamplesOfSplits(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	var text strings.Builder
	for i := range 8 {
		fmt.Fprintf(&text, "{\"q\": %d, \"a\": \"yes\"}\n", i)
	}
	for _, name := range []string{"rows.jsonl", "copy.jsonl"} {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(text.String()), 0o600))
	}
	items := func(examples, more string) []eval.Item {
		path := filepath.Join(folder, "task.yaml")
		settings := "task: a\ndataset_path: json\ndataset_kwargs: {data_files: {test: rows.jsonl, train: " + examples + "}}\n" +
			"test_split: test\ndoc_to_text: q\ndoc_to_target: a\nnum_fewshot: 2\n" + more
		require.NoError(t, os.WriteFile(path, []byte(settings), 0o600))
		read, err := task.Read(path)
		require.NoError(t, err)
		s, err := eval.Load(read, 0)
		require.NoError(t, err)
		return s.Items
	}
	const listed = "fewshot_config: {samples: [{q: x, a: no}, {q: y, a: no}]}\n"
	want := items("copy.jsonl", "fewshot_split: train\n")
	require.Equal(t, want, items("rows.jsonl", "fewshot_split: train\n"))
	require.Equal(t, want, items("copy.jsonl", "fewshot_split: train\n"+listed))
	require.Contains(t, items("copy.jsonl", "training_split: train\n"+listed)[0].Prompt.Context, "no")
}
