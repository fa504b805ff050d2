package engine_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/engine/cpu"
	"github.com/ingot-run/ingot/engine/cpu/kernels"
	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/engine/gguf"
)

// Kernels of one class give the same bits, also with a cache of every type. Portable kernels, which
// sum in another order, are of a class of their own.
func TestEqualArithmeticGivesEqualBits(t *testing.T) {
	t.Parallel()
	for _, path := range []string{tinyLlama, microGLM} {
		for _, kv := range []gguf.Type{gguf.TypeF32, gguf.TypeF16, gguf.TypeQ80, gguf.TypeQ40} {
			bits := map[string]string{}
			for _, set := range kernels.Sets() {
				be, err := cpu.NewWith(2, set)
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
				require.Equal(t, set.Name == "portable", name == "3/cpu-portable/"+map[gguf.Type]string{
					gguf.TypeF32: "f32", gguf.TypeF16: "f16", gguf.TypeQ80: "q8_0", gguf.TypeQ40: "q4_0",
				}[kv], name)
				for other, text := range bits {
					require.Equal(t, other == name, text == got, "%s %s %s, %s", path, kv, other, name)
				}
				bits[name] = got
			}
		}
	}
}
