package emulator_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/ingot-run/ingot/metal"
	"github.com/ingot-run/ingot/metal/emulator"
)

// open opens a device. It skips the test if there is no compiler.
func open(t *testing.T, o emulator.Options) *emulator.Device {
	t.Helper()
	dev, err := emulator.Open(o)
	if errors.Is(err, emulator.ErrNoCompiler) {
		t.Skipf("the emulator is not tested: %v", err)
	}
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, dev.Close()) })
	return dev
}

// source reads a file of testdata, which may include the kernels' headers.
func source(t *testing.T, name string) metal.Source {
	t.Helper()
	dir := fstest.MapFS{}
	for at, from := range map[string]string{name: "testdata/" + name, "defs.h": "../kernels/defs.h"} {
		data, err := os.ReadFile(from)
		require.NoError(t, err)
		dir[at] = &fstest.MapFile{Data: data}
	}
	src, err := metal.ReadSource(dir, name)
	require.NoError(t, err)
	return src
}

// bench is a kernel of testdata with a buffer of n floats 0, 1, 2 and so on.
type bench struct {
	dev      *emulator.Device
	library  metal.Library
	pipeline metal.Pipeline
	buffer   metal.Buffer
	n        int
}

func newBench(t *testing.T, o emulator.Options, mode metal.Mode, file, kernel string, n int) *bench {
	t.Helper()
	b := &bench{dev: open(t, o), n: n}
	var err error
	b.library, err = b.dev.Compile(source(t, file), mode)
	require.NoError(t, err)
	b.pipeline, err = b.dev.Pipeline(b.library, kernel, nil)
	require.NoError(t, err)
	b.buffer, err = b.dev.NewBuffer(4*n, metal.Shared)
	require.NoError(t, err)
	for i := range n {
		binary.LittleEndian.PutUint32(b.dev.Contents(b.buffer)[4*i:], math.Float32bits(float32(i)))
	}
	return b
}

// run runs the kernel over threadgroups of threads; the argument struct is the number of values.
func (b *bench) run(t *testing.T, groups, threads, shared int) error {
	t.Helper()
	ticket, err := b.submit(groups, threads, shared)
	require.NoError(t, err)
	_, err = b.dev.Wait(ticket)
	return err
}

func (b *bench) submit(groups, threads, shared int) (metal.Ticket, error) {
	args := binary.LittleEndian.AppendUint32(nil, uint32(b.n))
	return b.dev.Submit([]metal.Dispatch{{
		Name: "test", Pipeline: b.pipeline, Buffers: []metal.Binding{{Buffer: b.buffer}}, Args: args,
		ThreadgroupMemory: shared, Groups: [3]int{groups, 1, 1}, Threads: [3]int{threads, 1, 1},
	}})
}

func (b *bench) floats() []float32 {
	out := make([]float32, b.n)
	for i := range out {
		out[i] = math.Float32frombits(binary.LittleEndian.Uint32(b.dev.Contents(b.buffer)[4*i:]))
	}
	return out
}

// TestFaults runs kernels with one mistake each and checks that the error names its place.
func TestFaults(t *testing.T) {
	for _, c := range []struct {
		kernel string
		mode   metal.Mode
		want   string
	}{
		{"past_the_end", metal.Debug, "uses bytes 512 to 516 of 512 bytes of memory"},
		{"before_the_start", metal.Debug, "uses bytes -4 to 0"},
		{"past_shared", metal.Debug, "uses bytes 256 to 260 of 256 bytes"},
		{"past_shared", metal.Release, "a write past the 256 bytes of threadgroup memory"},
		{"misaligned", metal.Debug, "as a value aligned to 4"},
		{"barrier_for_some", metal.Release, "a barrier at faults.metal:"},
		{"two_barriers", metal.Release, "wait at barriers of their own"},
		{"diverging_lanes", metal.Release, "diverges"},
		{"returned_lanes", metal.Release, "diverges"},
		{"reverse_without_barrier", metal.Debug, "of threadgroup memory without a barrier in between"},
		{"pass_on_without_barrier", metal.Debug, "threads 31 and 32 use byte 124 of threadgroup memory without a barrier in between"},
		{"neighbour_after_shuffle", metal.Debug, "threads 31 and 0 use byte 124 of threadgroup memory without a barrier in between"},
		{"neighbour_after_device_barrier", metal.Debug, "threads 31 and 0 use byte 124 of threadgroup memory without a barrier in between"},
		{"overwritten_after_read", metal.Debug, "of threadgroup memory without a barrier in between"},
	} {
		t.Run(c.kernel, func(t *testing.T) {
			b := newBench(t, emulator.Options{}, c.mode, "faults.metal", c.kernel, 128)
			err := b.run(t, 2, 64, 256)
			require.ErrorContains(t, err, c.want)
			require.ErrorContains(t, err, "kernel "+c.kernel)
			t.Log(err)
		})
	}
}

