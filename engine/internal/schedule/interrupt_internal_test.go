package schedule

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/cpu"
	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/engine/internal/cost"
)

// hooked is a backend that calls a function before the attention of a layer.
type hooked struct {
	compute.Backend
	layer int
	call  func() // nil to call nothing
	ran   int    // number of attentions so far
}

type hookedStep struct {
	compute.Step
	of *hooked
}

func (h *hooked) Begin(b *compute.Batch) compute.Step { return hookedStep{h.Backend.Begin(b), h} }

func (s hookedStep) Attention(dst, q compute.Tensor, shape compute.AttentionShape, cache compute.Cache, layer int) {
	if s.of.call != nil && layer == s.of.layer {
		s.of.call()
	}
	s.of.ran++
	s.Step.Attention(dst, q, shape, cache, layer)
}

// constant returns the costs of steps that all take the same time.
func constant(seconds float64) *cost.Steps {
	return cost.NewSteps(cost.NewCurve([]int{1, 512}, []float64{seconds, seconds}), 0, 0, 0)
}

// An interactive request does not wait for the end of a long step of batch requests. The step's
// rows are computed again, and the answers are the same.
func TestAnInteractiveRequestInterruptsALongStep(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name       string
		seconds    float64
		first      generation.Request // runs already
		arriving   generation.Request
		interrupts bool
	}{
		{"a long step", 2, batchRequest(5, 10, 9), interactiveRequest(7, 20, 3), true},
		{"a short step", 0.2, batchRequest(5, 10, 9), interactiveRequest(7, 20, 3), false},
		{"a step for a person", 2, interactiveRequest(5, 10, 9), interactiveRequest(7, 20, 3), false},
		{"a row arrives", 2, batchRequest(5, 10, 9), batchRequest(7, 20, 3), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			one, err := cpu.New(1)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, one.Close()) })
			be := &hooked{Backend: one}
			m := newManual(t, setup{path: microLlama, backend: be, options: Options{Steps: constant(c.seconds)}})
			layers := m.loop.model.Config().Layers
			require.Greater(t, layers, 1)
			all := []*request{m.begin(c.first), m.begin(batchRequest(100, 30, 9)), m.begin(batchRequest(200, 50, 9))}
			for range 2 {
				m.loop.turn()
			}
			row := m.begin(batchRequest(300, 40, 9))
			first, second := all[0].seqs[0].length(), all[1].seqs[0].length()

			be.ran = 0
			be.call = func() {
				be.call = nil
				r, err := newRequest(t.Context(), m.tokenizer, m.context, time.Now(), c.arriving.Tokens, &c.arriving, nil)
				require.NoError(t, err)
				require.NoError(t, m.inbox.put(r))
				all = append(all, r)
			}
			m.loop.turn()
			require.Equal(t, c.interrupts, m.loop.interrupter.interrupted)
			arrived := all[3]
			if c.interrupts {
				require.Equal(t, 1, be.ran, "the remaining layers do not run")
				require.Equal(t, first, all[0].seqs[0].length())
				require.Equal(t, second, all[1].seqs[0].length())
				require.Zero(t, row.seqs[0].computed)
				m.loop.turn()
				require.True(t, arrived.answered(), "the next step computes the arrived request's prompt")
			} else {
				require.Equal(t, layers, be.ran)
				require.Equal(t, second+1, all[1].seqs[0].length())
			}
			for _, r := range append(all, row) {
				for i := 0; r.open > 0; i++ {
					require.Less(t, i, 200)
					m.loop.turn()
				}
				require.NoError(t, r.err)
			}
			for i, req := range []generation.Request{c.first, batchRequest(100, 30, 9), batchRequest(200, 50, 9), c.arriving} {
				require.Equal(t, alone(t, req), all[i].seqs[0].answer())
			}
			require.Equal(t, alone(t, batchRequest(300, 40, 9)), row.seqs[0].answer())
		})
	}
}

// If requests keep arriving and are cancelled before they run, they interrupt one step and not
// every step.
func TestInterruptionsDoNotStarveABatch(t *testing.T) {
	t.Parallel()
	one, err := cpu.New(1)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, one.Close()) })
	be := &hooked{Backend: one}
	m := newManual(t, setup{path: microLlama, backend: be, options: Options{Steps: constant(2)}})
	row := m.begin(batchRequest(100, 30, 9))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	be.call = func() {
		chat := interactiveRequest(7, 20, 3)
		r, err := newRequest(ctx, m.tokenizer, m.context, time.Now(), chat.Tokens, &chat, nil)
		require.NoError(t, err)
		require.NoError(t, m.inbox.put(r))
	}
	interrupted := 0
	for i := 0; row.open > 0; i++ {
		require.Less(t, i, 20)
		m.loop.turn()
		if m.loop.interrupter.interrupted {
			interrupted++
		}
	}
	require.Equal(t, 1, interrupted)
	require.Equal(t, alone(t, batchRequest(100, 30, 9)), row.seqs[0].answer())
}
