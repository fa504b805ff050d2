package schedule

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/generation"
)

// The choices of a waiting request share the prompt and its token counts. They take hardly more
// memory than one choice.
func TestWaitingChoicesShareThePrompt(t *testing.T) { // not parallel: it measures the whole process
	m := newManual(t, setup{path: microLlama})
	const prompt, perChoice = 500, 2048 // tokens; bytes
	allocated := func(n int) int64 {
		req := generation.Request{N: n, Sampling: generation.Sampling{RepetitionPenalty: 1.1, LogitBias: map[int32]float64{1: 1, 2: 1}}}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r, err := newRequest(t.Context(), m.tokenizer, 1000, time.Now(), ascending(prompt), &req)
		runtime.ReadMemStats(&after)
		require.NoError(t, err)
		require.Len(t, r.seqs, n)
		return int64(after.TotalAlloc - before.TotalAlloc)
	}
	allocated(1)
	require.Less(t, allocated(128)-allocated(1), int64(127*perChoice))
}
