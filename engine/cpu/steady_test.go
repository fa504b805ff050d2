package cpu_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/cpu"
	"github.com/ingot-run/ingot/engine/cpu/kernels"
	"github.com/ingot-run/ingot/engine/gguf"
	"github.com/ingot-run/ingot/engine/model"
	"github.com/ingot-run/ingot/engine/model/modeltest"
)

const (
	maxStreams     = 5
	pagesPerStream = 8
	pageSize       = 16
)

func loadMicro(t testing.TB, name string, set *kernels.Set, threads int) model.Model {
	t.Helper()
	f, err := gguf.Open(modeltest.Micro(t, name))
	require.NoError(t, err)
	be, err := cpu.NewWith(cpu.Options{Threads: threads, Kernels: set})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, be.Close())
		require.NoError(t, f.Close())
	})
	m, err := model.Load(be, f, model.Limits{Rows: 64, Outputs: 8, Context: 128, Pages: maxStreams * pagesPerStream, PageSize: pageSize})
	require.NoError(t, err)
	return m
}

// decodeBatch returns a batch with the first row of each stream.
func decodeBatch(streams int32) *compute.Batch {
	b := &compute.Batch{Top: 1}
	for s := range streams {
		seq := compute.Seq{Rows: 1}
		for p := range int32(pagesPerStream) {
			seq.Pages = append(seq.Pages, s*pagesPerStream+p)
		}
		b.Seqs = append(b.Seqs, seq)
		b.Tokens = append(b.Tokens, 7*s+1)
		b.Positions = append(b.Positions, 0)
		b.Outputs = append(b.Outputs, s)
	}
	return b
}

// TestSteadyStepAllocatesNothing decodes with every micro model after the backend's memory has
// grown. With three rows, two threads divide the weights; with five rows, they divide the rows.
func TestSteadyStepAllocatesNothing(t *testing.T) {
	if raced {
		t.Skip("the race detector allocates by itself")
	}
	for _, set := range kernels.Sets() {
		for _, name := range modeltest.Micros(t) {
			for _, streams := range []int32{3, maxStreams} {
				t.Run(fmt.Sprintf("%s/%s/%d streams", set.Name, name, streams), func(t *testing.T) {
					m := loadMicro(t, name, set, 2)
					b := decodeBatch(streams)
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
}
