package cpu

import (
	"math"

	"github.com/ingot-run/ingot/engine/compute"
)

// Route implements compute.Step.
func (s *step) Route(dst, x compute.Tensor, router, bias compute.Weight, shape compute.RouteShape) {
	w := router.(*weight)
	var b []float32
	if bias != nil {
		b = bias.(*weight).vector
	}
	probs := make([]float32, shape.Experts)
	for r := range dst.Rows {
		for e := range probs {
			probs[e] = dot(w.row(s.backend.scratch[0].row, 0, e), row(x, r))
		}
		if shape.Gating == compute.GatingSigmoid {
			for e, v := range probs {
				probs[e] = 1 / (1 + float32(math.Exp(-float64(v))))
			}
		} else {
			softmax(probs)
		}
		choose(row(dst, r), probs, b, shape)
	}
}

// choose writes the indices of the best experts, then their weights. Of equals the first wins.
func choose(dst, probs, bias []float32, shape compute.RouteShape) {
	ids, weights := dst[:shape.Used], dst[shape.Used:2*shape.Used]
	sum := float32(0)
	for k := range ids {
		best, bestScore := -1, float32(math.Inf(-1))
		for e, score := range probs {
			if bias != nil {
				score += bias[e]
			}
			if (best < 0 || score > bestScore) && !chosen(ids[:k], e) {
				best, bestScore = e, score
			}
		}
		ids[k], weights[k] = float32(best), probs[best]
		sum += probs[best]
	}
	scale := shape.Scale
	if shape.Normalise {
		scale /= sum + 1e-20
	}
	for k := range weights {
		weights[k] *= scale
	}
}

func chosen(ids []float32, e int) bool {
	for _, id := range ids {
		if int(id) == e {
			return true
		}
	}
	return false
}

// GatedExperts implements compute.Step. Rows are gathered by expert, so that each expert's weights are read once.
func (s *step) GatedExperts(dst, x, routing compute.Tensor, e compute.Experts) {
	gate, up := e.Gate.(*weight), e.Up.(*weight)
	used := routing.Cols / 2
	byExpert := s.experts.group(gate.tensor.Shape[2])
	for r := range dst.Rows {
		for k, id := range row(routing, r)[:used] {
			out := row(dst.Slice(k*gate.out, gate.out), r)
			byExpert[int(id)] = append(byExpert[int(id)], ref{in: row(x, r), out: out})
		}
	}
	g := &s.gated
	g.begin(s)
	for m, refs := range byExpert {
		if len(refs) > 0 {
			g.add(gate, up, m, refs)
		}
	}
	if e.SharedGate != nil {
		shared := e.SharedGate.(*weight)
		g.add(shared, e.SharedUp.(*weight), 0, refsOf(nil, dst.Slice(used*gate.out, shared.out), x))
	}
	g.run()
}

// ExpertsAdd implements compute.Step. Each row takes its experts in order of their index, the shared ones last.
func (s *step) ExpertsAdd(dst, h, routing compute.Tensor, e compute.Experts) {
	down := e.Down.(*weight)
	used := routing.Cols / 2
	t := &s.experts
	t.step, t.down, t.shared, t.sharedRefs = s, down, nil, t.sharedRefs[:0]
	byExpert := t.group(down.tensor.Shape[2])
	for r := range dst.Rows {
		route := row(routing, r)
		for k, id := range route[:used] {
			in := row(h.Slice(k*down.in, down.in), r)
			byExpert[int(id)] = append(byExpert[int(id)], ref{in: in, out: row(dst, r), scale: route[used+k]})
		}
	}
	if e.SharedDown != nil {
		t.shared = e.SharedDown.(*weight)
		t.sharedRefs = refsOf(t.sharedRefs, dst, h.Slice(used*down.in, t.shared.in))
	}
	s.backend.pool.run(t, parts(down.out))
}

// expertsProduct is the task of ExpertsAdd: a part does a chunk of the output's columns for all experts.
type expertsProduct struct {
	step         *step
	byExpert     [][]ref // [experts]
	down, shared *weight
	sharedRefs   []ref
}

// group returns an empty list of refs for each of n experts.
func (t *expertsProduct) group(n int) [][]ref {
	for len(t.byExpert) < n {
		t.byExpert = append(t.byExpert, nil)
	}
	for i := range t.byExpert {
		t.byExpert[i] = t.byExpert[i][:0]
	}
	return t.byExpert[:n]
}

func (t *expertsProduct) part(thread, i int) {
	s := &t.step.backend.scratch[thread]
	for m, refs := range t.byExpert {
		if len(refs) > 0 {
			multiply(s, t.down, m, i*chunk, refs, 0, true)
		}
	}
	if t.shared != nil {
		multiply(s, t.shared, 0, i*chunk, t.sharedRefs, 0, true)
	}
}
