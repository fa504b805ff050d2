package model

import "fmt"

// olmo2 is OLMo 2. It norms the outputs of attention and network instead of their inputs, and norms
// queries and keys over all heads together.
func olmo2(l *loader, _ Config, _ Limits) design {
	if n := l.sizeOr("attention.sliding_window", 0); n > 0 {
		l.fail(fmt.Errorf("%s is %d (sliding windows, as in OLMo 3): %w", l.key("attention.sliding_window"), n, ErrUnsupported))
	}
	return design{freqs: l.rotation(halves), projectionNorms: true, noPreNorms: true, postNorms: true}
}
