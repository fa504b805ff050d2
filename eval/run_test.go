package eval_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/eval"
	"github.com/ingot-run/ingot/eval/statistics"
	"github.com/ingot-run/ingot/eval/task"
)

// Each kind of task makes its requests: the settings of generation, or a score of each text.
func TestRequestsOfTasks(t *testing.T) {
	t.Parallel()
	rows := []map[string]any{{"q": "Ask <me>", "a": "yes", "n": 1}}
	for name, c := range map[string]struct {
		settings string
		want     []string // bodies by order
	}{
		"generate": {"doc_to_text: q\ndoc_to_target: a\ngeneration_kwargs: {max_gen_toks: 5, until: ['.', ''], temperature: 0.5, top_p: 0.9, top_k: 3, seed: 4711}\n",
			[]string{`{"prompt":"Ask <me>","max_tokens":5,"temperature":0.5,"top_p":0.9,"top_k":3,"seed":5816475038114152,"n":1,"stop":["."]}`}},
		"without options": {"doc_to_text: q\ndoc_to_target: a\ngeneration_kwargs: {max_gen_toks: 6, until: ['.'], do_sample: false}\nrepeats: 2\n",
			[]string{`{"prompt":"Ask <me>","max_tokens":6,"temperature":0,"n":2,"stop":["."]}`}},
		"one of several texts": {"doc_to_text: q\ndoc_to_target: a\ngeneration_kwargs: {until: [], choices: [' <yes>', ' no']}\n",
			[]string{`{"prompt":"Ask <me>","max_tokens":256,"temperature":0,"n":1,"structured_outputs":{"choice":[" <yes>"," no"]}}`}},
		"a regular expression": {"doc_to_text: q\ndoc_to_target: a\ngeneration_kwargs: {until: [], regex: ' \\d+'}\n",
			[]string{`{"prompt":"Ask <me>","max_tokens":256,"temperature":0,"n":1,"structured_outputs":{"regex":" \\d+"}}`}},
		"choices": {"output_type: multiple_choice\ndoc_to_text: q\ndoc_to_choice: [x, y]\ndoc_to_target: n\n",
			[]string{`{"prompt":"Ask <me> x","max_tokens":0,"echo":true,"logprobs":1}`, `{"prompt":"Ask <me> y","max_tokens":0,"echo":true,"logprobs":1}`}},
		"a text": {"output_type: loglikelihood_rolling\ndoc_to_text: ''\ndoc_to_target: q\n", []string{`{"prompt":"Ask <me>","max_tokens":0,"echo":true,"logprobs":1,"prefix_token":true}`}},
		"choices without context": {"output_type: multiple_choice\ndoc_to_text: ''\ndoc_to_choice: [x, y]\ndoc_to_target: n\n",
			[]string{`{"prompt":" x","max_tokens":0,"echo":true,"logprobs":1,"prefix_token":true}`, `{"prompt":" y","max_tokens":0,"echo":true,"logprobs":1,"prefix_token":true}`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			s := written(t, "task", c.settings, rows)
			require.NoError(t, eval.Prepare(filepath.Join(folder, "run"), []*eval.Set{s}))
			text, err := os.ReadFile(filepath.Join(folder, "run", eval.RequestsFile))
			require.NoError(t, err)
			lines := strings.Split(strings.TrimSpace(string(text)), "\n")
			require.Len(t, lines, len(c.want))
			for i, want := range c.want {
				id := "task:0"
				if !s.Type.Generates() {
					id = fmt.Sprintf("task:0:%d", i)
				}
				require.JSONEq(t, `{"custom_id":"`+id+`","method":"POST","url":"/v1/completions","body":`+want+`}`, lines[i])
			}
			require.NotContains(t, string(text), `\u003c`)
		})
	}
	s := written(t, "task", "doc_to_text: q\ndoc_to_target: a\n", rows)
	s.Chat = true
	folder := t.TempDir()
	require.NoError(t, eval.Prepare(folder, []*eval.Set{s}))
	text, err := os.ReadFile(filepath.Join(folder, eval.RequestsFile))
	require.NoError(t, err)
	require.Contains(t, string(text), `"url":"/v1/chat/completions","body":{"messages":[{"role":"user","content":"Ask <me>"}],"max_tokens":`)
}

