package schedule

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/cpu"
	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/engine/internal/cost"
)

// What a sequence needs next follows from its request, its tokens and what is computed.
func TestWhatASequenceNeeds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		request  request // with a prompt of 4 tokens
		choice   int
		answer   int // tokens
		computed int
		scored   int // prompt tokens with log-probabilities

		target, left   int
		decodes, every bool
		outputs        []int     // positions that reach the output head, of 8
		one, all       cost.Size // sizes of one row and of all that are left
	}{
		"a new prompt":                 {target: 4, left: 4, outputs: []int{3, 4, 5, 6, 7}, one: cost.Rows(0, 1, 0), all: cost.Rows(0, 4, 1)},
		"half a prompt":                {computed: 2, target: 4, left: 2, outputs: []int{3, 4, 5, 6, 7}, one: cost.Rows(2, 3, 0), all: cost.Rows(2, 4, 1)},
		"the last token of a prompt":   {computed: 3, target: 4, left: 1, outputs: []int{3, 4, 5, 6, 7}, one: cost.Rows(3, 4, 1), all: cost.Rows(3, 4, 1)},
		"an answer":                    {answer: 2, computed: 5, target: 6, left: 1, decodes: true, outputs: []int{5, 6, 7}, one: cost.Rows(5, 6, 1), all: cost.Rows(5, 6, 1)},
		"a preempted answer":           {answer: 2, computed: 0, target: 6, left: 6, outputs: []int{5, 6, 7}, one: cost.Rows(0, 1, 0), all: cost.Rows(0, 6, 1)},
		"only the prompt":              {request: request{promptOnly: true}, target: 3, left: 3, outputs: []int{3, 4, 5, 6, 7}, one: cost.Rows(0, 1, 0), all: cost.Rows(0, 3, 0)},
		"a scored prompt":              {request: request{scoresPrompt: true}, target: 4, left: 4, every: true, outputs: []int{0, 1, 2, 3, 4, 5, 6, 7}, one: cost.Rows(0, 1, 1), all: cost.Rows(0, 4, 4)},
		"a prompt that is half scored": {request: request{scoresPrompt: true}, scored: 2, target: 4, left: 4, every: true, outputs: []int{2, 3, 4, 5, 6, 7}, one: cost.Rows(0, 1, 1), all: cost.Rows(0, 4, 4)},
		"a prompt that is scored":      {request: request{scoresPrompt: true}, scored: 3, target: 4, left: 4, outputs: []int{3, 4, 5, 6, 7}, one: cost.Rows(0, 1, 1), all: cost.Rows(0, 4, 4)},
		"another choice of it":         {request: request{scoresPrompt: true}, choice: 1, target: 4, left: 4, outputs: []int{3, 4, 5, 6, 7}, one: cost.Rows(0, 1, 0), all: cost.Rows(0, 4, 1)},
	} {
		r := c.request
		r.prompt = []int32{1, 2, 3, 4}
		r.promptScores.ids = make([]int32, c.scored)
		s := &sequence{request: &r, choice: c.choice, tokens: append(slices.Clone(r.prompt), make([]int32, c.answer)...), computed: c.computed}
		require.Equal(t, []int{c.target, c.left, c.answer}, []int{s.target(), s.left(), len(s.answer())}, name)
		require.Equal(t, []bool{c.decodes, c.every}, []bool{s.decodes(), s.needsEveryRow()}, name)
		var outputs []int
		for position := range 8 {
			if s.outputs(position) {
				outputs = append(outputs, position)
			}
		}
		require.Equal(t, c.outputs, outputs, name)
		require.Equal(t, c.one, s.span(1), name)
		require.Equal(t, c.all, s.span(s.left()), name)
		require.Equal(t, cost.Rows(s.length(), s.length()+3, 3), s.draftSpan(3), name)
	}
}

// Rows of a step count as rows of the prompt until its end, and a sequence without an answer ends
// there.
func TestRowsOfAPrompt(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		computed, rows, prompt int
		only, ends             bool
	}{
		{0, 3, 3, false, false}, {3, 1, 1, false, false}, {2, 4, 2, false, false}, {4, 1, 0, false, false}, {6, 2, 0, false, false},
		{0, 2, 2, true, false}, {2, 1, 1, true, true}, {0, 3, 3, true, true},
	} {
		s := &sequence{request: &request{prompt: make([]int32, 4), promptOnly: c.only}, tokens: make([]int32, 4), computed: c.computed, rows: c.rows}
		require.Equal(t, c.prompt, s.advance(), "%+v", c)
		require.Equal(t, c.computed+c.rows, s.computed)
		require.Equal(t, c.ends, s.ended(), "%+v", c)
	}
	require.True(t, (&sequence{request: &request{err: generation.ErrClosed}}).ended())
}

