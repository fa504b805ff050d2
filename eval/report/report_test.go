package report_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/eval"
	"github.com/ingot-run/ingot/eval/report"
	"github.com/ingot-run/ingot/eval/task"
)

// nasty is a text that must not become part of the page's markup.
const nasty = `<script>alert(1)</script> & "quotes" </pre> {{.Verdict}}`

// run makes a finished run of a task with 40 rows, of which the first right rows have correct
// answers.
func run(t *testing.T, runs, name string, right int, change func(*eval.Config)) {
	t.Helper()
	folder := t.TempDir()
	var text bytes.Buffer
	for i := range 40 {
		line, err := json.Marshal(map[string]any{"q": fmt.Sprintf("question %d %s", i, nasty), "a": "yes"})
		require.NoError(t, err)
		text.Write(append(line, '\n'))
	}
	require.NoError(t, os.WriteFile(filepath.Join(folder, "rows.jsonl"), text.Bytes(), 0o600))
	path := filepath.Join(folder, "task.yaml")
	require.NoError(t, os.WriteFile(path, []byte("task: quiz\ndata: rows.jsonl\ndoc_to_text: q\ndoc_to_target: a\n"), 0o600))
	read, err := task.Read(path)
	require.NoError(t, err)
	set, err := eval.Load(read, 0)
	require.NoError(t, err)
	dir := filepath.Join(runs, name)
	require.NoError(t, eval.Prepare(dir, []*eval.Set{set}))
	var answers bytes.Buffer
	for i := range 40 {
		said := "yes"
		if i >= right {
			said = "no, " + nasty
		}
		line, err := json.Marshal(map[string]any{
			"custom_id": fmt.Sprintf("quiz:%d", i),
			"response":  map[string]any{"body": map[string]any{"choices": []any{map[string]any{"text": said, "finish_reason": "stop"}}, "usage": map[string]int{"completion_tokens": 3 + i%7}}},
			"stats":     map[string]any{"total_ms": 10 + i, "model_sha256": strings.Repeat(fmt.Sprint(right%10), 64)},
		})
		require.NoError(t, err)
		answers.Write(append(line, '\n'))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, eval.AnswersFile), answers.Bytes(), 0o600))
	c := eval.Config{Version: "v1", Model: "model.gguf"}
	if change != nil {
		change(&c)
	}
	r, err := eval.Score(dir, []*eval.Set{set}, nil, c)
	require.NoError(t, err)
	nights, err := time.ParseDuration(name[strings.LastIndex(name, "-")+1:] + "h")
	require.NoError(t, err)
	r.Date = time.Date(2026, 3, 1, 2, 0, 0, 0, time.UTC).Add(24 * nights)
	text.Reset()
	require.NoError(t, json.NewEncoder(&text).Encode(r))
	require.NoError(t, os.WriteFile(filepath.Join(dir, eval.ResultsFile), text.Bytes(), 0o600))
}

func write(t *testing.T, runs string, o report.Options) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, report.Write(&b, runs, o))
	return b.String()
}

// has checks that a page contains a text, lacks that it does not. Neither prints the page.
func has(t *testing.T, page, text string) {
	t.Helper()
	if !strings.Contains(page, text) {
		require.Failf(t, "the page lacks a text", "%s", text)
	}
}

func lacks(t *testing.T, page, text string) {
	t.Helper()
	if strings.Contains(page, text) {
		require.Failf(t, "the page has a text", "%s", text)
	}
}

