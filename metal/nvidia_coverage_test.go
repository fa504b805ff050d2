package metal_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/bench/shape"
	"github.com/ingot-run/ingot/engine/gguf"
	"github.com/ingot-run/ingot/engine/model"
	"github.com/ingot-run/ingot/engine/model/modeltest"
	"github.com/ingot-run/ingot/metal"
)

// recordPortable is a recordOnly that knows which kernels are portable.
type recordPortable struct{ recordOnly }

func (d *recordPortable) Compile(src metal.Source, _ metal.Mode) (metal.Library, error) {
	if src.CUDA {
		return 2, nil
	}
	return 1, nil
}

func (d *recordPortable) Pipeline(lib metal.Library, function string, constants []metal.Constant) (metal.Pipeline, error) {
	p, err := d.recordOnly.Pipeline(lib, function, constants)
	if lib == 1 {
		d.names[p-1] = "portable " + function
	}
	return p, err
}

// nvidiaLeaves are the kernels in Metal's language that steps use on NVIDIA's GPUs: those that move
// values from one place to another, or compute once per value.
var nvidiaLeaves = []string{"affine", "gather", "rope_store"}

// TestNvidiaCoverage checks that NVIDIA's kernels compute the products, the attention and the
// experts of every family, with every type of weights and of pages that has tensor cores' kernels.
func TestNvidiaCoverage(t *testing.T) {
	for _, c := range []struct {
		shape  string
		weight gguf.Type
		pages  gguf.Type
	}{
		{"gpt-oss-20b:2", gguf.TypeMXFP4, gguf.TypeF16},
		{"gpt-oss-20b:2", gguf.TypeQ80, gguf.TypeQ80},
		{"gemma3-1b:6", gguf.TypeQ40, gguf.TypeF16},
		{"gemma3-1b:6", gguf.TypeQ4K, gguf.TypeQ80},
		{"smollm-135m:2", gguf.TypeQ41, gguf.TypeF16},
		{"qwen2.5-0.5b:2", gguf.TypeQ50, gguf.TypeF16},
		{"qwen3-0.6b:2", gguf.TypeBF16, gguf.TypeF16},
		{"qwen3-8b:2", gguf.TypeQ4K, gguf.TypeQ40},
		{"qwen3-30b-a3b:2", gguf.TypeIQ4XS, gguf.TypeF16},
		{"glm-4-9b:2", gguf.TypeF16, gguf.TypeF16},
		{"glm-4.5-air:3", gguf.TypeIQ4NL, gguf.TypeF16},
		{"glm-4.7-flash:3", gguf.TypeQ4K, gguf.TypeF16},
		{"phi-4-mini:2", gguf.TypeQ3K, gguf.TypeF16},
		{"phi-4:2", gguf.TypeQ2K, gguf.TypeF16},
		{"olmo2-1b:2", gguf.TypeQ51, gguf.TypeF16},
		{"smollm3-3b:2", gguf.TypeQ6K, gguf.TypeF16},
		{"granite-3.3-2b:2", gguf.TypeQ5K, gguf.TypeF16},
		{"mistral-7b:2", gguf.TypeQ80, gguf.TypeF16},
	} {
		t.Run(c.shape+" "+c.weight.String()+" "+c.pages.String(), func(t *testing.T) {
			d := &recordPortable{}
			be, err := metal.New(d, metal.Options{})
			require.NoError(t, err)
			s, err := shape.Parse(c.shape)
			require.NoError(t, err)
			f, err := s.Layout(c.weight)
			require.NoError(t, err)
			limits := modeltest.Limits
			limits.KV = c.pages
			m, err := model.Load(be, f, limits)
			require.NoError(t, err)
			used := map[string]bool{}
			for _, rows := range []int{1, 2, 12, 200} {
				_, err := m.Forward(modeltest.Batch(make([]int32, rows), 200))
				require.NoError(t, err)
				for _, name := range d.step {
					if rest, portable := strings.CutPrefix(name, "portable "); portable {
						used[rest] = true
					}
				}
			}
			for name := range used {
				if !slices.ContainsFunc(nvidiaLeaves, func(leaf string) bool { return strings.HasPrefix(name, leaf) }) {
					t.Errorf("portable kernel %s", name)
				}
			}
			t.Log(slices.Sorted(maps.Keys(used)))
		})
	}
}
