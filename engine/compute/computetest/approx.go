package computetest

import (
	"fmt"
	"math"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/gguf"
)

// approx is a value computed in float64, and by how much the backend's value may differ from it.
//
// The tolerances follow from what a backend may do:
//   - It sums in float32 in any order: for n terms, an error of up to (n+16)·2⁻²⁴ times the sum of
//     their magnitudes.
//   - It may round weights other than F32, the activations that these weights multiply, and keys,
//     values and queries to float16: a relative error of up to 2⁻¹¹ in each term, of random sign.
//   - For a product with block-quantised weights, it may quantise the activations to 12 bits, in
//     runs of 32 values. The error of an activation is at most max/4094, again of random sign. max
//     is the largest magnitude in its run. With compute.Fast, it may quantise to 8 bits, and the
//     error is at most max/254.
//   - It may use a fast exponential with a relative error of 2⁻²⁰.
//
// Errors of random sign add up like a random walk: the tolerance is sigmas times the standard
// deviation of that walk. A tolerance for the worst case, in which all errors have the same sign,
// would be √n times as large. It would hide a wrong term in a sum of n terms.
type approx struct{ value, tol float64 }

const (
	float32Step = 0x1p-24 // relative error of a float32 rounding
	float16Step = 0x1p-11 // relative error of a float16 rounding
	expStep     = 0x1p-20 // relative error of an exponential
	quantRun    = 32      // number of activations that share a scale
	sigmas      = 7       // a correct value exceeds the tolerance once in 10¹¹ values
)

func within(got []float32, want []approx) error {
	if len(got) != len(want) {
		return fmt.Errorf("the row has %d values, but must have %d", len(got), len(want))
	}
	for i, w := range want {
		// The condition is negated so that a NaN is an error. Infinities can be equal.
		if d := math.Abs(float64(got[i]) - w.value); !(d <= w.tol || float64(got[i]) == w.value) {
			return fmt.Errorf("column %d is %g, but must be %g with a tolerance of %.2g", i, got[i], w.value, w.tol)
		}
	}
	return nil
}

func exactly(x []float32) []approx {
	out := make([]approx, len(x))
	for i, v := range x {
		out[i] = approx{value: float64(v)}
	}
	return out
}

func sameBits(got, want []float32) error {
	for i, w := range want {
		if math.Float32bits(got[i]) != math.Float32bits(w) {
			return fmt.Errorf("column %d is %g in one computation and %g in another", i, got[i], w)
		}
	}
	return nil
}

// dot returns the dot product of x with w, which is a row of a weight of type t.
func dot(t gguf.Type, precision compute.Precision, w, x []float32) approx {
	levels := 2047.0 // of 12 bits
	if precision == compute.Fast {
		levels = 127
	}
	var sum, magnitude, squares, quant float64
	for from := 0; from < len(w); from += quantRun {
		var largest, norm float64
		for i := from; i < min(from+quantRun, len(w)); i++ {
			a, b := float64(w[i]), float64(x[i])
			sum += a * b
			magnitude += math.Abs(a * b)
			squares += a * b * a * b
			norm += a * a
			largest = max(largest, math.Abs(b))
		}
		step := largest / levels
		quant += norm * step * step / 12 // a uniform error has a variance of step²/12
	}
	tol := float64(len(w)+16) * float32Step * magnitude
	if t != gguf.TypeF32 {
		tol += sigmas * float16Step * math.Sqrt(2*squares)
	}
	if t.BlockSize() > 1 {
		tol += sigmas * math.Sqrt(quant)
	}
	return approx{sum, tol}
}

// plus returns the sum. The tolerance allows the backend to round the sum to float32.
func (a approx) plus(b approx) approx {
	return approx{a.value + b.value, a.tol + b.tol + 2*float32Step*(math.Abs(a.value)+math.Abs(b.value))}
}

// times returns the product. The tolerance allows the backend to round the product to float32.
func (a approx) times(b approx) approx {
	x, y := math.Abs(a.value), math.Abs(b.value)
	return approx{a.value * b.value, x*b.tol + y*a.tol + a.tol*b.tol + 2*float32Step*x*y}
}

// silu returns x·sigmoid(x). The slope of this function is at most 1.1.
func (a approx) silu() approx {
	v := a.value / (1 + math.Exp(-a.value))
	return approx{v, 1.1*a.tol + 2*expStep*math.Abs(v)}
}

// gelu returns x·Φ(x) with the approximation of Φ by tanh. The slope of this function is at most
// 1.13. The tolerance includes an absolute error of the factor 1+tanh, because the relative error
// of this factor is large for negative x.
func (a approx) gelu() approx {
	x := a.value
	v := x / 2 * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x)))
	return approx{v, 1.13*a.tol + 8*expStep*math.Abs(x)}
}

// swish returns y·sigmoid(alpha·y) for y = min(x, high). The slope of this function is at most 1.1.
func (a approx) swish(alpha, high float64) approx {
	x := min(a.value, high)
	v := x / (1 + math.Exp(-alpha*x))
	return approx{v, 1.1*a.tol + 2*expStep*(1+math.Abs(alpha*x))*math.Abs(v)}
}

func (a approx) clamped(limit float64) approx { return approx{min(max(a.value, -limit), limit), a.tol} }

// rotated returns a pair rotated by an angle. A backend may round the angle to float32.
func rotated(a, b approx, angle, scale float64) (approx, approx) {
	x, y := a.value, b.value
	sin, cos := math.Sincos(angle)
	tol := (math.Abs(angle)*2*float32Step+8*float32Step)*scale*(math.Abs(x)+math.Abs(y)) + scale*(a.tol+b.tol)
	return approx{scale * (x*cos - y*sin), tol}, approx{scale * (x*sin + y*cos), tol}
}

func normed(x, gain []float32, eps float32) []approx {
	sum := 0.0
	for _, v := range x {
		sum += float64(v) * float64(v)
	}
	scale := 1 / math.Sqrt(sum/float64(len(x))+float64(eps))
	out := make([]approx, len(x))
	for i, v := range x {
		out[i].value = float64(v) * scale * float64(gain[i])
		out[i].tol = float64(len(x)+16)*float32Step*math.Abs(out[i].value) + tiny
	}
	return out
}

// tiny is the minimum tolerance, for values near the smallest float32.
const tiny = 1e-37
