package compute

import (
	"math"
	"math/bits"
)

// Draw describes how Step.Draw chooses the next token of a row. The fields are applied in the order
// in which they are declared.
//
// The choice has no rounding that depends on a device. The logits after the edits have weights of
// whole numbers (see Weigh), and all sums and comparisons of weights are exact. So every backend
// draws the same token from the same logits, in any batch.
type Draw struct {
	Edits []Edit // changes of logits, at most one for each token
	// Repetition divides a positive logit of an edit with Seen and multiplies a negative one; 0 and
	// 1 have no effect. Frequency is subtracted Edit.Count times, and Presence once if the count is
	// not 0.
	Repetition, Presence, Frequency float32
	// Mask has a bit for each token: bit id%32 of Mask[id/32]. Tokens whose bit is 0 cannot be
	// drawn. An empty mask allows all tokens.
	Mask []uint32

	Temperature float64 // 0 takes the highest logit; of equal logits, the lowest id
	MinP        float64 // keeps tokens with at least this fraction of the highest probability; 0 keeps all
	TopK        int     // keeps this number of highest logits, and logits that equal the last of them; 0 keeps all
	TopP        float64 // keeps the fewest tokens, highest logit and then lowest id first, whose probabilities sum to at least this; 0 and 1 keep all

	// The random number depends on these fields alone.
	Seed             uint64
	Position, Choice int

	// Given makes Token the row's token instead of drawing one.
	Given bool
	Token int32
}

// Edit is a change of a token's logit. Excluded tokens cannot be drawn. For other tokens, Bias is
// added first and penalties are applied after it.
type Edit struct {
	Token    int32
	Count    int32 // number of occurrences in the answer
	Bias     float32
	Seen     bool // whether the repetition penalty applies without an occurrence in the answer
	Excluded bool
}

const (
	// DrawCols is the number of values that Step.Draw writes for a row: the token's id, its logit
	// before the edits, and the highest logit after the edits. The last is infinite if a logit is
	// NaN or +Inf, or if all are -Inf; tokens with single logits of -Inf are never drawn. It is at
	// most -MaxLogit if no token can be drawn, and at least MaxLogit if edits made a logit too
	// high.
	DrawCols = 3
	// DrawPart is the number of successive tokens whose weights are first added up among
	// themselves, if a row is drawn from all tokens.
	DrawPart = 2048
	// MaxLogit limits logits after edits. Tokens whose logits are at most -MaxLogit cannot be
	// drawn.
	MaxLogit = 1e30
	// minTemperature is the lowest temperature above 0 that is told from lower ones. At this
	// temperature, logits that differ by 0.001 already have probabilities with a ratio of 10^14.
	minTemperature = 1.0 / (1 << 15)
)

// Whole reports whether all tokens that are not excluded keep their probabilities.
func (d *Draw) Whole() bool { return d.TopK == 0 && d.MinP == 0 && d.Share() == 0 }

// Penalises reports whether tokens of the answer change later draws.
func (d *Draw) Penalises() bool {
	return d.Repetition != 0 && d.Repetition != 1 || d.Presence != 0 || d.Frequency != 0
}

// Scale returns the factor by which logits become exponents of 2; see Weigh.
func (d *Draw) Scale() float32 { return float32(math.Log2E / max(d.Temperature, minTemperature)) }

// Margin returns how far below the highest logit the limit of MinP is: a number of at most 0; -Inf
// without a limit.
func (d *Draw) Margin() float32 {
	if d.MinP == 0 {
		return float32(math.Inf(-1))
	}
	return float32(max(d.Temperature, minTemperature) * math.Log(d.MinP))
}

// Share returns TopP in units of 2^-32, rounded down, but at least 1; 0 if TopP keeps all tokens.
func (d *Draw) Share() uint32 {
	if d.TopP == 0 || d.TopP >= 1 {
		return 0
	}
	return max(1, uint32(d.TopP*(1<<32)))
}

