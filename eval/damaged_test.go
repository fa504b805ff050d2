package eval_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/eval"
	"github.com/ingot-run/ingot/eval/report"
	"github.com/ingot-run/ingot/eval/task"
)

// scoredRun makes a finished run of a task in a folder of runs.
func scoredRun(t *testing.T, runs, name string, s *eval.Set, texts func(id string) []string) string {
	t.Helper()
	dir := filepath.Join(runs, name)
	require.NoError(t, eval.Prepare(dir, []*eval.Set{s}))
	answerWith(t, dir, eval.RequestsFile, eval.AnswersFile, texts)
	_, err := eval.Score(dir, []*eval.Set{s}, nil, eval.Config{})
	require.NoError(t, err)
	return dir
}

func yes(string) []string { return []string{"yes"} }

// unreadable puts a folder with a file in it where a file is, so that it can neither be read nor be
// replaced.
func unreadable(t *testing.T, path string) {
	t.Helper()
	require.NoError(t, os.RemoveAll(path))
	require.NoError(t, os.MkdirAll(filepath.Join(path, "inside"), 0o700))
}

// TestFilesOfRunsThatCannotBeRead: every reader of a run returns the error of the file.
func TestFilesOfRunsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	s := written(t, "a", "doc_to_text: q\ndoc_to_target: a\n", rowsOf(2))
	judged := written(t, "kind", "output_type: judge\ndoc_to_text: q\njudge: {range: [0, 4], rubric: 'Is it kind? {{answer}}'}\n", rowsOf(2))
	samples := eval.SamplesFile("a")
	for name, c := range map[string]struct {
		file string // of run b, or of the folder of runs
		do   func(runs, a, b string) error
		want string
	}{
		"compare results":         {"b/" + eval.ResultsFile, func(_, a, b string) error { _, err := eval.Compare(a, b, -1); return err }, "read the results of a run: "},
		"compare base results":    {"b/" + eval.ResultsFile, func(_, a, b string) error { _, err := eval.Compare(b, a, -1); return err }, "read the results of a run: "},
		"compare samples":         {"b/" + samples, func(_, a, b string) error { _, err := eval.Compare(a, b, -1); return err }, "read "},
		"compare base samples":    {"b/" + samples, func(_, a, b string) error { _, err := eval.Compare(b, a, -1); return err }, "read "},
		"read samples":            {"b/" + samples, func(_, _, b string) error { _, err := eval.ReadSamples(b, "a"); return err }, "read "},
		"pin results":             {"b/" + eval.ResultsFile, func(runs, _, _ string) error { _, err := eval.Pin(runs, "main", "b"); return err }, "b"},
		"pin samples":             {"b/" + samples, func(runs, _, _ string) error { _, err := eval.Pin(runs, "main", "b"); return err }, "read a run: "},
		"pin beside baselines":    {eval.BaselinesFile, func(runs, _, _ string) error { _, err := eval.Pin(runs, "main", "b"); return err }, "read baselines: "},
		"unpin beside baselines":  {eval.BaselinesFile, func(runs, _, _ string) error { return eval.Unpin(runs, "main") }, "read baselines: "},
		"gate beside baselines":   {eval.BaselinesFile, func(runs, _, _ string) error { _, err := eval.Gate(runs, "main", "b", -1); return err }, "read baselines: "},
		"the index":               {eval.IndexFile, func(runs, _, _ string) error { _, err := eval.ReadIndex(runs); return err }, "read the index of runs: "},
		"score answers":           {"b/" + eval.AnswersFile, func(_, _, b string) error { _, err := eval.Score(b, []*eval.Set{s}, nil, eval.Config{}); return err }, "read answers: "},
		"score the judge's":       {"b/" + eval.JudgeAnswersFile, func(_, _, b string) error { _, err := eval.Score(b, []*eval.Set{s}, nil, eval.Config{}); return err }, "read answers: "},
		"score into samples":      {"b/" + samples, func(_, _, b string) error { _, err := eval.Score(b, []*eval.Set{s}, nil, eval.Config{}); return err }, "write samples: "},
		"score into results":      {"b/" + eval.ResultsFile, func(_, _, b string) error { _, err := eval.Score(b, []*eval.Set{s}, nil, eval.Config{}); return err }, "write results: "},
		"prepare over requests":   {"b/" + eval.RequestsFile, func(_, _, b string) error { return eval.Prepare(b, []*eval.Set{s}) }, "read a run: "},
		"prepare beside requests": {"b/" + eval.RequestsFile + ".tmp", func(_, _, b string) error { return eval.Prepare(b, []*eval.Set{s}) }, "write requests: "},
		"prepare in a file":       {"b/" + eval.AnswersFile, func(_, _, b string) error { return eval.Prepare(filepath.Join(b, eval.RequestsFile), []*eval.Set{s}) }, "make the directory of a run: "},
		"the judge's requests":    {"b/" + eval.AnswersFile, func(_, _, b string) error { return eval.PrepareJudge(b, []*eval.Set{judged}) }, "read answers: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runs := t.TempDir()
			a, b := scoredRun(t, runs, "a", s, yes), scoredRun(t, runs, "b", s, yes)
			unreadable(t, filepath.Join(runs, c.file))
			require.ErrorContains(t, c.do(runs, a, b), c.want)
		})
	}
}