// Penalties count the tokens of the answer.
func TestTokensOfTheAnswerArePenalised(t *testing.T) {
	t.Parallel()
	s := started(t, setup{})
	req := generation.Request{Tokens: ascending(6), MaxTokens: 40, IgnoreEOS: true}
	repeats := func(sampling generation.Sampling) int {
		req.Sampling = sampling
		tokens := s.generate(t, req).Choices[0].Tokens
		slices.Sort(tokens)
		return 40 - len(slices.Compact(tokens))
	}
	require.Positive(t, repeats(generation.Sampling{}))
	require.Zero(t, repeats(generation.Sampling{RepetitionPenalty: 100}))
}

// Cached tokens of a prompt are counted once, not for each choice.
func TestCachedTokensOfSeveralChoices(t *testing.T) {
	t.Parallel()
	s := started(t, setup{})
	req := generation.Request{Tokens: ascending(40), MaxTokens: 2, IgnoreEOS: true}
	require.Zero(t, s.generate(t, req).Stats.CachedTokens)
	req.N = 3
	require.Equal(t, 32, s.generate(t, req).Stats.CachedTokens, "two pages of 16")
	req.PromptLogprobs = true
	require.Zero(t, s.generate(t, req).Stats.CachedTokens, "all rows of a scored prompt are computed")
}

// Sequences may end within steps that are in flight together: the others go on with their own
// tokens.
func TestSequencesEndWithinStepsInFlight(t *testing.T) {
	t.Parallel()
	be, err := cpu.New(1)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, be.Close()) })
	one, many := newManual(t, setup{path: microLlama}), newManual(t, setup{path: microLlama, backend: several{be}})
	var want, got []*request
	for i := range int32(4) {
		req := generation.Request{Tokens: []int32{10 * i, 1, 2, 3}, MaxTokens: 40, IgnoreEOS: true}
		whole := one.begin(req)
		one.finish(whole)
		answer := whole.seqs[0].answer()
		req.StopIDs = []int32{answer[7+9*i]}
		for _, m := range []struct {
			manual
			list *[]*request
		}{{one, &want}, {many, &got}} {
			*m.list = append(*m.list, m.begin(req))
		}
	}
	lengths := map[int]bool{}
	for i := range want {
		one.finish(want[i])
		many.finish(got[i])
		require.Equal(t, want[i].seqs[0].answer(), got[i].seqs[0].answer())
		require.Equal(t, want[i].seqs[0].reason, got[i].seqs[0].reason)
		lengths[len(got[i].seqs[0].answer())] = true
	}
	require.Greater(t, len(lengths), 1)
	require.Equal(t, one.Snapshot().GeneratedTokens, many.Snapshot().GeneratedTokens+4*40)
}

// A step is interrupted only if it is long, alone in flight, and no interactive request is
// expected.
func TestWhichStepsAreInterrupted(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for _, c := range []struct {
		expected bool
		inFlight int
		length   time.Duration
		want     bool
	}{{false, 1, time.Hour, true}, {true, 1, time.Hour, false}, {false, 2, time.Hour, false}, {false, 1, maxWait / 2, false}} {
		b := &inbox{wake: make(chan struct{}, 1)}
		i := newInterrupter(b)
		ask := i.interrupt(c.expected, c.inFlight, now.Add(c.length))
		require.Equal(t, c.want, ask != nil, "%+v", c)
		if ask == nil {
			continue
		}
		require.False(t, ask(), "nobody waits")
		require.NoError(t, b.put(&request{interactive: true}))
		require.True(t, ask())
		b.take(func([]*sequence) {})
		require.True(t, ask(), "all layers see the same")
		i.end = now
		i.interrupted = false
		require.NoError(t, b.put(&request{interactive: true}))
		require.False(t, ask(), "the step ends soon")
	}
}

// The expected rest of an answer is that of recent answers, at least half of their mean, and not
// beyond the limit.
func TestExpectedLengthsOfAnswers(t *testing.T) {
	t.Parallel()
	p := planner{stops: stopRate{tokens: 1000, stopped: 11}} // a mean of 94 tokens
	require.Equal(t, 94, p.stops.length())
	for _, c := range []struct{ answer, limit, want int }{{0, 1000, 94}, {10, 1000, 84}, {47, 1000, 47}, {48, 1000, 47}, {500, 1000, 47}, {0, 54, 50}, {45, 54, 5}} {
		r := &request{prompt: make([]int32, 4), limit: c.limit}
		require.Equal(t, c.want, p.steps(&sequence{request: r, tokens: make([]int32, 4+c.answer)}), "%+v", c)
		r.promptOnly = true
		require.Zero(t, p.steps(&sequence{request: r, tokens: make([]int32, 4+c.answer)}))
	}
	p.stops = stopRate{tokens: 1000, stopped: 10} // 102.5
	require.Equal(t, 51, p.steps(&sequence{request: &request{limit: 1000}, tokens: make([]int32, 900)}), "half of 102")
	p.stops = stopRate{tokens: 975, stopped: 10} // 100.3
	require.Equal(t, 50, p.steps(&sequence{request: &request{limit: 1000}, tokens: make([]int32, 900)}))
	p.stops = stopRate{tokens: 983, stopped: 10} // 101
	require.Equal(t, 51, p.steps(&sequence{request: &request{limit: 1000}, tokens: make([]int32, 900)}), "the larger half")
}

