package computetest

import (
	"fmt"
	"math"
	"slices"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/gguf"
)

type router struct {
	shape compute.RouteShape
	w     *matrix
	bias  *matrix // nil for none
}

func (c *router) String() string {
	return fmt.Sprintf("route to %d of %d experts, gating %d, normalised %v, bias %v, added to logits %v",
		c.shape.Used, c.shape.Experts, c.shape.Gating, c.shape.Normalise, c.bias != nil, c.shape.BiasLogits)
}

func (c *router) probabilities(x []float32) []approx {
	logits := c.w.product(0, x)
	if c.shape.BiasLogits {
		for i, b := range c.bias.values[:c.shape.Experts] {
			logits[i] = logits[i].plus(approx{value: float64(b)})
		}
	}
	if c.shape.Gating == compute.GatingSigmoid {
		for i, l := range logits {
			v := 1 / (1 + math.Exp(-l.value))
			logits[i] = approx{v, l.tol/4 + 2*expStep*v} // the slope is at most 1/4
		}
		return logits
	}
	best, worst, sum := math.Inf(-1), 0.0, 0.0
	for _, l := range logits {
		best, worst = max(best, l.value), max(worst, l.tol)
	}
	for _, l := range logits {
		sum += math.Exp(l.value - best)
	}
	for i, l := range logits {
		v := math.Exp(l.value-best) / sum
		logits[i] = approx{v, v*(math.Expm1(2*worst)+4*expStep) + tiny}
	}
	return logits
}

// compare checks the routing of a row: got has the chosen experts, then their weights. If the
// scores of two experts differ by less than the tolerance, the backend may choose either of them
// first.
func (c *router) compare(x, got []float32) error {
	used := c.shape.Used
	probs := c.probabilities(x)
	scores := slices.Clone(probs)
	if c.bias != nil && !c.shape.BiasLogits {
		for i, b := range c.bias.values[:c.shape.Experts] {
			scores[i] = scores[i].plus(approx{value: float64(b)})
		}
	}
	ids := make([]int, used)
	for k := range ids {
		ids[k] = int(got[k])
		if float32(ids[k]) != got[k] || ids[k] < 0 || ids[k] >= len(probs) || slices.Contains(ids[:k], ids[k]) {
			return fmt.Errorf("the chosen experts are %v, but must be different whole numbers below %d", got[:used], len(probs))
		}
	}
	for k, id := range ids {
		for other, s := range scores {
			better := s.value-scores[id].value > s.tol+scores[id].tol
			if better && !slices.Contains(ids[:k], other) {
				return fmt.Errorf("the chosen experts are %v: choice %d is expert %d with a score of %g, but expert %d, which is not chosen before, has a score of %g", ids, k, id, scores[id].value, other, s.value)
			}
		}
	}
	sum := approx{}
	for _, id := range ids {
		sum = sum.plus(probs[id])
	}
	want := make([]approx, used)
	for k, id := range ids {
		scale := approx{value: float64(c.shape.Scale)}
		if c.shape.Normalise {
			scale.value /= sum.value
			scale.tol = 2 * scale.value * (sum.tol/sum.value + 4*float32Step)
		}
		want[k] = probs[id].times(scale)
		if c.shape.Scaled {
			want[k] = want[k].times(approx{value: float64(c.bias.values[c.shape.Experts+id])})
		}
		want[k].tol += tiny
	}
	if err := within(got[used:], want); err != nil {
		return fmt.Errorf("routing weights of experts %v: %w", ids, err)
	}
	return nil
}

