package local_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/files/rows"
	"github.com/ingot-run/ingot/worker/local"
)

// scripted is an engine that answers at once, as a model with the given properties.
type scripted struct {
	instant
	sha     string
	changes func(*engine.Info)
	answer  func(generation.Request) error // nil if all rows are answered
}

func (s scripted) Info() engine.Info {
	info := engine.Info{Model: "instant", Backend: "none", Context: 128, Arithmetic: "7/k/f16/one", MaxSequences: 3, Fit: engine.Fit{Rows: 512 << 20}}
	if s.changes != nil {
		s.changes(&info)
	}
	return info
}

func (s scripted) SHA256(context.Context) (string, error) {
	if s.sha == "" {
		return strings.Repeat("a", 64), nil
	}
	if s.sha == "lost" {
		return "", errors.New("the file is lost")
	}
	return s.sha, nil
}

func (s scripted) Generate(ctx context.Context, r generation.Request) (generation.Completion, error) {
	if s.answer != nil {
		if err := s.answer(r); err != nil {
			return generation.Completion{}, err
		}
	}
	return s.instant.Generate(ctx, r)
}

// hot is an engine that refuses prompts that begin with "hot".
func hot() scripted {
	return scripted{answer: func(r generation.Request) error {
		if strings.HasPrefix(r.Text, "hot") {
			return generation.BadRequest("too hot")
		}
		return nil
	}}
}

// prompts returns an input with one row for each prompt.
func prompts(texts ...string) string {
	var b strings.Builder
	for _, text := range texts {
		fmt.Fprintf(&b, "{\"prompt\":%q}\n", text)
	}
	return b.String()
}

// answered returns an output with the answers of an engine.
func answered(t *testing.T, eng scripted, input string) *rows.Output {
	t.Helper()
	path := filepath.Join(t.TempDir(), "out.jsonl")
	out, err := rows.OpenOutput(path, local.Batch)
	require.NoError(t, err)
	_, err = local.Run(t.Context(), eng, strings.NewReader(input), out, local.Options{Concurrency: 2, Logger: quiet})
	require.NoError(t, err)
	require.NoError(t, out.Close())
	return reopened(t, path)
}

func reopened(t *testing.T, path string) *rows.Output {
	t.Helper()
	out, err := rows.OpenOutput(path, local.Batch)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, out.Close()) })
	return out
}

// lines returns the lines of the first rows of an input that an output has.
func lines(out *rows.Output) (has []int) {
	for line := range 12 {
		if out.Has(line) {
			has = append(has, line)
		}
	}
	return has
}

