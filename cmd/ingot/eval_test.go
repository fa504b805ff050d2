package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/eval"
	"github.com/ingot-run/ingot/files/prompt"
	"github.com/ingot-run/ingot/queue/redistest"
)

// quiz writes a task that asks the first rows of models/heldout.jsonl, and returns its path.
func quiz(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "quiz.yaml")
	rows, err := filepath.Abs(filepath.Join("..", "..", "models", "heldout.jsonl"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, []byte("task: quiz\nchat: true\ndata: "+rows+`
doc_to_text: question
doc_to_target: answer
generation_kwargs: {max_gen_toks: 24, until: []}
`), 0o600))
	return path
}

// TestEval evaluates a model, continues the run, and compares the run with itself and with a run
// whose answers are all wrong.
func TestEval(t *testing.T) {
	t.Parallel()
	task, folder := quiz(t), t.TempDir()
	base, worse := filepath.Join(folder, "base"), filepath.Join(folder, "worse")
	r := ingot(t, "", "eval", "run", task, "-o", base, "--model", tinyLlama, "--limit", "30")
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Regexp(t, `(?m)^quiz +exact_match +none +0\.\d{4} +±0\.\d{4} +30 +0 +\d+$`, r.stdout)
	require.Contains(t, r.stderr, "30 rows done")
	again := ingot(t, "", "eval", "run", task, "-o", base, "--model", tinyLlama, "--limit", "30")
	require.Equal(t, r.stdout, again.stdout)
	require.Contains(t, again.stderr, "0 rows done", "nothing is asked twice")
	r = ingot(t, "", "eval", "run", task, "-o", base, "--model", tinyLlama, "--limit", "30", "--kv", "f32")
	require.Equal(t, exitFailure, r.code)
	require.Contains(t, r.stderr, base+" has answers of another model, or of other settings: give an empty directory")

	r = ingot(t, "", "eval", "gate", base, base)
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Contains(t, r.stdout, "verdict: pass\n")

	// The same run with other answers: every text is "wrong".
	require.NoError(t, os.CopyFS(worse, os.DirFS(base)))
	samples, err := eval.ReadSamples(base, "quiz")
	require.NoError(t, err)
	f, err := os.Create(filepath.Join(worse, eval.SamplesFile("quiz")))
	require.NoError(t, err)
	for _, s := range samples {
		s.Responses, s.Filtered, s.Scores = []string{"wrong"}, []string{"wrong"}, map[string]float64{"exact_match": 0}
		require.NoError(t, json.NewEncoder(f).Encode(&s))
	}
	require.NoError(t, f.Close())
	r = ingot(t, "", "eval", "gate", base, worse)
	require.Equal(t, exitFailure, r.code)
	require.Contains(t, r.stdout, "verdict: fail\n")
	require.Equal(t, "ingot: "+worse+" is worse than "+base+"\n", r.stderr)
	r = ingot(t, "", "eval", "gate", worse, base, "--margin", "0.5")
	require.Equal(t, exitOK, r.code, "a better candidate passes: %s", r.stderr)

	r = ingot(t, "", "eval", "diff", "quiz", base, worse)
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Contains(t, r.stdout, "candidate: wrong")
	require.Contains(t, r.stdout, "30 rows differ\n")
	r = ingot(t, "", "eval", "compare", base, worse, "--json")
	require.Equal(t, exitOK, r.code, r.stderr)
	var list []eval.Compared
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &list))
	require.Len(t, list, 1)
	require.Equal(t, 30, list[0].Changed)
}

// TestEvalWithoutChat: --chat=false beats the task's chat: true.
func TestEvalWithoutChat(t *testing.T) {
	t.Parallel()
	for flag, url := range map[string]string{"--chat=false": "/v1/completions", "--chat": "/v1/chat/completions"} {
		run := filepath.Join(t.TempDir(), "run")
		r := ingot(t, "", "eval", "run", quiz(t), "-o", run, "--model", tinyLlama, "--limit", "1", flag)
		require.Equal(t, exitOK, r.code, r.stderr)
		require.Contains(t, readFile(t, filepath.Join(run, eval.RequestsFile)), `"url":"`+url+`"`)
	}
}