// TestBaselinesThatChange: a pinned run is checked by its content, except for its date.
func TestBaselinesThatChange(t *testing.T) {
	t.Parallel()
	s := written(t, "a", "doc_to_text: q\ndoc_to_target: a\n", rowsOf(2))
	runs := t.TempDir()
	a, b := scoredRun(t, runs, "a", s, yes), scoredRun(t, runs, "b", s, yes)
	first, err := eval.Pin(runs, "main", "a")
	require.NoError(t, err)
	require.Equal(t, "a", first.Run)
	require.WithinDuration(t, first.Pinned, first.Pinned.UTC(), 0)
	second, err := eval.Pin(runs, "other", b)
	require.NoError(t, err)
	require.Equal(t, "b", second.Run)
	require.Equal(t, first.SHA256, second.SHA256, "the runs differ only in their dates")
	editResults(t, a, func(r *eval.Results) { r.Date = r.Date.AddDate(1, 0, 0) })
	run, err := eval.PinnedRun(runs, "main")
	require.NoError(t, err)
	require.Equal(t, "a", run)
	require.NoError(t, os.Remove(filepath.Join(b, eval.SamplesFile("a"))))
	_, err = eval.PinnedRun(runs, "other")
	require.ErrorContains(t, err, "use baseline other: read a run: ")
	f, err := os.OpenFile(filepath.Join(a, eval.SamplesFile("a")), os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteString("\n")
	require.NoError(t, err)
	require.NoError(t, f.Close())
	_, err = eval.PinnedRun(runs, "main")
	require.ErrorIs(t, err, eval.ErrChangedBaseline)
	require.ErrorContains(t, err, "use baseline main, which is run a: ")
	_, err = eval.PinnedRun(runs, "none")
	require.ErrorContains(t, err, `baseline "none": `+eval.ErrNoBaseline.Error()+" (the baselines are main, other;")
	require.NoError(t, eval.Unpin(runs, "main"))
	require.ErrorIs(t, eval.Unpin(runs, "main"), eval.ErrNoBaseline)
	all, err := eval.Baselines(runs)
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.NoError(t, eval.Unpin(runs, "other"))
	require.ErrorContains(t, eval.Unpin(runs, "other"), "there are no baselines")
	unreadable(t, filepath.Join(runs, eval.BaselinesFile))
	require.NoError(t, os.Remove(filepath.Join(runs, eval.BaselinesFile, "inside")))
	_, err = eval.Baselines(runs)
	require.ErrorContains(t, err, "read baselines: ")
	require.NoError(t, os.Remove(filepath.Join(runs, eval.BaselinesFile)))
	require.NoError(t, os.WriteFile(filepath.Join(runs, eval.BaselinesFile), []byte("{"), 0o600))
	_, err = eval.Baselines(runs)
	require.ErrorContains(t, err, "delete the file and pin the baselines again")
}

// TestRowsThatCannotBeCompared: a row whose prompt or content differs is an error, and so is a file
// without all rows; a run without any score is compared.
func TestRowsThatCannotBeCompared(t *testing.T) {
	t.Parallel()
	s := written(t, "a", "doc_to_text: q\ndoc_to_target: a\n", rowsOf(3))
	edit := func(dir string, change func(i int, sample *eval.Sample) bool) {
		list, err := eval.ReadSamples(dir, "a")
		require.NoError(t, err)
		var text strings.Builder
		for i := range list {
			if change(i, &list[i]) {
				require.NoError(t, json.NewEncoder(&text).Encode(list[i]))
			}
		}
		require.NoError(t, os.WriteFile(filepath.Join(dir, eval.SamplesFile("a")), []byte(text.String()), 0o600))
	}
	for name, change := range map[string]func(*eval.Sample){
		"prompt": func(s *eval.Sample) { s.PromptHash = "other" },
		"row":    func(s *eval.Sample) { s.DocHash = "other" },
	} {
		runs := t.TempDir()
		a, b := scoredRun(t, runs, "a", s, yes), scoredRun(t, runs, "b", s, yes)
		edit(b, func(i int, sample *eval.Sample) bool {
			if i == 1 {
				change(sample)
			}
			return true
		})
		_, err := eval.Compare(a, b, -1)
		require.ErrorIs(t, err, eval.ErrOtherPrompts, name)
		require.ErrorContains(t, err, "compare row 2 of task a: ")
		_, err = eval.Changes("a", a, b)
		require.ErrorIs(t, err, eval.ErrOtherPrompts, name)
	}
	runs := t.TempDir()
	a, b := scoredRun(t, runs, "a", s, yes), scoredRun(t, runs, "b", s, yes)
	edit(b, func(i int, _ *eval.Sample) bool { return i != 1 })
	for _, dirs := range [][2]string{{a, b}, {b, a}} {
		_, err := eval.Compare(dirs[0], dirs[1], -1)
		require.ErrorContains(t, err, "is damaged: it has 2 samples of 2 rows")
	}
	edit(b, func(int, *eval.Sample) bool { return true })
	later := scoredRun(t, runs, "later", s, yes)
	edit(later, func(_ int, sample *eval.Sample) bool {
		sample.DocID += 100
		return true
	})
	for _, task := range []string{"a", ""} {
		_, err := eval.Changes(task, a, later)
		require.ErrorContains(t, err, "they have no task in common, or no row of one")
	}
	none := scoredRun(t, runs, "none", s, func(string) []string { return nil })
	for _, dirs := range [][2]string{{a, none}, {none, a}, {none, none}} {
		list, err := eval.Compare(dirs[0], dirs[1], -1)
		if err != nil {
			require.ErrorContains(t, err, "they have no task in common", "a run without scores")
			continue
		}
		for _, c := range list {
			require.Zero(t, c.N)
		}
	}
	editResults(t, b, func(r *eval.Results) {
		r.Results["a"]["other,none"] = 1
	})
	_, err := eval.Compare(a, b, -1)
	require.ErrorIs(t, err, eval.ErrOtherScores)
	for _, r := range []func(*eval.Results){func(r *eval.Results) { r.TaskHashes["a"] = "x" }, func(r *eval.Results) { r.Results["c"] = map[string]float64{"m,none": 1} }} {
		dir := scoredRun(t, t.TempDir(), "c", s, yes)
		editResults(t, dir, r)
		for _, dirs := range [][2]string{{a, dir}, {dir, a}} {
			_, err := eval.CompareAll(dirs[0], dirs[1], -1)
			require.Error(t, err)
		}
	}
}

// TestRunsWithOtherScoring: runs that score the same answers differently are not compared, unless
// one of them is of an earlier version, which does not say how it scores. Scoring a run again with
// the same task helps.
func TestRunsWithOtherScoring(t *testing.T) {
	t.Parallel()
	runs := t.TempDir()
	const settings = "doc_to_text: q\ndoc_to_target: a\n"
	const other = settings + "metric_list: [{metric: exact_match, ignore_case: true}]\n"
	rows := rowsOf(3)
	a, b := scoredRun(t, runs, "a", written(t, "a", settings, rows), yes), scoredRun(t, runs, "b", written(t, "a", other, rows), yes)
	for _, dirs := range [][2]string{{a, b}, {b, a}} {
		_, err := eval.Compare(dirs[0], dirs[1], -1)
		require.ErrorIs(t, err, eval.ErrOtherScores)
		require.ErrorContains(t, err, "the metrics, the filters or the Python functions differ: score both runs again with the same task files")
		for _, task := range []string{"a", ""} {
			_, err = eval.Changes(task, dirs[0], dirs[1])
			require.ErrorIs(t, err, eval.ErrOtherScores)
		}
	}
	var page bytes.Buffer
	require.NoError(t, report.Write(&page, runs, report.Options{}))
	require.Contains(t, page.String(), "The runs cannot be compared: ")
	require.Contains(t, page.String(), ">task</text>", "the history marks the change")
	scoredRun(t, runs, "a", written(t, "a", other, rows), yes)
	_, err := eval.Compare(a, b, -1)
	require.NoError(t, err)
	earlier := scoredRun(t, runs, "earlier", written(t, "a", settings, rows), yes)
	editResults(t, earlier, func(r *eval.Results) { r.ScoreHashes = nil })
	for _, dirs := range [][2]string{{earlier, b}, {b, earlier}, {earlier, earlier}} {
		_, err := eval.CompareAll(dirs[0], dirs[1], -1)
		require.NoError(t, err)
	}
}

// TestStepsThatFail: an evaluation ends with the error of its step.
func TestStepsThatFail(t *testing.T) {
	t.Parallel()
	s := written(t, "kind", "output_type: judge\ndoc_to_text: q\njudge: {range: [0, 4], rubric: 'Is it kind? {{answer}}'}\n", rowsOf(2))
	dir := filepath.Join(t.TempDir(), "run")
	unexpected := func(context.Context, string, string) error { t.Error("called"); return nil }
	require.NoError(t, os.WriteFile(dir, nil, 0o600))
	_, err := eval.Evaluate(t.Context(), dir, []*eval.Set{s}, nil, eval.Config{}, unexpected, unexpected)
	require.ErrorContains(t, err, "make the directory of a run: ")
	require.NoError(t, os.Remove(dir))
	_, err = eval.Evaluate(t.Context(), dir, []*eval.Set{s}, nil, eval.Config{}, func(context.Context, string, string) error { return nil }, unexpected)
	require.ErrorContains(t, err, "read answers: ")

	one := func(id string) []string {
		if id == "kind:1" {
			return []string{}
		}
		return []string{"fine"}
	}
	answerWith(t, dir, eval.RequestsFile, eval.AnswersFile, func(string) []string { return []string{"fine"} })
	text, err := os.ReadFile(filepath.Join(dir, eval.AnswersFile))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, eval.AnswersFile), []byte(strings.SplitAfter(string(text), "\n")[0]), 0o600))
	require.ErrorContains(t, eval.PrepareJudge(dir, []*eval.Set{s}), "score task kind: row 2 has no answer yet")
	require.NoError(t, os.WriteFile(filepath.Join(dir, eval.AnswersFile), text, 0o600))
	require.NoError(t, eval.PrepareJudge(dir, []*eval.Set{s}))
	r, err := eval.Score(dir, []*eval.Set{s}, nil, eval.Config{})
	require.NoError(t, err)
	require.Equal(t, 2, r.Samples["kind"].Failed)
	samples, err := eval.ReadSamples(dir, "kind")
	require.NoError(t, err)
	require.Equal(t, "the judge has not answered", samples[0].Failed)
	answerWith(t, dir, eval.RequestsFile, eval.AnswersFile, one)
	require.ErrorIs(t, eval.PrepareJudge(dir, []*eval.Set{s}), eval.ErrOtherRun)

	broken := written(t, "kind", "output_type: judge\ndoc_to_text: q\njudge: {range: [0, 4], rubric: '{{answer.missing()}}'}\n", rowsOf(2))
	require.ErrorContains(t, eval.PrepareJudge(t.TempDir(), []*eval.Set{broken}), "read answers: ")
	dir = t.TempDir()
	require.NoError(t, eval.Prepare(dir, []*eval.Set{broken}))
	answerWith(t, dir, eval.RequestsFile, eval.AnswersFile, yes)
	require.ErrorContains(t, eval.PrepareJudge(dir, []*eval.Set{broken}), "make the judge's prompt: task kind: row 1: rubric: ")
}

