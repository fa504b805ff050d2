package kernels

import (
	"math"
	"unsafe"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/gguf"
)

// portable has the kernels in Go, for processors that support no other level.
var portable = Set{
	Name:      "portable",
	high:      portableProducts(quantise, (*unpacked).add, int(unsafe.Sizeof(Block{}))),
	fast:      portableProducts(quantise8, (*unpacked).add8, int(unsafe.Sizeof(Block8{}))),
	RMSNorm:   rmsNorm,
	Gate:      gate,
	SoftCap:   softCap,
	Delta:     delta,
	Convolve:  convolve,
	Scores:    func(a *ScoresArgs) { scores(a, gguf.TypeF32) },
	Values:    func(a *ValuesArgs) { values(a, gguf.TypeF32) },
	ScoresF16: func(a *ScoresArgs) { scores(a, gguf.TypeF16) },
	ValuesF16: func(a *ValuesArgs) { values(a, gguf.TypeF16) },
	Softmax:   softmax,
	Highest:   highest,
	Peak:      peak,
	Weigh:     weigh,
	List:      list,
	Bracket:   bracket,
	Above:     above,
	Rotate:    rotate,
	FromF16:   func(a *ConvertArgs) { fromType(a, gguf.TypeF16) },
	ToF16:     func(a *ConvertArgs) { toType(a, gguf.TypeF16) },
	FromQ80:   func(a *ConvertArgs) { fromType(a, gguf.TypeQ80) },
	ToQ80:     func(a *ConvertArgs) { toType(a, gguf.TypeQ80) },
	FromQ40:   func(a *ConvertArgs) { fromType(a, gguf.TypeQ40) },
	ToQ40:     func(a *ConvertArgs) { toType(a, gguf.TypeQ40) },
}

func from[T any](p *T, n int64) []T { return unsafe.Slice(p, n) }

func after[T any](p *T, i int64) *T {
	return (*T)(unsafe.Add(unsafe.Pointer(p), uintptr(i)*unsafe.Sizeof(*p)))
}

func quantise(a *QuantiseArgs) {
	out := from((*Block)(a.Out), a.Blocks)
	for k := range out {
		out[k].Sums = integers(out[k].Q[:], from(after(a.X, 32*int64(k)), 32), MaxQ)
	}
}

func quantise8(a *QuantiseArgs) {
	out := from((*Block8)(a.Out), a.Blocks)
	for k := range out {
		out[k].Sums = integers(out[k].Q[:], from(after(a.X, 32*int64(k)), 32), MaxQ8)
	}
}

// integers writes the integers of a block of values to q.
func integers[T int8 | int16](q []T, x []float32, largest float32) Sums {
	var size float32
	for _, v := range x {
		size = max(size, float32(math.Abs(float64(v))))
	}
	d := size * (1 / largest)
	inverse := float32(0)
	if d > 0x1p-120 {
		inverse = 1 / d
	}
	var sums [2]int32
	for i, v := range x {
		q[i] = T(math.RoundToEven(float64(v * inverse)))
		sums[i/16] += int32(q[i])
	}
	return sumsOf(sums, d)
}

func sumsOf(halves [2]int32, d float32) Sums {
	sum := halves[0] + halves[1]
	s := Sums{D: d, Sum: d * float32(sum), Minus8: -8 * sum, Minus128: -128 * sum}
	for i, v := range halves {
		s.Halves[i], s.Minus32[i] = d*float32(v), -32*v
	}
	return s
}

func rmsNorm(a *NormArgs) {
	dst, src, gain := from(a.Dst, a.N), from(a.Src, a.N), from(a.Gain, a.N)
	sum := 0.0
	for _, v := range src {
		sum += float64(v) * float64(v)
	}
	scale := float32(1 / math.Sqrt(sum/float64(a.N)+a.Eps))
	for i, v := range src {
		dst[i] = v * scale * gain[i]
	}
}

func delta(a *DeltaArgs) {
	k, q, v, out := from(a.K, a.Keys), from(a.Q, a.Keys), from(a.V, a.Values), from(a.Out, a.Values)
	s := from(a.S, a.Keys*a.Values)
	line := func(i int) []float32 { return s[i*int(a.Values):][:len(v)] }
	clear(out)
	for i, ki := range k {
		for c, x := range line(i) {
			x *= float32(a.Decay)
			line(i)[c] = x
			out[c] += ki * x
		}
	}
	u := make([]float32, len(v))
	for c, x := range v {
		u[c] = float32(a.Beta) * (x - out[c])
	}
	clear(out)
	for i, ki := range k {
		row := line(i)
		for c := range row {
			row[c] += ki * u[c]
			out[c] += q[i] * row[c]
		}
	}
}