// TestEvalCannotTell checks that a comparison of few rows whose answers differ is inconclusive.
func TestEvalCannotTell(t *testing.T) {
	t.Parallel()
	task, folder := quiz(t), t.TempDir()
	base, other := filepath.Join(folder, "base"), filepath.Join(folder, "other")
	for path, model := range map[string]string{base: tinyLlama, other: filepath.Join("..", "..", "models", "tiny-glm.q8_0.gguf")} {
		r := ingot(t, "", "eval", "run", task, "-o", path, "--model", model, "--limit", "8")
		require.Equal(t, exitOK, r.code, r.stderr)
		require.Contains(t, r.stderr, "a gate with a margin of 0.03 needs about 687 rows of each task")
		require.Contains(t, r.stderr, ": quiz has 8\n")
	}
	r := ingot(t, "", "eval", "gate", base, other)
	require.Equal(t, exitRows, r.code, r.stdout)
	require.Contains(t, r.stdout, "verdict: inconclusive\n")
	require.Contains(t, r.stderr, "use more rows, or a larger --margin")
	require.Regexp(t, `quiz exact_match: to exclude a loss of 0\.0300, about \d+ rows are needed\n`, r.stdout)
	r = ingot(t, "", "eval", "gate", base, filepath.Join(folder, "nowhere"))
	require.Equal(t, exitUsage, r.code, "nothing was judged")

	// The same runs in the harness's format: they are written later, and compared as before.
	var saved []string
	for path, model := range map[string]string{base: tinyLlama, other: filepath.Join("..", "..", "models", "tiny-glm.q8_0.gguf")} {
		r := ingot(t, "", "eval", "run", task, "-o", path, "--model", model, "--limit", "8", "--output-format", "lm-eval")
		require.Equal(t, exitOK, r.code, r.stderr)
		require.Contains(t, r.stderr, "lm-eval: "+filepath.Join(path, "lm-eval"))
		saved = append(saved, filepath.Join(path, "lm-eval", filepath.Base(model)))
	}
	r = ingot(t, "", "eval", "diff", saved[0], saved[1])
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Contains(t, r.stdout, "1 row differs\n")
	require.Equal(t, exitRows, ingot(t, "", "eval", "gate", saved[0], saved[1]).code)
	r = ingot(t, "", "eval", "run", task, "-o", base, "--model", tinyLlama, "--output-format", "csv")
	require.Equal(t, exitUsage, r.code)
	require.Contains(t, r.stderr, "lm-eval")
}

// TestEvalByFleet checks that a run through Redis gets the answers of a local run.
func TestEvalByFleet(t *testing.T) {
	t.Parallel()
	task, folder := quiz(t), t.TempDir()
	alone, fleet := filepath.Join(folder, "alone"), filepath.Join(folder, "fleet")
	r := ingot(t, "", "eval", "run", task, "-o", alone, "--model", tinyLlama, "--limit", "12")
	require.Equal(t, exitOK, r.code, r.stderr)
	url := redistest.Start(t).URL
	startWorker(t, url, "quiz")
	r = ingot(t, "", "eval", "run", task, "-o", fleet, "--redis", url, "--model-name", "quiz", "--limit", "12")
	require.Equal(t, exitOK, r.code, r.stderr)
	r = ingot(t, "", "eval", "gate", alone, fleet)
	require.Equal(t, exitOK, r.code, r.stdout)
	require.Regexp(t, `quiz .* 0 +0 +\d+ +0\.\d+ +pass`, r.stdout, "no answer differs")
}