// TestBarriersOrderMemory runs kernels whose barriers suffice: no race is reported in any order of threads.
func TestBarriersOrderMemory(t *testing.T) {
	for _, kernel := range []string{"reverse", "neighbour_after_barrier"} {
		for seed := range uint32(4) {
			b := newBench(t, emulator.Options{Seed: seed}, metal.Debug, "faults.metal", kernel, 128)
			require.NoError(t, b.run(t, 2, 64, 256))
		}
	}
}

// TestDeviceGoesOnAfterFault runs a correct kernel after a faulty one on the same fibres.
func TestDeviceGoesOnAfterFault(t *testing.T) {
	b := newBench(t, emulator.Options{}, metal.Release, "faults.metal", "diverging_lanes", 128)
	require.Error(t, b.run(t, 4, 64, 256))
	var err error
	b.pipeline, err = b.dev.Pipeline(b.library, "reverse", nil)
	require.NoError(t, err)
	require.NoError(t, b.run(t, 2, 64, 256))
	require.Equal(t, float32(63), b.floats()[0])
}

// TestConcurrentDevices runs the same kernels on several devices at once and checks that their memory is separate.
func TestConcurrentDevices(t *testing.T) {
	const groups = 64
	var all errgroup.Group
	for range 3 {
		b := newBench(t, emulator.Options{Workers: 2}, metal.Release, "faults.metal", "reverse", 64*groups)
		all.Go(func() error {
			for range 101 { // an odd number, which reverses the values
				ticket, err := b.submit(groups, 64, 256)
				if err != nil {
					return err
				}
				if _, err := b.dev.Wait(ticket); err != nil {
					return err
				}
			}
			for i, v := range b.floats() {
				if want := float32(i/64*64 + 63 - i%64); v != want {
					return fmt.Errorf("value %d is %g, not %g", i, v, want)
				}
			}
			return nil
		})
	}
	require.NoError(t, all.Wait())
}

// TestPoison checks that threadgroup memory that was not written is NaN.
func TestPoison(t *testing.T) {
	b := newBench(t, emulator.Options{}, metal.Release, "faults.metal", "unwritten", 128)
	require.NoError(t, b.run(t, 2, 64, 256))
	for _, v := range b.floats() {
		require.True(t, math.IsNaN(float64(v)))
	}
}

// TestShuffleShowsMissingBarrier runs a kernel that is correct in one order of threads only. Some seed must show that. The same
// kernel with a barrier is correct for all seeds.
func TestShuffleShowsMissingBarrier(t *testing.T) {
	wrong := func(kernel string, seed uint32) int {
		b := newBench(t, emulator.Options{Seed: seed}, metal.Release, "faults.metal", kernel, 128)
		require.NoError(t, b.run(t, 2, 64, 256))
		n := 0
		for i, v := range b.floats() {
			if want := float32(i/64*64 + 63 - i%64); v != want {
				n++
			}
		}
		return n
	}
	caught := 0
	for seed := range uint32(8) {
		require.Zero(t, wrong("reverse", seed))
		require.NotZero(t, wrong("reverse_without_barrier", seed))
		if wrong("pass_on_without_barrier", seed) > 0 {
			caught++
		}
	}
	require.GreaterOrEqual(t, caught, 6, "seeds that show a race between simdgroups, of 8")
}

