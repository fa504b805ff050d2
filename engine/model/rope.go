package model

import (
	"fmt"
	"math"

	"github.com/ingot-run/ingot/engine/compute"
)

// Settings of YaRN (Peng et al. 2023) that files may leave out.
const (
	yarnBetaFast = 32 // a frequency with more rotations than this over the original context is not changed
	yarnBetaSlow = 1  // a frequency with fewer rotations than this over the original context is divided by the factor
)

// ropeFreqs reads the rotation of dims values of a head. It computes the frequencies from the base,
// applies the file's scaling (none, linear or yarn), and divides them by rope_freqs.weight, which
// has the scaling of Llama 3. factor is YaRN's factor for the context; 1 without YaRN. Most models
// round the limits of YaRN's interpolation to whole pairs. If exactYaRN is true, the limits are not
// rounded.
func (l *loader) ropeFreqs(dims int, exactYaRN bool) (freqs compute.RopeFreqs, factor float64) {
	f, base := l.baseFreqs("rope.freq_base", dims)
	if l.err != nil {
		return compute.RopeFreqs{}, 1
	}
	factor = 1
	switch kind := l.stringOr("rope.scaling.type", "linear"); kind { // a factor without a type means linear
	case "none":
	case "linear":
		by := l.ropeFactor()
		for i := range f {
			f[i] /= by
		}
	case "yarn":
		factor = l.ropeFactor()
		l.refuse("rope.scaling.yarn_ext_factor", 1)
		l.refuse("rope.scaling.yarn_attn_factor", 1)
		l.refuse("rope.scaling.attn_factor", 1)
		fast, slow := l.floatOr("rope.scaling.yarn_beta_fast", yarnBetaFast), l.floatOr("rope.scaling.yarn_beta_slow", yarnBetaSlow)
		yarn(f, base, factor, l.size("rope.scaling.original_context_length"), fast, slow, exactYaRN)
	default:
		l.fail(fmt.Errorf("%s is %.100q: %w", l.key("rope.scaling.type"), kind, ErrUnsupported))
	}
	if _, ok := l.file.Tensor("rope_freqs.weight"); ok {
		l.divideFreqs(f, "rope_freqs.weight")
	}
	return rotation(f), factor
}

const defaultBase = 10000

// baseFreqs returns the frequencies for dims values. name is the setting with the base.
func (l *loader) baseFreqs(name string, dims int) (f []float64, base float64) {
	base = l.floatOr(name, defaultBase)
	if dims < 2 || dims%2 != 0 || base <= 1 {
		l.fail(fmt.Errorf("%s is %d and %s is %g, but a rotation needs an even number of at least 2 values and a base above 1", l.key("rope.dimension_count"), dims, l.key(name), base))
		return nil, base
	}
	f = make([]float64, dims/2)
	for i := range f {
		f[i] = math.Pow(base, -float64(2*i)/float64(dims))
	}
	return f, base
}

func rotation(f []float64) compute.RopeFreqs {
	freqs := compute.RopeFreqs{Freqs: make([]float32, len(f)), Scale: 1}
	for i, v := range f {
		freqs.Freqs[i] = float32(v)
	}
	return freqs
}

func (l *loader) ropeFactor() float64 {
	by := l.floatOr("rope.scaling.factor", 1)
	if by == 0 {
		l.fail(fmt.Errorf("%s is 0, but must be above 0", l.key("rope.scaling.factor")))
		return 1
	}
	return by
}

func (l *loader) divideFreqs(f []float64, name string) {
	if l.err != nil {
		return
	}
	t := l.tensor(name, len(f))
	if l.err != nil || l.planning {
		return
	}
	for i, by := range t.Values() {
		if !(by > 0) || math.IsInf(float64(by), 0) {
			l.fail(fmt.Errorf("tensor %s divides a frequency by %g, but divisors must be finite and above 0", name, by))
			return
		}
		f[i] /= float64(by)
	}
}

// yarn divides low frequencies by factor, does not change high frequencies, and interpolates for
// those in between. context is the length of the original context. fast is the minimum number of
// rotations of a high frequency over this length. slow is the maximum number of rotations of a low
// frequency. Unless exact is true, the limits are rounded to whole pairs.
func yarn(f []float64, base, factor float64, context int, fast, slow float64, exact bool) {
	dims := float64(2 * len(f))
	// pair returns the index of the frequency that has the given number of rotations over the
	// original context.
	pair := func(turns float64) float64 {
		return dims * math.Log(float64(context)/(turns*2*math.Pi)) / (2 * math.Log(base))
	}
	low, high := pair(fast), pair(slow)
	if !exact {
		low, high = math.Floor(low), math.Ceil(high)
	}
	low, high = max(low, 0), min(high, dims-1)
	for i := range f {
		part := min(max((float64(i)-low)/max(high-low, 0.001), 0), 1)
		f[i] = f[i]/factor*part + f[i]*(1-part)
	}
}
