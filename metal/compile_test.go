package metal_test

import (
	"fmt"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/gguf"
	"github.com/ingot-run/ingot/engine/model"
	"github.com/ingot-run/ingot/engine/model/modeltest"
	"github.com/ingot-run/ingot/metal"
)

// slowCompiler is a recordOnly whose compiler is slow. It records the compiled sources.
type slowCompiler struct {
	recordOnly
	mu       sync.Mutex
	compiled []metal.Source
	onStart  func(src metal.Source) // called by each Compile; may be nil
}

func (d *slowCompiler) Info() metal.Info {
	info := d.recordOnly.Info()
	info.CompilesByType, info.OrderedMatrices = true, true
	return info
}

func (d *slowCompiler) Compile(src metal.Source, _ metal.Mode) (metal.Library, error) {
	if d.onStart != nil {
		d.onStart(src)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.compiled = append(d.compiled, src)
	return metal.Library(len(d.compiled)), nil
}

// Pipeline checks that the library is compiled for the function constants.
func (d *slowCompiler) Pipeline(lib metal.Library, function string, constants []metal.Constant) (metal.Pipeline, error) {
	d.mu.Lock()
	src := d.compiled[lib-1]
	d.mu.Unlock()
	if len(constants) > 0 && !slices.ContainsFunc(src.Constants, func(set []metal.Constant) bool { return slices.Equal(set, constants) }) {
		return 0, fmt.Errorf("%s is compiled for the constants %v, but kernel %s is made with %v", src.Name, src.Constants, function, constants)
	}
	return d.recordOnly.Pipeline(lib, function, constants)
}

func loadMicro(t *testing.T, be *metal.Backend, name string, kv gguf.Type) {
	t.Helper()
	f, err := gguf.Open(name)
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	limits := modeltest.Limits
	limits.KV = kv
	_, err = model.Load(be, f, limits)
	require.NoError(t, err)
}

// typesOf returns the types of weights and of KV pages for which a source has instances.
func typesOf(text string) (weights, pages []string) {
	for line := range strings.Lines(text) {
		for _, m := range regexp.MustCompile(`X\((Page)?(\w+), "`).FindAllStringSubmatch(line, -1) {
			if m[1] == "" {
				weights = append(weights, m[2])
			} else {
				pages = append(pages, m[2])
			}
		}
	}
	return weights, pages
}

// TestOnlyTheModelsKernelsAreCompiled loads a model on a device with a slow compiler. It compiles
// the kernels for the types of the model's weights and of its cache, each of them once, and none
// for other types. All were started when the weights began to load.
func TestOnlyTheModelsKernelsAreCompiled(t *testing.T) {
	t.Parallel()
	d := &slowCompiler{}
	var mu sync.Mutex
	done, total := -1, 0
	be, err := metal.New(d, metal.Options{Progress: func(n, of int) {
		mu.Lock()
		defer mu.Unlock()
		require.GreaterOrEqual(t, n, done)
		require.GreaterOrEqual(t, of, total)
		done, total = n, of
	}})
	require.NoError(t, err)
	for _, src := range d.compiled {
		weights, pages := typesOf(src.Text)
		require.Empty(t, weights, src.Name)
		require.Empty(t, pages, src.Name)
	}
	loadMicro(t, be, "../models/tiny-glm.q8_0.gguf", gguf.TypeF16)
	require.NoError(t, be.Close())
	var kinds []string
	texts := map[string]bool{}
	for _, src := range d.compiled {
		require.False(t, texts[src.Text], "%s is compiled twice", src.Name)
		texts[src.Text] = true
		weights, pages := typesOf(src.Text)
		if src.CUDA {
			continue
		}
		require.LessOrEqual(t, len(weights), 1, src.Name)
		require.LessOrEqual(t, len(pages), 1, src.Name)
		for _, kind := range slices.Concat(weights, pages) {
			if !slices.Contains(kinds, kind) {
				kinds = append(kinds, kind)
			}
		}
	}
	require.ElementsMatch(t, []string{"F32", "F16"}, kinds) // the routers, and the cache; weights of Q8_0 have kernels of their own
	require.Equal(t, len(d.compiled), done)
	require.Equal(t, done, total)
}

// TestKernelsAreCompiledAtOnce checks that the kernels for a model are compiled at the same time:
// the first one that starts does not end before another one has started.
func TestKernelsAreCompiledAtOnce(t *testing.T) {
	if runtime.GOMAXPROCS(0) < 2 {
		t.Skip("needs GOMAXPROCS of 2 or more")
	}
	d := &slowCompiler{}
	be, err := metal.New(d, metal.Options{})
	require.NoError(t, err)
	var waiting sync.WaitGroup
	waiting.Add(2)
	var started int
	d.onStart = func(metal.Source) {
		d.mu.Lock()
		started++
		first := started <= 2
		d.mu.Unlock()
		if first {
			waiting.Done()
			waiting.Wait()
		}
	}
	loadMicro(t, be, "../models/tiny-llama.q4_0.gguf", gguf.TypeF16)
	require.NoError(t, be.Close())
	require.GreaterOrEqual(t, started, 2)
}

// TestKernelsOfStatesAreCompiledWhenNeeded checks that a slow compiler compiles the kernels of
// recurrent states only if states are planned or made, and once.
func TestKernelsOfStatesAreCompiledWhenNeeded(t *testing.T) {
	t.Parallel()
	d := &slowCompiler{}
	be, err := metal.New(d, metal.Options{})
	require.NoError(t, err)
	files := func() (list []string) {
		d.mu.Lock()
		defer d.mu.Unlock()
		for _, src := range d.compiled {
			if strings.HasPrefix(src.Name, "recurrence") || src.Name == "states.metal" {
				list = append(list, src.Name)
			}
		}
		return list
	}
	shape := compute.StateShape{Layers: 1, Slots: 1, ConvRows: 3, ConvCols: 8, Heads: 1, KeyDim: 8, ValueDim: 8}
	require.NoError(t, be.Prepare(be.Plan()))
	require.Empty(t, files())
	plan := be.Plan()
	plan.States(shape)
	require.NoError(t, be.Prepare(plan))
	for range 2 {
		_, err := be.States(shape)
		require.NoError(t, err)
	}
	require.ElementsMatch(t, []string{"recurrence.metal", "recurrence_chunks.metal", "states.metal", "recurrence.cu"}, files())
	require.NoError(t, be.Close())
}