// TestAnswersThatCannotBeScored: a row without what its score needs has none, and says why.
func TestAnswersThatCannotBeScored(t *testing.T) {
	t.Parallel()
	run := func(s *eval.Set, answers ...string) []eval.Sample {
		dir := t.TempDir()
		require.NoError(t, eval.Prepare(dir, []*eval.Set{s}))
		require.NoError(t, os.WriteFile(filepath.Join(dir, eval.AnswersFile), []byte(strings.Join(answers, "\n")+"\n"), 0o600))
		_, err := eval.Score(dir, []*eval.Set{s}, nil, eval.Config{})
		require.NoError(t, err)
		samples, err := eval.ReadSamples(dir, s.Name)
		require.NoError(t, err)
		return samples
	}
	choices := written(t, "c", "output_type: multiple_choice\ndoc_to_text: q\ndoc_to_choice: [x, y]\ndoc_to_target: n\n", []map[string]any{{"q": "Q", "n": 1}})
	logprobs := `{"tokens":["Q"," y"],"token_logprobs":[null,-1],"text_offset":[0,1]}`
	line := func(id, logprobs string) string {
		return `{"custom_id":"` + id + `","response":{"body":{"choices":[{"text":"","logprobs":` + logprobs + `}]}}}`
	}
	samples := run(choices, line("c:0:0", strings.Replace(logprobs, " y", " x", 1)), line("c:0:1", "null"))
	require.Equal(t, "choice 2 has no log-probabilities", samples[0].Failed)
	require.Empty(t, samples[0].Scores)
	samples = run(choices, line("c:0:0", strings.Replace(logprobs, `" y"],"token_logprobs":[null,-1]`, `" x"],"token_logprobs":[null,-2]`, 1)), line("c:0:1", logprobs))
	require.Empty(t, samples[0].Failed)
	require.Equal(t, []float64{-2, -1}, samples[0].Logprobs)
	require.Equal(t, []string{"x", "y"}, samples[0].Choices)
	require.InDelta(t, 1, samples[0].Scores["acc"], 0)

	texts := written(t, "t", "output_type: loglikelihood_rolling\ndoc_to_text: ''\ndoc_to_target: q\n", []map[string]any{{"q": "Q y"}})
	require.Equal(t, "the text has no log-probabilities", run(texts, line("t:0:0", "null"))[0].Failed)
	require.Contains(t, run(texts, line("t:0:0", logprobs))[0].Failed, "the server does not score the first token of a text", "without it, the perplexity would be too low")
	for _, before := range []string{"<s>", "", "[BOS]"} {
		line := line("t:0:0", `{"tokens":["`+before+`","Q"," y"],"token_logprobs":[null,-2,-1],"text_offset":[0,0,1]}`)
		require.InDelta(t, -3, run(texts, line)[0].Logprob, 0, before)
	}

	none := written(t, "n", "doc_to_text: q\ndoc_to_target: a\nfilter_list: [{name: none, filter: [{function: take_first_k, k: 1}]}]\n", rowsOf(1))
	samples = run(none, `{"custom_id":"n:0","response":{"body":{"choices":[{"text":"yes","finish_reason":"length"},{"text":"no","finish_reason":"stop"}]}}}`)
	require.True(t, samples[0].Truncated)
	require.InDelta(t, 1, samples[0].Scores["exact_match"], 0)
}

