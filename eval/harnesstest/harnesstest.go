// Package harnesstest has runs that lm-evaluation-harness has made, with its prompts, scores and
// results, against which packages eval and eval/task are tested.
package harnesstest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/jinja"
	"github.com/ingot-run/ingot/eval"
	"github.com/ingot-run/ingot/eval/task"
	"github.com/ingot-run/ingot/eval/taskcode"
	"github.com/ingot-run/ingot/internal/ordered"
)

// Run is a run of lm-evaluation-harness that eval/testdata/record.py has recorded.
type Run struct {
	Name      string            `json:"name"`
	Group     string            `json:"run"` // the group that is run, if it is not Name
	Files     map[string]string `json:"files"`
	Shots     *int              `json:"num_fewshot"`
	Chat      bool              `json:"chat"`
	Multiturn bool              `json:"multiturn"`
	Refused   string            `json:"refused"`   // part of our error if we refuse what the harness runs
	Python    bool              `json:"python"`    // the task's functions run in Python
	Undecided bool              `json:"undecided"` // some scores need algebra and are not compared
	Bootstrap int               `json:"bootstrap"` // number of the harness's samples for standard errors if it is not ours
	Asked     []struct {
		Context      string   `json:"context"`
		Continuation string   `json:"continuation"`
		Text         string   `json:"text"`
		Logprob      *float64 `json:"logprob"`
		Greedy       bool     `json:"greedy"`
		Answer       string   `json:"answer"`
		Settings     struct {
			Until any `json:"until"`
		} `json:"settings"`
	} `json:"asked"`
	Samples map[string][]struct {
		DocID    int             `json:"doc_id"`
		Filter   string          `json:"filter"`
		Target   json.RawMessage `json:"target"`
		Filtered []any           `json:"filtered"` // answers, or pairs of a log-probability and whether each token is the likeliest
		Scores   map[string]any  `json:"scores"`
	} `json:"samples"`
	Results map[string]map[string]any `json:"results"`
}

// Read reads recorded runs. path is that of eval/testdata/harness.json.
func Read(t testing.TB, path string) []Run {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	var all []Run
	require.NoError(t, json.Unmarshal(text, &all))
	require.NotEmpty(t, all)
	return all
}

// Test repeats recorded runs: prompts, continuations and stop strings, the target, the filtered
// answers and the scores of each row, and the results with their standard errors are the same.
func Test(t *testing.T, path string) {
	t.Helper()
	for _, c := range Read(t, path) {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			c.check(t)
		})
	}
}

func (c *Run) check(t *testing.T) {
	folder := t.TempDir()
	for name, text := range c.Files {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(folder, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
	}
	name := cmp.Or(c.Group, c.Name)
	var python *taskcode.Process
	if c.Python {
		python = Python(t)
	}
	tasks, groups, err := task.ReadAll([]string{filepath.Join(folder, name+".yaml")}, python)
	require.NoError(t, err)
	c.Compare(t, t.TempDir(), tasks, groups)
}

// Python returns a process for the functions of tasks. It has network if the system does not
// allow to start one without.
func Python(t *testing.T) *taskcode.Process {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("tasks with functions in Python are not tested: install python3")
	}
	p := &taskcode.Process{}
	if p.Start() != nil {
		p = &taskcode.Process{Unsandboxed: true}
	}
	t.Cleanup(p.Close)
	return p
}

// TestingT is a *testing.T, or what takes its place where a failure is counted.
type TestingT interface {
	require.TestingT
	Helper()
}

