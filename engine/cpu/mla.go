package cpu

import "github.com/ingot-run/ingot/engine/compute"

// Latents implements compute.Step.
func (s *step) Latents(a compute.Tensor, qGain, kvGain compute.Weight, eps float32, table compute.Rope, kv compute.Cache, layer int) {
	t, c := table.(*rope), kv.(*cache)
	gain := kvGain.(*weight).vector
	for r := range a.Rows {
		line := row(a, r)
		if qGain != nil {
			g := qGain.(*weight).vector
			rmsNorm(line[:len(g)], line[:len(g)], g, eps)
			line = line[len(g):]
		}
		latent, key := line[:len(gain)], line[len(gain):len(gain)+t.dims]
		rmsNorm(latent, latent, gain, eps)
		rotate(key, key, t.at(s.batch.Positions[r]))
		copy(c.key(layer, c.slot(s.pages(r), int(s.batch.Positions[r]))), line)
	}
}

// Absorb implements compute.Step.
func (s *step) Absorb(dst, q compute.Tensor, kb compute.Weight, table compute.Rope) {
	w, t := kb.(*weight), table.(*rope)
	h := headProduct{step: s, dst: dst, x: q, w: w, inStride: w.in + t.dims, outStride: w.out + t.dims}
	h.refs = s.heads.refs
	s.heads = h
	s.heads.run()
	for r := range dst.Rows {
		out, in, angles := row(dst, r), row(q, r), t.at(s.batch.Positions[r])
		for head := range w.tensor.Shape[2] {
			rotate(out[head*h.outStride+w.out:], in[head*h.inStride+w.in:], angles)
		}
	}
}

// Expand implements compute.Step.
func (s *step) Expand(dst, ctx compute.Tensor, vb compute.Weight) {
	w := vb.(*weight)
	s.heads = headProduct{step: s, dst: dst, x: ctx, w: w, inStride: w.in, outStride: w.out, refs: s.heads.refs}
	s.heads.run()
}

// headProduct is the task of Absorb and Expand: a product a head, each with a matrix of its own.
type headProduct struct {
	step                *step
	dst, x              compute.Tensor
	w                   *weight
	inStride, outStride int   // from head to head within a row
	refs                []ref // [heads*rows]
}

func (h *headProduct) run() {
	h.refs = h.refs[:0]
	for head := range h.w.tensor.Shape[2] {
		h.refs = refsOf(h.refs, h.dst.Slice(head*h.outStride, h.w.out), h.x.Slice(head*h.inStride, h.w.in))
	}
	h.step.backend.pool.run(h, h.w.tensor.Shape[2]*parts(h.w.out))
}

func (h *headProduct) part(thread, i int) {
	n := parts(h.w.out)
	head, from, rows := i/n, i%n*chunk, h.dst.Rows
	multiply(&h.step.backend.scratch[thread], h.w, head, from, h.refs[head*rows:(head+1)*rows], 0, false)
}