// TestReport checks the page about four runs, of which the last is worse than the others.
func TestReport(t *testing.T) {
	t.Parallel()
	runs := t.TempDir()
	run(t, runs, "night-1", 30, nil)
	run(t, runs, "night-2", 30, nil)
	run(t, runs, "night-3", 30, func(c *eval.Config) { c.Version = "v2" })
	run(t, runs, "night-4", 5, nil)
	page := write(t, runs, report.Options{Version: "v3"})
	has(t, page, "<h1>Evaluation of night-4</h1>")
	has(t, page, `<span class="badge fail">fail</span>`)
	has(t, page, `<td class="n" data-l="baseline">0.7500<td class="n" data-l="candidate">0.1250<td class="n" data-l="difference">-0.6250`)
	has(t, page, "quiz: 25 changed; by exact_match 25 lost, 0 won")
	require.Regexp(t, `on a scale of ±[0-9.]*[1-9]`, page)
	has(t, page, "quiz · exact_match")
	require.Regexp(t, `>engine</text>`, page)
	require.Regexp(t, `>model, engine</text>`, page, "the model changed, and the engine's version went back")
	require.Equal(t, 3, strings.Count(page, "<svg "), "the page has three charts: history, lengths and latencies")
	has(t, page, "night-1 <span class=\"note\">(baseline)</span>")
	has(t, page, "<code>000000000000</code>")
	has(t, page, "question 7 &lt;script&gt;")

	better := write(t, runs, report.Options{Baseline: "night-4", Candidate: "night-2"})
	has(t, better, `<span class="badge pass">pass</span>`)
	has(t, better, "quiz: 25 changed; by exact_match 0 lost, 25 won")
	same := write(t, runs, report.Options{Candidate: "night-2"})
	has(t, same, "No answer changed.")
	_, err := eval.Pin(runs, "production", "night-2")
	require.NoError(t, err)
	has(t, write(t, runs, report.Options{}), "baseline, pinned as production</span><b>night-2</b>")
	require.ErrorContains(t, report.Write(new(bytes.Buffer), runs, report.Options{Candidate: "night-9"}), "night-9")
	require.ErrorContains(t, report.Write(new(bytes.Buffer), t.TempDir(), report.Options{}), "the folder has no finished run")
}

// TestSelfContained checks that a page loads no other files, that texts do not become markup, and
// that all colours of charts are variables of the theme.
func TestSelfContained(t *testing.T) {
	t.Parallel()
	runs := t.TempDir()
	run(t, runs, "night-1", 30, nil)
	run(t, runs, "night-2", 20, nil)
	page := write(t, runs, report.Options{})
	lacks(t, page, "<script")
	lacks(t, page, "<link")
	lacks(t, page, "@import")
	lacks(t, page, "url(")
	require.NotRegexp(t, `\s(src|srcset|href|action|poster)=`, page)
	for _, address := range regexp.MustCompile(`https?://[^"]*`).FindAllString(page, -1) {
		require.Contains(t, []string{"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}, address, "the page has no URLs except XML namespaces")
	}
	has(t, page, "prefers-color-scheme: dark")
	has(t, page, `name="viewport"`)
	for _, chart := range regexp.MustCompile(`(?s)<svg .*?</svg>`).FindAllString(page, -1) {
		require.NotRegexp(t, `#[0-9a-fA-F]{6}`, chart)
		require.Contains(t, chart, "var(--muted)")
		require.Contains(t, chart, `role="img" aria-label="`)
		require.NotContains(t, chart, "Serif")
		require.NotContains(t, chart, "NaN")
	}
}

// TestOneRun checks a page about a single run.
func TestOneRun(t *testing.T) {
	t.Parallel()
	runs := t.TempDir()
	run(t, runs, "night-1", 30, nil)
	require.NoError(t, os.Mkdir(filepath.Join(runs, "damaged"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(runs, "damaged", eval.ResultsFile), []byte("{"), 0o600))
	page := write(t, runs, report.Options{})
	has(t, page, "<h2>Scores</h2>")
	has(t, page, `<td class="n" data-l="score">0.7500<td class="n" data-l="standard error">±0.0693`) // standard error of 30 right answers to 40 rows
	lacks(t, page, "Against the baseline")
	has(t, page, "Left out: ")
}

// TestRefusedComparison checks that runs with different prompts are shown without a comparison.
func TestRefusedComparison(t *testing.T) {
	t.Parallel()
	runs := t.TempDir()
	run(t, runs, "night-1", 30, nil)
	run(t, runs, "night-2", 30, nil)
	path := filepath.Join(runs, "night-2", eval.ResultsFile)
	r, err := eval.ReadResults(filepath.Dir(path))
	require.NoError(t, err)
	r.TaskHashes["quiz"] = "other"
	text, err := json.Marshal(r)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, text, 0o600))
	page := write(t, runs, report.Options{})
	has(t, page, "The runs cannot be compared: ")
	has(t, page, "<h2>Scores</h2>")
	require.Regexp(t, `>task</text>`, page)
}

// TestMissingAnswersAreVisible: the page of a run without answers says so, with a reason, and the
// list of runs counts them.
func TestMissingAnswersAreVisible(t *testing.T) {
	t.Parallel()
	runs := t.TempDir()
	run(t, runs, "night-1", 30, nil)
	run(t, runs, "night-2", 30, nil)
	dir := filepath.Join(runs, "night-2")
	samples, err := eval.ReadSamples(dir, "quiz")
	require.NoError(t, err)
	var lines bytes.Buffer
	for i := range samples {
		samples[i].Failed, samples[i].Scores = "server_error: "+nasty, nil
		require.NoError(t, json.NewEncoder(&lines).Encode(samples[i]))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, eval.SamplesFile("quiz")), lines.Bytes(), 0o600))
	r, err := eval.ReadResults(dir)
	require.NoError(t, err)
	r.Results["quiz"], r.HigherBetter["quiz"], r.Samples["quiz"] = map[string]float64{}, map[string]bool{}, eval.Count{Original: 40, Failed: 40}
	text, err := json.Marshal(r)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, eval.ResultsFile), text, 0o600))
	page := write(t, runs, report.Options{})
	has(t, page, "Answers are missing. quiz: 40 of 40 rows have no answer. The first reason: server_error: &lt;script&gt;")
	has(t, page, `<span class="badge fail">fail</span>`)
	has(t, page, `data-l="no answer">40<`)
	lacks(t, write(t, runs, report.Options{Candidate: "night-1"}), "Answers are missing")
}