func checkRoute(r *rig) {
	cases := []compute.RouteShape{
		{Experts: 4, Used: 2, Gating: compute.GatingSigmoid, Normalise: true, Scale: 1.8},
		{Experts: 64, Used: 4, Gating: compute.GatingSigmoid, Normalise: true, Scale: 1.8},
		{Experts: 64, Used: 6, Gating: compute.GatingSoftmax, Scale: 1},
		{Experts: 33, Used: 8, Gating: compute.GatingSoftmax, Normalise: true, Scale: 2.5},
		{Experts: 160, Used: 6, Gating: compute.GatingSoftmax, Scale: 16},
		{Experts: 7, Used: 7, Gating: compute.GatingSigmoid, Scale: 0.5},
		{Experts: 1, Used: 1, Gating: compute.GatingSoftmax, Normalise: true, Scale: 1},
		{Experts: 5, Used: 2, Gating: compute.GatingSigmoid, Scale: 1},
		{Experts: 32, Used: 4, Gating: compute.GatingSoftmax, BiasLogits: true, Normalise: true, Scale: 1},
		{Experts: 128, Used: 8, Gating: compute.GatingSoftmax, Normalise: true, Scaled: true, Scale: 1},
		{Experts: 32, Used: 4, Gating: compute.GatingSigmoid, BiasLogits: true, Scaled: true, Scale: 0.5},
	}
	for i, shape := range cases {
		in, rows := r.among(1, 300), r.among(1, 20)
		c := &router{shape: shape, w: r.matrix([]gguf.Type{gguf.TypeF32, gguf.TypeF32, gguf.TypeF16}[i%3], in, shape.Experts)}
		if shape.Scaled {
			c.bias = r.matrix(gguf.TypeF32, 2*shape.Experts)
		} else if i%2 == 0 {
			c.bias = r.matrix(gguf.TypeF32, shape.Experts)
		}
		x := r.normal(rows, in)
		r.verify(operation{
			what:   fmt.Sprintf("%v, %d rows of %d values", c, rows, in),
			groups: separate(rows),
			compute: func(rows []int) [][]float32 {
				in, out := r.sheet(pick(x, rows)), r.blank(len(rows), 2*shape.Used)
				return r.run(r.flat(len(rows), 1), func(s compute.Step) {
					s.Route(out.Tensor, in.Tensor, c.w.weight, c.bias.optional(), shape)
				}, out, in)
			},
			compare: func(row int, got []float32) error { return c.compare(x[row], got) },
		})
	}
}

// checkRouteTies gives several experts equal scores. The lowest indices must be chosen, in
// ascending order.
func checkRouteTies(r *rig) {
	for _, gating := range []compute.Gating{compute.GatingSoftmax, compute.GatingSigmoid} {
		const in, experts, used, alike = 40, 24, 5, 4
		shape := compute.RouteShape{Experts: experts, Used: used, Gating: gating, Normalise: true, Scale: 1}
		kinds := r.normal(experts/alike, in) // expert e has the weights kinds[e%len(kinds)]
		values := make([][]float32, experts)
		for e := range values {
			values[e] = kinds[e%len(kinds)]
		}
		w := r.weight(floats(values))
		in1, out := r.sheet(r.normal(9, in)), r.blank(9, 2*used)
		got := r.run(r.flat(9, 1), func(s compute.Step) { s.Route(out.Tensor, in1.Tensor, w, nil, shape) }, out, in1)
		for row, line := range got {
			for k, id := range line[:used] {
				if e := int(id); e >= len(kinds) && !slices.Contains(line[:k], float32(e-len(kinds))) {
					r.tb.Fatalf("gating %d: row %d: the chosen experts are %v, but expert %d must not be chosen before expert %d, which has an equal score and a lower index", gating, row, line[:used], e, e-len(kinds))
				}
			}
		}
	}
}

type mixture struct {
	experts                            compute.Experts
	gate, up, down                     *matrix
	sharedGate, sharedUp, sharedDown   *matrix // nil for none
	gateBias, upBias, downBias         *matrix // nil for none
	in, ffn, count, used, shared, rows int
	routing                            [][]float32
}

func (m *mixture) width() int { return m.used*m.ffn + m.shared }