// An evaluation prepares, answers, asks the judge if there is one, and scores; an error ends it.
func TestStepsOfAnEvaluation(t *testing.T) {
	t.Parallel()
	plain := func(t *testing.T) *eval.Set {
		return written(t, "plain", "doc_to_text: q\ndoc_to_target: a\n", rowsOf(2))
	}
	kind := func(t *testing.T) *eval.Set {
		return written(t, "kind", "output_type: judge\ndoc_to_text: q\njudge: {range: [0, 4], rubric: 'Is it kind? {{answer}}'}\n", rowsOf(2))
	}
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		judged                bool
		answerErr, judgeErr   error
		steps                 string
		err                   error
		plainScore, kindScore float64
	}{
		"without a judge":  {steps: "answer", plainScore: 0.5},
		"with a judge":     {judged: true, steps: "answer judge", plainScore: 0.5, kindScore: 0.75},
		"answers fail":     {judged: true, answerErr: broken, steps: "answer", err: broken},
		"the judge fails":  {judged: true, judgeErr: broken, steps: "answer judge", err: broken},
		"no judge, no use": {judgeErr: broken, steps: "answer", plainScore: 0.5},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sets := []*eval.Set{plain(t)}
			if c.judged {
				sets = append(sets, kind(t))
			}
			folder := filepath.Join(t.TempDir(), "run")
			steps := ""
			step := func(name string, err error, texts func(id string) []string) eval.Answer {
				return func(_ context.Context, requests, answers string) error {
					steps = strings.TrimSpace(steps + " " + name)
					require.Equal(t, folder, filepath.Dir(requests))
					answerWith(t, folder, filepath.Base(requests), filepath.Base(answers), texts)
					return err
				}
			}
			r, err := eval.Evaluate(t.Context(), folder, sets, nil, eval.Config{Model: "m"},
				step("answer", c.answerErr, func(id string) []string {
					if id == "plain:0" {
						return []string{"yes"}
					}
					return []string{"no"}
				}),
				step("judge", c.judgeErr, func(string) []string { return []string{"Score: 3"} }))
			require.Equal(t, c.steps, steps)
			if c.err != nil {
				require.ErrorIs(t, err, c.err)
				return
			}
			require.NoError(t, err)
			require.InDelta(t, c.plainScore, r.Results["plain"]["exact_match,none"], 1e-12)
			require.InDelta(t, c.kindScore, r.Results["kind"]["judge_score,none"], 1e-12)
			require.Equal(t, "m", r.Config.Model)
			require.False(t, r.Date.IsZero())
		})
	}
}

// LoadAll changes the tasks as the settings say.
func TestSettingsOfTasks(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for name, text := range map[string]string{
		"a.yaml":    "task: a\ndata: own.jsonl\ndoc_to_text: q\ndoc_to_target: a\nnum_fewshot: 1\n",
		"b.yaml":    "task: b\ndata: own.jsonl\noutput_type: multiple_choice\ndoc_to_text: q\ndoc_to_choice: [x, y]\ndoc_to_target: a\n",
		"own.jsonl": `{"q":"own 1","a":"x"}` + "\n" + `{"q":"own 2","a":"y"}` + "\n" + `{"q":"own 3","a":"x"}` + "\n", "other.jsonl": `{"q":"other","a":"x"}` + "\n",
		"shots.jsonl": `{"q":"shot","a":"s"}` + "\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
	}
	loaded := func(settings eval.Settings) []*eval.Set {
		var tasks []*task.Task
		for _, name := range []string{"a.yaml", "b.yaml"} {
			read, err := task.Read(filepath.Join(folder, name))
			require.NoError(t, err)
			tasks = append(tasks, read)
		}
		sets, err := eval.LoadAll(tasks, settings)
		require.NoError(t, err)
		require.Len(t, sets, 2)
		return sets
	}
	sets := loaded(eval.Settings{})
	require.Len(t, sets[0].Items, 3)
	require.False(t, sets[0].Chat)
	require.Equal(t, 1, strings.Count(sets[0].Items[0].Prompt.Context, "own 1"))
	require.Equal(t, 1, strings.Count(sets[0].Items[0].Prompt.Context, "\n\n"), "one example")

	sets = loaded(eval.Settings{Limit: 2, Chat: new(true)})
	require.Len(t, sets[0].Items, 2)
	require.Equal(t, []bool{true, false}, []bool{sets[0].Chat, sets[1].Chat}, "only tasks that generate become chats")

	none := 0
	sets = loaded(eval.Settings{Shots: &none, Data: filepath.Join(folder, "other.jsonl")})
	require.Len(t, sets[0].Items, 1)
	require.Equal(t, "other", sets[0].Items[0].Prompt.Context)
	sets = loaded(eval.Settings{Examples: filepath.Join(folder, "shots.jsonl")})
	require.True(t, strings.HasPrefix(sets[0].Items[0].Prompt.Context, "shot"), sets[0].Items[0].Prompt.Context)

	_, err := eval.LoadAll([]*task.Task{sets[0].Task}, eval.Settings{Data: filepath.Join(folder, "none.jsonl")})
	require.ErrorContains(t, err, "load task a: read rows: open ")
}