// TestFilesOfRows: files of rows or examples that cannot be used.
func TestFilesOfRows(t *testing.T) {
	t.Parallel()
	load := func(settings, rows string) error {
		folder := t.TempDir()
		if rows == "" {
			require.NoError(t, os.Mkdir(filepath.Join(folder, "rows.jsonl"), 0o700))
		} else {
			require.NoError(t, os.WriteFile(filepath.Join(folder, "rows.jsonl"), []byte(rows), 0o600))
		}
		path := filepath.Join(folder, "task.yaml")
		require.NoError(t, os.WriteFile(path, []byte("task: a\ndata: rows.jsonl\ndoc_to_text: q\ndoc_to_target: a\n"+settings), 0o600))
		read, err := task.Read(path)
		require.NoError(t, err)
		_, err = eval.Load(read, 0)
		return err
	}
	const two = `{"q":"x","a":"yes","s":1}` + "\n" + `{"q":"y","a":"yes","s":2}` + "\n"
	require.NoError(t, load("", two))
	require.ErrorContains(t, load("", ""), "rows.jsonl: read ")
	require.NoError(t, load("num_fewshot: 1\n", two))
	require.ErrorContains(t, load("num_fewshot: 1\nfewshot_config: {same: t}\n", two), `row 1 of `)
	require.ErrorContains(t, load("num_fewshot: 1\nfewshot_config: {same: t}\n", two), `the row has no column "t", by which its examples are chosen`)
	require.ErrorContains(t, load("num_fewshot: 1\nfewshot_config: {same: s}\n", two), `no example row has the same value in column "s" as the row`)
	require.ErrorContains(t, load("num_fewshot: 2\nfewshot_config: {same: s}\n", strings.ReplaceAll(two, `"s":2`, `"s":1`)), "the task has 1 examples for the row")
	require.ErrorContains(t, load("num_fewshot: 2\n", two), "the task has 1 examples for the row, but num_fewshot is 2")
	read, err := task.Read(filepath.Join(tasks, "answers.yaml"))
	require.NoError(t, err)
	read.FewShotData = filepath.Join(t.TempDir(), "none.jsonl")
	_, err = eval.Load(read, 1)
	require.ErrorIs(t, err, os.ErrNotExist)
}