// Edited returns a logit after an edit. A logit that is not finite stays as it is.
func (d *Draw) Edited(logit float32, e Edit) float32 {
	switch {
	case math.Float32bits(logit)&exponentBits == exponentBits:
		return logit
	case e.Excluded:
		return -MaxLogit
	}
	logit += e.Bias
	if (e.Seen || e.Count > 0) && d.Repetition != 0 {
		if logit > 0 {
			logit /= d.Repetition
		} else {
			logit = float32(logit * d.Repetition) // the conversion keeps arm64 from fusing operations
		}
	}
	if e.Count > 0 {
		logit -= float32(d.Frequency * float32(e.Count))
		logit -= d.Presence
	}
	return min(max(logit, -MaxLogit), MaxLogit)
}

const exponentBits = 0x7f800000 // the bits of a float32's exponent, all 1 only in infinities and NaNs

// The coefficients of the polynomial for 2^x between -1/2 and 1/2: those of exp2f in Cephes.
const (
	Exp2C1 = 6.931472028550421e-1
	Exp2C2 = 2.402264791363012e-1
	Exp2C3 = 5.550332471162809e-2
	Exp2C4 = 9.618437357674640e-3
	Exp2C5 = 1.339887440266574e-3
	Exp2C6 = 1.535336188319500e-4
)

const (
	maxExponent = 1 << 24 // exponents beyond this are limited
	// WeightShift is the number of bits by which a weight's mantissa is shifted up, so that small
	// weights keep their bits.
	WeightShift = 14
)

// Weigh returns the weight 2^(logit·scale), which is proportional to the token's probability, as
// mantissa·2^(exponent-24). The mantissa is at most 2^25. Exponents never decrease with logits.
// Each operation is rounded to float32 as in every backend, so that all backends compute the same
// bits. Products are converted to float32, since Go may fuse others with a later sum, as it does on
// arm64. The relative error is less than 2^-22 as long as logit·scale is below 2^22.
func Weigh(logit, scale float32) (mantissa uint32, exponent int32) {
	logit = min(max(logit, -MaxLogit), MaxLogit)
	high := float32(logit * scale)
	low := float32(float64(logit)*float64(scale) - float64(high)) // what the rounding of high lost
	whole := float32(math.RoundToEven(float64(min(max(high, -maxExponent), maxExponent))))
	x := float32(high-whole) + low
	x = min(max(x, -1), 1)
	p := float32(x*Exp2C6) + Exp2C5
	p = float32(p*x) + Exp2C4
	p = float32(p*x) + Exp2C3
	p = float32(p*x) + Exp2C2
	p = float32(p*x) + Exp2C1
	p = float32(p*x) + 1
	return uint32(p * (1 << 24)), int32(whole)
}

// FixedWeight returns a weight of Weigh as a whole number below 2^40. top is the exponent of the
// highest logit. Weights of less than about 2^-39 of the highest weight become 0.
func FixedWeight(mantissa uint32, exponent, top int32) uint64 {
	return uint64(mantissa) << WeightShift >> min(uint32(top-exponent), 63)
}

// Target returns the sum of weights at which a draw finds its token: a random number, uniform in
// [0, total).
func (d *Draw) Target(total uint64) uint64 {
	high, _ := bits.Mul64(Random(d.Seed, d.Position, d.Choice), total)
	return high
}

// Mass returns the sum of weights that TopP keeps at least: the share of total, rounded up.
func Mass(share uint32, total uint64) uint64 {
	high, low := bits.Mul64(uint64(share), total)
	mass := high<<32 | low>>32
	if uint32(low) != 0 {
		mass++
	}
	return mass
}

// LogitKey returns an integer that orders logits as their values do. 0 and -0 have the same key.
func LogitKey(logit float32) uint32 {
	b := math.Float32bits(logit)
	if logit == 0 {
		b = 0
	}
	return b ^ (uint32(int32(b)>>31) | 1<<31)
}