// An input is compared with an output before a model is loaded. Answers to rows that have changed
// are an error, unless they are to be dropped; errors of such rows are answered anew.
func TestPrepare(t *testing.T) {
	t.Parallel()
	before := []string{"one", "two", "three", "hot four", "five"}
	changed := func(pairs ...any) string {
		texts := slices.Clone(before)
		for i := 0; i < len(pairs); i += 2 {
			texts[pairs[i].(int)-1] = pairs[i+1].(string)
		}
		return prompts(texts...)
	}
	gone := errors.New("rows are gone")
	for name, c := range map[string]struct {
		input   string
		options local.PrepareOptions
		pipe    bool
		want    []int // lines that the output still has
		says    string
		missing int // argument of Missing; 0 if it is not called
		rows    int
	}{
		"the same":                    {input: changed(), want: []int{1, 2, 3, 4, 5}, rows: 5},
		"more rows":                   {input: changed() + prompts("six"), want: []int{1, 2, 3, 4, 5}, rows: 6},
		"an answered row":             {input: changed(2, "other"), want: []int{1, 2, 3, 4, 5}, says: "1 of 4 answers in OUT are of other rows than those of this command: line 2 of the input", rows: 5},
		"two of them":                 {input: changed(3, "other", 2, "other"), want: []int{1, 2, 3, 4, 5}, says: "2 of 4 answers in OUT are of other rows than those of this command: line 2 of the input", rows: 5},
		"a failed row":                {input: changed(4, "other"), want: []int{1, 2, 3, 5}, rows: 5},
		"a failed and an answered":    {input: changed(4, "other", 5, "other"), want: []int{1, 2, 3, 4, 5}, says: "1 of 4 answers in OUT are of other rows than those of this command: line 5 of the input", rows: 5},
		"dropped":                     {input: changed(2, "other"), options: local.PrepareOptions{Overwrite: true}, want: []int{1, 3, 4, 5}, rows: 5},
		"dropped, and a failed one":   {input: changed(2, "other", 4, "other"), options: local.PrepareOptions{Overwrite: true}, want: []int{1, 3, 5}, rows: 5},
		"dropped, and missing":        {input: prompts(before[:2]...), options: local.PrepareOptions{Overwrite: true}, want: []int{1, 2, 4}, rows: 2},
		"left out, not missing":       {input: prompts(before[:2]...), options: local.PrepareOptions{Overwrite: true, Selected: true}, want: []int{1, 2, 3, 4, 5}, rows: 2},
		"failures again":              {input: changed(), options: local.PrepareOptions{RetryFailed: true}, want: []int{1, 2, 3, 5}, rows: 5},
		"others again, too":           {input: changed(), options: local.PrepareOptions{RetryFailed: true, FailedToo: map[int]bool{2: true, 9: true}}, want: []int{1, 3, 5}, rows: 5},
		"others, without failures":    {input: changed(), options: local.PrepareOptions{FailedToo: map[int]bool{2: true}}, want: []int{1, 2, 3, 4, 5}, rows: 5},
		"one of them has changed":     {input: changed(2, "other"), options: local.PrepareOptions{RetryFailed: true, FailedToo: map[int]bool{2: true}}, want: []int{1, 3, 5}, rows: 5},
		"missing rows":                {input: prompts(before[:2]...), options: local.PrepareOptions{}, want: []int{1, 2, 3, 4, 5}, missing: 3, rows: 2},
		"missing rows, and new ones":  {input: prompts(before[:2]...) + "\n\n\n" + prompts("six", "seven"), want: []int{1, 2, 3, 4, 5}, missing: 3, rows: 4},
		"missing rows are refused":    {input: prompts(before[:3]...), want: []int{1, 2, 3, 4, 5}, missing: 2, says: gone.Error(), rows: 3},
		"a pipe":                      {input: changed(2, "other"), pipe: true, want: []int{1, 2, 3, 4, 5}},
		"a pipe, failures again":      {input: changed(), pipe: true, options: local.PrepareOptions{RetryFailed: true}, want: []int{1, 2, 3, 5}},
		"a pipe, changes are dropped": {input: changed(2, "other"), pipe: true, options: local.PrepareOptions{Overwrite: true}, want: []int{1, 2, 3, 4, 5}},
		"the record is the same": {input: changed(2, "other"), options: local.PrepareOptions{RecordSum: func(int) string { return "" }}, want: []int{1, 2, 3, 4, 5},
			says: "line 2 of the input is the first that has changed", rows: 5},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out := answered(t, hot(), prompts(before...))
			kept, failed := out.Counts()
			require.Equal(t, []int{5, 1}, []int{kept, failed})
			missing := 0
			c.options.Missing = func(n int) error {
				if missing = n; c.says == gone.Error() {
					return gone
				}
				return nil
			}
			in := strings.NewReader("skip" + c.input)
			_, err := in.Seek(4, io.SeekStart)
			require.NoError(t, err)
			var from io.Reader = in
			if c.pipe {
				from = io.MultiReader(in)
			}
			p, err := local.Prepare(from, out, c.options)
			if c.says != "" {
				require.ErrorContains(t, err, strings.Replace(c.says, "OUT", out.Path(), 1))
			} else {
				require.NoError(t, err)
			}
			require.Equal(t, c.missing, missing)
			require.Equal(t, []any{!c.pipe, c.rows}, []any{p.Known, p.Rows})
			require.Equal(t, c.want, lines(out))
			rest, err := io.ReadAll(in)
			require.NoError(t, err)
			require.Equal(t, c.input, string(rest), "the input is at its beginning again")
		})
	}
}

// An output without any answer is begun anew, whatever its rows were.
func TestPrepareBeginsAnOutputOfFailuresAnew(t *testing.T) {
	t.Parallel()
	input := prompts("hot one", "hot two")
	out := answered(t, hot(), input)
	p, err := local.Prepare(strings.NewReader(input), out, local.PrepareOptions{Missing: func(int) error { return errors.New("not called") }})
	require.NoError(t, err)
	require.Equal(t, 2, p.Rows)
	require.Empty(t, lines(out))
	out = answered(t, hot(), input)
	_, err = local.Prepare(strings.NewReader(prompts("hot one")), out, local.PrepareOptions{Missing: func(int) error { return errors.New("not called") }})
	require.NoError(t, err)
	require.Empty(t, lines(out))
}

