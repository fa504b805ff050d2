package schedule

import (
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/generation"
)

// The choices of a waiting request share the prompt, its token counts and the stop strings. They
// take hardly more memory than one choice.
func TestWaitingChoicesShareThePrompt(t *testing.T) { // not parallel: it measures the whole process
	m := newManual(t, setup{path: microLlama})
	const prompt, perChoice = 500, 2048 // tokens; bytes
	stops := []string{strings.Repeat("x", 1<<20)}
	allocated := func(n int) int64 {
		req := generation.Request{N: n, Stop: stops, Sampling: generation.Sampling{RepetitionPenalty: 1.1, LogitBias: map[int32]float64{1: 1, 2: 1}}}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r, err := newRequest(t.Context(), m.tokenizer, 1000, time.Now(), ascending(prompt), &req, nil)
		runtime.ReadMemStats(&after)
		require.NoError(t, err)
		require.Len(t, r.seqs, n)
		return int64(after.TotalAlloc - before.TotalAlloc)
	}
	allocated(1)
	require.Less(t, allocated(128)-allocated(1), int64(127*perChoice))
}

// A request with many equal stop ids searches each id once, however often it is given.
func TestStopIDsAreDistinct(t *testing.T) {
	t.Parallel()
	m := newManual(t, setup{path: microLlama})
	stops := slices.Repeat([]int32{9, 5, 7}, 100_000)
	r := m.begin(generation.Request{Tokens: ascending(4), MaxTokens: 3, IgnoreEOS: true, StopIDs: stops})
	require.Len(t, r.stopIDs, 3)
	for id, ends := range map[int32]bool{5: true, 6: false, 7: true, 9: true} {
		s := newSequences(m.tokenizer, r, 1, &generation.Request{}, nil)[0]
		s.accept(id, true)
		require.Equal(t, ends, s.reason == generation.FinishStop, id)
	}
}