func gate(a *GateArgs) {
	dst, g, up := from(a.Dst, a.N), from(a.Gate, a.N), from(a.Up, a.N)
	for i, v := range g {
		u := up[i]
		inner := v // the activation is v·σ(inner)·u
		switch a.Kind {
		case geluKind:
			inner = geluScale * (v + geluCubic*v*v*v)
		case reluKind:
			dst[i] = max(v, 0) * u
			continue
		case swigluKind:
			v, u = min(v, swigluLimit), min(max(u, -swigluLimit), swigluLimit)+1
			inner = swigluAlpha * v
		}
		dst[i] = v / (1 + float32(math.Exp(-float64(inner)))) * u
	}
}

func convolve(a *ConvolveArgs) {
	out, w := from(a.Out, a.N), from(a.W, 4*a.N)
	x0, x1, x2, x3 := from(a.X0, a.N), from(a.X1, a.N), from(a.X2, a.N), from(a.X3, a.N)
	for c := range out {
		k := w[4*c : 4*c+4]
		out[c] = out[c] + float32(x0[c]*k[0]) + float32(x1[c]*k[1]) + float32(x2[c]*k[2]) + float32(x3[c]*k[3])
	}
}

func softCap(a *SoftCapArgs) {
	for i, v := range from(a.X, a.N) {
		from(a.X, a.N)[i] = float32(a.Limit * math.Tanh(float64(v)/a.Limit))
	}
}

// The kinds of activation other than compute.SiLU, with the constants of compute.GELU and
// compute.SwiGLU. gelu(x) is x·(1+tanh(z))/2 = x·σ(2z), with z = √(2/π)·(x+0.044715·x³).
const (
	geluKind    = 1
	swigluKind  = 2
	reluKind    = 3
	geluScale   = 1.5957691216057308 // 2·√(2/π)
	geluCubic   = 0.044715
	swigluAlpha = 1.702
	swigluLimit = 7
)

func softmax(a *SoftmaxArgs) {
	x := from(a.X, a.N)
	best := x[0]
	for _, v := range x {
		best = max(best, v)
	}
	sum := 0.0
	for i, v := range x {
		e := math.Exp(float64(v - best))
		x[i] = float32(e)
		sum += e
	}
	scale := float32(1 / sum)
	for i := range x {
		x[i] *= scale
	}
}

func highest(a *HighestArgs) {
	x := from(a.X, a.N)
	a.ID, a.Value, a.Sum = 0, math.Inf(-1), 0
	for i, v := range x {
		if float64(v) > a.Value {
			a.ID, a.Value = int64(i), float64(v)
		}
	}
	for _, v := range x {
		if v <= math.MaxFloat32 {
			a.Sum += math.Exp(float64(v) - a.Value)
		} else { // infinity or NaN
			a.Sum = math.Inf(1)
		}
	}
}

func peak(a *PeakArgs) {
	a.ID, a.Value = 0, math.Inf(-1)
	broken := false
	for i, v := range from(a.X, a.N) {
		broken = broken || !(v <= math.MaxFloat32)
		if float64(v) > a.Value {
			a.ID, a.Value = int64(i), float64(v)
		}
	}
	if broken {
		a.Value = math.Inf(1)
	}
}

func weigh(a *WeighArgs) {
	a.Sum = 0
	var out []float32
	if a.Out != nil {
		out = from(a.Out, a.N)
	}
	for i, v := range from(a.X, a.N) {
		w := weightOf(v, a.Scale, a.Lowest, a.Top)
		if out != nil {
			out[i] = float32(w)
		}
		a.Sum += w
	}
}

func weightOf(v float32, scale, lowest float64, top int64) uint64 {
	if float64(v) < lowest {
		return 0
	}
	mantissa, exponent := compute.Weigh(v, float32(scale))
	return compute.FixedWeight(mantissa, exponent, int32(top))
}

func list(a *ListArgs) {
	ids, values := unsafe.Slice(a.IDs, a.N), from(a.Values, a.N)
	a.Count = 0
	for i, v := range from(a.X, a.N) {
		if float64(v) >= a.Low && float64(v) <= a.High {
			ids[a.Count], values[a.Count] = int32(i), v
			a.Count++
		}
	}
}

