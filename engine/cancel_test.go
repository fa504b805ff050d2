package engine_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ingot-run/ingot/engine/generation"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ingot-run/ingot/engine"
)

// idle waits until an engine has no sequences and no used pages.
func idle(t testing.TB, e *engine.Engine) {
	t.Helper()
	waitFor(t, func() bool { s := e.Snapshot(); return s.Running+s.Waiting+s.PagesUsed == 0 })
}

// Ten thousand jobs are cancelled at different times: while they wait, during their prompts, during
// their answers. Afterwards, all pages are free, no goroutine is left, and the engine answers as
// before.
func TestTenThousandCancelledJobsLeaveNothing(t *testing.T) {
	others := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, others) }) // after the engine is closed
	const jobs, callers = 10_000, 8
	e := open(t, microGLM, engine.Options{MaxSequences: 4, Context: 96, PrefillChunk: 16})
	req := generation.Request{Tokens: randomTokens(1, 40), MaxTokens: 50, IgnoreEOS: true}
	alone := generate(t, e, req)
	longest := max(2*time.Millisecond, 2*alone.Stats.TTFT) // long enough for some jobs to reach their answers, even on a slow machine
	idle(t, e)
	before := e.Snapshot()

	var cancelled, done, wrong atomic.Int64
	var group sync.WaitGroup
	for caller := range callers {
		group.Go(func() {
			r := rand.New(rand.NewPCG(uint64(caller), 0))
			for cancelled.Load() < jobs {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(r.Int64N(int64(longest))))
				mine := req
				mine.Tokens = req.Tokens[:1+r.IntN(len(req.Tokens))]
				c, err := e.Generate(ctx, mine)
				cancel()
				switch {
				case errors.Is(err, context.DeadlineExceeded):
					cancelled.Add(1)
				case err != nil || len(c.Choices[0].Tokens) != mine.MaxTokens:
					wrong.Add(1)
				default:
					done.Add(1)
				}
			}
		})
	}
	group.Wait()
	require.Zero(t, wrong.Load())
	idle(t, e)
	after := e.Snapshot()
	t.Logf("%d jobs cancelled, %d done", cancelled.Load(), done.Load())
	require.Greater(t, after.GeneratedTokens-before.GeneratedTokens, uint64(done.Load()*50), "some jobs must be cancelled during their answers")
	require.Equal(t, alone.Choices, generate(t, e, req).Choices)
}

// If a job's deadline passes during a step, the job's pages are free when the step ends.
func TestADeadlineFreesPages(t *testing.T) {
	t.Parallel()
	for name, step := range map[string]int{"in the prompt": 2, "in the answer": 9} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			// The step takes until the deadline.
			e := open(t, microGLM, engine.Options{PrefillChunk: 10, Draft: engine.DraftOff, Trace: atStep(step, func() { <-ctx.Done() })})
			_, err := e.Generate(ctx, generation.Request{Tokens: randomTokens(1, 30), N: 3, IgnoreEOS: true})
			require.ErrorIs(t, err, context.DeadlineExceeded)
			idle(t, e)
			require.LessOrEqual(t, e.Snapshot().Steps, uint64(step), "no further step computes the request")
		})
	}
}
