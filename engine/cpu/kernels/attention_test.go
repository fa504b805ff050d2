package kernels

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/gguf"
)

// cachedRows returns n random values as float32, and the same values as float16.
func cachedRows(r *rand.Rand, n int) ([]float32, []uint16) {
	x, h := randomRow(r, n, 1), make([]uint16, n)
	for i := range x {
		h[i] = gguf.F32ToF16(x[i])
		x[i] = gguf.F16ToF32(h[i])
	}
	return x, h
}

func TestScoresAndValues(t *testing.T) {
	t.Parallel()
	eachSet(t, func(t *testing.T, s *Set) {
		for _, shape := range []struct{ queries, positions, dims, stride int }{
			{1, 1, 64, 64}, {3, 16, 64, 64}, {4, 5, 80, 96}, {7, 13, 24, 24}, {20, 16, 576, 576}, {32, 3, 128, 128}, {2, 9, 7, 9}, {6, 9, 80, 80},
		} {
			t.Run(fmt.Sprint(shape), func(t *testing.T) {
				c := attentionCase{s: s, queries: shape.queries, positions: shape.positions, dims: shape.dims, stride: shape.stride}
				c.r = rand.New(rand.NewPCG(uint64(c.queries), uint64(c.dims)))
				c.scores(t)
				c.values(t)
			})
		}
	})
}

type attentionCase struct {
	s                                *Set
	r                                *rand.Rand
	queries, positions, dims, stride int
}

// starts returns the offsets of the case's queries or results, in random order.
func (c *attentionCase) starts() []int64 {
	at := make([]int64, c.queries)
	for i, place := range c.r.Perm(c.queries) {
		at[i] = int64(place * (c.dims + 3))
	}
	return at
}

func (c *attentionCase) scores(t *testing.T) {
	const scale, margin = 0.25, 2
	q := randomRow(c.r, c.queries*(c.dims+3), 1)
	k, halves := cachedRows(c.r, c.positions*c.stride)
	at := c.starts()
	run := func(kernel func(*ScoresArgs), keys unsafe.Pointer, at []int64) []float32 {
		out := make([]float32, len(at)*(c.positions+margin))
		kernel(&ScoresArgs{
			Q: &q[0], At: &at[0], K: keys, Out: &out[0], Queries: int64(len(at)), Positions: int64(c.positions),
			Stride: int64(c.stride), OutStride: int64(c.positions + margin), Dims: int64(c.dims), Scale: scale,
		})
		return out
	}
	got := run(c.s.Scores, unsafe.Pointer(&k[0]), at)
	require.Equal(t, got, run(c.s.ScoresF16, unsafe.Pointer(&halves[0]), at), "float16")
	for i, start := range at {
		line := got[i*(c.positions+margin):][:c.positions+margin]
		for p := range c.positions {
			want, size := 0.0, 0.0
			for d := range c.dims {
				v := float64(q[int(start)+d]) * float64(k[p*c.stride+d])
				want, size = want+v, size+math.Abs(v)
			}
			require.InDelta(t, scale*want, line[p], 1e-6*size)
		}
		require.Zero(t, line[c.positions], "written beyond the last position")
		require.Equal(t, line, run(c.s.Scores, unsafe.Pointer(&k[0]), at[i:i+1]), "scores of query %d computed alone", i)
	}
}

func (c *attentionCase) values(t *testing.T) {
	weights := randomRow(c.r, c.queries*c.positions, 1)
	v, halves := cachedRows(c.r, c.positions*c.stride)
	start := randomRow(c.r, c.queries*(c.dims+3), 1)
	at := c.starts()
	run := func(kernel func(*ValuesArgs), rows unsafe.Pointer, weights []float32, at []int64) []float32 {
		out := append([]float32(nil), start...)
		kernel(&ValuesArgs{
			Weights: &weights[0], V: rows, Out: &out[0], At: &at[0], Queries: int64(len(at)), Positions: int64(c.positions),
			Stride: int64(c.stride), WeightsStride: int64(c.positions), Dims: int64(c.dims),
		})
		return out
	}
	got := run(c.s.Values, unsafe.Pointer(&v[0]), weights, at)
	require.Equal(t, got, run(c.s.ValuesF16, unsafe.Pointer(&halves[0]), weights, at), "float16")
	for i, place := range at {
		own := weights[i*c.positions : (i+1)*c.positions]
		alone := run(c.s.Values, unsafe.Pointer(&v[0]), own, at[i:i+1])
		require.Equal(t, alone[place:int(place)+c.dims], got[place:int(place)+c.dims], "result of query %d computed alone", i)
		for d := range c.dims {
			want := float64(start[int(place)+d])
			size := math.Abs(want)
			for p, w := range own {
				want += float64(w) * float64(v[p*c.stride+d])
				size += math.Abs(float64(w) * float64(v[p*c.stride+d]))
			}
			require.InDelta(t, want, got[int(place)+d], 1e-6*size)
		}
		require.Equal(t, start[int(place)+c.dims], got[int(place)+c.dims], "written beyond the last value")
	}
}