// TestCacheThatFails: an error of the cache's folder or of the answers is not lost.
func TestCacheThatFails(t *testing.T) {
	t.Parallel()
	s := written(t, "a", "doc_to_text: q\ndoc_to_target: a\n", rowsOf(1))
	for name, c := range map[string]struct {
		damage func(dir, store string)
		ask    func(dir string) error
		want   string
	}{
		"answers are a folder":  {damage: func(dir, _ string) { unreadable(t, filepath.Join(dir, eval.AnswersFile)) }, want: eval.AnswersFile},
		"requests are a folder": {damage: func(dir, _ string) { unreadable(t, filepath.Join(dir, eval.RequestsFile)) }, want: "read "},
		"the store is a file":   {damage: func(_, store string) { require.NoError(t, os.WriteFile(store, nil, 0o600)) }, want: "not a directory"},
		"requests vanish":       {ask: func(dir string) error { return os.Remove(filepath.Join(dir, eval.RequestsFile)) }, want: "read requests: "},
		"answers vanish":        {ask: func(dir string) error { return os.Remove(filepath.Join(dir, eval.AnswersFile)) }, want: "store answers in the cache: "},
		"an answer is not JSON": {ask: func(dir string) error {
			return os.WriteFile(filepath.Join(dir, eval.AnswersFile), []byte("{\n"), 0o600)
		}, want: "store answers in the cache: "},
		"nothing": {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, store := t.TempDir(), filepath.Join(t.TempDir(), "store")
			require.NoError(t, eval.Prepare(dir, []*eval.Set{s}))
			if c.damage != nil {
				c.damage(dir, store)
			}
			cache := eval.Cache{Folder: store, Identity: "m", Batch: "x"}
			err := cache.Answer(t.Context(), filepath.Join(dir, eval.RequestsFile), filepath.Join(dir, eval.AnswersFile), func(int) error {
				if c.ask != nil {
					return c.ask(dir)
				}
				answerWith(t, dir, eval.RequestsFile, eval.AnswersFile, yes)
				return nil
			})
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.want)
		})
	}
	dir := t.TempDir()
	require.NoError(t, eval.Prepare(dir, []*eval.Set{s}))
	stopped, stop := context.WithCancel(t.Context())
	stop()
	cache := eval.Cache{Folder: t.TempDir(), Identity: "m", Batch: "x"}
	err := cache.Answer(stopped, filepath.Join(dir, eval.RequestsFile), filepath.Join(dir, eval.AnswersFile), func(int) error { return nil })
	require.ErrorIs(t, err, context.Canceled)
}