// Answers are taken from the cache by the request and its source, and only answers are stored.
func TestCacheOfAnswers(t *testing.T) {
	t.Parallel()
	s := written(t, "a", "doc_to_text: q\ndoc_to_target: a\n", []map[string]any{{"q": "one", "a": "x"}, {"q": "two", "a": "y"}, {"q": "three", "a": "z"}})
	store := filepath.Join(t.TempDir(), "cache")
	line := func(id, text string) string {
		return `{"id":"batch_req_x-1-00000000","custom_id":"` + id + `","response":{"status_code":200,"request_id":"r","body":{"choices":[{"text":"` + text + `"}]}},"error":null,"stats":{"total_ms":5}}` + "\n"
	}
	failed := `{"id":"batch_req_x-2-00000000","custom_id":"a:1","response":null,"error":{"code":"failed","message":"it broke"},"stats":{}}` + "\n"
	run := func(identity string, have string, ask func(answers string)) (found int, answers string) {
		folder := t.TempDir()
		require.NoError(t, eval.Prepare(folder, []*eval.Set{s}))
		path := filepath.Join(folder, eval.AnswersFile)
		require.NoError(t, os.WriteFile(path, []byte(have), 0o600))
		c := eval.Cache{Folder: store, Identity: identity, Batch: "x"}
		require.NoError(t, c.Answer(t.Context(), filepath.Join(folder, eval.RequestsFile), path, func(n int) error {
			found = n
			if ask != nil {
				ask(path)
			}
			return nil
		}))
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		return found, string(text)
	}
	add := func(lines ...string) func(string) {
		return func(path string) {
			f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
			require.NoError(t, err)
			_, err = f.WriteString(strings.Join(lines, ""))
			require.NoError(t, err)
			require.NoError(t, f.Close())
		}
	}
	found, _ := run("m", "", add(line("a:0", "1"), failed, line("other", "7")))
	require.Zero(t, found)
	found, answers := run("m", "", add(line("a:1", "2"), line("a:2", "3")))
	require.Equal(t, 1, found, "a failed answer is not stored")
	require.Contains(t, answers, `"text":"1"`)
	found, answers = run("m", "", nil)
	require.Equal(t, 3, found)
	for i, want := range []string{`"custom_id":"a:0"`, `"custom_id":"a:1"`, `"custom_id":"a:2"`} {
		l := strings.Split(answers, "\n")[i]
		require.Contains(t, l, want)
		require.Contains(t, l, fmt.Sprintf(`"text":"%d"`, i+1))
		require.Contains(t, l, fmt.Sprintf(`"id":"batch_req_x-%d-`, i+1), "the id is that of the new run's row")
		require.Contains(t, l, `"total_ms":5`)
	}
	have := strings.SplitAfter(answers, "\n")[0]
	found, again := run("m", have, nil)
	require.Equal(t, 2, found, "answers that the run has are kept")
	require.Equal(t, answers, again)
	found, _ = run("n", "", nil)
	require.Zero(t, found, "answers of another source are not used")
	broken := errors.New("broken")
	folder := t.TempDir()
	require.NoError(t, eval.Prepare(folder, []*eval.Set{s}))
	c := eval.Cache{Folder: store, Identity: "m", Batch: "x"}
	require.ErrorIs(t, c.Answer(t.Context(), filepath.Join(folder, eval.RequestsFile), filepath.Join(folder, eval.AnswersFile), func(int) error { return broken }), broken)

	require.NoError(t, filepath.Walk(store, func(path string, info os.FileInfo, err error) error {
		if err == nil && info.Mode().IsRegular() {
			err = os.WriteFile(path, []byte("{"), 0o600)
		}
		return err
	}))
	err := c.Answer(t.Context(), filepath.Join(folder, eval.RequestsFile), filepath.Join(t.TempDir(), "answers.jsonl"), func(int) error { return nil })
	require.ErrorContains(t, err, "delete this file to generate the answer again")
	err = c.Answer(t.Context(), filepath.Join(folder, "none"), filepath.Join(t.TempDir(), "answers.jsonl"), func(int) error { return nil })
	require.ErrorContains(t, err, "read requests: open ")
}