// seeking is an input that fails when it is read, or when it is to return to its start.
type seeking struct {
	*strings.Reader
	err   error
	seeks int
}

func (s *seeking) Read(p []byte) (int, error) {
	if s.seeks == 1 && s.err != nil {
		return 0, s.err
	}
	return s.Reader.Read(p)
}

func (s *seeking) Seek(offset int64, whence int) (int64, error) {
	if s.seeks++; s.seeks == 2 && s.err == nil {
		return 0, errors.New("cannot seek")
	}
	return s.Reader.Seek(offset, whence)
}

// A pipe has a Seek that fails. Its rows are not known, and none of them is lost.
func TestPrepareOfAPipe(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	_, err = w.WriteString(prompts("one", "two"))
	require.NoError(t, errors.Join(err, w.Close()))
	p, err := local.Prepare(r, reopened(t, filepath.Join(t.TempDir(), "out.jsonl")), local.PrepareOptions{})
	require.NoError(t, err)
	require.False(t, p.Known)
	left, err := io.ReadAll(r)
	require.NoError(t, err)
	require.Equal(t, prompts("one", "two"), string(left))
}

func TestPrepareReturnsErrors(t *testing.T) {
	t.Parallel()
	out := answered(t, hot(), prompts("one"))
	_, err := local.Prepare(&seeking{Reader: strings.NewReader(prompts("one")), err: errors.New("cannot read")}, out, local.PrepareOptions{})
	require.ErrorContains(t, err, "cannot read")
	_, err = local.Prepare(&seeking{Reader: strings.NewReader(prompts("one"))}, out, local.PrepareOptions{})
	require.ErrorContains(t, err, "return to the start of the rows: cannot seek")
	_, err = local.Run(t.Context(), hot(), &seeking{Reader: strings.NewReader(prompts("one"))}, out, local.Options{Logger: quiet})
	require.ErrorContains(t, err, "return to the start of the rows: cannot seek")
	_, err = local.Run(t.Context(), hot(), &seeking{Reader: strings.NewReader(prompts("one"))}, out, local.Options{Logger: quiet, NoTemplate: func(int) {}})
	require.ErrorContains(t, err, "return to the start of the rows: cannot seek")
}

// An output that has answers of another model, or of the same one with other settings, is not
// continued, unless both are to be mixed or those answers are to be dropped.
func TestRunNoticesAnotherModel(t *testing.T) {
	t.Parallel()
	input := prompts("one", "two", "hot three")
	for name, c := range map[string]struct {
		eng  scripted
		says string // empty if it is the same model
	}{
		"the same":           {eng: hot()},
		"another file":       {scripted{sha: strings.Repeat("b", 64)}, "the output has answers of another model (2), and the model of this run has the SHA-256 bbbbbbbbbbbb…: choose another output, or give --mix-models"},
		"another arithmetic": {scripted{changes: func(i *engine.Info) { i.Arithmetic = "7/k/q4_0/one" }}, "the output has answers with --kv f16; this run has --kv q4_0 (answers: 2): repeat the run with the same settings"},
		"another sampling": {scripted{changes: func(i *engine.Info) {
			i.Recommended = generation.Recommended{Source: "its makers", Sampling: generation.Sampling{Temperature: 0.5}}
		}},
			"the output has answers with --sampling plain for rows that set no sampling option; this run has temperature=0.5 (answers: 2)"},
		"a longer context":     {eng: scripted{changes: func(i *engine.Info) { i.Context = 256 }}}, // no answer ended at its end
		"the file is not read": {scripted{sha: "lost"}, "the file is lost"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			again := func(o local.Options) (*rows.Output, local.Summary, error) {
				out := answered(t, hot(), input)
				o.Logger, o.Concurrency = quiet, 2
				s, err := local.Run(t.Context(), c.eng, strings.NewReader(input+prompts("four")), out, o)
				return out, s, err
			}
			_, s, err := again(local.Options{})
			if c.says == "" {
				require.NoError(t, err)
				require.Equal(t, []int{1, 3, 0, 1}, []int{s.Done, s.Kept, s.KeptByOtherModels, s.KeptFailed})
			} else {
				require.ErrorContains(t, err, c.says)
				require.Equal(t, c.eng.sha != "lost", errors.Is(err, local.ErrOtherModel))
				require.Zero(t, s.Done)
			}
			if c.eng.sha == "lost" {
				_, _, err = again(local.Options{Overwrite: true})
				require.ErrorContains(t, err, c.says)
				return
			}
			_, s, err = again(local.Options{MixModels: true})
			require.NoError(t, err)
			others := 0
			if c.says != "" {
				others = 2
			}
			require.Equal(t, []int{1, 3, others}, []int{s.Done, s.Kept, s.KeptByOtherModels})
			out, s, err := again(local.Options{Overwrite: true})
			require.NoError(t, err)
			require.Equal(t, []int{1 + others, 3 - others, 0}, []int{s.Done, s.Kept, s.KeptByOtherModels})
			require.Equal(t, []int{1, 2, 3, 4}, lines(out))
		})
	}
}