// mixtures calls test with mixtures of every weight type. Every second mixture has shared experts.
// In some mixtures, all rows choose the same experts; in others, some experts have no row. In some
// mixtures, every matrix except Gate and Up has a different type.
func (r *rig) mixtures(test func(what string, m *mixture)) {
	for i, t := range r.types {
		m := &mixture{in: r.length(t, 160), ffn: r.length(t, 64), count: r.among(1, 8), rows: r.among(1, 20)}
		m.used = r.among(1, min(m.count, 4))
		if t == gguf.TypeBF16 { // the shared experts of a row are whole blocks of 32 values, the others are not
			m.ffn, m.used = 48, 1
		}
		next := func() gguf.Type { return t }
		if i%3 == 0 {
			m.in, m.ffn = r.length(gguf.TypeQ4K, 600), r.length(gguf.TypeQ4K, 300) // lengths that are whole blocks of every type
			next = func() gguf.Type { return r.types[r.rand.IntN(len(r.types))] }
		}
		m.gate, m.up = r.matrix(t, m.in, m.ffn, m.count), r.matrix(t, m.in, m.ffn, m.count)
		m.down = r.matrix(next(), m.ffn, m.in, m.count)
		activation := compute.SiLU
		if i%4 >= 2 {
			activation = activations[1+i%2]
			m.gateBias, m.upBias = r.matrix(gguf.TypeF32, m.ffn*m.count), r.matrix(gguf.TypeF32, m.ffn*m.count)
			m.downBias = r.matrix(gguf.TypeF32, m.in*m.count)
		}
		if i%8 == 4 { // one weight for gate and up
			activation, m.up = compute.ReLU, m.gate
		}
		if i%2 == 0 {
			m.shared = m.ffn * r.among(1, 2)
			if t == gguf.TypeBF16 {
				m.shared = 2 * m.ffn
			}
			m.sharedGate, m.sharedUp = r.matrix(next(), m.in, m.shared), r.matrix(next(), m.in, m.shared)
			if activation == compute.ReLU {
				m.sharedUp = m.sharedGate
			}
			m.sharedDown = r.matrix(next(), m.shared, m.in)
		}
		m.experts = compute.Experts{
			Activation: activation, Gate: m.gate.weight, Up: m.up.weight, Down: m.down.weight,
			GateBias: m.gateBias.optional(), UpBias: m.upBias.optional(), DownBias: m.downBias.optional(),
			SharedGate: m.sharedGate.optional(), SharedUp: m.sharedUp.optional(), SharedDown: m.sharedDown.optional(),
		}
		choice := r.rand.Perm(m.count)
		for range m.rows {
			if i%3 != 0 {
				choice = r.rand.Perm(m.count)
			}
			line := make([]float32, 2*m.used)
			for k := range m.used {
				line[k], line[m.used+k] = float32(choice[k]), float32(2*r.rand.Float64())
			}
			m.routing = append(m.routing, line)
		}
		what := fmt.Sprintf("%d rows of %d values to %d of %d experts of %d and %d shared, %v, activation %d, biases %v", m.rows, m.in, m.used, m.count, m.ffn, m.shared, t, m.experts.Activation, m.gateBias != nil)
		test(what, m)
	}
}

func checkGatedExperts(r *rig) {
	r.mixtures(func(what string, m *mixture) {
		x := r.normal(m.rows, m.in)
		r.verify(operation{
			what:   what,
			groups: separate(m.rows),
			compute: func(rows []int) [][]float32 {
				in, routing, out := r.sheet(pick(x, rows)), r.sheet(pick(m.routing, rows)), r.blank(len(rows), m.width())
				return r.run(r.flat(len(rows), 1), func(s compute.Step) {
					s.GatedExperts(out.Tensor, in.Tensor, routing.Tensor, m.experts)
				}, out, in, routing)
			},
			compare: func(row int, got []float32) error {
				var want []approx
				for _, id := range m.routing[row][:m.used] {
					want = append(want, gated(m.experts.Activation, m.gate, m.up, int(id), x[row], m.gateBias, m.upBias)...)
				}
				if m.shared > 0 {
					want = append(want, gated(m.experts.Activation, m.sharedGate, m.sharedUp, 0, x[row], nil, nil)...)
				}
				return within(got, want)
			},
		})
	})
}

func checkExpertsAdd(r *rig) {
	r.mixtures(func(what string, m *mixture) {
		h, before := r.normal(m.rows, m.width()), r.normal(m.rows, m.in)
		r.verify(operation{
			what:   what,
			groups: separate(m.rows),
			compute: func(rows []int) [][]float32 {
				in, routing, out := r.sheet(pick(h, rows)), r.sheet(pick(m.routing, rows)), r.sheet(pick(before, rows))
				return r.run(r.flat(len(rows), 1), func(s compute.Step) {
					s.ExpertsAdd(out.Tensor, in.Tensor, routing.Tensor, m.experts)
				}, out, in, routing)
			},
			compare: func(row int, got []float32) error {
				want := exactly(before[row])
				for k, id := range m.routing[row][:m.used] {
					weight := approx{value: float64(m.routing[row][m.used+k])}
					for i, p := range m.down.product(int(id), h[row][k*m.ffn:(k+1)*m.ffn]) {
						if m.downBias != nil {
							p = p.plus(approx{value: float64(m.downBias.values[int(id)*m.in+i])})
						}
						want[i] = want[i].plus(p.times(weight))
					}
				}
				if m.shared > 0 {
					for i, p := range m.sharedDown.product(0, h[row][m.used*m.ffn:]) {
						want[i] = want[i].plus(p)
					}
				}
				return within(got, want)
			},
		})
	})
}
