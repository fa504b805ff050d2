package cuda

import (
	"math"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/gguf"
	"github.com/ingot-run/ingot/engine/model"
	"github.com/ingot-run/ingot/engine/model/modeltest"
	"github.com/ingot-run/ingot/metal"
)

// nvrtc opens the compiler, or skips the test if there is none. The GPU's driver is not needed.
func nvrtc(t *testing.T, arch string) *compiler {
	t.Helper()
	c, err := openCompiler(arch, 13)
	if err != nil {
		t.Skipf("kernels are not compiled for NVIDIA's GPUs: %v", err)
	}
	c.cache = t.TempDir()
	return c
}

// compileOnly is a device that only compiles kernels, so it needs no GPU.
type compileOnly struct {
	*Device
	t       *testing.T
	nvidia  bool
	made    map[string]bool // names of the kernels for which pipelines were made
	tickets metal.Ticket
}

func (d *compileOnly) Pipeline(lib metal.Library, function string, constants []metal.Constant) (metal.Pipeline, error) {
	m, err := d.module(d.library(lib), constants)
	require.NoError(d.t, err)
	require.Contains(d.t, m.symbols, function)
	d.made[function] = true
	return metal.Pipeline(len(d.made)), nil
}

func (d *compileOnly) PipelineInfo(metal.Pipeline) metal.PipelineInfo {
	return metal.PipelineInfo{MaxThreads: 1024, SimdWidth: 32}
}
func (d *compileOnly) Info() metal.Info {
	return metal.Info{Driver: "cuda", Memory: math.MaxInt, MaxBuffer: math.MaxInt, MaxThreadgroup: 1024, ThreadgroupMemory: 32 << 10, NvidiaKernels: d.nvidia, Warpgroups: d.nvidia && d.compiler.arch == "sm_90a",
		CompilesByType: true, OrderedMatrices: true}
}
func (d *compileOnly) NewBuffer(int, metal.Storage) (metal.Buffer, error) { return 1, nil }
func (d *compileOnly) FreeBuffer(metal.Buffer)                            {}
func (d *compileOnly) Upload(metal.Buffer, int, []byte) error             { return nil }
func (d *compileOnly) Read([]byte, metal.Buffer, int) error               { return nil }
func (d *compileOnly) Submit([]metal.Dispatch) (metal.Ticket, error) {
	d.tickets++
	return d.tickets, nil
}
func (d *compileOnly) Wait(metal.Ticket) (metal.Timing, error) { return metal.Timing{}, nil }
func (d *compileOnly) Close() error                            { return nil }

// TestKernelsCompile compiles the kernels that the backend needs when it starts and when it loads
// models, once without and once with those of NVIDIA. With INGOT_LONG=1, it compiles them for every
// kind of GPU, since a kernel that takes too many registers or too much memory there fails.
func TestKernelsCompile(t *testing.T) {
	t.Parallel()
	archs := []string{"sm_90a"}
	if os.Getenv("INGOT_LONG") == "1" {
		archs = []string{"sm_75", "sm_80", "sm_86", "sm_89", "sm_90a", "sm_100", "sm_120"}
	}
	for _, arch := range archs {
		t.Run(arch, func(t *testing.T) { compileKernels(t, arch) })
	}
}

func compileKernels(t *testing.T, arch string) {
	t.Helper()
	c := nvrtc(t, arch)
	for name, want := range map[string]struct {
		types   []gguf.Type // types of weights that are loaded in addition to the micro models
		pages   gguf.Type
		kernels []string
	}{
		"portable": {nil, gguf.TypeF32, []string{"group_experts", "top_parts", "top_join", "attention_join", "attention_tile_F32_c16", "product_tile_F32", "latents_F32", "convolve", "delta_step_128_128", "scan_chunks"}},
		"nvidia": {
			[]gguf.Type{gguf.TypeQ80, gguf.TypeQ4K}, // a type with blocks only, and a type with super-blocks
			gguf.TypeF16,
			[]string{"pack_weights", "product_32", "product_tile", "experts_down_8", "row_product", "route_few", "attention_256"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "nvidia" && arch == "sm_75" {
				t.Skip("NVIDIA's kernels need compute capability 8.0")
			}
			dev := &compileOnly{Device: &Device{compiler: c}, t: t, nvidia: name == "nvidia", made: map[string]bool{}}
			be, err := metal.New(dev, metal.Options{})
			require.NoError(t, err)
			for _, name := range modeltest.Micros(t) {
				f, err := gguf.Open(modeltest.Micro(t, name))
				require.NoError(t, err)
				_, err = model.Load(be, f, model.Limits{Rows: 16, Outputs: 16, Context: 64, Pages: 4, PageSize: 16, KV: want.pages})
				require.NoError(t, err)
				require.NoError(t, f.Close())
			}
			_, err = be.States(compute.StateShape{Layers: 1, Slots: 1, ConvRows: 3, ConvCols: 64, Heads: 1, KeyDim: 16, ValueDim: 16})
			require.NoError(t, err)
			for _, kind := range want.types {
				data := make([]byte, 32*256/kind.BlockSize()*kind.BlockBytes())
				_, err := be.Weight(gguf.Tensor{Name: kind.String(), Type: kind, Shape: []int{256, 32}, Data: data})
				require.NoError(t, err)
			}
			for _, one := range want.kernels {
				require.True(t, dev.made[one], one)
			}
		})
	}
}

// TestSymbols checks that kernels are found by the names that INSTANTIATE gives, and kernels in
// CUDA C++ by the names of their functions.
func TestSymbols(t *testing.T) {
	t.Parallel()
	c := nvrtc(t, "sm_90")
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

// TestCompileErrors checks that the compiler's errors name the line of the original file.
func TestCompileErrors(t *testing.T) {
	t.Parallel()
	c := nvrtc(t, "sm_90")
	cu, err := source("#line 1 \"x.metal\"\nusing namespace metal;\nkernel void f(device float* a [[buffer(0)]]) {\n    a[0] = undeclared;\n}\n")
	require.NoError(t, err)
	_, err = c.cubin("x.metal", cu, c.flags(metal.Release))
	require.ErrorContains(t, err, "x.metal(3)")
	require.ErrorContains(t, err, "undeclared")
}