// TestRunAnswersWithALongerContext: prompts that were too long for a shorter context are tried
// again with a longer one, and only then.
func TestRunAnswersWithALongerContext(t *testing.T) {
	t.Parallel()
	input := prompts("one", "two is long", "hot")
	of := func(context int) scripted {
		eng := hot()
		refuses := eng.answer
		eng.changes = func(i *engine.Info) { i.Context = context }
		eng.answer = func(r generation.Request) error {
			if len(r.Text) > context {
				return generation.TooLong("the prompt has %d bytes; the context holds %d", len(r.Text), context)
			}
			return refuses(r)
		}
		return eng
	}
	for context, want := range map[int][]int{ // done, kept, failed, kept errors
		9: {0, 3, 0, 2}, 8: {0, 3, 0, 2}, 10: {0, 2, 1, 1}, 11: {1, 2, 0, 1},
	} {
		out := answered(t, of(9), input)
		s, err := local.Run(t.Context(), of(context), strings.NewReader(input), out, local.Options{Logger: quiet, Concurrency: 2})
		require.NoError(t, err)
		require.Equal(t, want, []int{s.Done, s.Kept, s.Failed, s.KeptFailed}, "a context of %d", context)
		require.Equal(t, []int{1, 2, 3}, lines(out))
	}
}

// A run stops if its first rows all fail with one code, and goes on once one of them is answered.
func TestRunFailsFast(t *testing.T) {
	t.Parallel()
	all := func(n int) string { return prompts(slices.Repeat([]string{"hot"}, n)...) }
	for name, c := range map[string]struct {
		input string
		limit int
		rows  int // of the error; 0 for none
	}{
		"as many as the limit":   {all(4), 4, 4},
		"more":                   {all(200), 4, 4},
		"fewer":                  {all(3), 4, 0},
		"one is answered":        {prompts("hot", "cold", "hot", "hot", "hot", "hot"), 3, 0},
		"later ones fail":        {prompts("cold", "hot", "hot", "hot", "hot"), 3, 0},
		"no limit":               {all(9), 0, 0},
		"another code":           {all(2) + "nonsense\n" + all(9), 3, 0},
		"the first one after it": {prompts("hot", "hot", "cold"), 2, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "out.jsonl")
			out := reopened(t, path)
			_, err := local.Run(t.Context(), hot(), strings.NewReader(c.input), out, local.Options{Concurrency: 1, FailFast: c.limit, Logger: quiet})
			if c.rows == 0 {
				require.NoError(t, err)
				kept, _ := out.Counts()
				require.Equal(t, strings.Count(c.input, "\n"), kept)
				return
			}
			var failed *local.FailFastError
			require.ErrorAs(t, err, &failed)
			require.Equal(t, c.rows, failed.Rows)
			require.Contains(t, failed.First.Message, "too hot")
			require.EqualError(t, failed, fmt.Sprintf("stopped, since the first %d rows all failed with the code %s (such as %s)", c.rows, failed.First.Code, failed.First.Message))
		})
	}
	out := answered(t, hot(), prompts("cold", "hot"))
	_, err := local.Run(t.Context(), hot(), strings.NewReader(prompts("cold", "hot", "hot", "hot")), out, local.Options{Concurrency: 1, FailFast: 1, Logger: quiet})
	require.NoError(t, err, "the output has an answer")
}

