package cpu

import (
	"math"

	"github.com/ingot-run/ingot/engine/compute"
)

// RopeStore implements compute.Step.
func (s *step) RopeStore(qkv compute.Tensor, shape compute.AttentionShape, table compute.Rope, kv compute.Cache, layer int) {
	t, c := table.(*rope), kv.(*cache)
	heads, keys := shape.Heads*shape.KeyDim, shape.KVHeads*shape.KeyDim
	for r := range qkv.Rows {
		position := s.batch.Positions[r]
		line, angles := row(qkv, r), t.at(position)
		for at := 0; at < heads+keys; at += shape.KeyDim {
			rotate(line[at:], line[at:], angles)
		}
		slot := c.slot(s.pages(r), int(position))
		copy(c.key(layer, slot), line[heads:heads+keys])
		copy(c.value(layer, slot), line[heads+keys:])
	}
}

// rotate turns the pairs of src by a row of a RoPE table; dst may be src.
func rotate(dst, src, angles []float32) {
	for i := 0; i < len(angles); i += 2 {
		cos, sin := angles[i], angles[i+1]
		a, b := src[i], src[i+1]
		dst[i], dst[i+1] = a*cos-b*sin, a*sin+b*cos
	}
}

// Attention implements compute.Step.
func (s *step) Attention(dst, q compute.Tensor, shape compute.AttentionShape, kv compute.Cache, layer int) {
	s.attention = attentionTask{step: s, dst: dst, q: q, shape: shape, cache: kv.(*cache), layer: layer}
	longest := int32(0)
	for _, p := range s.batch.Positions {
		longest = max(longest, p+1)
	}
	for i := range s.backend.scratch {
		s.backend.scratch[i].scores = grow(s.backend.scratch[i].scores, int(longest))
	}
	s.backend.pool.run(&s.attention, dst.Rows*shape.Heads)
}

// attentionTask is the task of Attention; a part is one head of one row.
type attentionTask struct {
	step   *step
	dst, q compute.Tensor
	shape  compute.AttentionShape
	cache  *cache
	layer  int
}

func (t *attentionTask) part(thread, i int) {
	r, head := i/t.shape.Heads, i%t.shape.Heads
	kvHead := head * t.shape.KVHeads / t.shape.Heads
	keyDim, valueDim := t.shape.KeyDim, t.shape.ValueDim
	pages := t.step.pages(r)
	q := row(t.q, r)[head*keyDim : (head+1)*keyDim]
	out := row(t.dst, r)[head*valueDim : (head+1)*valueDim]

	scores := t.step.backend.scratch[thread].scores[:t.step.batch.Positions[r]+1]
	for p := range scores {
		key := t.cache.key(t.layer, t.cache.slot(pages, p))
		scores[p] = t.shape.Scale * dot(q, key[kvHead*keyDim:(kvHead+1)*keyDim])
	}
	softmax(scores)
	clear(out)
	for p, weight := range scores {
		value := t.cache.value(t.layer, t.cache.slot(pages, p))
		axpy(out, weight, value[kvHead*valueDim:(kvHead+1)*valueDim])
	}
}

// softmax turns scores into weights, in place. The sum is taken in float64.
func softmax(x []float32) {
	best := x[0]
	for _, v := range x {
		best = max(best, v)
	}
	sum := 0.0
	for i, v := range x {
		e := math.Exp(float64(v - best))
		x[i] = float32(e)
		sum += e
	}
	scale := float32(1 / sum)
	for i := range x {
		x[i] *= scale
	}
}

// axpy adds a·x to dst.
func axpy(dst []float32, a float32, x []float32) {
	x = x[:len(dst)]
	for i := range dst {
		dst[i] += a * x[i]
	}
}
