package cpu_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/cpu"
	"github.com/ingot-run/ingot/engine/cpu/kernels"
	"github.com/ingot-run/ingot/engine/gguf"
	"github.com/ingot-run/ingot/engine/model"
)

const (
	streams        = 3
	pagesPerStream = 8
	pageSize       = 16
)

func loadMicro(t testing.TB, name string, set *kernels.Set, threads int) model.Model {
	t.Helper()
	f, err := gguf.Open(filepath.Join("..", "model", "testdata", name))
	require.NoError(t, err)
	be, err := cpu.NewWith(threads, set)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, be.Close())
		require.NoError(t, f.Close())
	})
	m, err := model.Load(be, f, model.Limits{Rows: 64, Outputs: 8, Context: 128, Pages: streams * pagesPerStream, PageSize: pageSize})
	require.NoError(t, err)
	return m
}

// decodeBatch is one row of each of three streams, at the given position.
func decodeBatch(position int32) *compute.Batch {
	b := &compute.Batch{}
	for s := range int32(streams) {
		seq := compute.Seq{First: int(s), Rows: 1}
		for p := range int32(pagesPerStream) {
			seq.Pages = append(seq.Pages, s*pagesPerStream+p)
		}
		b.Seqs = append(b.Seqs, seq)
		b.Tokens = append(b.Tokens, 7*s+1)
		b.Positions = append(b.Positions, position)
		b.Outputs = append(b.Outputs, s)
	}
	return b
}

// TestSteadyStepAllocatesNothing decodes with both families once the backend's memory has grown.
func TestSteadyStepAllocatesNothing(t *testing.T) {
	if raced {
		t.Skip("the race detector allocates by itself")
	}
	for _, set := range kernels.Sets() {
		for _, name := range []string{"micro-llama.gguf", "micro-glm.gguf"} {
			t.Run(set.Name+"/"+name, func(t *testing.T) {
				m := loadMicro(t, name, set, 2)
				b := decodeBatch(0)
				allocated := testing.AllocsPerRun(50, func() {
					_, err := m.Forward(b)
					require.NoError(t, err)
					for i := range b.Positions {
						b.Positions[i]++
					}
				})
				require.Zero(t, allocated)
			})
		}
	}
}