// Chats that have their answers need no template any more.
func TestAnsweredChatsNeedNoTemplate(t *testing.T) {
	t.Parallel()
	chat := `{"messages":[{"role":"user","content":"hi"}]}` + "\n"
	out := answered(t, scripted{changes: func(i *engine.Info) { i.Chat = true }}, chat)
	s, err := local.Run(t.Context(), scripted{}, io.MultiReader(strings.NewReader(chat)), out, local.Options{
		Logger: quiet, NoTemplate: func(n int) { require.Failf(t, "no chat is left", "%d", n) },
	})
	require.NoError(t, err)
	require.Equal(t, []int{1, 0, 0}, []int{s.Kept, s.Done, s.Failed})
}

// Rows that need a chat template are reported, and for a model for chats the texts that it
// continues: before the first answer or, for a pipe, after the last. A run that has only rows
// without the template that they need ends at once.
func TestRunReportsRowsForChats(t *testing.T) {
	t.Parallel()
	chat := `{"messages":[{"role":"user","content":"hi"}]}` + "\n"
	for name, c := range map[string]struct {
		input            string
		template, pipe   bool
		chats, continued int
		err              error
		prepared         bool
	}{
		"no chats":              {input: prompts("one")},
		"some chats":            {input: prompts("one") + chat + chat, chats: 2},
		"chats alone":           {input: chat + chat, err: local.ErrNoTemplate},
		"with a template":       {input: chat + chat, template: true},
		"some chats of a pipe":  {input: prompts("one") + chat, pipe: true, chats: 1},
		"a pipe and a template": {input: chat, pipe: true, template: true},
		"texts":                 {input: prompts("one", "two") + chat, template: true, continued: 2},
		"texts of a pipe":       {input: prompts("one", "two") + chat, template: true, pipe: true, continued: 2},
		"prepared texts":        {input: prompts("one", "two") + chat, template: true, prepared: true, continued: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eng := scripted{changes: func(i *engine.Info) { i.Chat = c.template }}
			out := rows.NewOutput(io.Discard, local.Batch)
			var in io.Reader = strings.NewReader(c.input)
			if c.pipe {
				in = io.MultiReader(in)
			}
			var chats, continued []int
			o := local.Options{Logger: quiet, NoTemplate: func(n int) { chats = append(chats, n) }, Continued: func(n int) { continued = append(continued, n) }}
			if c.prepared {
				p, err := local.Prepare(in, out, local.PrepareOptions{})
				require.NoError(t, err)
				o.Prepared = &p
			}
			s, err := local.Run(t.Context(), eng, in, out, o)
			require.ErrorIs(t, err, c.err)
			of := func(n int) (list []int) {
				if n > 0 {
					list = []int{n}
				}
				return list
			}
			require.Equal(t, of(c.chats), chats)
			require.Equal(t, of(c.continued), continued)
			if c.err == nil {
				require.Equal(t, strings.Count(c.input, "\n"), s.Done+s.Failed)
			} else {
				require.Zero(t, s.Done+s.Failed)
			}
			if !c.pipe && c.err == nil {
				require.Equal(t, strings.Count(c.input, "\n"), s.Total)
			}
		})
	}
}

// Rows may name the model by its file, with or without the extension, or by the name in it.
func TestNamesOfTheModelInRows(t *testing.T) {
	t.Parallel()
	eng := scripted{changes: func(i *engine.Info) { i.Path = "/models/tiny.q8.gguf" }}
	path := filepath.Join(t.TempDir(), "out.jsonl")
	out := reopened(t, path)
	var input strings.Builder
	for _, name := range []string{"instant", "tiny.q8.gguf", "tiny.q8", "tiny"} {
		fmt.Fprintf(&input, "{\"prompt\":\"one\",\"model\":%q}\n", name)
	}
	s, err := local.Run(t.Context(), eng, strings.NewReader(input.String()), out, local.Options{Logger: quiet})
	require.NoError(t, err)
	require.Equal(t, []int{3, 1}, []int{s.Done, s.Failed})
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Contains(t, string(text), `"model":"tiny.q8"`)
}