// The id of a run's batch is made once; the judge's answers have another.
func TestIDsOfBatches(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	made := 0
	id := func(file string) string {
		id, err := eval.StoredID(filepath.Join(folder, file), func() string { made++; return fmt.Sprintf("id-%d\n", made) })
		require.NoError(t, err)
		return id
	}
	for range 2 {
		require.Equal(t, "id-1", id(eval.AnswersFile))
		require.Equal(t, "id-2", id(eval.JudgeAnswersFile))
	}
	_, err := eval.StoredID(filepath.Join(folder, "none", eval.AnswersFile), func() string { return "x" })
	require.ErrorContains(t, err, "read or store the id of the run's batch")
}

// Answers that were cut off, and those that failed, are counted by rows, whatever the number of
// pipelines.
func TestCountsOfRows(t *testing.T) {
	t.Parallel()
	s := written(t, "a", "doc_to_text: q\ndoc_to_target: a\nfilter_list: [{name: first, filter: [{function: take_first}]}, {name: low, filter: [{function: lowercase}]}]\n", rowsOf(4))
	folder := t.TempDir()
	require.NoError(t, eval.Prepare(folder, []*eval.Set{s}))
	answer := func(id, finish, sha string, tokens int) string {
		return fmt.Sprintf(`{"custom_id":%q,"response":{"body":{"choices":[{"message":{"content":"YES"},"finish_reason":%q}],"usage":{"completion_tokens":%d}}},"stats":{"model_sha256":%q,"total_ms":2.5}}`+"\n", id, finish, tokens, sha)
	}
	text := answer("a:0", "stop", "bb", 3) + answer("a:1", "length", "aa", 4) + answer("a:2", "stop", "bb", 5) + `{"custom_id":"a:3","response":{"body":{"choices":[]}}}` + "\n" + answer("a:3", "length", "cc", 5)[:40]
	require.NoError(t, os.WriteFile(filepath.Join(folder, eval.AnswersFile), []byte(text), 0o600))
	r, err := eval.Score(folder, []*eval.Set{s}, nil, eval.Config{ModelSHA256: []string{"dd"}})
	require.NoError(t, err)
	require.Equal(t, eval.Count{Original: 4, Effective: 3, Failed: 1, Truncated: 1}, r.Samples["a"])
	require.Equal(t, []string{"aa", "bb", "dd"}, r.Config.ModelSHA256)
	require.InDelta(t, 0, r.Results["a"]["exact_match,first"], 0)
	require.InDelta(t, 1, r.Results["a"]["exact_match,low"], 0)
	require.Equal(t, map[string]bool{"exact_match": true}, r.HigherBetter["a"])
	require.Equal(t, map[string]string{"a": s.Hash}, r.TaskHashes)
	require.Equal(t, map[string]string{"a": s.Version}, r.Versions)
	require.Equal(t, map[string]int{"a": s.Shots}, r.Shots)
	require.Equal(t, map[string]float64{"a": s.Margin}, r.Margins)
	require.Equal(t, "a: 1 of 4 rows have no answer", r.Unanswered())
	samples, err := eval.ReadSamples(folder, "a")
	require.NoError(t, err)
	require.Len(t, samples, 7, "two pipelines of three rows, and a failed row")
	require.Equal(t, []any{4, 2.5, true, "low", []string{"yes"}, []string{"YES"}},
		[]any{samples[3].Tokens, samples[3].Latency, samples[3].Truncated, samples[3].Filter, samples[3].Filtered, samples[3].Responses})
	require.Equal(t, "the response is missing or has no choices", samples[6].Failed)
	require.Equal(t, []string{"exact_match"}, samples[0].Metrics)
	require.Len(t, map[string]bool{samples[0].DocHash: true, samples[0].PromptHash: true, samples[0].TargetHash: true}, 3)

	scores := eval.Scores(r.Results["a"])
	require.Len(t, scores, 2)
	require.Equal(t, []string{"exact_match,first", "exact_match,low"}, []string{scores[0].Name(), scores[1].Name()})
	require.True(t, scores[0].Certain)
	require.Equal(t, []eval.MetricScore{{Metric: "m", Filter: "none", Value: 2}}, eval.Scores(map[string]float64{"m,none": 2, "x_stderr,none": 3}))
	require.Equal(t, "m", eval.Scores(map[string]float64{"m,none": 2})[0].Name())
	r.Samples = map[string]eval.Count{"a": {Original: 100, Failed: 1}, "b": {Original: 100, Failed: 2}, "c": {Original: 1, Failed: 1}}
	require.Equal(t, "b: 2 of 100 rows have no answer; c: 1 of 1 row have no answer", r.Unanswered())
}