// TestEvalBaseline lists the runs of a folder, and compares a run with a pinned baseline.
func TestEvalBaseline(t *testing.T) {
	t.Parallel()
	task, runs := quiz(t), filepath.Join(t.TempDir(), "runs")
	for name, limit := range map[string]string{"monday": "6", "tuesday": "6", "short": "5"} {
		r := ingot(t, "", "eval", "run", task, "-o", filepath.Join(runs, name), "--model", tinyLlama, "--limit", limit)
		require.Equal(t, exitOK, r.code, r.stderr)
	}
	gate := func(name, run string) result {
		return ingot(t, "", "eval", "gate", "--runs", runs, "--baseline", name, run)
	}
	r := gate("main", "tuesday")
	require.Equal(t, exitUsage, r.code, "nothing was judged")
	require.Contains(t, r.stderr, "no run is pinned under this name")
	r = ingot(t, "", "eval", "baseline", "set", "main", filepath.Join(runs, "monday"), "--runs", runs)
	require.Equal(t, exitOK, r.code, r.stderr)
	r = gate("main", "tuesday")
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Contains(t, r.stdout, "verdict: pass\n")
	r = gate("main", "short")
	require.Equal(t, exitUsage, r.code)
	require.Contains(t, r.stderr, "the prompts or the task's settings differ")

	r = ingot(t, "", "eval", "list", "--runs", runs)
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Regexp(t, `(?m)^monday +main +\d{4}-\d\d-\d\d \d\d:\d\d:\d\d +tiny-llama.q4_0.gguf +quiz +exact_match 0\.\d{4}±0\.\d{4} +6 +0 +$`, r.stdout)
	require.Regexp(t, `(?m)^tuesday +\d{4}`, r.stdout)
	r = ingot(t, "", "eval", "diff", filepath.Join(runs, "monday"), filepath.Join(runs, "tuesday"))
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Contains(t, r.stdout, "0 rows differ")

	page := filepath.Join(t.TempDir(), "report.html")
	r = ingot(t, "", "eval", "report", "-o", page, "--runs", runs, "tuesday")
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Equal(t, "report: "+page+"\n", r.stderr)
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	require.Contains(t, string(text[:400]), "<title>Evaluation of tuesday</title>")
	r = ingot(t, "", "eval", "report", "--runs", runs)
	require.Equal(t, exitUsage, r.code)
	r = ingot(t, "", "eval", "baseline", "list", "--runs", runs)
	require.Regexp(t, `(?m)^main +monday +\d{4}-.* +ready$`, r.stdout)
	r = ingot(t, "", "eval", "baseline", "rm", "main", "--runs", runs)
	require.Equal(t, exitOK, r.code, r.stderr)
	r = ingot(t, "", "eval", "baseline", "rm", "main", "--runs", runs)
	require.Equal(t, exitFailure, r.code)
}

// TestEvalJudge scores a model's answers with a judge.
func TestEvalJudge(t *testing.T) {
	t.Parallel()
	task, folder := quiz(t), t.TempDir()
	text, err := os.ReadFile(task)
	require.NoError(t, err)
	judged := strings.Replace(string(text), "task: quiz", "task: quiz\noutput_type: judge\njudge: {rubric: '{{question}}', score: '(?s)^(.)', range: [0, 9], max_gen_toks: 8}", 1)
	require.NoError(t, os.WriteFile(task, []byte(judged), 0o600))
	r := ingot(t, "", "eval", "run", task, "-o", folder, "--model", tinyLlama, "--limit", "3")
	require.Equal(t, exitUsage, r.code)
	require.Contains(t, r.stderr, "--judge-model FILE, --judge-base-url URL, or --judge-model-name NAME")
	r = ingot(t, "", "eval", "run", task, "-o", folder, "--model", tinyLlama, "--judge-model", tinyLlama, "--limit", "3")
	require.Equal(t, exitRows, r.code, r.stderr)
	samples, err := eval.ReadSamples(folder, "quiz")
	require.NoError(t, err)
	require.Len(t, samples, 3)
	for _, s := range samples {
		require.Len(t, s.Judge, 1)
		require.Equal(t, s.Filtered, s.Judge, "the judge is the same model, and is asked the same")
		digit := strings.ContainsAny(s.Judge[0][:1], "0123456789")
		require.Equal(t, digit, s.Failed == "", "only an answer that begins with a digit has a score: %q", s.Judge)
	}
}

