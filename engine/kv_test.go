package engine_test

import (
	"math"
	"testing"

	"github.com/ingot-run/ingot/engine/generation"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/engine/gguf"
)

// The heads of the bundled model are whole blocks of the quantised types. The heads of the micro
// models are not.
const tinyLlama = "../models/tiny-llama.q4_0.gguf"

// With each type of cache, a request gets the same tokens alone and in a batch that drafts and
// shares pages. Its log-probabilities are close to those with an exact cache, even for text that is
// unlikely for the model.
func TestCacheTypes(t *testing.T) {
	t.Parallel()
	reqs := mixedRequests()[:8]
	exact := open(t, tinyLlama, engine.Options{Context: 256})
	for kv, maxDifference := range map[gguf.Type]float64{gguf.TypeF16: 0.08, gguf.TypeQ80: 0.1, gguf.TypeQ40: 1} {
		t.Run(kv.String(), func(t *testing.T) {
			t.Parallel()
			alone := open(t, tinyLlama, engine.Options{Context: 256, KV: kv, Draft: engine.DraftOff})
			g := newGate()
			e := open(t, tinyLlama, engine.Options{Context: 256, KV: kv, PrefillChunk: 7, Draft: engine.DraftNGram, DraftTokens: 3, Trace: g.trace})
			for i, got := range generateAll(t, e, g, reqs) {
				same(t, generate(t, alone, reqs[i]), got, "in a batch")
			}

			score := generation.Request{Tokens: randomTokens(8, 60), PromptOnly: true, PromptLogprobs: true}
			want, got := generate(t, exact, score).PromptLogprobs, generate(t, alone, score).PromptLogprobs
			sum := 0.0
			for i := range want {
				sum += math.Abs(want[i].Logprob - got[i].Logprob)
			}
			t.Logf("log-probabilities differ by %.3g on average", sum/float64(len(want)))
			require.Less(t, sum/float64(len(want)), maxDifference)
		})
	}
}

func TestSmallerTypesHoldMore(t *testing.T) {
	t.Parallel()
	opts := engine.Options{Context: 16}
	pages := map[gguf.Type]int{}
	for _, kv := range []gguf.Type{gguf.TypeF32, gguf.TypeF16, gguf.TypeQ80, gguf.TypeQ40} {
		opts.KV = kv
		opts.MaxSequences = 32
		opts.Memory = memoryFor(t, tinyLlama, opts, 64<<10)
		pages[kv] = open(t, tinyLlama, opts).Snapshot().PagesTotal
	}
	require.Equal(t, map[gguf.Type]int{gguf.TypeF32: 2, gguf.TypeF16: 4, gguf.TypeQ80: 7, gguf.TypeQ40: 14}, pages)
}

func TestHeadsThatAreNotWholeBlocks(t *testing.T) {
	t.Parallel()
	_, err := engine.Open(microLlama, backend(t), engine.Options{KV: gguf.TypeQ80})
	require.ErrorContains(t, err, "store the KV cache of "+microLlama+" as Q8_0")
}