func TestVerdictsInWords(t *testing.T) {
	t.Parallel()
	compared := func(name string, verdict statistics.Verdict, failed int) eval.Compared {
		return eval.Compared{Task: name, Metric: "acc", Baseline: 0.5, Candidate: 0.25, Failed: failed, Verdict: verdict,
			Comparison: statistics.Comparison{Difference: statistics.Difference{Mean: -0.25, Interval: statistics.Interval{Low: -0.4, High: 0.1}}}}
	}
	v := eval.GateVerdict{Run: "r", Compared: []eval.Compared{compared("a", statistics.Pass, 3)}}
	require.Equal(t, "as good as r", v.String())
	v.Compared = append(v.Compared, compared("b", statistics.Fail, 0), compared("c", statistics.Inconclusive, 2))
	require.Equal(t, "compared with r: b acc: 0.2500 after 0.5000, -0.2500 (90 %: -0.4000 to +0.1000): fail; "+
		"c acc: 0.2500 after 0.5000, -0.2500 (90 %: -0.4000 to +0.1000), 2 rows without an answer: inconclusive", v.String())
	require.ErrorContains(t, v.Write(filepath.Join(t.TempDir(), "none")), "write the verdict of a run")
}

// Only a finished run of the folder itself is found.
func TestFindRun(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for _, dir := range []string{"runs/a", "runs/unfinished", "runs/a/inside", "elsewhere/b"} {
		require.NoError(t, os.MkdirAll(filepath.Join(folder, dir), 0o700))
	}
	for _, dir := range []string{"runs/a", "runs/a/inside", "elsewhere/b", "runs"} {
		require.NoError(t, os.WriteFile(filepath.Join(folder, dir, eval.ResultsFile), []byte("{}"), 0o600))
	}
	runs := filepath.Join(folder, "runs")
	for name, want := range map[string]string{
		"a": "a", filepath.Join(runs, "a"): "a", filepath.Join(runs, "a") + "/": "a", filepath.Join(runs, "..", "runs", "a"): "a",
		"b": "", filepath.Join(folder, "elsewhere", "b"): "", "unfinished": "", filepath.Join("a", "inside"): "", "../elsewhere/b": "", "": "", ".": "", runs: "",
	} {
		got, err := eval.FindRun(runs, name)
		require.Equal(t, want, got, name)
		require.Equal(t, want == "", err != nil, name)
	}
	_, err := eval.FindRun(filepath.Join(folder, "none"), "a")
	require.ErrorContains(t, err, "has no finished run of this name")
}

