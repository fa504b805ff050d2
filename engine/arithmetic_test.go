package engine_test

import (
	"fmt"
	"iter"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/cpu"
	"github.com/ingot-run/ingot/engine/cpu/kernels"
	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/engine/gguf"
)

// Kernels of one class give the same bits, also with a cache of every type. Portable kernels, which
// sum in another order, are of a class of their own, and so are activations of 8 bits.
func TestEqualArithmeticGivesEqualBits(t *testing.T) {
	t.Parallel()
	for _, path := range []string{tinyLlama, microGLM} {
		for _, kv := range []gguf.Type{gguf.TypeF32, gguf.TypeF16, gguf.TypeQ80, gguf.TypeQ40} {
			bits := map[string]string{}
			for set, precision := range classes() {
				if precision == compute.Fast && path == microGLM {
					continue // its weights are floats, so its bits are the same
				}
				be, err := cpu.NewWith(cpu.Options{Threads: 2, Kernels: set, Precision: precision})
				require.NoError(t, err)
				e, err := engine.Open(path, be, engine.Options{Context: 64, KV: kv})
				if err != nil {
					require.ErrorContains(t, err, "choose another type", "heads of this model are not whole blocks")
					continue
				}
				done := generate(t, e, generation.Request{
					Tokens: randomTokens(3, 30), MaxTokens: 20, IgnoreEOS: true, Logprobs: true, TopLogprobs: 2, PromptLogprobs: true,
				})
				got := fmt.Sprint(done.PromptLogprobs, done.Choices[0].Logprobs)
				name := e.Info().Arithmetic
				require.NoError(t, e.Close())
				want := "4/cpu"
				if set.Name == "portable" || set.Name == "neon" {
					want += "-" + set.Name
				}
				if precision == compute.Fast {
					want += "-fast"
				}
				require.Equal(t, want+"/"+strings.ToLower(kv.String()), name)
				for other, text := range bits {
					require.Equal(t, other == name, text == got, "%s %s %s, %s", path, kv, other, name)
				}
				bits[name] = got
			}
		}
	}
}

// classes yields the levels of kernels with both precisions.
func classes() iter.Seq2[*kernels.Set, compute.Precision] {
	return func(yield func(*kernels.Set, compute.Precision) bool) {
		for _, set := range kernels.Sets() {
			if !yield(set, compute.High) || !yield(set, compute.Fast) {
				return
			}
		}
	}
}
