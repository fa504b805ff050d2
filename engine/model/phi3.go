package model

import "cmp"

// phi3 is Phi-3 to Phi-4. The weights of queries, keys and values are one tensor, and so are the
// network's gate and up. Models for long contexts divide the frequencies of the rotation by
// factors. There is one set of factors for contexts up to the original length and one for longer
// contexts. The choice depends on Limits.RopeContext, not on the length of a sequence, because the
// cache stores keys after their rotation.
func phi3(l *loader, _ Config, lim Limits) design {
	d := design{fusedUp: true}
	const long, short = "rope_factors_long.weight", "rope_factors_short.weight"
	if _, ok := l.file.Tensor(long); !ok {
		d.freqs = l.rotation(halves)
		return d
	}
	l.used[long], l.used[short] = true, true
	name := short
	if cmp.Or(lim.RopeContext, lim.Context) > l.size("rope.scaling.original_context_length") {
		name = long
	}
	f, _ := l.baseFreqs("rope.freq_base", l.ropeDims())
	l.divideFreqs(f, name)
	d.freqs = rotation(f)
	d.freqs.Halves = true
	d.freqs.Scale = float32(l.floatOr("rope.scaling.attn_factor", 1))
	return d
}

// phi3Window reads the window, which all layers have.
func phi3Window(l *loader) window {
	return window{length: l.sizeOr("attention.sliding_window", 0), slides: func(int) bool { return true }}
}