// The rows of a file may be as large as the documentation says, and lines are counted with empty
// ones.
func TestRowsOfAFile(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	path := filepath.Join(folder, "rows.jsonl")
	load := func(text string) error {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		require.NoError(t, os.WriteFile(filepath.Join(folder, "t.yaml"), []byte("task: a\ndata: rows.jsonl\ndoc_to_text: q\ndoc_to_target: a\n"), 0o600))
		read, err := task.Read(filepath.Join(folder, "t.yaml"))
		require.NoError(t, err)
		s, err := eval.Load(read, 0)
		if err == nil {
			require.Len(t, s.Items, 1)
			var doc map[string]string
			require.NoError(t, json.Unmarshal(s.Items[0].Doc, &doc))
			require.Equal(t, "y", doc["a"])
		}
		return err
	}
	row := func(n int) string { return `{"a":"y","q":"` + strings.Repeat("x", n) + `"}` }
	require.NoError(t, load("\n\r\n "+row(5)+" \n"))
	require.NoError(t, load("\ufeff"+row(5)+"\r\n"))
	require.NoError(t, load(row(16<<20-30)))
	require.ErrorContains(t, load("\n"+row(16<<20)), ":2: the row has more than 16 MiB")
	require.ErrorContains(t, load("\n\n5\n"), ":3: the row is not a JSON object: rows are JSON Lines, a JSON object on each line")
	require.ErrorContains(t, load("id,review\n1,Good\n"), ":1: parse JSON: offset 0: found 'i' where a value is expected: rows are JSON Lines")
	require.ErrorContains(t, load("{}"), "row 1 of ")
}

// Rows with the same value in the column of clusters are one observation, so each row needs a
// value.
func TestClustersOfRows(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	load := func(column, rows string) (clusters []string, err error) {
		require.NoError(t, os.WriteFile(filepath.Join(folder, "rows.jsonl"), []byte(rows), 0o600))
		text := "task: a\ndata: rows.jsonl\ndoc_to_text: q\ndoc_to_target: q\ncluster: " + column + "\n"
		require.NoError(t, os.WriteFile(filepath.Join(folder, "t.yaml"), []byte(text), 0o600))
		read, err := task.Read(filepath.Join(folder, "t.yaml"))
		require.NoError(t, err)
		s, err := eval.Load(read, 0)
		if err != nil {
			return nil, err
		}
		for i := range s.Items {
			clusters = append(clusters, s.Items[i].Cluster)
		}
		return clusters, nil
	}
	clusters, err := load("c", `{"q":"x","c":"a"}`+"\n"+`{"q":"x","c":9007199254740993}`+"\n"+`{"q":"x","c":9007199254740992}`+"\n"+`{"q":"x","c":"null"}`)
	require.NoError(t, err)
	require.Equal(t, []string{"a", "9007199254740993", "9007199254740992", "null"}, clusters)
	for _, second := range []string{`{"q":"x"}`, `{"q":"x","c":null}`, `{"q":"x","c":""}`} {
		_, err = load("c", `{"q":"x","c":"a"}`+"\n"+second)
		require.ErrorContains(t, err, `row 2 of `)
		require.ErrorContains(t, err, `cluster: the row has no value in the column "c"`)
	}
	_, err = load("topics", `{"q":"x","topic":"a"}`)
	require.ErrorContains(t, err, `cluster: the row has no value in the column "topics"`)
}