// Compare runs tasks and compares all that the harness recorded. run is an empty folder.
func (c *Run) Compare(t TestingT, run string, tasks []*task.Task, groups []task.Group) {
	t.Helper()
	sets, err := eval.LoadAll(tasks, eval.Settings{Shots: c.Shots, Chat: &c.Chat, Multiturn: &c.Multiturn})
	if c.Refused != "" {
		require.ErrorContains(t, err, c.Refused)
		return
	}
	require.NoError(t, err)
	require.NoError(t, eval.Prepare(run, sets))
	c.Answer(t, run)
	r, err := eval.Score(run, sets, groups, eval.Config{})
	require.NoError(t, err)
	for _, s := range sets {
		c.compareSamples(t, run, s)
	}
	if c.Undecided {
		return
	}
	for name, want := range c.Results {
		got := r.Results[name]
		if got == nil {
			got = r.Groups[name]
		}
		for key, v := range want {
			if number, ok := v.(float64); ok && strings.Contains(key, "_stderr") && c.Bootstrap > 0 {
				require.InEpsilon(t, number, got[key], 0.05, "%s: %s", name, key)
			} else if ok && strings.Contains(key, ",") {
				require.InEpsilon(t, number+1e-300, got[key]+1e-300, 1e-9, "%s: %s", name, key)
			} else if v == "N/A" {
				require.NotContains(t, got, key, name)
			}
		}
	}
}

// Answer answers the requests of a run as the model of record.py did. A request whose prompt the
// harness did not make fails the test.
func (c *Run) Answer(t TestingT, run string) {
	type scored struct {
		from    int // length of the context
		logprob float64
		greedy  bool
	}
	answers, stops, scores := map[string][]string{}, map[string]any{}, map[string]scored{}
	for i := range c.Asked {
		a := &c.Asked[i]
		switch {
		case a.Logprob == nil:
			answers[a.Context], stops[a.Context] = append(answers[a.Context], a.Answer), a.Settings.Until
		case a.Text != "":
			scores[a.Text] = scored{0, *a.Logprob, false}
		default:
			scores[a.Context+a.Continuation] = scored{len(strings.TrimRight(a.Context, " \n\t")), *a.Logprob, a.Greedy}
		}
	}
	in, err := os.Open(filepath.Join(run, eval.RequestsFile))
	require.NoError(t, err)
	defer in.Close() //nolint:errcheck // the file was only read
	out, err := os.Create(filepath.Join(run, eval.AnswersFile))
	require.NoError(t, err)
	used := map[string]int{}
	for d, enc := json.NewDecoder(in), json.NewEncoder(out); d.More(); {
		var r struct {
			CustomID string `json:"custom_id"`
			Body     struct {
				Prompt   string          `json:"prompt"`
				Messages json.RawMessage `json:"messages"`
				Continue bool            `json:"continue_final_message"`
				Stop     any             `json:"stop"`
				N        int             `json:"n"`
				Echo     bool            `json:"echo"`
			} `json:"body"`
		}
		require.NoError(t, d.Decode(&r))
		prompt := r.Body.Prompt
		if r.Body.Messages != nil {
			prompt = c.chat(t, r.Body.Messages, r.Body.Continue)
		}
		var choices []map[string]any
		if r.Body.Echo {
			s, ok := scores[prompt]
			require.True(t, ok, "the harness does not score this text: %q", prompt)
			choices = append(choices, map[string]any{"text": prompt, "finish_reason": "length", "logprobs": echoed(prompt, s.from, s.logprob, s.greedy)})
		}
		for range r.Body.N {
			list := answers[prompt]
			require.Less(t, used[prompt], len(list), "the harness does not ask this: %q", prompt)
			if stops[prompt] != nil && r.Body.Stop != nil || !isEmpty(stops[prompt]) {
				require.Equal(t, stops[prompt], r.Body.Stop)
			}
			choices = append(choices, map[string]any{"text": list[used[prompt]], "finish_reason": "stop"})
			used[prompt]++
		}
		require.NoError(t, enc.Encode(map[string]any{"custom_id": r.CustomID, "response": map[string]any{"body": map[string]any{"choices": choices}}}))
	}
	require.NoError(t, out.Close())
	for prompt, list := range answers {
		require.Len(t, list, used[prompt], "the harness asks this: %q", prompt)
	}
}

// isEmpty reports whether a list of stop strings has none.
func isEmpty(v any) bool {
	list, ok := v.([]any)
	return ok && len(list) == 0
}

