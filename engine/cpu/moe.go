package cpu

import (
	"math"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/cpu/kernels"
)

func (s *step) Route(dst, x compute.Tensor, router, bias compute.Weight, shape compute.RouteShape) {
	p := &s.probs
	if p.Buffer == nil || p.Cols != shape.Experts || len(values(*p)) < dst.Rows*shape.Experts {
		*p = newBuffer(dst.Rows, shape.Experts)
	}
	p.Rows = dst.Rows
	s.MatMul(*p, x, router)
	t := &s.byRow
	t.dst, t.src, t.bias, t.route = dst, *p, vectorOf(bias), shape
	t.run((*rowsTask).choose, dst.Rows, shape.Experts*(shape.Used+1))
}

// choose writes the indices of the best experts of row r, then their weights. Of experts with equal
// scores, it chooses the first.
func (t *rowsTask) choose(thread, r int) {
	probs, dst, shape := row(t.src, r), row(t.dst, r), t.route
	bias := t.bias
	if shape.Scaled {
		bias = bias[:shape.Experts]
	}
	if shape.BiasLogits {
		addTo(probs, bias)
		bias = nil
	}
	t.step.gateProbabilities(thread, probs, shape.Gating)
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
		if shape.Scaled {
			weights[k] *= t.bias[shape.Experts+int(ids[k])]
		}
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

func (b *Backend) gateProbabilities(thread int, logits []float32, gating compute.Gating) {
	if gating == compute.GatingSigmoid {
		for e, v := range logits {
			logits[e] = 1 / (1 + float32(math.Exp(-float64(v))))
		}
		return
	}
	a := &b.scratch[thread].softmax
	a.X, a.N = &logits[0], int64(len(logits))
	b.kernels.Softmax(a)
}

// grouping is a routing sorted by expert: it lists, for each expert, the rows that use the expert.
type grouping struct {
	first   []int   // [experts+1] index of an expert's first choice in choices
	choices []int32 // row*used + k for choice k of a row, sorted by expert, then by row
}

func (g *grouping) group(routing compute.Tensor, experts int) {
	used := routing.Cols / 2
	g.first = grow(g.first, experts+1)[:experts+1]
	g.choices = grow(g.choices, routing.Rows*used)
	clear(g.first)
	for r := range routing.Rows {
		for _, id := range row(routing, r)[:used] {
			g.first[int(id)]++
		}
	}
	sum := 0
	for e, n := range g.first {
		sum += n
		g.first[e] = sum
	}
	for r := routing.Rows - 1; r >= 0; r-- { // backwards: first[e] is the end of expert e's choices here, and decreases to their start
		ids := row(routing, r)[:used]
		for k := used - 1; k >= 0; k-- {
			e := int(ids[k])
			g.first[e]--
			g.choices[g.first[e]] = int32(r*used + k)
		}
	}
}

// GatedExperts implements compute.Step. Rows are gathered by expert, so that each expert's weights
// are read once.
func (s *step) GatedExperts(dst, x, routing compute.Tensor, e compute.Experts) {
	gate, up, t := e.Gate.(*weight), e.Up.(*weight), &s.gated
	used, n := routing.Cols/2, gate.in
	by := &s.experts.grouping
	by.group(routing, gate.matrices)
	forms := gate.form | up.form
	if e.SharedGate != nil {
		forms |= e.SharedGate.(*weight).form | e.SharedUp.(*weight).form
	}
	s.quantise(forms, 0, x, dst.Rows, 1, n, n)

	t.begin(x, dst, e.Activation)
	gateBias, upBias := vectorOf(e.GateBias), vectorOf(e.UpBias)
	for m := range gate.matrices {
		from := len(t.at)
		for _, choice := range by.choices[by.first[m]:by.first[m+1]] {
			r, k := int(choice)/used, int(choice)%used
			t.add(start(x, r), r*rowBlocks(n), start(dst, r)+k*gate.out)
		}
		if len(t.at) > from {
			p := t.addPair(gate, up, m, from, len(t.at))
			p.gateBias, p.upBias = matrixOf(gateBias, m, gate.out), matrixOf(upBias, m, gate.out)
		}
	}
	if e.SharedGate != nil {
		from := len(t.at)
		shared := e.SharedGate.(*weight)
		t.addRows(dst.Slice(used*gate.out, shared.out), x, n)
		t.addPair(shared, e.SharedUp.(*weight), 0, from, len(t.at))
	}
	t.run()
}

// experts is the task of ExpertsAdd. A part computes some groups of the output's columns. It adds
// the experts in the order of their index.
type experts struct {
	grouping
	step *step
	operands
	down, shared *weight
	bias         []float32 // [experts][out], or nil
	cut          cut       // parts of the output's columns
	sharedFrom   int       // index of the shared expert's first operand
}

// ExpertsAdd implements compute.Step. The experts of a row are added in order of their index. The
// shared experts are added last.
func (s *step) ExpertsAdd(dst, h, routing compute.Tensor, e compute.Experts) {
	t, down := &s.experts, e.Down.(*weight)
	used := routing.Cols / 2
	t.down, t.shared, t.bias = down, nil, vectorOf(e.DownBias)
	forms, sharedAt, width := down.form, used*down.in, used*down.in
	if e.SharedDown != nil {
		t.shared = e.SharedDown.(*weight)
		forms |= t.shared.form
		width += t.shared.in
	}
	// Blocks begin at the first activation that is quantised. The widths of experts that take
	// floats need not be whole blocks.
	first := 0
	if down.form == kernels.Floats {
		first = sharedAt
	}
	n := width - first
	t.begin(h, dst)
	t.group(routing, down.matrices)
	for _, choice := range t.choices[:dst.Rows*used] {
		r, k := int(choice)/used, int(choice)%used
		t.add(start(h, r)+k*down.in, r*rowBlocks(n)+k*down.in/blockValues, start(dst, r))
		t.factors = append(t.factors, row(routing, r)[used+k])
	}
	t.sharedFrom = len(t.at)
	if t.shared != nil {
		for r := range dst.Rows {
			t.add(start(h, r)+sharedAt, r*rowBlocks(n)+(sharedAt-first)/blockValues, start(dst, r))
			t.factors = append(t.factors, 1)
		}
	}
	s.quantise(forms, 0, h.Slice(first, n), dst.Rows, 1, n, n)
	t.cut = s.cut(down, down.groups, len(t.at)*work(down, down.groups, 1)).long(down, len(s.scratch)) // estimate: a matrix per operand
	s.pool.do(t, t.cut.parts())
}

func (t *experts) part(thread, i int) {
	s := t.step
	g, to := t.cut.span(i)
	n := to - g
	for m := range t.down.matrices {
		if from, to := t.first[m], t.first[m+1]; to > from {
			s.multiply(thread, t.down, m, g, n, &t.operands, from, to, 0)
			t.addBias(m, g, n, from, to)
		}
	}
	if t.shared != nil {
		s.multiply(thread, t.shared, 0, g, n, &t.operands, t.sharedFrom, len(t.at), 0)
	}
}

func (t *experts) addBias(expert, group, groups, from, to int) {
	bias := matrixOf(t.bias, expert, t.down.out)
	if bias == nil {
		return
	}
	first, end := group*kernels.GroupRows, min((group+groups)*kernels.GroupRows, t.down.out)
	for i := from; i < to; i++ {
		dst := t.out[int(t.at[i])+first:]
		for c, v := range bias[first:end] {
			dst[c] += float32(t.factors[i] * v)
		}
	}
}
