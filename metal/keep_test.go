package metal_test

import (
	"errors"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/gguf"
	"github.com/ingot-run/ingot/metal"
	"github.com/ingot-run/ingot/metal/emulator"
)

// compilations counts what a device compiles, and whether it is closed.
type compilations struct {
	*emulator.Device
	compiled atomic.Int32
	closed   bool
}

func (c *compilations) Compile(src metal.Source, mode metal.Mode) (metal.Library, error) {
	c.compiled.Add(1)
	return c.Device.Compile(src, mode)
}

func (c *compilations) Close() error {
	c.closed = true
	return c.Device.Close()
}

// TestKeep runs backends one after another on a device: what the first has compiled serves them all, and none leaves memory
// behind.
func TestKeep(t *testing.T) {
	dev, err := emulator.Open(emulator.Options{})
	if errors.Is(err, emulator.ErrNoCompiler) {
		t.Skipf("kept kernels are not tested: %v", err)
	}
	require.NoError(t, err)
	c := &compilations{Device: dev}
	kept := metal.Keep(c)
	compiled, pipelines := int32(0), 0
	for i := range 3 {
		be, err := metal.New(kept, metal.Options{})
		require.NoError(t, err)
		x, err := be.Buffer(1, 32)
		require.NoError(t, err)
		w, err := be.Weight(gguf.Tensor{Name: "w", Type: gguf.TypeF32, Shape: []int{32, 32}, Data: make([]byte, 4*32*32)})
		require.NoError(t, err)
		be.Floats(x)[0][5] = 1
		s := be.Begin(&compute.Batch{Tokens: []int32{0}, Positions: []int32{0}, Seqs: []compute.Seq{{Rows: 1, Pages: []int32{0}}}})
		s.MatMul(x, x, w)
		if i < 2 {
			require.NoError(t, s.Run())
			require.Zero(t, be.Floats(x)[0][5])
		} else { // and is not waited for
			require.NoError(t, s.Submit())
		}
		require.NoError(t, be.Close())
		require.Zero(t, kept.Memory())
		if i == 0 {
			compiled, pipelines = c.compiled.Load(), kept.Counters().Pipelines
		}
		require.Equal(t, compiled, c.compiled.Load())
		require.Equal(t, pipelines, kept.Counters().Pipelines)
	}
	require.False(t, c.closed)
	require.NoError(t, kept.End())
	require.True(t, c.closed)
}
