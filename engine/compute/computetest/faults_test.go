package computetest

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/cpu"
)

// site is a step of the CPU backend. The faulty steps embed it and replace some of its methods.
type site struct {
	compute.Step
	be    compute.Backend
	batch *compute.Batch
}

// backend is the CPU backend with faulty steps. The function replace makes them.
type backend struct {
	compute.Backend
	replace func(s site) compute.Step
}

func (f backend) Begin(b *compute.Batch) compute.Step {
	return f.replace(site{f.Backend.Begin(b), f.Backend, b})
}

// MaxInFlight allows several steps in flight, although each step runs when it is submitted.
func (f backend) MaxInFlight() int { return 3 }

// verdict runs the check with the given name on a backend with faulty steps, and returns the fault
// that the check finds.
func verdict(t *testing.T, name string, replace func(s site) compute.Step) error {
	t.Helper()
	be, err := cpu.New(1)
	require.NoError(t, err)
	defer func() { require.NoError(t, be.Close()) }()
	i := slices.IndexFunc(checks, func(c check) bool { return c.name == name })
	require.GreaterOrEqual(t, i, 0, "there is no check %s", name)
	return failure(t, func(tb testing.TB) { checks[i].run(newRig(tb, backend{be, replace}, name)) })
}

// recorder is a testing.TB that records the first failure instead of reporting it.
type recorder struct {
	testing.TB
	err error
}

func (r *recorder) Errorf(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf(format, args...)
	}
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	r.FailNow()
}

func (r *recorder) FailNow() { runtime.Goexit() }

// failure returns the first failure that a function reports; nil if there is none.
func failure(tb testing.TB, run func(tb testing.TB)) error {
	tb.Helper()
	r, done := &recorder{TB: tb}, make(chan struct{})
	go func() {
		defer close(done)
		run(r)
	}()
	<-done
	return r.err
}

// operations are the operations that write a tensor, except Embed. Every check makes its inputs
// with Embed, so a fault in Embed would fail every check. TestFindsWrongArguments covers Embed.
var operations = []string{
	"Gather", "RMSNorm", "RMSNormAdd", "Affine", "SoftCap", "Activate", "MatMul", "MatMulAdd", "GatedMatMul", "RopeStore", "Latents", "Absorb", "Attention", "ShortConv", "Expand",
	"Route", "GatedExperts", "ExpertsAdd", "Convolve", "DeltaNet", "Scan", "GatedNorm", "Gate", "Top", "Draw",
}

// TestFindsFaults checks that the suite finds the faults that any operation can have, in each
// operation.
func TestFindsFaults(t *testing.T) {
	faults := []struct {
		name  string
		spoil func(be compute.Backend, dst compute.Tensor, op func())
	}{
		{"not done", func(compute.Backend, compute.Tensor, func()) {}},
		{"done except the last column", func(be compute.Backend, dst compute.Tensor, op func()) {
			rows := be.Floats(dst)
			before := rows[len(rows)-1][dst.Cols-1]
			op()
			rows[len(rows)-1][dst.Cols-1] = before + 1
		}},
		{"NaN instead of a value", func(be compute.Backend, dst compute.Tensor, op func()) {
			op()
			be.Floats(dst)[dst.Rows-1][0] = float32(math.NaN())
		}},
		{"one bit differs among other rows", func(be compute.Backend, dst compute.Tensor, op func()) {
			op()
			if first := be.Floats(dst)[0]; dst.Rows > 1 {
				first[0] = math.Nextafter32(first[0], 9) // within every tolerance except that of a copy, which must be exact
			}
		}},
		{"done again on the row after the last", func(be compute.Backend, dst compute.Tensor, op func()) {
			op()
			whole := dst.Buffer.(*compute.Values).Floats
			if end := dst.Offset + dst.Rows*dst.Stride; end < len(whole) {
				whole[end] = 1
			}
		}},
		{"a column too wide", func(be compute.Backend, dst compute.Tensor, op func()) {
			op()
			whole := dst.Buffer.(*compute.Values).Floats
			if end := dst.Offset + dst.Cols; end < len(whole) {
				whole[end]++
			}
		}},
	}
	for _, fault := range faults {
		for _, name := range operations {
			t.Run(name+" "+fault.name, func(t *testing.T) {
				t.Parallel()
				err := verdict(t, name, func(s site) compute.Step {
					return &spoiled{s, name, func(dst compute.Tensor, op func()) { fault.spoil(s.be, dst, op) }}
				})
				require.Error(t, err)
				t.Log(err)
			})
		}
	}
}

// TestFastMayDependOnBatch checks that with fast arithmetic, the bits of a row may depend on its
// batch, but must be within the tolerance.
func TestFastMayDependOnBatch(t *testing.T) {
	t.Parallel()
	verify := func(fast bool, off float32) error {
		return failure(t, func(tb testing.TB) {
			r := newRig(tb, nil, "invariance")
			r.fast = fast
			r.verify(operation{
				what:   "rows that differ when computed alone",
				groups: separate(5),
				compute: func(rows []int) (out [][]float32) {
					for _, row := range rows {
						v := float32(row)
						if len(rows) == 1 {
							v += off
						}
						out = append(out, []float32{v})
					}
					return out
				},
				compare: func(row int, got []float32) error { return within(got, []approx{{float64(row), 0.1}}) },
			})
		})
	}
	require.NoError(t, verify(false, 0))
	require.Error(t, verify(false, 0.01))
	require.NoError(t, verify(true, 0.01))
	require.Error(t, verify(true, 0.2))
	require.Error(t, verify(true, float32(math.NaN())))
}

// spoiled is a step that lets spoil change the result of the operation with the given name.
type spoiled struct {
	site
	name  string
	spoil func(dst compute.Tensor, op func())
}

