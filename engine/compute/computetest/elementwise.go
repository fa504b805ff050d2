package computetest

import (
	"fmt"

	"github.com/ingot-run/ingot/engine/compute"
)

// checkActivate joins two tensors. In every second case, the result replaces the first one.
func checkActivate(r *rig) {
	for i, act := range append(activations, activations...) {
		rows, cols := r.among(1, 9), r.among(1, 300)
		gates, ups := r.normal(rows, cols), r.normal(rows, cols)
		r.verify(operation{
			what:   fmt.Sprintf("gate %d rows of %d values, activation %d", rows, cols, act),
			groups: separate(rows),
			compute: func(rows []int) [][]float32 {
				gate, up := r.sheet(pick(gates, rows)), r.sheet(pick(ups, rows))
				if i >= len(activations) {
					return r.run(r.flat(len(rows), 1), func(s compute.Step) { s.Activate(gate.Tensor, gate.Tensor, up.Tensor, act) }, gate, up)
				}
				out := r.blank(len(rows), cols)
				return r.run(r.flat(len(rows), 1), func(s compute.Step) { s.Activate(out.Tensor, gate.Tensor, up.Tensor, act) }, out, gate, up)
			},
			compare: func(row int, got []float32) error {
				return within(got, activated(act, exactly(gates[row]), exactly(ups[row])))
			},
		})
	}
}