// TestGroupsOfUncertainTasks: a group has a standard error only if each of its tasks has one.
func TestGroupsOfUncertainTasks(t *testing.T) {
	t.Parallel()
	one, many := written(t, "one", "doc_to_text: q\ndoc_to_target: a\n", rowsOf(1)), written(t, "many", "doc_to_text: q\ndoc_to_target: a\n", rowsOf(4))
	dir := t.TempDir()
	require.NoError(t, eval.Prepare(dir, []*eval.Set{one, many}))
	answerWith(t, dir, eval.RequestsFile, eval.AnswersFile, func(id string) []string {
		if id == "many:0" {
			return []string{"no"}
		}
		return []string{"yes"}
	})
	metrics := []task.GroupMetric{{Metric: "exact_match"}}
	for _, order := range [][]task.Member{{{Task: "one", Weight: 1}, {Task: "many", Weight: 1}}, {{Task: "many", Weight: 1}, {Task: "one", Weight: 1}}} {
		r, err := eval.Score(dir, []*eval.Set{one, many}, []task.Group{
			{Name: "both", Members: append(order, task.Member{Task: "none", Weight: 5}), Metrics: metrics},
			{Name: "many", Members: []task.Member{{Task: "many", Weight: 1}}, Metrics: metrics},
			{Name: "weightless", Members: []task.Member{{Task: "many"}}, Metrics: metrics},
		}, eval.Config{})
		require.NoError(t, err)
		require.Equal(t, eval.Values{"exact_match,none": 0.875}, r.Groups["both"])
		require.Len(t, r.Groups["many"], 2)
		require.InDelta(t, 0.25, r.Groups["many"]["exact_match_stderr,none"], 1e-12)
		require.Empty(t, r.Groups["weightless"])
	}
}
