package cuda

import (
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/metal"
)

// nvrtc opens the compiler, or skips. The driver is not needed.
func nvrtc(t *testing.T) *compiler {
	t.Helper()
	c, err := openCompiler("sm_90", 99)
	if err != nil {
		t.Skipf("kernels are not compiled for NVIDIA's GPUs: %v", err)
	}
	c.cache = t.TempDir()
	return c
}

// TestKernelsCompile compiles every kernel file and finds its kernels by their names.
func TestKernelsCompile(t *testing.T) {
	t.Parallel()
	c := nvrtc(t)
	names := regexp.MustCompile(`INSTANTIATE\("(\w+)", \w+, \w+(?:, \d+)*\)\n`)
	files, err := fs.Glob(os.DirFS("../kernels"), "*.metal")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			// A type each of those with blocks and without is enough for the language.
			src, err := metal.Kernel(file, metal.DefaultGeometry())
			require.NoError(t, err)
			text := strings.NewReplacer(`X(BF16, "BF16") `, "", `X(Q4_1, "Q4_1") X(Q5_0, "Q5_0") X(Q5_1, "Q5_1") \`, `\`, `X(Q5_K, "Q5_K") `, "").Replace(src.Text)
			text = regexp.MustCompile(`INSTANTIATE\("\w+", \w+, (?:BF16|Q4_1|Q5_0|Q5_1|Q8_0|Q5_K|Q6_K),.*\n`).ReplaceAllString(text, "")
			cu, err := source(text)
			require.NoError(t, err)
			flags := append(c.flags(metal.Release), "-DINGOT_CONSTANT_0=0", "-DINGOT_CONSTANT_1=64", "-DINGOT_CONSTANT_2=32")
			code, err := c.cubin(file, cu, flags)
			require.NoError(t, err)
			found, err := symbols(code)
			require.NoError(t, err)
			require.NotEmpty(t, found)
			for _, m := range names.FindAllStringSubmatch(text, -1) {
				require.Contains(t, found, m[1])
			}
		})
	}
}

// TestSymbols finds kernels by the names that INSTANTIATE gives, and those of CUDA C++ by their own.
func TestSymbols(t *testing.T) {
	t.Parallel()
	c := nvrtc(t)
	cu, err := source("using namespace metal;\ntemplate <typename T, uint N> kernel void add(device float* a [[buffer(0)]], uint i [[thread_index_in_threadgroup]]) { a[i] += T(N); }\n" +
		"#define ADDS(type, name) INSTANTIATE(\"add-\" name, add, type, 3)\nADDS(float, \"floats\") ADDS(uint, \"integers\")\n" +
		"kernel void one(device float* a [[buffer(0)]]) { a[0] = 1; }\n")
	require.NoError(t, err)
	code, err := c.cubin("add.metal", cu, c.flags(metal.Release))
	require.NoError(t, err)
	found, err := symbols(code)
	require.NoError(t, err)
	require.Equal(t, map[string]string{"add-floats": "ingot_add_float_3", "add-integers": "ingot_add_uint_3", "one": "ingot_one"}, found)

	code, err = c.cubin("plain.cu", `extern "C" __global__ void plain(float* a) { a[threadIdx.x] = 1; }`, c.flags(metal.FastMath))
	require.NoError(t, err)
	found, err = symbols(code)
	require.NoError(t, err)
	require.Equal(t, map[string]string{"plain": "plain"}, found)
}

// TestCompileErrors name the line of the kernel's own file.
func TestCompileErrors(t *testing.T) {
	t.Parallel()
	c := nvrtc(t)
	cu, err := source("#line 1 \"x.metal\"\nusing namespace metal;\nkernel void f(device float* a [[buffer(0)]]) {\n    a[0] = undeclared;\n}\n")
	require.NoError(t, err)
	_, err = c.cubin("x.metal", cu, c.flags(metal.Release))
	require.ErrorContains(t, err, "x.metal(3)")
	require.ErrorContains(t, err, "undeclared")
}
