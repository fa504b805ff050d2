package model

import "github.com/ingot-run/ingot/engine/compute"

// llama is the Llama family, including Mistral and Mixtral: grouped-query attention with RoPE over
// neighbouring values, and a gated feed-forward network or, in Mixtral, a mixture of experts. An
// RMS norm precedes attention and network. The weights of Mixtral's chosen experts always add up to
// 1; files have no setting for this.
func llama(l *loader, _ Config, _ Limits) design {
	d := design{freqs: l.rotation(neighbours)}
	if l.sizeOr("expert_count", 0) > 0 {
		route := l.routeShape(compute.GatingSoftmax)
		route.Normalise = true
		d.route = &route
	}
	return d
}

// smollm3 is SmolLM3: Llama, but every fourth layer has no rotation.
func smollm3(l *loader, _ Config, _ Limits) design {
	return design{freqs: l.rotation(neighbours), unrotated: func(layer int) bool { return (layer+1)%4 == 0 }}
}