// TestEvalEmptyTargets: rows with an empty target are counted, since no answer contains it. A task
// without other rows is refused.
func TestEvalEmptyTargets(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	path := filepath.Join(folder, "task.yaml")
	require.NoError(t, os.WriteFile(path, []byte("task: a\ndata: rows.jsonl\ndoc_to_text: q\ndoc_to_target: a\nmetric_list: [{metric: contains}]\ngeneration_kwargs: {max_gen_toks: 1}\n"), 0o600))
	evaluate := func(name, rows string) result {
		require.NoError(t, os.WriteFile(filepath.Join(folder, "rows.jsonl"), []byte(rows), 0o600))
		return ingot(t, "", "eval", "run", path, "-o", filepath.Join(folder, name), "--model", tinyLlama)
	}
	const empty, other = `{"q": "Q", "a": ["", ""]}` + "\n", `{"q": "R", "a": ["", "zebra"]}` + "\n"
	r := evaluate("some", other+empty)
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Contains(t, r.stderr, "a: 1 row with an empty target, the first of them row 2: they count as wrong by the metric contains\n")
	require.Regexp(t, `(?m)^a +contains +none +0\.0000 `, r.stdout)
	r = evaluate("all", empty)
	require.Equal(t, exitFailure, r.code)
	require.Contains(t, r.stderr, "doc_to_target gives an empty text in every row of ")
}

// TestEvalTaskWithoutScores: a task of which every row fails is an error with the reason, also if
// the rows of another task have scores.
func TestEvalTaskWithoutScores(t *testing.T) {
	t.Parallel()
	task, folder := quiz(t), t.TempDir()
	failing := filepath.Join(folder, "failing.yaml")
	text := strings.Replace(readFile(t, task), "task: quiz", "task: failing\nrepeats: 2\nmetric_list: [{metric: pass@k, k: 2}]\nfilter_list: [{name: one, filter: [{function: take_first}]}]", 1)
	require.NoError(t, os.WriteFile(failing, []byte(text), 0o600))
	r := ingot(t, "", "eval", "run", task, failing, "-o", filepath.Join(folder, "run"), "--model", tinyLlama, "--limit", "2")
	require.Equal(t, exitRows, r.code, r.stderr)
	require.Regexp(t, `(?m)^failing: 2 rows without a score, the first of them row 1: 1 answers are left after the filters, but pass@2 needs 2$`, r.stderr)
	require.Contains(t, r.stderr, "ingot: task failing: all 2 rows failed; row 1: 1 answers are left after the filters, but pass@2 needs 2\n")
	require.Regexp(t, `(?m)^quiz +exact_match `, r.stdout)
}

func TestEvalUsage(t *testing.T) {
	t.Parallel()
	task := quiz(t)
	for args, says := range map[string][]string{
		"TASK is missing":           {"eval", "run", "-o", "x", "--model", "m"},
		"-o DIR is missing":         {"eval", "run", task, "--model", "m"},
		"--data is for one task":    {"eval", "run", task, "gsm8k", "-o", "x", "--data", "d", "--model", "m"},
		"--num-fewshot is -1":       {"eval", "run", task, "-o", "x", "--num-fewshot", "-1", "--model", "m"},
		"--limit is -1":             {"eval", "run", task, "-o", "x", "--limit", "-1", "--model", "m"},
		"--margin 2: give a number": {"eval", "gate", "a", "b", "--margin", "2"},
		"a name has up to 64":       {"eval", "baseline", "set", "a b", "run"},
		"CANDIDATE is missing":      {"eval", "gate", "--baseline", "main"},
		"unexpected argument":       {"eval", "gate", "--baseline", "main", "a", "b"},
		"read the folder of runs":   {"eval", "list", "--runs", "nowhere"},
		"read the results of a run": {"eval", "compare", "nowhere", "elsewhere"},
	} {
		r := ingot(t, "", says...)
		require.NotEqual(t, exitOK, r.code)
		require.Contains(t, r.stderr, args)
	}
	r := ingot(t, "", "eval", "run", task, "-o", filepath.Join(t.TempDir(), "run"))
	require.Equal(t, exitUsage, r.code)
	require.Contains(t, r.stderr, "--model FILE to run on this machine")
}