// TestShuffledDispatches submits two dispatches that depend on each other. With a barrier they are correct in every run.
func TestShuffledDispatches(t *testing.T) {
	for _, barrier := range []bool{true, false} {
		wrong := 0
		for seed := range uint32(8) {
			b := newBench(t, emulator.Options{Seed: seed + 1}, metal.Release, "faults.metal", "add_one", 64)
			double, err := b.dev.Pipeline(b.library, "double_it", nil)
			require.NoError(t, err)
			d := metal.Dispatch{
				Pipeline: b.pipeline, Buffers: []metal.Binding{{Buffer: b.buffer}}, Args: []byte{64, 0, 0, 0},
				Groups: [3]int{1, 1, 1}, Threads: [3]int{64, 1, 1},
			}
			second := d
			second.Pipeline, second.Barrier = double, barrier
			ticket, err := b.dev.Submit([]metal.Dispatch{d, second})
			require.NoError(t, err)
			_, err = b.dev.Wait(ticket)
			require.NoError(t, err)
			if b.floats()[0] != 2 {
				wrong++
			}
		}
		require.Equal(t, barrier, wrong == 0, "%d of 8 runs are wrong", wrong)
	}
}

// TestLanguage runs the parts of Metal's library that the kernels use on one simdgroup and checks the results.
func TestLanguage(t *testing.T) {
	for _, mode := range []metal.Mode{metal.Release, metal.Debug, metal.FastMath} {
		for _, seed := range []uint32{0, 3} {
			b := newBench(t, emulator.Options{Seed: seed}, mode, "language.metal", "language", 1024)
			require.NoError(t, b.run(t, 1, 32, 0))
			got := b.floats()
			for lane := range 32 {
				at := func(i int) float32 { return got[32*i+lane] }
				require.Equal(t, float32(496), at(0), "sum")
				require.Equal(t, float32(31), at(1), "max")
				require.Equal(t, float32(0), at(2), "min")
				require.Equal(t, float32(lane*(lane-1)/2), at(3), "prefix sum")
				require.Equal(t, float32((lane ^ 5)), at(4), "xor")
				require.Equal(t, float32(7), at(5), "broadcast")
				require.InDelta(t, 1/math.Sqrt(float64(lane+1)), at(6), 1e-6, "rsqrt")
				require.Equal(t, float32(lane)+0.5, at(7), "half")
				require.Equal(t, float32(4*lane+6), at(8), "float4")
				require.Equal(t, treeSum([32]float32(got[288:320])), at(10), "tree_sums")
			}
		}
	}
}

// treeSum computes tree_sums of kernels/defs.h: lane i adds lane i^16, then i^8, and so on.
func treeSum(v [32]float32) float32 {
	for step := 16; step > 0; step /= 2 {
		was := v
		for lane := range v {
			v[lane] = was[lane] + was[lane^step]
		}
	}
	return v[0]
}

// TestMatrices multiplies 8x8 matrices and compares with sums in order.
func TestMatrices(t *testing.T) {
	b := newBench(t, emulator.Options{Seed: 5}, metal.Debug, "language.metal", "matrices", 256)
	in := b.floats()
	require.NoError(t, b.run(t, 1, 32, 0))
	got := b.floats()[128:192]
	for r := range 8 {
		for c := range 8 {
			want := float32(0.5)
			for k := range 8 {
				want = float32(math.FMA(float64(in[8*r+k]), float64(in[64+8*c+k]), float64(want))) // b is loaded transposed
			}
			require.Equal(t, want, got[8*r+c], "row %d, column %d", r, c)
		}
	}
}

func TestConstants(t *testing.T) {
	b := newBench(t, emulator.Options{}, metal.Release, "language.metal", "constants", 64)
	var err error
	b.pipeline, err = b.dev.Pipeline(b.library, "constants", []metal.Constant{{Index: 0, Value: 7}, {Index: 3, Value: math.Float32bits(1.5)}, {Index: 4, Value: 1}})
	require.NoError(t, err)
	require.NoError(t, b.run(t, 1, 64, 0))
	require.Equal(t, []float32{7, 1.5, 1}, b.floats()[:3])
}

// TestInfinities checks that all modes handle infinities and NaN, as attention needs.
func TestInfinities(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	for _, mode := range []metal.Mode{metal.Release, metal.Debug, metal.FastMath} {
		b := newBench(t, emulator.Options{}, mode, "language.metal", "infinities", 64)
		for i, v := range []float64{1, 0, inf, nan} {
			binary.LittleEndian.PutUint32(b.dev.Contents(b.buffer)[4*i:], math.Float32bits(float32(v)))
		}
		require.NoError(t, b.run(t, 1, 64, 0))
		for i, want := range []float64{0, nan, 1, inf, nan, 1, 1, 0, 1, 1} {
			got := float64(b.floats()[4+i])
			require.True(t, got == want || math.IsNaN(got) && math.IsNaN(want), "mode %d, value %d: %g, not %g", mode, i, got, want)
		}
	}
}

