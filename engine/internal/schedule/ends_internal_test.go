package schedule

import (
	"errors"
	"math"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/cpu"
	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/engine/grammar"
	"github.com/ingot-run/ingot/engine/internal/cache"
	"github.com/ingot-run/ingot/engine/internal/cost"
	"github.com/ingot-run/ingot/engine/internal/draft"
	"github.com/ingot-run/ingot/engine/model"
)

// Masks and texts are computed during a step only if the backend has steps in flight.
func TestWorkDuringSteps(t *testing.T) {
	t.Parallel()
	be, err := cpu.New(1)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, be.Close()) })
	for backend, want := range map[compute.Backend]bool{be: false, several{be}: true} {
		m := newManual(t, setup{path: microLlama, backend: backend})
		require.Equal(t, []bool{want, want}, []bool{m.loop.guides.early, m.loop.writer.parallel})
	}
}

// A form is not followed past the end of the answer.
func TestAFormAtTheLimit(t *testing.T) {
	t.Parallel()
	f := newFormed(t, "[ab]{4}-known-", "")
	a := f.encode("a")[0]
	req := &generation.Request{MaxTokens: 2}
	r, err := newRequest(t.Context(), f.tok, 100, time.Now(), []int32{5, 6}, req, f.form)
	require.NoError(t, err)
	s := r.seqs[0]
	s.accept(a, true)
	s.accept(a, true)
	require.Equal(t, generation.FinishLength, s.reason)
	s.follow()
	require.NoError(t, s.guide.err)
	require.Equal(t, []int{1, 2}, []int{s.guide.length, s.guide.masked})
	require.Equal(t, []int32{a, a}, s.answer())
}

// Signals of a stream do not add up: whoever wakes reads all news.
func TestSignalsOfAStream(t *testing.T) {
	t.Parallel()
	f := newFormed(t, "a", "")
	req := &generation.Request{MaxTokens: 9, IgnoreEOS: true, Stream: func(generation.Piece) error { return nil }}
	r, err := newRequest(t.Context(), f.tok, 100, time.Now(), []int32{5, 6}, req, nil)
	require.NoError(t, err)
	s := r.seqs[0]
	for range 2 {
		s.accept(f.encode("a")[0], false)
		s.write()
		r.stream.add(s)
	}
	require.Len(t, r.stream.news(), 1)
	piece, ok := r.stream.take(0)
	require.True(t, ok)
	require.Equal(t, "aa", piece.Text)
}

// Bytes of a character wait for the rest of it, and become U+FFFD at the end of an answer, but not
// after a stop string.
func TestCharactersOfSeveralTokens(t *testing.T) {
	t.Parallel()
	f := newFormed(t, "a", "")
	first := int32(-1)
	for id := range int32(f.tok.Size()) {
		if b := f.tok.Bytes(id); len(b) == 1 && b[0] == 0xC3 {
			first = id
		}
	}
	require.GreaterOrEqual(t, first, int32(0), "the vocabulary has bytes")
	for name, c := range map[string]struct {
		end  func(s *sequence)
		want string
	}{
		"it goes on":        {func(*sequence) {}, "a"},
		"it ends":           {func(s *sequence) { s.reason = generation.FinishLength }, "a\uFFFD"},
		"at a stop string":  {func(s *sequence) { s.reason, s.stopReason = generation.FinishStop, "x" }, "a"},
		"at a stop token":   {func(s *sequence) { s.accept(f.tok.StopIDs()[0], true); s.reason = generation.FinishStop }, "a\uFFFD"},
		"and then complete": {func(s *sequence) { s.write(); s.accept(f.encode("a")[0], false) }, "a\uFFFDa"},
	} {
		req := &generation.Request{MaxTokens: 9, IgnoreEOS: true}
		r, err := newRequest(t.Context(), f.tok, 100, time.Now(), []int32{5, 6}, req, nil)
		require.NoError(t, err)
		s := r.seqs[0]
		s.accept(f.encode("a")[0], false)
		s.accept(first, false)
		c.end(s)
		s.write()
		require.Equal(t, c.want, string(s.text.text), name)
	}
}

// Tokens that a form gives at the start of an answer count when the prompt has been computed.
func TestWhenForcedTokensCount(t *testing.T) {
	t.Parallel()
	m := newManual(t, setup{path: microLlama, limits: model.Limits{Rows: 8}})
	r := m.beginWith(generation.Request{Tokens: ascending(20), MaxTokens: 30}, m.form(generation.Constraint{Regex: "known[ab]{2}"}, grammar.Limits{}))
	s := r.seqs[0]
	require.NotEmpty(t, s.answer())
	for range 2 {
		m.step()
		require.Positive(t, s.computed)
		require.Less(t, s.computed, 20)
		require.Zero(t, s.counted)
	}
	m.finish(r)
	require.Equal(t, len(s.answer()), s.counted)
}

