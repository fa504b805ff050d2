package cpu

import (
	"math"

	"github.com/ingot-run/ingot/engine/compute"
)

// step is compute.Step. There is one a backend, begun anew for each batch; its tasks are kept so that a step allocates
// nothing once it has grown to its size.
type step struct {
	backend *Backend
	batch   *compute.Batch
	seqOf   []int32 // [rows] index of each row's sequence

	product   product
	gated     gatedProduct
	experts   expertsProduct
	heads     headProduct
	norm      normTask
	attention attentionTask
}

// Begin implements compute.Backend.
func (b *Backend) Begin(batch *compute.Batch) compute.Step {
	s := &b.step
	s.batch = batch
	s.seqOf = s.seqOf[:0]
	for i, seq := range batch.Seqs {
		for range seq.Rows {
			s.seqOf = append(s.seqOf, int32(i))
		}
	}
	return s
}

// pages is the page table of a row's sequence.
func (s *step) pages(r int) []int32 { return s.batch.Seqs[s.seqOf[r]].Pages }

// Run implements compute.Step. Everything has run by then.
func (s *step) Run() error { return nil }

// Embed implements compute.Step.
func (s *step) Embed(dst compute.Tensor, table compute.Weight) {
	w := table.(*weight)
	for r := range dst.Rows {
		w.row(row(dst, r), 0, int(s.batch.Tokens[r]))
	}
}

// Gather implements compute.Step.
func (s *step) Gather(dst, src compute.Tensor, rows []int32) {
	for i, r := range rows {
		copy(row(dst, i), row(src, int(r)))
	}
}

// RMSNorm implements compute.Step.
func (s *step) RMSNorm(dst, src compute.Tensor, gain compute.Weight, eps float32) {
	s.norm = normTask{dst: dst, src: src, gain: gain.(*weight).vector, eps: eps}
	s.backend.pool.run(&s.norm, dst.Rows)
}

type normTask struct {
	dst, src compute.Tensor
	gain     []float32
	eps      float32
}

func (t *normTask) part(_, r int) { rmsNorm(row(t.dst, r), row(t.src, r), t.gain, t.eps) }

// rmsNorm writes src/sqrt(mean(src²)+eps)·gain; dst may be src. The sum is taken in float64.
func rmsNorm(dst, src, gain []float32, eps float32) {
	sum := 0.0
	for _, v := range src {
		sum += float64(v) * float64(v)
	}
	scale := float32(1 / math.Sqrt(sum/float64(len(src))+float64(eps)))
	for i, v := range src {
		dst[i] = v * scale * gain[i]
	}
}

// Checkpoint implements compute.Step.
func (s *step) Checkpoint(layer int, stage string, t compute.Tensor) {
	if s.batch.Trace == nil {
		return
	}
	for r := range t.Rows {
		c := compute.Checkpoint{Layer: layer, Stage: stage, Row: r}
		for _, v := range row(t, r) {
			c.Sum += float64(v)
			c.Norm += float64(v) * float64(v)
		}
		c.Norm = math.Sqrt(c.Norm)
		s.batch.Trace(c)
	}
}
