package apple

import (
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/metal"
)

func TestModes(t *testing.T) {
	t.Parallel()
	d, _ := carriedOut(t)
	for _, c := range []struct {
		mode  metal.Mode
		math  string
		debug byte
	}{{metal.Release, "safe", 2}, {metal.Debug, "safe", 1}, {metal.FastMath, "relaxed", 2}} {
		p := kernel(t, d, c.mode, "mode_is")
		require.Equal(t, "3.1", d.Info().LanguageVersion)
		require.Equal(t, c.math, d.Info().MathMode)
		b := newBuffer(t, d, 128, metal.Shared)
		require.NoError(t, run(d, one(p, nil, b)))
		require.Equal(t, c.debug, d.Contents(b)[0])
	}
}

// TestKernelsCompile compiles all kernels in all modes with Apple's compiler, even on a GPU that
// cannot run them.
func TestKernelsCompile(t *testing.T) {
	t.Parallel()
	d, err := openAny(systemLibraries)
	if errors.Is(err, metal.ErrUnsupported) {
		t.Skipf("kernels are not compiled with Apple's compiler: %v", err)
	}
	require.NoError(t, err)
	defer func() { require.NoError(t, d.Close()) }()
	for _, mode := range []metal.Mode{metal.Release, metal.Debug, metal.FastMath} {
		for _, name := range metal.Files() {
			src, err := metal.Kernel(name, metal.DefaultGeometry())
			require.NoError(t, err)
			_, err = d.Compile(src, mode)
			require.NoError(t, err)
		}
	}
}

// TestConcurrentCompilation compiles on several threads at once. The fake checks that each thread
// has an autorelease pool.
func TestConcurrentCompilation(t *testing.T) {
	t.Parallel()
	d, _ := carriedOut(t)
	broken := metal.Source{Name: "broken.metal", Text: "#line 7 \"broken.metal\"\nkernel void broken(device uint* dst [[buffer(0)]]) { nonsense; }\n"}
	var errs, expected [4]error
	var group sync.WaitGroup
	for i := range errs {
		group.Go(func() {
			_, errs[i] = d.Compile(source, metal.Release)
			_, expected[i] = d.Compile(broken, metal.Release)
		})
	}
	group.Wait()
	for i := range errs {
		require.NoError(t, errs[i])
		require.ErrorContains(t, expected[i], "compile kernels broken.metal: ")
		require.ErrorContains(t, expected[i], "nonsense")
	}
	require.Len(t, d.libraries, 4)
	for lib := range d.libraries {
		_, err := d.Pipeline(metal.Library(lib+1), "increase", nil)
		require.NoError(t, err)
	}
}

// TestCompileError checks that the error has the compiler's messages, and that the device remains
// usable.
func TestCompileError(t *testing.T) {
	t.Parallel()
	d, _ := carriedOut(t)
	_, err := d.Compile(metal.Source{Name: "broken.metal", Text: "#line 7 \"broken.metal\"\nkernel void broken(device uint* dst [[buffer(0)]]) { nonsense; }\n"}, metal.Release)
	require.ErrorContains(t, err, "compile kernels broken.metal: ")
	require.ErrorContains(t, err, "broken.metal:7")
	require.ErrorContains(t, err, "nonsense")
	kernel(t, d, metal.Release, "increase")
}

func TestPipelineErrors(t *testing.T) {
	t.Parallel()
	d, s := carriedOut(t)
	lib, err := d.Compile(source, metal.Release)
	require.NoError(t, err)
	_, err = d.Pipeline(lib, "decrease", nil)
	require.ErrorContains(t, err, "make a pipeline of kernel decrease: ")
	_, err = d.Pipeline(lib+1, "increase", nil)
	require.ErrorContains(t, err, "library 2 does not exist")
	s.Fail(compileError, 0, "program_source:1:1: error: unknown type name 'kernal'")
	_, err = d.Compile(source, metal.Release)
	require.EqualError(t, err, "compile kernels test.metal: program_source:1:1: error: unknown type name 'kernal'")
	s.Fail(functionError, 0, "function constant 3 is missing")
	_, err = d.Pipeline(lib, "increase", []metal.Constant{{Index: 2, Value: 5}})
	require.EqualError(t, err, "make a pipeline of kernel increase: function constant 3 is missing")
	s.Fail(pipelineError, 0, "Compiler encountered an internal error")
	_, err = d.Pipeline(lib, "increase", nil)
	require.EqualError(t, err, "make a pipeline of kernel increase: Compiler encountered an internal error")
	require.Zero(t, d.Counters().Pipelines)
	p, err := d.Pipeline(lib, "increase", []metal.Constant{{Index: 0, Value: 5}, {Index: 1, Value: 6}})
	require.NoError(t, err)
	require.Equal(t, metal.PipelineInfo{MaxThreads: 1024, SimdWidth: 32}, d.PipelineInfo(p))
	require.Zero(t, d.PipelineInfo(p+1))
}