// TestChoiceOfRuns: the report compares the latest run with the oldest one unless a baseline is
// pinned, or the user names others. What cannot be read is an error, with its name.
func TestChoiceOfRuns(t *testing.T) {
	t.Parallel()
	runs := t.TempDir()
	for i := 1; i <= 4; i++ {
		run(t, runs, fmt.Sprint("night-", i), 20+i, nil)
	}
	_, err := eval.Pin(runs, "one", "night-3")
	require.NoError(t, err)
	_, err = eval.Pin(runs, "two", "night-2")
	require.NoError(t, err)
	chosen := func(o report.Options) string {
		page := write(t, runs, o)
		base := regexp.MustCompile(`<div><span>baseline(.*?)</span><b>(.*?)</b></div>`).FindStringSubmatch(page)
		cand := regexp.MustCompile(`<h1>Evaluation of (.*?)</h1>`).FindStringSubmatch(page)
		roles := regexp.MustCompile(`<span>(night-\d) <span class="note">\((\w+)\)`).FindAllStringSubmatch(page, -1)
		require.Len(t, roles, 2)
		return cand[1] + " against " + base[2] + base[1]
	}
	for want, o := range map[string]report.Options{
		"night-4 against night-1":                {},
		"night-4 against night-3, pinned as one": {Baseline: "one"},
		"night-4 against night-2":                {Baseline: "night-2"},
		"night-1 against night-2, pinned as two": {Baseline: "two", Candidate: "night-1"},
		"night-2 against night-1":                {Candidate: "night-2"},
		"night-3 against night-4":                {Baseline: "night-4"},
	} {
		require.Equal(t, want, chosen(o))
	}
	require.ErrorContains(t, report.Write(new(bytes.Buffer), runs, report.Options{Baseline: "night-9"}), "night-9")
	require.NoError(t, os.Remove(filepath.Join(runs, "night-2", eval.SamplesFile("quiz"))))
	require.ErrorContains(t, report.Write(new(bytes.Buffer), runs, report.Options{Baseline: "two"}), "use baseline two: ")
	require.ErrorContains(t, report.Write(new(bytes.Buffer), runs, report.Options{Baseline: "night-2"}), "samples_quiz.jsonl")
	require.NoError(t, os.WriteFile(filepath.Join(runs, "night-4", eval.ResultsFile), []byte("{"), 0o600))
	require.ErrorContains(t, report.Write(new(bytes.Buffer), runs, report.Options{Candidate: "night-4"}), "night-4")
	require.ErrorContains(t, report.Write(new(bytes.Buffer), filepath.Join(runs, "none"), report.Options{}), "none")
}

// A comparison with a baseline whose rows cannot be read is an error, not a verdict.
func TestBaselineThatCannotBeRead(t *testing.T) {
	t.Parallel()
	runs := t.TempDir()
	run(t, runs, "night-1", 30, nil)
	run(t, runs, "night-2", 30, nil)
	require.NoError(t, os.Remove(filepath.Join(runs, "night-1", eval.SamplesFile("quiz"))))
	require.ErrorContains(t, report.Write(new(bytes.Buffer), runs, report.Options{}), "read samples: ")
}