func (s *spoiled) on(name string, dst compute.Tensor, op func()) {
	if s.name == name {
		s.spoil(dst, op)
		return
	}
	op()
}

func (s *spoiled) Gather(dst, src compute.Tensor, rows []int32) {
	s.on("Gather", dst, func() { s.Step.Gather(dst, src, rows) })
}

func (s *spoiled) RMSNorm(dst, src compute.Tensor, gain compute.Weight, eps float32) {
	s.on("RMSNorm", dst, func() { s.Step.RMSNorm(dst, src, gain, eps) })
}

func (s *spoiled) RMSNormAdd(dst, src compute.Tensor, gain compute.Weight, eps float32) {
	s.on("RMSNormAdd", dst, func() { s.Step.RMSNormAdd(dst, src, gain, eps) })
}

func (s *spoiled) Affine(t compute.Tensor, scale float32, bias compute.Weight) {
	s.on("Affine", t, func() { s.Step.Affine(t, scale, bias) })
}

func (s *spoiled) SoftCap(t compute.Tensor, limit float32) {
	s.on("SoftCap", t, func() { s.Step.SoftCap(t, limit) })
}

func (s *spoiled) Activate(dst, gate, up compute.Tensor, act compute.Activation) {
	s.on("Activate", dst, func() { s.Step.Activate(dst, gate, up, act) })
}

func (s *spoiled) MatMul(dst, x compute.Tensor, w ...compute.Weight) {
	s.on("MatMul", dst, func() { s.Step.MatMul(dst, x, w...) })
}

func (s *spoiled) MatMulAdd(dst, x compute.Tensor, w compute.Weight) {
	s.on("MatMulAdd", dst, func() { s.Step.MatMulAdd(dst, x, w) })
}

func (s *spoiled) GatedMatMul(dst, x compute.Tensor, gate, up compute.Weight, act compute.Activation) {
	s.on("GatedMatMul", dst, func() { s.Step.GatedMatMul(dst, x, gate, up, act) })
}

func (s *spoiled) RopeStore(qkv compute.Tensor, p compute.Projection, shape compute.AttentionShape, rope compute.Rope, cache compute.Cache, layer int) {
	s.on("RopeStore", qkv, func() { s.Step.RopeStore(qkv, p, shape, rope, cache, layer) })
}

func (s *spoiled) Latents(dst, a compute.Tensor, qGain, kvGain compute.Weight, eps float32, rope compute.Rope, cache compute.Cache, layer int) {
	s.on("Latents", a, func() { s.Step.Latents(dst, a, qGain, kvGain, eps, rope, cache, layer) })
}

func (s *spoiled) Absorb(dst, q compute.Tensor, kb compute.Weight, rope compute.Rope) {
	s.on("Absorb", dst, func() { s.Step.Absorb(dst, q, kb, rope) })
}

func (s *spoiled) Attention(dst, q compute.Tensor, shape compute.AttentionShape, cache compute.Cache, layer int) {
	s.on("Attention", dst, func() { s.Step.Attention(dst, q, shape, cache, layer) })
}

func (s *spoiled) ShortConv(c, b, x compute.Tensor, w compute.Weight, shape compute.AttentionShape, cache compute.Cache, layer int) {
	s.on("ShortConv", c, func() { s.Step.ShortConv(c, b, x, w, shape, cache, layer) })
}

func (s *spoiled) Expand(dst, ctx compute.Tensor, vb compute.Weight) {
	s.on("Expand", dst, func() { s.Step.Expand(dst, ctx, vb) })
}

func (s *spoiled) Route(dst, x compute.Tensor, router, bias compute.Weight, shape compute.RouteShape) {
	s.on("Route", dst, func() { s.Step.Route(dst, x, router, bias, shape) })
}

func (s *spoiled) Top(dst, logits compute.Tensor, k int) {
	s.on("Top", dst, func() { s.Step.Top(dst, logits, k) })
}

func (s *spoiled) Draw(dst, logits compute.Tensor, draws []compute.Draw) {
	s.on("Draw", dst, func() { s.Step.Draw(dst, logits, draws) })
}

func (s *spoiled) GatedExperts(dst, x, routing compute.Tensor, e compute.Experts) {
	s.on("GatedExperts", dst, func() { s.Step.GatedExperts(dst, x, routing, e) })
}

func (s *spoiled) ExpertsAdd(dst, h, routing compute.Tensor, e compute.Experts) {
	s.on("ExpertsAdd", dst, func() { s.Step.ExpertsAdd(dst, h, routing, e) })
}

func (s *spoiled) Convolve(dst, x compute.Tensor, w, bias compute.Weight, states compute.States, layer int) {
	s.on("Convolve", dst, func() { s.Step.Convolve(dst, x, w, bias, states, layer) })
}

func (s *spoiled) DeltaNet(dst, qkv, gates compute.Tensor, d compute.Delta, states compute.States, layer int) {
	s.on("DeltaNet", dst, func() { s.Step.DeltaNet(dst, qkv, gates, d, states, layer) })
}

func (s *spoiled) Scan(dst, xbc, dt compute.Tensor, sc compute.Scan, states compute.States, layer int) {
	s.on("Scan", dst, func() { s.Step.Scan(dst, xbc, dt, sc, states, layer) })
}

func (s *spoiled) GatedNorm(dst, x, gate compute.Tensor, n compute.GatedNorm) {
	s.on("GatedNorm", dst, func() { s.Step.GatedNorm(dst, x, gate, n) })
}

func (s *spoiled) Gate(dst, gate compute.Tensor) {
	s.on("Gate", dst, func() { s.Step.Gate(dst, gate) })
}
