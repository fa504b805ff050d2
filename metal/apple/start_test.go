package apple

import (
	"errors"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ingot-run/ingot/engine/enginetest"
	"github.com/ingot-run/ingot/metal"
	"github.com/ingot-run/ingot/metal/emulator"
)

func TestMain(m *testing.M) {
	enginetest.GiveCosts()
	goleak.VerifyTestMain(m)
}

// recorded opens a device on a fake that only records dispatches.
func recorded(t testing.TB) (*Device, *fake) {
	t.Helper()
	s := startFake(t, nil)
	return opened(t, s), s
}

// carriedOut opens a device on a fake that runs work on the emulator.
func carriedOut(t testing.TB) (*Device, *fake) {
	t.Helper()
	dev, err := emulator.Open(emulator.Options{})
	if errors.Is(err, emulator.ErrNoCompiler) {
		t.Skipf("work is not run: %v", err)
	}
	require.NoError(t, err)
	s := startFake(t, dev)
	return opened(t, s), s
}

func opened(t testing.TB, s *fake) *Device {
	t.Helper()
	d, err := open([]string{s.Library})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

// source has the kernels of tests.
var source = metal.Source{Name: "test.metal", Text: `#include <metal_stdlib>
using namespace metal;
struct AddArgs { uint n; uint add; };
// increase writes src + add to dst.
kernel void increase(device const uint* src [[buffer(0)]], device uint* dst [[buffer(1)]], constant AddArgs& args [[buffer(2)]],
    uint3 group [[threadgroup_position_in_grid]], uint tid [[thread_index_in_threadgroup]]) {
    uint i = group.x * 32 + tid;
    if (i < args.n) dst[i] = src[i] + args.add;
}
// mode_is writes 1 if INGOT_DEBUG is defined.
kernel void mode_is(device uint* dst [[buffer(0)]], uint tid [[thread_index_in_threadgroup]]) {
#if defined(INGOT_DEBUG)
    dst[tid] = 1;
#else
    dst[tid] = 2;
#endif
}
`}

// kernel compiles source and makes a pipeline.
func kernel(t testing.TB, d *Device, mode metal.Mode, name string) metal.Pipeline {
	t.Helper()
	lib, err := d.Compile(source, mode)
	require.NoError(t, err)
	p, err := d.Pipeline(lib, name, nil)
	require.NoError(t, err)
	return p
}

func newBuffer(t testing.TB, d *Device, bytes int, storage metal.Storage) metal.Buffer {
	t.Helper()
	b, err := d.NewBuffer(bytes, storage)
	require.NoError(t, err)
	return b
}

// run submits work and waits for it.
func run(d *Device, work ...metal.Dispatch) error {
	ticket, err := d.Submit(work)
	if err == nil {
		_, err = d.Wait(ticket)
	}
	return err
}

func one(p metal.Pipeline, args []byte, buffers ...metal.Buffer) metal.Dispatch {
	w := metal.Dispatch{Name: "test", Pipeline: p, Args: args, Groups: [3]int{1, 1, 1}, Threads: [3]int{32, 1, 1}}
	for _, b := range buffers {
		w.Buffers = append(w.Buffers, metal.Binding{Buffer: b})
	}
	return w
}

// TestReal runs tests with kernels on a Mac's GPU.
func TestReal(t *testing.T) {
	d, err := Open()
	if errors.Is(err, metal.ErrUnsupported) {
		t.Skipf("Apple's Metal is not tested: %v", err)
	}
	require.NoError(t, err)
	t.Logf("%+v", d.Info())
	p := kernel(t, d, metal.Release, "increase")
	require.Equal(t, "3.1", d.Info().LanguageVersion)
	require.Equal(t, "safe", d.Info().MathMode)
	checkIncrease(t, d, p)
	require.NoError(t, d.Close())
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