// chat returns the text that the model of record.py makes of messages.
func (c *Run) chat(t TestingT, messages json.RawMessage, continues bool) string {
	var got []any
	require.NoError(t, json.Unmarshal(messages, &got))
	for i := range c.Asked {
		var made []struct {
			Messages  []any `json:"messages"`
			Continues bool  `json:"continues"`
		}
		require.NoError(t, json.Unmarshal([]byte(c.Asked[i].Context), &made))
		if made[0].Continues == continues && equalJSON(made[0].Messages, got) {
			return c.Asked[i].Context
		}
	}
	require.Fail(t, "the harness does not send these messages", "%s", messages)
	return ""
}

func equalJSON(a, b any) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// echoed returns the log-probabilities of a text of two tokens, its context and its continuation.
func echoed(text string, from int, logprob float64, greedy bool) map[string]any {
	other := logprob + 1
	if greedy {
		other = logprob - 1
	}
	top := map[string]float64{text[from:]: logprob, "\x00": other}
	if from == 0 { // before the text is a token that is not in it, such as <s>
		return map[string]any{"tokens": []string{"<s>", text}, "token_logprobs": []any{nil, logprob}, "top_logprobs": []any{nil, top}, "text_offset": []int{0, 0}}
	}
	return map[string]any{"tokens": []string{text[:from], text[from:]}, "token_logprobs": []any{nil, logprob}, "top_logprobs": []any{nil, top}}
}

func (c *Run) compareSamples(t TestingT, run string, s *eval.Set) {
	got, err := eval.ReadSamples(run, s.Name)
	require.NoError(t, err)
	want := c.Samples[s.Name]
	require.Len(t, got, len(want))
	type key struct {
		doc    int
		filter string
	}
	byKey, targets := map[key]eval.Sample{}, map[int]string{}
	for _, each := range got {
		byKey[key{each.DocID, each.Filter}] = each
	}
	for i := range s.Items {
		targets[s.Items[i].Number] = s.Items[i].Prompt.Target
	}
	for _, w := range want {
		g, ok := byKey[key{w.DocID, w.Filter}]
		require.True(t, ok, "row %d, filter %s", w.DocID, w.Filter)
		require.Empty(t, g.Failed)
		require.False(t, g.Truncated, "answers end by themselves, and scored texts are not cut")
		target, err := ordered.ParseJSON(w.Target)
		require.NoError(t, err)
		require.Equal(t, jinja.Str(target), targets[w.DocID], "row %d: target", w.DocID)
		require.Equal(t, flat(w.Filtered), filtered(s.Type, &g), "row %d: filtered answers", w.DocID)
		for metric, v := range w.Scores {
			if slices.Contains(g.Undecided, metric) {
				require.True(t, c.Undecided, "row %d: %s is not decided: %+v", w.DocID, metric, g)
				continue
			}
			switch v := v.(type) {
			case float64:
				require.InDelta(t, v, g.Scores[metric], 1e-9*(1+math.Abs(v)), "row %d: %s: %+v", w.DocID, metric, g)
			case bool:
				require.Equal(t, v, g.Scores[metric] == 1, "row %d: %s: %+v", w.DocID, metric, g)
			}
		}
	}
}

// filtered returns what flat makes of the filtered answers that the harness logs.
func filtered(kind task.Type, s *eval.Sample) []any {
	var list []any
	switch {
	case kind.Generates():
		for _, a := range s.Filtered {
			list = append(list, a)
		}
	case kind == task.Perplexity:
		list = append(list, s.Logprob)
	case kind == task.LogLikelihood:
		list = append(list, s.Logprob, s.Greedy[0])
	default:
		for i, p := range s.Logprobs {
			list = append(list, p, s.Greedy[i])
		}
	}
	return list
}

// flat returns the elements of a list and of the lists in it.
func flat(list []any) (all []any) {
	for _, v := range list {
		if inner, ok := v.([]any); ok {
			all = append(all, flat(inner)...)
		} else {
			all = append(all, v)
		}
	}
	return all
}
