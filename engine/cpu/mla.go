package cpu

import "github.com/ingot-run/ingot/engine/compute"

// Latents implements compute.Step.
func (s *step) Latents(dst, a compute.Tensor, qGain, kvGain compute.Weight, eps float32, table compute.Rope, kv compute.Cache, layer int) {
	t := &s.byRow
	t.dst, t.src, t.gain, t.second, t.eps = dst, a, kvGain.(*weight).vector, nil, eps
	if qGain != nil {
		t.second = qGain.(*weight).vector
	}
	t.rope, t.cache = table.(*rope), kv.(*cache)
	t.group, t.layer = t.cache.at(layer)
	t.run((*rowsTask).latents, a.Rows, 2*a.Cols)
}

// latents does row r of Latents.
func (t *rowsTask) latents(thread, r int) {
	s, line := t.step, row(t.src, r)
	if q := len(t.second); q > 0 {
		s.norm(thread, row(t.dst, r)[:q], line[:q], t.second, t.eps)
		line = line[q:]
	}
	latent, key := line[:len(t.gain)], line[len(t.gain):len(t.gain)+t.rope.dims]
	s.norm(thread, latent, latent, t.gain, t.eps)
	s.rotate(thread, key, key, t.rope, s.batch.Positions[r], 1, 0, 0)
	page, slot := s.slot(t.cache, t.group, r)
	line = line[:t.cache.shape.KeyCols]
	s.store(thread, t.cache, t.cache.keys[t.layer], line, len(line), page, slot)
}

// Absorb implements compute.Step.
func (s *step) Absorb(dst, q compute.Tensor, kb compute.Weight, table compute.Rope) {
	w, t := kb.(*weight), &s.byRow
	t.rope = table.(*rope)
	t.outStride, t.inStride = w.out+t.rope.dims, w.in+t.rope.dims
	s.heads(dst, q, w, t.outStride, t.inStride)
	t.dst, t.src, t.table = dst, q, w
	t.run((*rowsTask).turn, dst.Rows, w.matrices*t.rope.dims)
}

// turn rotates the heads of row r for Absorb.
func (t *rowsTask) turn(thread, r int) {
	w := t.table
	out, in := row(t.dst, r), row(t.src, r)
	t.step.rotate(thread, out[w.out:], in[w.in:], t.rope, t.step.batch.Positions[r], w.matrices, t.outStride, t.inStride)
}

// Expand implements compute.Step.
func (s *step) Expand(dst, ctx compute.Tensor, vb compute.Weight) {
	w := vb.(*weight)
	s.heads(dst, ctx, w, w.out, w.in)
}
