package model

// olmo2 is OLMo 2: norms only after attention and network, and norms of whole queries and keys.
func olmo2(l *loader, _ Config, _ Limits) design {
	l.refuse("attention.sliding_window", 0) // of OLMo 3
	return design{freqs: l.rotation(halves), projectionNorms: true, noPreNorms: true, postNorms: true}
}