// The minimum length of an answer counts the drafts before a token too.
func TestWhenAnAnswerMayEnd(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		answer, drafts, least int
		want                  bool
	}{{2, 1, 3, true}, {2, 0, 3, false}, {3, 0, 3, true}, {0, 3, 3, true}, {1, 1, 3, false}, {3, 2, 3, true}, {0, 0, 0, true}} {
		s := &sequence{request: &request{prompt: []int32{1, 2}, minTokens: c.least}, tokens: make([]int32, 2+c.answer)}
		require.Equal(t, c.want, s.mayEnd(c.drafts), "%+v", c)
	}
}

// An answer whose last possible token ends it, by its id or its text, was not cut.
func TestAStopTokenAtTheLimit(t *testing.T) {
	t.Parallel()
	m := newManual(t, setup{path: microLlama})
	for _, c := range []struct {
		limit, min int
		want       generation.FinishReason
	}{
		{3, 0, generation.FinishStop}, {1, 0, generation.FinishStop}, {2, 2, generation.FinishLength},
	} {
		r := m.begin(generation.Request{
			Tokens: []int32{1, 2, 3}, MaxTokens: c.limit, MinTokens: c.min, StopIDs: []int32{7}, Sampling: generation.Sampling{LogitBias: map[int32]float64{7: 100}},
		})
		m.finish(r)
		require.Equal(t, c.want, r.seqs[0].reason, "%+v", c)
		r = m.begin(generation.Request{
			Tokens: []int32{1, 2, 3}, MaxTokens: 1, Stop: []string{string(m.tokenizer.Bytes(300))}, Sampling: generation.Sampling{LogitBias: map[int32]float64{300: 100}},
		})
		m.finish(r)
		require.Equal(t, generation.FinishStop, r.seqs[0].reason)
	}
}

// The rows of a few forced tokens are planned with those of sequences that generate. Those of a
// prompt, and of many forced tokens, are planned like a prompt's.
func TestWhichRowsGenerate(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		computed, length int
		guide            *guide
		want             bool
	}{
		"a prompt":                       {computed: 3, length: 4, guide: new(guide)},
		"a token after it":               {computed: 4, length: 5, want: true},
		"two tokens without a guide":     {computed: 4, length: 6},
		"a forced token":                 {computed: 4, length: 6, guide: new(guide), want: true},
		"as many forced tokens":          {computed: 4, length: 4 + 1 + maxForcedRows, guide: new(guide), want: true},
		"too many forced tokens":         {computed: 4, length: 4 + 2 + maxForcedRows, guide: new(guide)},
		"the rest of many forced tokens": {computed: 5, length: 4 + 2 + maxForcedRows, guide: new(guide), want: true},
	} {
		s := &sequence{request: &request{prompt: make([]int32, 4)}, tokens: make([]int32, c.length), computed: c.computed, guide: c.guide}
		require.Equal(t, c.want, s.generates(), name)
	}
}

// A stream wakes its reader only for news: forced tokens wait for their log-probabilities.
func TestAStreamWithoutNewsWakesNobody(t *testing.T) {
	t.Parallel()
	st := &stream{wake: make(chan struct{}, 1), parts: make([]part, 1)}
	s := &sequence{request: &request{prompt: []int32{1}, scores: true}, tokens: []int32{1, 2}}
	st.add(s)
	require.Empty(t, st.wake)
	require.NoError(t, st.deliver(func(generation.Piece) error { t.Error("there is no piece"); return nil }))
	s.scores.ids = []int32{2}
	st.add(s)
	require.Len(t, st.wake, 1)
	require.Equal(t, []int32{2}, st.parts[0].tokens)
}

// A piece has log-probabilities only if the request asks for them, and alternatives only if it asks
// for these too. A request that took part in no step has no mean batch.
func TestWhatARequestDidNotAskFor(t *testing.T) {
	t.Parallel()
	f := newFormed(t, "a", "")
	for _, c := range []struct {
		scored bool
		top    int
	}{{false, 0}, {true, 0}, {true, 1}} {
		id := f.encode("a")[0]
		s := &sequence{request: &request{prompt: []int32{1}, scores: c.scored}, tokens: []int32{1, id}}
		if c.scored {
			s.scores = scores{top: c.top, ids: []int32{id}, of: []float64{-1}, topID: make([]int32, c.top), topOf: make([]float64, c.top)}
		}
		st := newStream([]*sequence{s}, f.tok)
		st.add(s)
		pieces := 0
		require.NoError(t, st.deliver(func(p generation.Piece) error {
			pieces++
			require.Equal(t, c.scored, p.Logprobs != nil)
			if c.scored {
				require.Equal(t, c.top > 0, p.Logprobs[0].Top != nil)
			}
			return nil
		}))
		require.Equal(t, 1, pieces)
	}
	require.Zero(t, (&request{}).stats().BatchMean)
}
