package model

// smollm3 is SmolLM3: Llama without a rotation in every fourth layer.
func smollm3(l *loader, _ Config, _ Limits) design {
	return design{freqs: l.rotation(neighbours), unrotated: func(layer int) bool { return (layer+1)%4 == 0 }}
}
