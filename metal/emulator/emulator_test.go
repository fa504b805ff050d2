package emulator_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
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

// source reads a kernel file in testdata, which may include the headers of metal/kernels.
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

// bench is a kernel of testdata with a buffer of n floats: 0, 1, 2 and so on.
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

// run runs the kernel with the given numbers of threadgroups and of threads per threadgroup. The
// kernel's argument struct has only the number of values.
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

// TestCache checks that a source is compiled once for each mode, and that another device uses the
// same libraries.
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

// TestCacheWithoutAHome checks that, if the user has no cache folder, the cache is in a folder to
// which no other user can write.
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
	require.NoError(t, os.Chmod(dir, 0o777)) //nolint:gosec // the test expects an error for this mode
	_, err = emulator.Open(emulator.Options{})
	require.ErrorContains(t, err, "does not belong to this user alone")
}

// TestCompilesOnce checks that a source is compiled once if several devices compile it at the same
// time, as in tests of several packages.
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

// TestNoCompiler checks the advice in the error if there is no compiler, and if the compiler is too
// old.
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

// TestBindings checks that dispatches that do not match their kernel are refused.
func TestBindings(t *testing.T) {
	b := newBench(t, emulator.Options{}, metal.Release, "faults.metal", "reverse", 64)
	good := metal.Dispatch{
		Name: "test", Pipeline: b.pipeline, Buffers: []metal.Binding{{Buffer: b.buffer}}, Args: make([]byte, 4), ThreadgroupMemory: 256,
		Groups: [3]int{1, 1, 1}, Threads: [3]int{64, 1, 1},
	}
	for name, change := range map[string]func(d *metal.Dispatch){
		"arguments have 8 bytes":     func(d *metal.Dispatch) { d.Args = make([]byte, 8) },
		"2 buffers are bound":        func(d *metal.Dispatch) { d.Buffers = append(d.Buffers, d.Buffers[0]) },
		"has no threadgroup memory":  func(d *metal.Dispatch) { d.ThreadgroupMemory = 0 },
		"a multiple of 32":           func(d *metal.Dispatch) { d.Threads[0] = 48 },
		"the grid is":                func(d *metal.Dispatch) { d.Groups[1] = 0 },
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
