package metal_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/gguf"
	"github.com/ingot-run/ingot/metal"
)

// TestFetchedProducts compares the bits of products and experts that fetch whole groups of weights,
// a few rows of activations at a time, with those of the kernels for more rows. The weights have
// strands of one block and of several, which begin within super-blocks, and rows that do not fill
// the last groups.
func TestFetchedProducts(t *testing.T) {
	t.Parallel()
	be, log := openHopper(t, metal.Options{})
	kinds := []gguf.Type{gguf.TypeQ4K}
	if long {
		kinds = []gguf.Type{gguf.TypeQ4K, gguf.TypeQ6K, gguf.TypeQ50, gguf.TypeQ80, gguf.TypeMXFP4}
	}
	for _, kind := range kinds {
		for _, c := range []struct {
			in, ffn int
			down    string
		}{{256, 1536, "fetched_down_8_short"}, {768, 256, "fetched_down_8"}, {2816, 256, "fetched_down_8"}} {
			in, ffn, down := c.in, c.ffn, c.down
			if kind != gguf.TypeQ4K && (in > 768 || ffn > 256) {
				continue // two groups of such rows are too long
			}
			o := &operations{t, be, rand.New(rand.NewPCG(uint64(in), uint64(kind)))}
			const rows, out, narrow = 30, 205, 40
			const count, used, shared = 4, 2, 512
			w, up, other := o.weight(kind, in, out), o.weight(kind, in, out), o.weight(kind, in, narrow)
			experts := compute.Experts{
				Gate: o.weight(kind, in, ffn, count), Up: o.weight(kind, in, ffn, count), Down: o.weight(kind, ffn, in, count),
				SharedGate: o.weight(kind, in, shared), SharedUp: o.weight(kind, in, shared), SharedDown: o.weight(kind, shared, in),
			}
			x, routing, h := o.values(rows, in), o.buffer(rows, 2*used), o.values(rows, used*ffn+shared)
			for _, line := range be.Floats(routing) {
				e := o.random.IntN(count)
				line[0], line[1], line[2], line[3] = float32(e), float32((e+1)%count), 0.25, 0.75
			}
			for _, c := range []struct {
				kernels []string
				cols    int
				op      func(s compute.Step, dst, x, routing, h compute.Tensor)
			}{
				{[]string{"fetched_product_8", "fetched_product_16"}, 2*out + narrow, func(s compute.Step, dst, x, _, _ compute.Tensor) {
					s.MatMul(dst, x, w, other, up)
					s.MatMulAdd(dst.Slice(0, out), x, up)
				}},
				{[]string{"fetched_gated_8", "fetched_gated_16"}, out, func(s compute.Step, dst, x, _, _ compute.Tensor) { s.GatedMatMul(dst, x, w, up, compute.SiLU) }},
				{[]string{"fetched_experts_8"}, used*ffn + shared, func(s compute.Step, dst, x, routing, _ compute.Tensor) { s.GatedExperts(dst, x, routing, experts) }},
				{[]string{down}, in, func(s compute.Step, dst, _, routing, h compute.Tensor) { s.ExpertsAdd(dst, h, routing, experts) }},
			} {
				dst := o.buffer(rows, c.cols)
				log.ran = nil
				together := o.bits(dst, 0, func(s compute.Step) { c.op(s, dst, x, routing, h) })
				require.NotContains(t, log.ran, c.kernels[0])
				apart := o.bits(dst, 0, func(s compute.Step) {
					for _, part := range [][2]int{{0, 16}, {16, 18}, {18, 26}, {26, rows}} {
						from, to := part[0], part[1]
						c.op(s, dst.Span(from, to), x.Span(from, to), routing.Span(from, to), h.Span(from, to))
					}
				})
				require.Subset(t, log.ran, c.kernels, "%v %d", kind, in)
				require.Equal(t, together, apart, "%v, %v, %d values", c.kernels, kind, in)
			}
		}
	}
}

// TestTallExperts compares the bits of the experts' kernels that fetch twice as many rows of
// weights, for more rows of activations, with those of the others.
func TestTallExperts(t *testing.T) {
	t.Parallel()
	be, log := openHopper(t, metal.Options{})
	const rows, in, ffn, inner, count, used, shared = 40, 256, 272, 32, 16, 2, 256
	o := &operations{t, be, rand.New(rand.NewPCG(in, ffn))}
	kind, down := gguf.TypeQ4K, gguf.TypeQ80
	experts := compute.Experts{
		Gate: o.weight(kind, in, ffn, count), Up: o.weight(kind, in, ffn, count), Down: o.weight(down, inner, in, count),
		SharedGate: o.weight(kind, in, shared), SharedUp: o.weight(kind, in, shared), SharedDown: o.weight(down, shared, in),
	}
	x, routing, h := o.values(rows, in), o.buffer(rows, 2*used), o.values(rows, used*inner+shared)
	for _, line := range be.Floats(routing) {
		e := o.random.IntN(count)
		line[0], line[1], line[2], line[3] = float32(e), float32((e+1)%count), 0.25, 0.75
	}
	for kernel, c := range map[string]struct {
		cols int
		op   func(s compute.Step, dst, x, routing, h compute.Tensor)
	}{
		"fetched_experts_8": {used*ffn + shared, func(s compute.Step, dst, x, routing, _ compute.Tensor) { s.GatedExperts(dst, x, routing, experts) }},
		"fetched_down_8":    {in, func(s compute.Step, dst, _, routing, h compute.Tensor) { s.ExpertsAdd(dst, h, routing, experts) }},
	} {
		dst := o.buffer(rows, c.cols)
		log.ran = nil
		together := o.bits(dst, 0, func(s compute.Step) { c.op(s, dst, x, routing, h) })
		require.Contains(t, log.ran, kernel+"_tall")
		log.ran = nil
		apart := o.bits(dst, 0, func(s compute.Step) {
			for from := 0; from < rows; from += 10 {
				c.op(s, dst.Span(from, from+10), x.Span(from, from+10), routing.Span(from, from+10), h.Span(from, from+10))
			}
		})
		require.Contains(t, log.ran, kernel)
		require.Equal(t, together, apart, kernel)
	}
}