func bracket(a *BracketArgs) {
	values := from(a.Values, a.N)
	a.Count, a.Sum, a.Above = 0, 0, 0
	for _, v := range from(a.X, a.N) {
		w := weightOf(v, a.Scale, a.Lowest, a.Top)
		a.Sum += w
		switch {
		case float64(v) > a.High:
			a.Above += w
		case float64(v) >= a.Low:
			values[a.Count] = v
			a.Count++
		}
	}
}

func above(a *AboveArgs) {
	a.Sum = 0
	weights := from(a.Weights, a.N)
	for i, v := range from(a.X, a.N) {
		if float64(v) > a.Limit {
			a.Sum += uint64(weights[i])
		}
	}
}

func rotate(a *RotateArgs) {
	angles := from(a.Angles, a.N)
	for h := range a.Heads {
		dst, src := from(after(a.Dst, h*a.DstStride), a.N), from(after(a.Src, h*a.SrcStride), a.N)
		if a.Halves != 0 {
			half := len(src) / 2
			for i := range half {
				c, s, x, y := angles[i], angles[half+i], src[i], src[half+i]
				dst[i], dst[half+i] = x*c-y*s, x*s+y*c
			}
			continue
		}
		for i := 0; i < len(src); i += 2 {
			c, s, x, y := angles[i], angles[i+1], src[i], src[i+1]
			dst[i], dst[i+1] = x*c-y*s, x*s+y*c
		}
	}
}

// cached reads rows of keys or values as float32. Rows of float32 are not copied; rows of float16
// are converted into line.
type cached struct {
	rows   unsafe.Pointer
	kind   gguf.Type
	stride int64
	line   [1024]float32
}

func (c *cached) row(p int, dims int64) []float32 {
	at := unsafe.Add(c.rows, int64(p)*c.stride*int64(c.kind.BlockBytes()))
	if c.kind == gguf.TypeF32 {
		return from((*float32)(at), dims)
	}
	halves := from((*uint16)(at), dims)
	line := c.line[:]
	if int(dims) > len(line) {
		line = make([]float32, dims)
	}
	for i, h := range halves {
		line[i] = gguf.F16ToF32(h)
	}
	return line[:dims]
}

func scores(a *ScoresArgs, kind gguf.Type) {
	keys := cached{rows: a.K, kind: kind, stride: a.Stride}
	for p := range int(a.Positions) {
		key := keys.row(p, a.Dims)
		for i, at := range from(a.At, a.Queries) {
			*after(a.Out, int64(i)*a.OutStride+int64(p)) = float32(a.Scale) * dot(from(after(a.Q, at), a.Dims), key)
		}
	}
}

func values(a *ValuesArgs, kind gguf.Type) {
	rows := cached{rows: a.V, kind: kind, stride: a.Stride}
	for p := range int(a.Positions) {
		value := rows.row(p, a.Dims)
		for i, at := range from(a.At, a.Queries) {
			weight, out := *after(a.Weights, int64(i)*a.WeightsStride+int64(p)), from(after(a.Out, at), a.Dims)
			for d, v := range value {
				out[d] += weight * v
			}
		}
	}
}

// dot returns the dot product of a and b. It adds in eight interleaved sums and joins these in a
// fixed order.
func dot(a, b []float32) float32 {
	var s0, s1, s2, s3, s4, s5, s6, s7 float32
	b = b[:len(a)]
	for len(a) >= 8 && len(b) >= 8 {
		s0 += a[0] * b[0]
		s1 += a[1] * b[1]
		s2 += a[2] * b[2]
		s3 += a[3] * b[3]
		s4 += a[4] * b[4]
		s5 += a[5] * b[5]
		s6 += a[6] * b[6]
		s7 += a[7] * b[7]
		a, b = a[8:], b[8:]
	}
	for i, v := range a {
		s0 += v * b[i]
	}
	return ((s0 + s4) + (s2 + s6)) + ((s1 + s5) + (s3 + s7))
}

func fromType(a *ConvertArgs, t gguf.Type) {
	bytes := int64(t.BlockBytes()) * a.N / int64(t.BlockSize())
	gguf.Dequantise(from((*float32)(a.Dst), a.N), t, from((*byte)(a.Src), bytes))
}

// toType converts float32 values to type t. It stops at the first block with a value that is not
// finite, and leaves this block and the following ones of Dst unchanged.
func toType(a *ConvertArgs, t gguf.Type) {
	bytes := int64(t.BlockBytes()) * a.N / int64(t.BlockSize())
	_ = gguf.Quantise(from((*byte)(a.Dst), bytes), t, from((*float32)(a.Src), a.N))
}
