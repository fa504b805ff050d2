package schedule

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/cpu"
	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/engine/grammar"
	"github.com/ingot-run/ingot/engine/internal/cost"
	"github.com/ingot-run/ingot/engine/model"
	"github.com/ingot-run/ingot/engine/tokenizer"
)

// form compiles a constraint for the model of a scheduler.
func (m manual) form(c generation.Constraint, limits grammar.Limits) *Form {
	m.t.Helper()
	t := m.tokenizer
	v := grammar.NewVocabulary(t.Size(), t.Bytes, func(int32) string { return "" }, t.StopIDs())
	compiled, err := grammar.NewCompiler(v, limits).Compile(m.t.Context(), &c)
	require.NoError(m.t, err)
	require.NotEmpty(m.t, t.StopIDs())
	return &Form{Grammar: compiled, Ends: t.StopIDs(), End: t.StopIDs()[0], Encode: func(text string) []int32 {
		return t.Encode(text, tokenizer.EncodeOptions{Continues: true})
	}}
}

// beginWith is begin for a request with a constraint.
func (m manual) beginWith(req generation.Request, form *Form) *request {
	m.t.Helper()
	r, err := newRequest(m.t.Context(), m.tokenizer, m.context, time.Now(), req.Tokens, &req, form)
	require.NoError(m.t, err)
	m.loop.planner.enqueue(r.seqs)
	return r
}

// A constraint that fails while the step runs, because of a panic or since its masks need too much
// work, fails its request alone.
func TestAFailingConstraintFailsItsRequestAlone(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		grammar string // instead of the expression
		limits  grammar.Limits
		spoil   func(g *guide)
		err     string
	}{
		"panic":  {spoil: func(g *guide) { g.matcher = nil }, err: "internal error: panic"},
		"budget": {limits: grammar.Limits{MaskWork: 400}, err: "find the tokens that the constraint allows"},
		"ambiguous": {
			grammar: `root ::= root root root | [a-z] | [a-z] [a-z] | ""`, limits: grammar.Limits{RowWork: 2000},
			err: "too ambiguous",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newManual(t, setup{path: microLlama})
			other := m.begin(generation.Request{Tokens: ascending(5), MaxTokens: 6, IgnoreEOS: true})
			req := generation.Request{Tokens: ascending(9), MaxTokens: 6}
			fine := m.beginWith(req, m.form(generation.Constraint{Regex: "[a-z]{30}"}, grammar.Limits{}))
			constraint := generation.Constraint{Regex: "[a-z]{30}"}
			if c.grammar != "" {
				constraint = generation.Constraint{Grammar: c.grammar}
				req.MinTokens = req.MaxTokens
			}
			bad := m.beginWith(req, m.form(constraint, c.limits))
			if c.spoil != nil {
				c.spoil(bad.seqs[0].guide)
			}
			m.finish(other)
			m.finish(fine)
			require.ErrorContains(t, bad.err, c.err)
			require.Equal(t, c.spoil == nil, errors.Is(bad.err, generation.ErrBadRequest))
			require.Len(t, other.seqs[0].answer(), 6)
			require.Len(t, fine.seqs[0].answer(), 6)
			require.NoError(t, m.loop.err)
		})
	}
}

// A constraint that fails within a run of steps in flight fails its request alone. The other
// requests in the run get the tokens that they would have got.
func TestAConstraintThatFailsWithinARun(t *testing.T) {
	t.Parallel()
	free := generation.Request{Tokens: ascending(5), MaxTokens: 30, IgnoreEOS: true}
	formed := generation.Request{Tokens: ascending(9), MaxTokens: 30}
	alone := newManual(t, setup{path: microLlama})
	regex := generation.Constraint{Regex: "[a-z]{12}QUOTE[a-z]{40}"}
	var want []*request
	want = append(want, alone.begin(free), alone.beginWith(formed, alone.form(regex, grammar.Limits{})))
	for _, r := range want {
		alone.finish(r)
	}

	be, err := cpu.New(1)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, be.Close()) })
	m := newManual(t, setup{path: microLlama, backend: several{be}})
	other, fine := m.begin(free), m.beginWith(formed, m.form(regex, grammar.Limits{}))
	failing := m.form(regex, grammar.Limits{})
	failing.Encode = func(string) []int32 { panic("no tokens") }
	bad := m.beginWith(formed, failing)
	longest := 0
	for bad.err == nil {
		before := m.Snapshot().Steps
		m.step()
		longest = int(m.Snapshot().Steps - before)
	}
	require.Greater(t, longest, 2, "the constraint fails in a run of several steps")
	require.ErrorContains(t, bad.err, "internal error: panic")
	for i, r := range []*request{other, fine} {
		m.finish(r)
		require.Equal(t, want[i].seqs[0].answer(), r.seqs[0].answer())
	}
	require.NoError(t, m.loop.err)
}