// TestSubnormalsStay checks that loading fast kernels does not change the arithmetic of the thread.
func TestSubnormalsStay(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	dev := open(t, emulator.Options{Cache: t.TempDir()}) // so that the library was not loaded before
	_, err := dev.Compile(source(t, "language.metal"), metal.FastMath)
	require.NoError(t, err)
	require.Equal(t, uint32(1), math.Float32bits(halved(math.Float32frombits(2))))
}

// halved is computed at run time, not by Go's compiler.
//
//go:noinline
func halved(x float32) float32 { return x / 2 }

func TestCompileErrors(t *testing.T) {
	dev := open(t, emulator.Options{Cache: t.TempDir()})
	_, err := dev.Compile(source(t, "syntax.metal"), metal.Release)
	require.ErrorContains(t, err, "syntax.metal:4")
	require.ErrorContains(t, err, "undeclared_value")
	_, err = dev.Compile(source(t, "stack.metal"), metal.Release)
	require.ErrorContains(t, err, "frame size")
	_, err = dev.Compile(metal.Source{Name: "x.metal", Text: "kernel void f(uint i [[thread_position_in_grid]]) {}"}, metal.Release)
	require.ErrorContains(t, err, "thread_position_in_grid")
	_, err = dev.Compile(metal.Source{Name: "x.metal", Text: "kernel void f(device float* a [[buffer(1)]]) {}"}, metal.Release)
	require.ErrorContains(t, err, "numbered from 0")
}

// TestCache checks that each mode is compiled once, and that another device finds the libraries.
func TestCache(t *testing.T) {
	dir := t.TempDir()
	count := func() int {
		files, err := filepath.Glob(filepath.Join(dir, "*"))
		require.NoError(t, err)
		return len(files)
	}
	for _, c := range []struct {
		mode metal.Mode
		want int
	}{{metal.Release, 1}, {metal.Debug, 2}, {metal.Release, 2}} {
		_, err := open(t, emulator.Options{Cache: dir}).Compile(source(t, "faults.metal"), c.mode)
		require.NoError(t, err)
		require.Equal(t, c.want, count())
	}
}

// TestCacheWithoutAHome checks that, without a user's cache folder, the cache is in a folder that nobody else can write.
func TestCacheWithoutAHome(t *testing.T) {
	t.Setenv("HOME", filepath.Join(os.DevNull, "none"))
	t.Setenv("XDG_CACHE_HOME", "")
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	_, err := open(t, emulator.Options{}).Compile(source(t, "faults.metal"), metal.Release)
	require.NoError(t, err)
	made, err := filepath.Glob(filepath.Join(temporary, "ingot-kernels-*", "*.so"))
	require.NoError(t, err)
	require.Len(t, made, 1)
	dir := filepath.Dir(made[0])
	require.NoError(t, os.Chmod(dir, 0o777)) //nolint:gosec // it is refused
	_, err = emulator.Open(emulator.Options{})
	require.ErrorContains(t, err, dir+" is not a folder of this user's alone")
}

// TestCompilesOnce compiles a source on several devices at the same time, as the tests of several packages do.
func TestCompilesOnce(t *testing.T) {
	compiler, err := exec.LookPath("c++")
	if err != nil {
		t.Skip("compiling at the same time is not tested: there is no c++")
	}
	dir := t.TempDir()
	counting, log := filepath.Join(dir, "counting"), filepath.Join(dir, "log")
	script := fmt.Sprintf("#!/bin/sh\ncase \"$*\" in *-shared*) echo compiled >> %s ;; esac\nexec %s \"$@\"\n", log, compiler)
	require.NoError(t, os.WriteFile(counting, []byte(script), 0o700))
	t.Setenv("CXX", counting)
	var group errgroup.Group
	for range 4 {
		dev, src := open(t, emulator.Options{Cache: filepath.Join(dir, "cache")}), source(t, "faults.metal")
		group.Go(func() error {
			_, err := dev.Compile(src, metal.Release)
			return err
		})
	}
	require.NoError(t, group.Wait())
	logged, err := os.ReadFile(log)
	require.NoError(t, err)
	require.Equal(t, "compiled\n", string(logged))
}

