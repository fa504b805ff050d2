package kernels

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/bench/shape"
	"github.com/ingot-run/ingot/engine/gguf"
	"github.com/ingot-run/ingot/metal"
	"github.com/ingot-run/ingot/metal/emulator"
)

// TestOperations checks that each kind of tensor is listed once, with its kernel.
func TestOperations(t *testing.T) {
	t.Parallel()
	of := func(name string) (list []string) {
		s, err := shape.Parse(name)
		require.NoError(t, err)
		f, err := s.Layout(gguf.TypeQ40)
		require.NoError(t, err)
		defer f.Close()
		all, err := Operations(f, gguf.TypeF16)
		require.NoError(t, err)
		for i := range all {
			list = append(list, all[i].String())
		}
		return list
	}
	require.Equal(t, []string{
		"absorb of Q4_0, 192 by 512",
		"attention of F16, 576 by 512",
		"experts_add of Q4_0, 1536 by 2048",
		"gated_experts of Q4_0, 2048 by 1536",
		"gated_product of Q4_0, 2048 by 1536",
		"gated_product of Q4_0, 2048 by 10240",
		"product of F32, 2048 by 64",
		"product of Q4_0, 512 by 256",
		"product of Q4_0, 768 by 5120",
		"product of Q4_0, 1536 by 2048",
		"product of Q4_0, 2048 by 576",
		"product of Q4_0, 2048 by 768",
		"product of Q4_0, 5120 by 2048",
		"product of Q4_0, 10240 by 2048",
		"product of Q6_K, 2048 by 154880", // the output head has a type with more bits
	}, of("glm-4.7-flash:3"))
	require.Contains(t, of("smollm-135m"), "attention of F16, 64 by 64")
}

// TestSweep sweeps a model on the emulator and checks that the results are a valid choice for each
// kernel.
func TestSweep(t *testing.T) {
	f, err := gguf.Open("../../engine/model/testdata/micro-glm.gguf")
	require.NoError(t, err)
	defer f.Close()
	operations, err := Operations(f, gguf.TypeF16)
	require.NoError(t, err)
	// One operation for each kernel is enough.
	operations = slices.CompactFunc(operations, func(a, b Operation) bool { return a.Kernel == b.Kernel })
	require.Len(t, operations, 6)

	var candidates metal.Geometry // those for the model's types, since more would have to be compiled
	for _, c := range metal.AllCandidates() {
		for i := range operations {
			c.Type = operations[i].Type.String()
			if !slices.Contains(candidates, c) {
				candidates = append(candidates, c)
			}
		}
	}
	opened := 0
	open := func() (*metal.Backend, error) {
		opened++
		dev, err := emulator.Open(emulator.Options{})
		if err != nil {
			return nil, err
		}
		return metal.New(dev, metal.Options{Geometry: candidates})
	}
	var found metal.Geometry
	var list []Swept
	s := NewSweep(open, func(s Swept) { found, list = append(found, s.Choice), append(list, s) })
	s.time, s.cold, s.rows = 0, 1, []int{8, 16}
	for i := range operations {
		err = s.Run(t.Context(), &operations[i])
		if errors.Is(err, emulator.ErrNoCompiler) {
			t.Skipf("the sweep is not tested: %v", err)
		}
		require.NoError(t, err)
	}
	require.Equal(t, len(operations), opened)

	count := map[string]int{}
	for i, c := range found {
		count[c.Kernel]++
		require.Equal(t, "emulator", c.Device)
		require.Positive(t, c.In)
		require.Positive(t, c.Microseconds)
		require.LessOrEqual(t, c.Microseconds, list[i].Default)
	}
	require.Equal(t, map[string]int{
		metal.Product: 4, metal.GatedProduct: 4, metal.Absorb: 2, metal.GatedExperts: 4, metal.ExpertsAdd: 1, metal.Attention: 1,
		metal.ProductTile: 1, metal.GatedTile: 1, metal.ExpertGatedTile: 1, metal.ExpertDownTile: 1, metal.AttentionTile: 1,
	}, count)
	var text, table bytes.Buffer
	require.NoError(t, found.Write(&text))
	back, err := metal.ReadGeometry(&text)
	require.NoError(t, err)
	require.ElementsMatch(t, found, back)
	require.NoError(t, WriteSweep(&table, list))
	require.Equal(t, len(list)+1, bytes.Count(table.Bytes(), []byte("\n")))

	be, err := open()
	require.NoError(t, err)
	require.NoError(t, be.Use(found))
	for _, c := range found {
		inputs := c.Inputs
		if slices.Contains(metal.Inputs(c.Kernel), 0) {
			inputs = 0
		}
		i := slices.IndexFunc(operations, func(o Operation) bool { return o.In == c.In && o.Out == c.Out && o.Type.String() == c.Type })
		got := be.Choice(c.Kernel, operations[i].Type, c.In, c.Out, inputs)
		got.Microseconds = c.Microseconds
		require.Equal(t, c, got)
	}
	require.NoError(t, be.Close())
}

// TestBest checks that the default is chosen unless another choice is clearly faster.
func TestBest(t *testing.T) {
	t.Parallel()
	byDefault := metal.Choice{Kernel: metal.Product, Inputs: 1, Rows: 4, Simdgroups: 2, From: 7}
	candidates := metal.Candidates(metal.Product, 1)
	for _, c := range []struct {
		two, one float64
		want     int
	}{{99, 98, 4}, {96, 98, 2}, {96, 95, 1}, {50, 60, 2}} {
		found, err := best(byDefault, candidates, func(m metal.Choice) (float64, error) {
			require.Equal(t, 7, m.From)
			return map[int]float64{4: 100, 2: c.two, 1: c.one}[m.Rows], nil
		})
		require.NoError(t, err)
		require.Equal(t, c.want, found.Rows)
		require.InDelta(t, 100, found.Default, 0)
	}
	_, err := best(byDefault, candidates, func(metal.Choice) (float64, error) { return 0, gguf.ErrMissing })
	require.ErrorIs(t, err, gguf.ErrMissing)
}
