package schedule

import (
	"errors"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/engine/model"
)

// faultyModel fails the next steps: with a panic, an error, or logits that are not finite.
type faultyModel struct {
	model.Model
	mu     sync.Mutex
	faults []string
}

func (m *faultyModel) next(kinds ...string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.faults) > 0 && slices.Contains(kinds, m.faults[0]) {
		m.faults = m.faults[1:]
		return true
	}
	return false
}

func (m *faultyModel) Decode(b *compute.Batch, n int) error {
	if m.next("panic") {
		panic("oops")
	}
	if m.next("error") {
		return errors.New("device lost")
	}
	return m.Model.Decode(b, n)
}

func (m *faultyModel) Drawn(i int) [][]float32 {
	drawn := m.Model.Drawn(i)
	if m.next("nan") {
		for _, row := range drawn {
			for i := range row {
				row[i] = float32(math.NaN())
			}
		}
	}
	return drawn
}

// One step that fails ends only the requests that were in it. After two panics in a row, the
// scheduler has failed.
func TestStepsThatFail(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		faults []string
		errs   []string // of successive requests; empty for an answer
		failed bool
	}{
		"an error":             {[]string{"error"}, []string{"device lost", ""}, false},
		"errors":               {[]string{"error", "error", "error"}, []string{"device lost", "device lost", "device lost", ""}, false},
		"a panic":              {[]string{"panic"}, []string{"internal error: panic in a step: oops", ""}, false},
		"a panic, later again": {[]string{"panic", "", "panic"}, []string{"oops", "", "oops", ""}, false},
		"two panics in a row":  {[]string{"panic", "panic"}, []string{"oops", "the second panic in a row", "engine has failed"}, true},
		"logits not finite":    {[]string{"nan"}, []string{generation.ErrNotFinite.Error(), ""}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newManual(t, setup{path: microLlama})
			faulty := &faultyModel{Model: m.loop.model}
			m.loop.model, m.loop.drawer.model = faulty, faulty
			go m.Run()
			t.Cleanup(m.Close)
			req := generation.Request{Tokens: ascending(40), MaxTokens: 2, IgnoreEOS: true}
			faults := slices.Clone(c.faults)
			var want generation.Completion
			for i, says := range c.errs {
				faulty.mu.Lock()
				if len(faulty.faults) == 0 && len(faults) > 0 {
					if faults[0] != "" {
						faulty.faults = faults[:1]
					}
					faults = faults[1:]
				}
				faulty.mu.Unlock()
				got, err := m.Generate(t.Context(), time.Now(), req.Tokens, &req, nil)
				if says != "" {
					require.ErrorContains(t, err, says, "request %d", i)
					continue
				}
				require.NoError(t, err, "request %d", i)
				if want.Choices == nil {
					want = started(t, setup{}).generate(t, req)
				}
				require.Equal(t, want.Choices, got.Choices, "pages of a failed step are not used")
			}
			if c.failed {
				_, err := m.Generate(t.Context(), time.Now(), req.Tokens, &req, nil)
				require.ErrorIs(t, err, generation.ErrEngineFailed)
				now := m.Snapshot()
				require.Zero(t, now.Running+now.Waiting)
			}
		})
	}
}

// If content of pages may be wrong, the sequences that hold them are computed again, and no later
// sequence uses them. Sequences with other pages go on.
func TestSequencesWithDiscardedPagesBeginAgain(t *testing.T) {
	t.Parallel()
	m := newPreempted(t)
	ask := func(first int32) *request {
		tokens := ascending(10)
		tokens[0] = first
		return m.begin(generation.Request{Tokens: tokens, MaxTokens: 9, IgnoreEOS: true})
	}
	first := ask(1)
	m.step()
	m.step()
	second, other := ask(1), ask(2)
	for range 4 {
		m.step()
	}
	p := &m.loop.planner
	require.Len(t, p.running, 3)
	require.Positive(t, second.seqs[0].table.Adopted(), "it uses pages of the first one")
	computed := other.seqs[0].computed
	p.discard(first.seqs[0])
	require.Equal(t, []bool{true, true, false}, []bool{first.seqs[0].stale, second.seqs[0].stale, other.seqs[0].stale})
	p.sweep()
	requireOrder(t, p.running, other.seqs[0])
	requireOrder(t, p.waiting, first.seqs[0], second.seqs[0])
	require.Equal(t, []int{0, 0, computed}, []int{first.seqs[0].computed, second.seqs[0].computed, other.seqs[0].computed})
	require.False(t, p.pool.HasPrefix(p.pool.Prefix(ascending(1))))
	for _, r := range []*request{first, second, other} {
		m.finish(r)
	}
	require.Equal(t, first.seqs[0].answer(), second.seqs[0].answer())
	again := started(t, setup{}).generate(t, generation.Request{Tokens: first.prompt, MaxTokens: 9, IgnoreEOS: true})
	require.Equal(t, again.Choices[0].Tokens, first.seqs[0].answer())
}

// A step that panics fails the requests with rows in it; if none has rows, all.
func TestRequestsOfAStepThatPanics(t *testing.T) {
	t.Parallel()
	failed := errors.New("panic in a step")
	for name, c := range map[string]struct {
		rows []int
		want []bool
	}{
		"some have rows": {[]int{1, 0, 7}, []bool{true, false, true}},
		"one row":        {[]int{0, 1}, []bool{false, true}},
		"none has rows":  {[]int{0, 0}, []bool{true, true}},
	} {
		l := new(loop)
		for _, n := range c.rows {
			l.planner.running = append(l.planner.running, &sequence{request: new(request), rows: n})
		}
		l.abandonStep(failed)
		for i, s := range l.planner.running {
			require.Equal(t, c.want[i], s.request.err != nil, "%s: sequence %d", name, i)
		}
	}
}