// The rows that changed between two runs are shown with their answers and scores.
func TestChangedRows(t *testing.T) {
	t.Parallel()
	s := written(t, "a", "doc_to_text: q\ndoc_to_target: a\n", rowsOf(3))
	run := func(texts ...string) string {
		folder := t.TempDir()
		require.NoError(t, eval.Prepare(folder, []*eval.Set{s}))
		answerWith(t, folder, eval.RequestsFile, eval.AnswersFile, func(id string) []string {
			if text := texts[id[len(id)-1]-'0']; text != "" {
				return []string{text}
			}
			return nil
		})
		_, err := eval.Score(folder, []*eval.Set{s}, nil, eval.Config{})
		require.NoError(t, err)
		return folder
	}
	base, cand := run("yes", "yes", "no"), run("yes", "no", "")
	changes, err := eval.Changes("a", base, cand)
	require.NoError(t, err)
	require.Equal(t, []eval.Change{
		{Task: "a", Row: 1, Context: "question", Target: "yes", Baseline: []string{"yes"}, Candidate: []string{"no"}, Scores: [2]map[string]float64{{"exact_match": 1}, {"exact_match": 0}}},
		{Task: "a", Row: 2, Context: "question", Target: "yes", Baseline: []string{"no"}, Candidate: []string{"failed: it broke"}, Scores: [2]map[string]float64{{"exact_match": 0}, {}}},
	}, changes)
	_, err = eval.Changes("a", base, filepath.Join(base, "none"))
	require.ErrorContains(t, err, "read the results of a run: open ")
	_, err = eval.Changes("b", base, cand)
	require.ErrorContains(t, err, `has no task "b": its tasks are a`)
	all, err := eval.Changes("", base, cand)
	require.NoError(t, err)
	require.Equal(t, changes, all, "no name stands for all tasks")
	list, err := eval.Compare(base, cand, 0.5)
	require.NoError(t, err)
	require.Equal(t, []int{2, 1, 0, 2, 1}, []int{list[0].N, list[0].Lost, list[0].Won, list[0].Changed, list[0].Failed})
	require.InDelta(t, 0.5, list[0].Margin, 0)
	list, err = eval.Compare(base, cand, -1)
	require.NoError(t, err)
	require.InDelta(t, s.Margin, list[0].Margin, 0)

	// A file of samples without all rows, or with a row twice, is not compared.
	path := filepath.Join(base, eval.SamplesFile("a"))
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	lines := strings.SplitAfter(string(whole), "\n")
	for text, says := range map[string]string{
		"":                       "has 0 samples of 0 rows, but results.json counts 3",
		lines[0] + lines[1]:      "has 2 samples of 2 rows, but results.json counts 3",
		string(whole) + lines[0]: "has 4 samples of 3 rows, but results.json counts 3",
	} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		_, err = eval.CompareAll(base, cand, 0.5)
		require.ErrorContains(t, err, says)
		_, err = eval.CompareAll(cand, base, 0.5)
		require.ErrorContains(t, err, says)
	}
}

// A run that cannot be read does not hide the runs after it.
func TestADamagedRunIsNamedAlone(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for name, files := range map[string][2]string{"a": {"{", ""}, "b": {`{"date":"2026-01-02T03:04:05Z"}`, `{"verdict":"pass"}`}, "c": {`{"date":"2026-01-02T03:04:05Z"}`, "{"}, "d": {`{"date":5}`, ""}, "f": {`{"date":"2026-01-02T03:04:05Z"}`, `{"verdict":5}`}, "e": {`{"date":"2025-01-02T03:04:05Z"}`, ""}} {
		require.NoError(t, os.Mkdir(filepath.Join(folder, name), 0o700))
		for i, file := range []string{eval.ResultsFile, eval.GateFile} {
			if files[i] != "" {
				require.NoError(t, os.WriteFile(filepath.Join(folder, name, file), []byte(files[i]), 0o600))
			}
		}
	}
	require.NoError(t, os.MkdirAll(filepath.Join(folder, "g", eval.ResultsFile), 0o700))
	for range 2 {
		index, err := eval.ReadIndex(folder)
		require.NoError(t, err)
		require.Len(t, index.Runs, 2)
		require.Equal(t, []string{"e", "b"}, []string{index.Runs[0].Name, index.Runs[1].Name})
		require.Nil(t, index.Runs[0].Gate)
		require.Equal(t, statistics.Pass, index.Runs[1].Gate.Verdict)
		require.Len(t, index.Damaged, 5)
		require.ErrorContains(t, index.Damaged[0], filepath.Join("a", eval.ResultsFile))
		require.ErrorContains(t, index.Damaged[1], filepath.Join("c", eval.GateFile))
		require.ErrorContains(t, index.Damaged[2], "results.json of run d")
		require.ErrorContains(t, index.Damaged[3], "gate.json of run f")
		require.ErrorContains(t, index.Damaged[4], "read a run: read "+filepath.Join(folder, "g", eval.ResultsFile))
	}
}
