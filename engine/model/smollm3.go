package model

// smollm3 is SmolLM3: Llama, but every fourth layer has no rotation.
func smollm3(l *loader, _ Config, _ Limits) design {
	return design{freqs: l.rotation(neighbours), unrotated: func(layer int) bool { return (layer+1)%4 == 0 }}
}
