package eval_test

import (
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/engine/cpu"
	"github.com/ingot-run/ingot/engine/enginetest"
	"github.com/ingot-run/ingot/engine/gguf"
	"github.com/ingot-run/ingot/engine/model/modeltest"
	"github.com/ingot-run/ingot/engine/tokenizer"
	"github.com/ingot-run/ingot/eval"
	"github.com/ingot-run/ingot/eval/statistics"
	"github.com/ingot-run/ingot/eval/task"
	"github.com/ingot-run/ingot/files/rows"
	"github.com/ingot-run/ingot/worker/local"
)

var (
	tasks = filepath.Join("..", "models", "tasks")
	glm   = filepath.Join("..", "models", "tiny-glm.q8_0.gguf")
)

// TestMain gives engines the costs of their steps.
func TestMain(m *testing.M) {
	enginetest.GiveCosts()
	os.Exit(m.Run())
}

// load loads a bundled task.
func load(t *testing.T, name string, limit int) *eval.Set {
	t.Helper()
	read, err := task.Read(filepath.Join(tasks, name+".yaml"))
	require.NoError(t, err)
	s, err := eval.Load(read, limit)
	require.NoError(t, err)
	return s
}

// blanks are rows with the columns of WinoGrande.
const blanks = `{"sentence": "The capital of Finland is _ and it is cold.", "option1": "Helsinki", "option2": "Nairobi", "answer": "1"}
{"sentence": "After March, _ comes next.", "option1": "Tuesday", "option2": "April", "answer": "2"}
`

// loadText loads a task (the name of a built-in one, or a path) with the given rows.
func loadText(t *testing.T, path, rows string) *eval.Set {
	t.Helper()
	read, err := task.Read(path)
	require.NoError(t, err)
	read.Data = filepath.Join(t.TempDir(), "rows.jsonl")
	require.NoError(t, os.WriteFile(read.Data, []byte(rows), 0o600))
	s, err := eval.Load(read, 0)
	require.NoError(t, err)
	return s
}

// answered prepares a run in a new directory, answers its requests, and returns the directory.
func answered(t *testing.T, sets []*eval.Set, concurrency int, o engine.Options) string {
	t.Helper()
	return answeredBy(t, glm, sets, concurrency, o)
}

