package engine_test

import (
	"testing"

	"github.com/ingot-run/ingot/engine/generation"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine"
)

// The common beginning of several requests is computed once, even if they arrive at the same time.
func TestASharedPrefixIsComputedOnce(t *testing.T) {
	t.Parallel()
	for name, path := range families(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGate()
			e := open(t, path, engine.Options{Context: 256, StepTokens: 64, Draft: engine.DraftOff, Trace: g.trace})
			preamble := randomTokens(1, 100)
			var reqs []generation.Request
			for i := range int32(10) {
				reqs = append(reqs, generation.Request{Tokens: append(preamble[:100:100], 500+i, 600+i), MaxTokens: 3, IgnoreEOS: true})
			}
			computed := 0
			for _, c := range generateAll(t, e, g, reqs) {
				computed += c.Stats.PromptTokens - c.Stats.CachedTokens
			}
			// The last page of the preamble is incomplete and not shared. A page has 16 positions.
			require.Equal(t, 102+9*(102-96), computed)

			again := generate(t, e, reqs[3])
			require.Equal(t, 96, again.Stats.CachedTokens, "pages stay in the cache after their sequences have ended")
		})
	}
}

// If answers are longer than expected and pages run out, the youngest sequences are preempted and
// computed again. Their tokens stay the same.
func TestPreemption(t *testing.T) {
	t.Parallel()
	reqs := make([]generation.Request, 4)
	for i := range reqs {
		reqs[i] = generation.Request{Tokens: randomTokens(uint64(i), 10), MaxTokens: 50, IgnoreEOS: true, Logprobs: true, PromptLogprobs: true}
	}
	roomy := open(t, microLlama, engine.Options{Context: 64, Draft: engine.DraftOff})
	g := newGate()
	const position = 3 * (32 + 32) * 4 // bytes
	opts := engine.Options{Context: 64, Draft: engine.DraftOff, Trace: g.trace}
	opts.MaxSequences = 32
	opts.Memory = memoryFor(t, microLlama, opts, 96*position)
	tight := open(t, microLlama, opts)
	expectShort(t, tight, g)
	for i, c := range generateAll(t, tight, g, reqs) {
		same(t, generate(t, roomy, reqs[i]), c, "a request that may have been preempted")
	}
	require.NotZero(t, tight.Snapshot().Preemptions)
	require.Zero(t, tight.Snapshot().PagesUsed)
}
