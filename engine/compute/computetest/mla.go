package computetest

import (
	"fmt"
	"math"
	"slices"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/gguf"
)

// latent returns sequences of MLA. kvGain is the gain of the latents' norm.
func (r *rig) latent(heads, kvRank, dims, nope, pageSize int, kvGain *matrix, lengths ...int) *pagedSequences {
	c := &pagedSequences{
		shape: compute.AttentionShape{
			Heads: heads, KVHeads: 1, KeyDim: kvRank + dims, ValueDim: kvRank, Scale: float32(1 / math.Sqrt(float64(nope+dims))),
		},
		keyCols: kvRank + dims, pageSize: pageSize, freqs: r.freqs(dims),
	}
	c.store = func(s compute.Step, t compute.Tensor, rope compute.Rope, cache compute.Cache, layer int) {
		s.Latents(compute.Tensor{}, t, nil, kvGain.weight, latentEps, rope, cache, layer)
	}
	c.stored = func(line []float32, position int) (key, value []float64) {
		key = numbers(c.latents(line, nil, kvGain, position))
		return key, key[:kvRank]
	}
	r.drawLines(c, kvRank+dims, lengths...)
	return c
}

const latentEps = 1e-6

// latents returns the row of compressed query, latent and key that is expected after Latents. qGain
// is nil if the row has no query.
func (c *pagedSequences) latents(line []float32, qGain, kvGain *matrix, position int) []approx {
	var out []approx
	if qGain != nil {
		out = normed(line[:qGain.in], qGain.values, latentEps)
		line = line[qGain.in:]
	}
	out = append(out, normed(line[:kvGain.in], kvGain.values, latentEps)...)
	key := exactly(line[kvGain.in:])
	c.rotate(key, position)
	return append(out, key...)
}

// checkLatents compares the rows after the operation, with and without a query before the latent.
func checkLatents(r *rig) {
	for _, h := range []struct{ q, kvRank, rope, pageSize int }{{0, 512, 64, 16}, {48, 40, 6, 3}, {768, 512, 64, 16}, {1, 1, 2, 1}} {
		kvGain := r.matrix(gguf.TypeF32, h.kvRank)
		c := r.latent(1, h.kvRank, h.rope, 8, h.pageSize, kvGain, r.lengths(h.pageSize)...)
		var qGain *matrix
		if h.q > 0 {
			qGain = r.matrix(gguf.TypeF32, h.q)
			for i, lines := range c.lines {
				for p, line := range lines {
					c.lines[i][p] = slices.Concat(r.normal(1, h.q)[0], line)
				}
			}
			c.store = func(s compute.Step, t compute.Tensor, rope compute.Rope, cache compute.Cache, layer int) {
				s.Latents(t.Slice(0, h.q), t, qGain.weight, kvGain.weight, latentEps, rope, cache, layer)
			}
		}
		r.verifyStore(fmt.Sprintf("latents %+v", h), c, func(line []float32, position int) []approx {
			return c.latents(line, qGain, kvGain, position)
		})
	}
}

// checkAttentionMLA attends to latents. There is one key head. Its values are the first columns of
// its keys.
func checkAttentionMLA(r *rig) {
	for i, h := range []struct{ heads, kvRank, rope, pageSize int }{{2, 32, 32, 16}, {20, 512, 64, 16}, {3, 33, 6, 5}, {4, 64, 32, 4}} {
		for _, kind := range r.cacheTypes(i, h.kvRank, h.rope) {
			c := r.latent(h.heads, h.kvRank, h.rope, 192, h.pageSize, r.matrix(gguf.TypeF32, h.kvRank), r.lengths(h.pageSize)...)
			c.kind = kind
			r.verifyAttention(fmt.Sprintf("attention to latents %+v", h), c)
		}
	}
	c := r.latent(2, 64, 16, 32, 16, r.matrix(gguf.TypeF32, 64), 700)
	r.verifyAttention("attention to 700 latents", c)
}

func checkAbsorb(r *rig) {
	for _, t := range r.types {
		nope, kvRank, dims, heads := r.length(t, 256), r.among(1, 70), 2*r.among(1, 32), r.among(1, 5)
		kb := r.matrix(t, nope, kvRank, heads)
		c := &pagedSequences{freqs: r.freqs(dims)}
		rope := r.newRope(c.freqs, 100)
		x := r.normal(r.among(1, 20), heads*(nope+dims))
		positions := make([]int32, len(x))
		for i := range positions {
			positions[i] = int32(r.rand.IntN(100))
		}
		r.verify(operation{
			what:   fmt.Sprintf("absorb %d rows of %d heads of %d+%d into %d by %v", len(x), heads, nope, dims, kvRank, t),
			groups: separate(len(x)),
			compute: func(rows []int) [][]float32 {
				b := r.flat(len(rows), 100)
				for i, row := range rows {
					b.Positions[i] = positions[row]
				}
				in, out := r.sheet(pick(x, rows)), r.blank(len(rows), heads*(kvRank+dims))
				return r.run(b, func(s compute.Step) { s.Absorb(out.Tensor, in.Tensor, kb.weight, rope) }, out, in)
			},
			compare: func(row int, got []float32) error {
				var want []approx
				for head := range heads {
					q := x[row][head*(nope+dims) : (head+1)*(nope+dims)]
					want = append(want, kb.product(head, q[:nope])...)
					want = append(want, exactly(q[nope:])...)
					c.rotate(want[len(want)-dims:], int(positions[row]))
				}
				return within(got, want)
			},
		})
	}
}

func checkExpand(r *rig) {
	for _, t := range r.types {
		kvRank, value, heads := r.length(t, 512), r.among(1, 70), r.among(1, 5)
		vb := r.matrix(t, kvRank, value, heads)
		x := r.normal(r.among(1, 20), heads*kvRank)
		r.verify(operation{
			what:   fmt.Sprintf("expand %d rows of %d heads of %d to %d by %v", len(x), heads, kvRank, value, t),
			groups: separate(len(x)),
			compute: func(rows []int) [][]float32 {
				in, out := r.sheet(pick(x, rows)), r.blank(len(rows), heads*value)
				return r.run(r.flat(len(rows), 1), func(s compute.Step) { s.Expand(out.Tensor, in.Tensor, vb.weight) }, out, in)
			},
			compare: func(row int, got []float32) error {
				var want []approx
				for head := range heads {
					want = append(want, vb.product(head, x[row][head*kvRank:(head+1)*kvRank])...)
				}
				return within(got, want)
			},
		})
	}
}