func answeredBy(t *testing.T, model string, sets []*eval.Set, concurrency int, o engine.Options) string {
	t.Helper()
	folder := t.TempDir()
	require.NoError(t, eval.Prepare(folder, sets))
	be, err := cpu.New(2)
	require.NoError(t, err)
	eng, err := engine.Open(model, be, o)
	require.NoError(t, err)
	defer func() { require.NoError(t, eng.Close()) }()
	in, err := os.Open(filepath.Join(folder, eval.RequestsFile))
	require.NoError(t, err)
	defer in.Close()
	out, err := rows.OpenOutput(filepath.Join(folder, eval.AnswersFile), local.Batch)
	require.NoError(t, err)
	_, err = local.Run(t.Context(), eng, in, out, local.Options{Concurrency: concurrency, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	require.NoError(t, out.Close())
	_, err = eval.Score(folder, sets, nil, eval.Config{})
	require.NoError(t, err)
	return folder
}

// TestScoresAgainstForwardPasses compares the log-probabilities of choices and texts with those of
// plain forward passes, one text at a time.
func TestScoresAgainstForwardPasses(t *testing.T) {
	t.Parallel()
	sets := []*eval.Set{load(t, "choices", 12), load(t, "texts", 12), loadText(t, "winogrande", blanks)}
	plain := []map[string]any{{"good": "Name the capital of Finland.", "bad": "Name capital Finland the."}, {"good": "Short.", "bad": "x"}}
	sets = append(sets, written(t, "pairs", "output_type: multiple_choice\ndoc_to_text: ''\ndoc_to_choice: '{{[good, bad]}}'\ndoc_to_target: 0\ntarget_delimiter: ''\n", plain),
		written(t, "whole", "output_type: loglikelihood_rolling\ndoc_to_text: ''\ndoc_to_target: good\n", plain))
	folder := answered(t, sets, 8, engine.Options{})
	f, err := gguf.Open(glm)
	require.NoError(t, err)
	words, err := tokenizer.New(f.Meta())
	require.NoError(t, err)
	require.NoError(t, f.Close())
	be, err := cpu.New(1)
	require.NoError(t, err)
	m := modeltest.Load(t, be, glm)
	logprob := func(context, text string) float64 {
		tokens, from := words.Encode(context+text, tokenizer.EncodeOptions{Special: true, BOS: words.AddsBOS()}), 1
		if context != "" {
			from = len(words.Encode(context, tokenizer.EncodeOptions{Special: true, BOS: words.AddsBOS()}))
		}
		logits, err := m.Forward(modeltest.Batch(tokens, 0))
		require.NoError(t, err)
		sum := 0.0
		for i := from; i < len(tokens); i++ {
			sum += float64(logits[i-1][tokens[i]]) - modeltest.LogSumExp(logits[i-1])
		}
		return sum
	}
	choices, err := eval.ReadSamples(folder, "choices")
	require.NoError(t, err)
	require.Len(t, choices, 12)
	for i, s := range choices {
		p := sets[0].Items[i].Prompt
		require.Len(t, s.Logprobs, 4)
		for c, text := range p.Choices {
			require.InDelta(t, logprob(p.Context, text), s.Logprobs[c], 1e-4)
		}
		best := task.Likeliest(s.Logprobs, nil)
		require.Equal(t, best == p.Right, s.Scores["acc"] == 1)
	}
	filled, err := eval.ReadSamples(folder, "winogrande")
	require.NoError(t, err)
	require.Len(t, filled, 2)
	for i, s := range filled {
		p := sets[2].Items[i].Prompt
		for c, text := range p.Choices {
			require.InDelta(t, logprob(p.Contexts[c], text), s.Logprobs[c], 1e-4, "only the text after the choice counts")
		}
	}
	require.False(t, words.AddsBOS(), "the model begins no text with BOS by itself")
	bos, ok := words.BOS()
	require.True(t, ok)
	require.Equal(t, []int32{bos}, words.Encode("[gMASK]", tokenizer.EncodeOptions{Special: true}))
	pairs, err := eval.ReadSamples(folder, "pairs")
	require.NoError(t, err)
	whole, err := eval.ReadSamples(folder, "whole")
	require.NoError(t, err)
	for i, row := range plain {
		for c, text := range []string{row["good"].(string), row["bad"].(string)} {
			want := logprob("[gMASK]", text)
			require.InDelta(t, want, pairs[i].Logprobs[c], 1e-4, "all tokens of a text without context count")
			if c == 0 {
				require.InDelta(t, want, whole[i].Logprob, 1e-4)
			}
		}
	}
	texts, err := eval.ReadSamples(folder, "texts")
	require.NoError(t, err)
	for i, s := range texts {
		require.InDelta(t, logprob("", strings.Join(sets[1].Items[i].Prompt.Targets, "")), s.Logprob, 1e-4)
	}
}

// TestSameModelTwice runs a model twice: one row at a time, then many rows at once with drafts and
// little memory. No answer changes, and the gate passes.
func TestSameModelTwice(t *testing.T) {
	t.Parallel()
	sets := []*eval.Set{load(t, "answers", 40), load(t, "choices", 20), load(t, "texts", 20)}
	base := answered(t, sets, 1, engine.Options{Draft: engine.DraftOff})
	cand := answered(t, sets, 16, engine.Options{Draft: engine.DraftMTP})
	list, err := eval.Compare(base, cand, -1)
	require.NoError(t, err)
	require.Len(t, list, 5)
	for _, c := range list {
		require.Zero(t, c.Changed, c.Task)
		require.Equal(t, statistics.Pass, c.Verdict)
	}
	for _, name := range []string{"answers", "choices", "texts"} {
		changes, err := eval.Changes(name, base, cand)
		require.NoError(t, err)
		require.Empty(t, changes)
	}
}

// TestDamagedModel compares the model with a copy whose matrices are rounded to two bits. The gate
// fails.
func TestDamagedModel(t *testing.T) {
	t.Parallel()
	damaged := filepath.Join(t.TempDir(), "damaged.gguf")
	out, err := exec.CommandContext(t.Context(), "go", "run", filepath.Join("..", "systemtest", "damage"), "-bits", "2", glm, damaged).CombinedOutput()
	require.NoError(t, err, "%s", out)
	sets := []*eval.Set{load(t, "answers", 40), load(t, "choices", 20)}
	base := answered(t, sets, 16, engine.Options{})
	cand := answeredBy(t, damaged, sets, 16, engine.Options{})
	list, err := eval.Compare(base, cand, -1)
	require.NoError(t, err)
	require.Equal(t, statistics.Fail, eval.Verdict(list), "%+v", list)
	list, err = eval.Compare(cand, base, -1)
	require.NoError(t, err)
	require.Equal(t, statistics.Pass, eval.Verdict(list[:1]), "with baseline and candidate exchanged, the gate passes: %+v", list)
}

// TestPrepareRefusesAnotherRun checks that Prepare accepts the same requests for a directory again,
// and refuses other requests if one has been answered or queued.
func TestPrepareRefusesAnotherRun(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	require.NoError(t, eval.Prepare(folder, []*eval.Set{load(t, "answers", 5)}))
	require.NoError(t, eval.Prepare(folder, []*eval.Set{load(t, "answers", 5)}))
	require.NoError(t, eval.Prepare(folder, []*eval.Set{load(t, "answers", 6)}), "nothing is answered")
	for _, name := range []string{eval.AnswersFile, "batch"} {
		path := filepath.Join(folder, name)
		require.NoError(t, os.WriteFile(path, []byte("x"), 0o600))
		require.NoError(t, eval.Prepare(folder, []*eval.Set{load(t, "answers", 6)}))
		require.ErrorIs(t, eval.Prepare(folder, []*eval.Set{load(t, "answers", 5)}), eval.ErrOtherRun, name)
		require.NoError(t, os.Remove(path))
	}
	_, err := os.Stat(filepath.Join(folder, eval.RequestsFile+".tmp"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

// TestOtherPromptsAreRefused checks that runs with different rows cannot be compared.
func TestOtherPromptsAreRefused(t *testing.T) {
	t.Parallel()
	base := answered(t, []*eval.Set{load(t, "answers", 3)}, 4, engine.Options{})
	cand := answered(t, []*eval.Set{load(t, "answers", 4)}, 4, engine.Options{})
	_, err := eval.Compare(base, cand, -1)
	require.ErrorIs(t, err, eval.ErrOtherPrompts)
	other := answered(t, []*eval.Set{load(t, "choices", 3)}, 4, engine.Options{})
	_, err = eval.Compare(base, other, -1)
	require.ErrorContains(t, err, "no task in common")
	_, err = eval.Changes("", base, other)
	require.ErrorContains(t, err, "no task in common")
}

// TestRowsWithoutAnAnswer checks that a failed row does not count as a wrong answer, that too many
// failed rows fail a gate, and that a missing answer is an error.
func TestRowsWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	sets := []*eval.Set{load(t, "answers", 10)}
	base := answered(t, sets, 4, engine.Options{})
	cand := t.TempDir()
	require.NoError(t, eval.Prepare(cand, sets))
	text, err := os.ReadFile(filepath.Join(base, eval.AnswersFile))
	require.NoError(t, err)
	lines := strings.SplitAfter(strings.TrimSuffix(string(text), "\n"), "\n")
	write := func(lines ...string) {
		require.NoError(t, os.WriteFile(filepath.Join(cand, eval.AnswersFile), []byte(strings.Join(lines, "")), 0o600))
	}
	write(lines[:9]...)
	_, err = eval.Score(cand, sets, nil, eval.Config{})
	require.ErrorContains(t, err, "has no answer yet")
	_, id, _ := strings.Cut(lines[9], `"custom_id":"`)
	id, _, _ = strings.Cut(id, `"`)
	write(append(lines[:9:9], `{"custom_id":"`+id+`","response":null,"error":{"code":"failed","message":"the GPU failed"}}`+"\n")...)
	r, err := eval.Score(cand, sets, nil, eval.Config{})
	require.NoError(t, err)
	require.Equal(t, eval.Count{Original: 10, Effective: 9, Failed: 1}, r.Samples["answers"])
	list, err := eval.Compare(base, cand, -1)
	require.NoError(t, err)
	require.Equal(t, 9, list[0].N)
	require.Zero(t, list[0].Lost)
	require.Equal(t, statistics.Fail, eval.Verdict(list), "a gate fails if a tenth of the rows has no answer")
}

// TestExamples checks that a row is never its own example and that a row always gets the same
// examples.
func TestExamples(t *testing.T) {
	t.Parallel()
	read, err := task.Read(filepath.Join(tasks, "answers.yaml"))
	require.NoError(t, err)
	read.Shots = 3
	first, err := eval.Load(read, 20)
	require.NoError(t, err)
	again, err := eval.Load(read, 5)
	require.NoError(t, err)
	require.Equal(t, first.Items[:5], again.Items)
	differ := false
	for i, item := range first.Items {
		question := item.Prompt.Context[strings.LastIndex(item.Prompt.Context, "\n\n")+2:]
		require.Equal(t, 1, strings.Count(item.Prompt.Context, question), "row %d is its own example", i)
		require.Equal(t, 3, strings.Count(item.Prompt.Context, "\n\n"))
		differ = differ || item.Prompt.Context[:20] != first.Items[0].Prompt.Context[:20]
	}
	require.True(t, differ)
	read.Shots = 1000
	_, err = eval.Load(read, 1)
	require.ErrorContains(t, err, "has 149 examples for the row, but num_fewshot is 1000")
}

func TestLoadRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ rows, says string }{
		"no rows":        {"\n\n", "has no rows"},
		"not JSON":       {`{"question": "a", "answer": "b"}` + "\n{", ":2: "},
		"not an object":  {"[1]", "not a JSON object"},
		"missing column": {`{"answer": "a"}`, `row 1 of `},
		"missing value":  {`{"question": "a"}`, `doc_to_target: `},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			data := filepath.Join(folder, "rows.jsonl")
			require.NoError(t, os.WriteFile(data, []byte(c.rows), 0o600))
			path := filepath.Join(folder, "task.yaml")
			require.NoError(t, os.WriteFile(path, []byte("task: a\ndata: rows.jsonl\ndoc_to_text: question\ndoc_to_target: '{{answer.strip()}}'\n"), 0o600))
			read, err := task.Read(path)
			require.NoError(t, err)
			_, err = eval.Load(read, 0)
			require.ErrorContains(t, err, c.says)
		})
	}
	read, err := task.Read(filepath.Join(tasks, "answers.yaml"))
	require.NoError(t, err)
	read.Data = ""
	_, err = eval.Load(read, 0)
	require.ErrorContains(t, err, "its rows are missing")
}
