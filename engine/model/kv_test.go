package model_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/cpu"
	"github.com/ingot-run/ingot/engine/gguf"
	"github.com/ingot-run/ingot/engine/model"
)

// TestKVNeedsWholeBlocks checks that a KV cache type with blocks is refused if heads are not whole
// blocks.
func TestKVNeedsWholeBlocks(t *testing.T) {
	t.Parallel()
	path := llamaLayout{hidden: 64, heads: 4, kvHeads: 2}.build().write(t) // heads of 16 values
	for kind, fits := range map[gguf.Type]bool{gguf.TypeF32: true, gguf.TypeF16: true, gguf.TypeQ80: false, gguf.TypeQ40: false} {
		f, err := gguf.Open(path)
		require.NoError(t, err)
		be, err := cpu.New(1)
		require.NoError(t, err)
		limits := smallLimits
		limits.KV = kind
		_, err = model.Load(be, f, limits)
		if fits {
			require.NoError(t, err, "%v", kind)
		} else {
			require.ErrorIs(t, err, model.ErrUnsupported, "%v", kind)
			require.ErrorContains(t, err, "use f16")
		}
		require.NoError(t, be.Close())
		require.NoError(t, f.Close())
	}
}