// A run of several steps begins with the step that completes prompts. It goes on past the end of an
// answer, and while requests wait to be admitted.
func TestRunsOutlastAnswers(t *testing.T) {
	t.Parallel()
	reqs := make([]generation.Request, 7)
	for i := range reqs {
		reqs[i] = generation.Request{Tokens: ascending(5 + i), MaxTokens: 4 + 8*i, Sampling: generation.Sampling{Temperature: 1, Seed: uint64(i)}}
	}
	regex := generation.Constraint{Regex: "[a-z]{60}"}
	be, err := cpu.New(1)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, be.Close()) })
	m := newManual(t, setup{path: microLlama, backend: several{be}, options: Options{MaxSequences: 6}})
	form := m.form(regex, grammar.Limits{})
	var all []*request
	for _, req := range reqs {
		all = append(all, m.beginWith(req, form))
	}
	m.step()
	require.Len(t, m.loop.planner.waiting, 1)
	require.Greater(t, m.Snapshot().Steps, uint64(4), "the run outlasts the first answer")
	require.Len(t, all[0].seqs[0].answer(), reqs[0].MaxTokens)
	alone := newManual(t, setup{path: microLlama})
	for i, r := range all {
		m.finish(r)
		want := alone.beginWith(reqs[i], alone.form(regex, grammar.Limits{}))
		alone.finish(want)
		require.Equal(t, want.seqs[0].answer(), r.seqs[0].answer())
	}
	require.Less(t, m.Snapshot().Steps, uint64(2*reqs[6].MaxTokens))
}

// A run has more steps than can be in flight if steps are short. It ends early for a request that
// can be admitted.
func TestStepsOfARun(t *testing.T) {
	t.Parallel()
	be, err := cpu.New(1)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, be.Close()) })
	for _, c := range []struct {
		name            string
		seconds         float64 // of a step
		sequences       int     // maximum number
		arrives         bool    // whether a request arrives in the run
		interactive     bool    // whether it is interactive
		atLeast, atMost uint64  // steps of the run
	}{
		{"short steps", 0.001, 2, false, false, 32, 32},
		{"long steps", 0.05, 2, false, false, 8, 8},
		{"a request arrives", 0.001, 2, true, false, 2, 20},
		{"a request arrives, without room", 0.001, 1, true, false, 32, 32},
		{"an interactive request arrives", 0.001, 1, true, true, 2, 20},
	} {
		t.Run(c.name, func(t *testing.T) {
			steps := cost.NewSteps(cost.NewCurve([]int{1, 512}, []float64{c.seconds, c.seconds}), 0, 0, 0)
			m := newManual(t, setup{path: microLlama, backend: several{be}, options: Options{MaxSequences: c.sequences, Steps: steps}})
			form := m.form(generation.Constraint{Regex: "[a-z]{12}Q[a-z]{800}"}, grammar.Limits{})
			encode, arrived := form.Encode, false
			form.Encode = func(text string) []int32 {
				if c.arrives && !arrived && text != "" {
					arrived = true
					require.NoError(t, m.inbox.put(&request{seqs: make([]*sequence, 1), interactive: c.interactive}))
				}
				return encode(text)
			}
			m.beginWith(generation.Request{Tokens: ascending(9), MaxTokens: 60, Sampling: generation.Sampling{Temperature: 1}}, form)
			m.step()
			ran := m.Snapshot().Steps
			require.Equal(t, c.arrives, arrived)
			require.GreaterOrEqual(t, ran, c.atLeast)
			require.LessOrEqual(t, ran, c.atMost)
		})
	}
}

// A run ends when, with another step, the rows of answers that have ended would cost a quarter of a
// step.
func TestWastedRowsEndARun(t *testing.T) {
	t.Parallel()
	for ended, want := range map[int]uint64{0: 20, 1: 4, 2: 3} {
		m := newSimulated(t, model.Config{}, model.Limits{}, Options{MaxInFlight: 8, Steps: constant(0.005)}, nil)
		form := m.form(generation.Constraint{Regex: "[a-z]{60}"}, grammar.Limits{})
		for i := range 8 {
			req := generation.Request{Tokens: ascending(5 + i), MaxTokens: 40}
			if i < ended {
				req.MaxTokens = 3
			}
			m.beginWith(req, form)
		}
		m.step()
		require.Equal(t, want, m.Snapshot().Steps, "%d of 8 have ended with their third token", ended)
	}
}

// Rows of forced tokens share steps with rows that generate, also if a step has few rows: each
// generating sequence gets a row, and forced tokens get what is left.
func TestForcedRowsLeaveRoom(t *testing.T) {
	t.Parallel()
	m := newManual(t, setup{path: microLlama, options: Options{MaxSequences: 3}, limits: model.Limits{Rows: 6}})
	var free []*request
	for i := range 2 {
		free = append(free, m.begin(generation.Request{Tokens: ascending(2 + i), MaxTokens: 30, IgnoreEOS: true}))
	}
	text := "a text of many words that is known from its beginning to its end"
	forced := m.beginWith(generation.Request{Tokens: ascending(3)}, m.form(generation.Constraint{Regex: "[xy]" + text + "[xy]"}, grammar.Limits{}))
	seq := forced.seqs[0]
	for seq.table == nil || len(seq.answer()) == 0 {
		m.step()
	}
	for forced.open > 0 {
		before := seq.computed
		lengths := []int{free[0].seqs[0].length(), free[1].seqs[0].length()}
		room := 6 - len(m.loop.planner.running) + 1
		m.step()
		require.LessOrEqual(t, seq.computed-before, room)
		if seq.left() > 0 && seq.reason == "" {
			require.Greater(t, seq.computed, before)
		}
		for i, r := range free {
			if r.open > 0 {
				require.Greater(t, r.seqs[0].length(), lengths[i], "a sequence that generates gets a row in every step")
			}
		}
	}
	require.NoError(t, forced.err)
	require.Contains(t, string(seq.text.text), text)
}