// A step without time for the least rows of a second prompt gives it none, and the first prompt
// gets rows in any case.
func TestRowsOfPromptsWithoutTime(t *testing.T) {
	t.Parallel()
	steps := cost.NewSteps(cost.NewCurve([]int{1, 101}, []float64{1, 101}), 0, 0, 0) // a second for each row
	for _, c := range []struct {
		seconds    float64
		min, first int
		left       [2]int
		want       [2]int
	}{
		{10, 4, 6, [2]int{8, 20}, [2]int{8, 0}}, {12, 4, 6, [2]int{8, 20}, [2]int{8, 4}}, {11, 4, 6, [2]int{8, 20}, [2]int{8, 0}}, {10, 4, 6, [2]int{8, 2}, [2]int{8, 2}},
		{3, 4, 6, [2]int{20, 20}, [2]int{6, 0}}, {3, 4, 6, [2]int{5, 20}, [2]int{5, 0}}, {4, 4, 6, [2]int{20, 20}, [2]int{4, 0}}, {math.Inf(1), 4, 6, [2]int{9, 11}, [2]int{9, 11}},
	} {
		p := planner{costs: steps, limits: model.Limits{Rows: 50}, prefillChunk: 40, pool: cache.NewPool(20, 4, cache.Groups{}), noSharing: true}
		var prompts []*sequence
		for i, n := range c.left {
			prompt := append([]int32{int32(100 + i)}, ascending(n-1)...)
			s := &sequence{request: &request{prompt: prompt}, tokens: prompt, table: p.pool.NewTable()}
			prompts = append(prompts, s)
		}
		outputs := 100
		p.planPrompts(prompts, limit{c.seconds, c.min, c.first}, &outputs)
		require.Equal(t, c.want, [2]int{prompts[0].rows, prompts[1].rows}, "%+v", c)
		require.Equal(t, c.want[0]+c.want[1], p.size.Rows)
	}
}

// countingDrafter counts the rows of an MTP layer.
type countingDrafter struct {
	model.Drafter
	rows int
}

func (d *countingDrafter) Draft(b *compute.Batch, source model.States, states []int32) error {
	d.rows += len(b.Tokens)
	return d.Drafter.Draft(b, source, states)
}

// A prompt whose pages are in the cache is not processed again by the drafter.
func TestDraftersUseAdoptedPages(t *testing.T) {
	t.Parallel()
	counting := &countingDrafter{}
	m := newManual(t, setup{path: microGLM, speculate: func(_ compute.Backend, o *draft.Options) {
		counting.Drafter = o.Model.(model.Drafter)
		o.MTP, o.Fixed = counting, 1
	}})
	req := generation.Request{Tokens: ascending(60), MaxTokens: 3, IgnoreEOS: true}
	var rows []int
	for range 2 {
		before := counting.rows
		m.finish(m.begin(req))
		rows = append(rows, counting.rows-before)
	}
	require.GreaterOrEqual(t, rows[0], 59)
	require.LessOrEqual(t, rows[1], rows[0]-48, "three pages of 16 positions were adopted")
}

// The time of a prompt's rows has that of their attention, and not that of the output head.
func TestTimeOfRows(t *testing.T) {
	t.Parallel()
	p := planner{costs: cost.NewSteps(cost.NewCurve([]int{1}, []float64{1}), 1000, 100, 1)}
	require.InDelta(t, 8+36, p.rowsTime(8), 1e-9) // 1 + 2 + ... + 8 positions are read
}

// A request whose stream fails is dropped: an error of its last piece is returned, and an error of
// an earlier one ends the request.
func TestStreamsThatFail(t *testing.T) {
	t.Parallel()
	failed := errors.New("the client has left")
	req := generation.Request{Tokens: ascending(3), MaxTokens: 1, IgnoreEOS: true, Stream: func(generation.Piece) error { return failed }}
	m := newManual(t, setup{path: microLlama})
	started := make(chan struct{})
	m.loop.model = &reportingModel{Model: m.loop.model, started: started, steps: math.MinInt}
	go m.Run()
	t.Cleanup(m.Close)
	for range 20 { // whether the end or the piece is noticed first is not known
		_, err := m.Generate(t.Context(), time.Now(), req.Tokens, &req, nil)
		require.ErrorIs(t, err, failed)
	}

	slow := newManual(t, setup{path: microLlama})
	slow.loop.model = &reportingModel{Model: slow.loop.model, started: started}
	go slow.Run()
	t.Cleanup(slow.Close)
	req.MaxTokens = 100
	_, err := slow.Generate(t.Context(), time.Now(), req.Tokens, &req, nil)
	require.ErrorIs(t, err, failed)
	steps := 0
	for now := slow.Snapshot(); now.Running+now.Waiting > 0; now = slow.Snapshot() {
		select {
		case <-started:
			steps++
		default:
			runtime.Gosched()
		}
	}
	require.Less(t, steps, 5)
}

// Of the tokens that a form has given, those without a log-probability are scored, and the last one
// is not known before it is drawn.
func TestWhichForcedTokensAreScored(t *testing.T) {
	t.Parallel()
	for scored, want := range map[int][]int{0: {3, 4}, 1: {4}, 2: nil} {
		s := &sequence{request: &request{prompt: ascending(4), scores: true}, tokens: ascending(6)}
		s.scores.ids = make([]int32, scored)
		var got []int
		for position := range 7 {
			if s.scoresForced(position) {
				got = append(got, position)
			}
		}
		require.Equal(t, want, got, "%d scores", scored)
	}
	s := &sequence{request: &request{prompt: ascending(4)}, tokens: ascending(6)}
	require.False(t, s.scoresForced(3))
}

// Pages before the window of sliding layers are freed while an answer grows: each of three groups
// holds those of 20 positions, and a few more, instead of 25 pages.
func TestPagesBeforeTheWindow(t *testing.T) {
	t.Parallel()
	m := newSimulated(t, model.Config{Layers: 4, Sliding: 3, Window: 20}, model.Limits{Context: 200, PageSize: 4}, Options{}, nil)
	r := m.begin(generation.Request{Tokens: ascending(8), MaxTokens: 120, IgnoreEOS: true})
	for r.seqs[0].computed < 100 {
		m.step()
	}
	require.Less(t, m.loop.planner.pool.Used(), 25+3*10)
}