// TestEvalAtOnce starts evaluations into one new directory at once: one does all the work, and the
// others say that they have to wait.
func TestEvalAtOnce(t *testing.T) {
	t.Parallel()
	task, folder := quiz(t), filepath.Join(t.TempDir(), "run")
	results := make([]result, 4)
	var running sync.WaitGroup
	for i := range results {
		running.Go(func() {
			results[i] = ingot(t, "", "eval", "run", task, "-o", folder, "--model", tinyLlama, "--limit", "40")
		})
	}
	running.Wait()
	finished := 0
	for _, r := range results {
		if r.code == exitOK {
			finished++
			continue
		}
		require.Contains(t, r.stderr, folder+": another evaluation is writing to the directory: wait until it has ended, or give another directory")
	}
	require.Positive(t, finished)
}

// TestEvalSeedsDiffer: the seed of a task is mixed with the row, so that rows with the same prompt
// get different answers.
func TestEvalSeedsDiffer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	data := write(t, "data.jsonl", strings.Repeat(`{"question":"Once upon a time","answer":"x"}`+"\n", 4))
	task := filepath.Join(dir, "same.yaml")
	require.NoError(t, os.WriteFile(task, []byte("task: same\ndata: "+data+`
doc_to_text: question
doc_to_target: answer
generation_kwargs: {max_gen_toks: 12, until: [], temperature: 1.5, seed: 7}
`), 0o600))
	run := filepath.Join(dir, "run")
	r := ingot(t, "", "eval", "run", task, "-o", run, "--model", tinyLlama)
	require.Equal(t, exitOK, r.code, r.stderr)
	texts := map[string]bool{}
	for _, a := range readAnswers(t, readFile(t, filepath.Join(run, eval.AnswersFile))) {
		texts[a.Response.Body.Choices[0].Text] = true
	}
	require.Len(t, texts, 4)
	// The seed of row 1 is that which "ingot run --seed 7" gives it.
	require.Contains(t, readFile(t, filepath.Join(run, eval.RequestsFile)), `"seed":`+strconv.FormatInt(prompt.RowSeed("7", 1), 10)+`,`)
}

// TestTrustTaskCode runs a task with a Python function, which is refused without --trust-task-code.
func TestTrustTaskCode(t *testing.T) {
	t.Parallel()
	task, run := quiz(t), filepath.Join(t.TempDir(), "run")
	text := strings.Replace(readFile(t, task), "doc_to_text: question", "doc_to_text: !function ask.loudly", 1)
	require.NoError(t, os.WriteFile(task, []byte(text), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(task), "ask.py"), []byte("def loudly(doc):\n    return doc['question'].upper()\n"), 0o600))
	evaluate := func(trust ...string) result {
		return ingot(t, "", append([]string{"eval", "run", task, "-o", run, "--model", tinyLlama, "--limit", "2"}, trust...)...)
	}
	r := evaluate()
	require.Equal(t, exitFailure, r.code)
	require.Contains(t, r.stderr, `the Python function "ask.loudly" is not supported: --trust-task-code runs it with python3`)
	r = evaluate("--trust-task-code=yes")
	require.Equal(t, exitUsage, r.code)
	require.Contains(t, r.stderr, `--trust-task-code is "yes"`)
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("--trust-task-code is not tested with Python: install python3")
	}
	r = evaluate("--trust-task-code=unsandboxed")
	require.Equal(t, exitOK, r.code, r.stderr)
	samples, err := eval.ReadSamples(run, "quiz")
	require.NoError(t, err)
	require.Len(t, samples, 2)
	for _, s := range samples {
		require.Equal(t, strings.ToUpper(s.Context), s.Context)
	}
}