// TestNoCompiler checks the advice of the error without a compiler and with an old one.
func TestNoCompiler(t *testing.T) {
	t.Setenv("CXX", "no-such-compiler")
	_, err := emulator.Open(emulator.Options{})
	require.ErrorIs(t, err, emulator.ErrNoCompiler)
	require.ErrorContains(t, err, "none of no-such-compiler is installed")
	require.ErrorContains(t, err, "install g++")

	old := filepath.Join(t.TempDir(), "old")
	script := "#!/bin/sh\ntest \"$1\" != --version || exec echo 'old 12.2.0'\necho \"error: '_Float16' does not name a type\" >&2\nexit 1\n"
	require.NoError(t, os.WriteFile(old, []byte(script), 0o700))
	t.Setenv("CXX", old)
	_, err = emulator.Open(emulator.Options{})
	require.ErrorIs(t, err, emulator.ErrNoCompiler)
	require.ErrorContains(t, err, old+" (old 12.2.0) does not support _Float16")
	require.ErrorContains(t, err, "13 on arm64")
}

// TestBindings submits dispatches that do not match their kernel.
func TestBindings(t *testing.T) {
	b := newBench(t, emulator.Options{}, metal.Release, "faults.metal", "reverse", 64)
	good := metal.Dispatch{
		Name: "test", Pipeline: b.pipeline, Buffers: []metal.Binding{{Buffer: b.buffer}}, Args: make([]byte, 4), ThreadgroupMemory: 256,
		Groups: [3]int{1, 1, 1}, Threads: [3]int{64, 1, 1},
	}
	for name, change := range map[string]func(d *metal.Dispatch){
		"arguments have 8 bytes":     func(d *metal.Dispatch) { d.Args = make([]byte, 8) },
		"2 buffers are bound":        func(d *metal.Dispatch) { d.Buffers = append(d.Buffers, d.Buffers[0]) },
		"threadgroup memory":         func(d *metal.Dispatch) { d.ThreadgroupMemory = 0 },
		"a multiple of 32":           func(d *metal.Dispatch) { d.Threads[0] = 48 },
		"a grid of":                  func(d *metal.Dispatch) { d.Groups[1] = 0 },
		"pipeline 77 does not exist": func(d *metal.Dispatch) { d.Pipeline = 77 },
		"is bound at byte 4096":      func(d *metal.Dispatch) { d.Buffers = []metal.Binding{{Buffer: b.buffer, Offset: 4096}} },
	} {
		d := good
		change(&d)
		_, err := b.dev.Submit([]metal.Dispatch{d})
		require.ErrorContains(t, err, strings.TrimSpace(name))
	}
	_, err := b.dev.Submit([]metal.Dispatch{good})
	require.NoError(t, err)
}

func TestMemory(t *testing.T) {
	dev := open(t, emulator.Options{Memory: 1000})
	a, err := dev.NewBuffer(600, metal.Private)
	require.NoError(t, err)
	_, err = dev.NewBuffer(600, metal.Private)
	require.ErrorIs(t, err, metal.ErrMemory)
	require.Equal(t, 600, dev.Memory())
	require.NoError(t, dev.Upload(a, 0, make([]byte, 600)))
	require.Error(t, dev.Upload(a, 1, make([]byte, 600)))
	dev.FreeBuffer(a)
	require.Zero(t, dev.Memory())
	_, err = dev.NewBuffer(1000, metal.Private)
	require.NoError(t, err)
	require.Equal(t, metal.Counters{Buffers: 2, UploadedBytes: 600}, dev.Counters())
}

// TestMemoryOfTheMachine checks the default of Options.Memory.
func TestMemoryOfTheMachine(t *testing.T) {
	dev := open(t, emulator.Options{})
	memory := dev.Info().Memory
	require.Greater(t, memory, 64<<20)
	require.Less(t, memory, 64<<40)
	_, err := dev.NewBuffer(memory+1, metal.Shared)
	require.ErrorIs(t, err, metal.ErrMemory)
	require.Equal(t, 1<<20, open(t, emulator.Options{Memory: 1 << 20}).Info().Memory)
}
