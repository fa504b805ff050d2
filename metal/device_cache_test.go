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

// compilations counts the calls of Compile and records whether the device was closed.
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

// TestCachedDevice runs backends one after another on a device. Later backends use the kernels that
// the first one has compiled. Closing a backend frees its memory.
func TestCachedDevice(t *testing.T) {
	dev, err := emulator.Open(emulator.Options{})
	if errors.Is(err, emulator.ErrNoCompiler) {
		t.Skipf("cached kernels are not tested: %v", err)
	}
	require.NoError(t, err)
	c := &compilations{Device: dev}
	cached := metal.NewCachedDevice(c)
	compiled, pipelines := int32(0), 0
	for i := range 3 {
		be, err := metal.New(cached, metal.Options{})
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
		} else { // the test does not wait for this submission
			require.NoError(t, s.Submit())
		}
		require.NoError(t, be.Close())
		require.Zero(t, cached.Memory())
		if i == 0 {
			compiled, pipelines = c.compiled.Load(), cached.Counters().Pipelines
		}
		require.Equal(t, compiled, c.compiled.Load())
		require.Equal(t, pipelines, cached.Counters().Pipelines)
	}
	require.False(t, c.closed)
	require.NoError(t, cached.CloseDevice())
	require.True(t, c.closed)
}
