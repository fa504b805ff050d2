package model

import "github.com/ingot-run/ingot/engine/compute"

// qwen2 is Qwen2, Qwen2.5 and models distilled into them. Queries, keys and values have biases.
func qwen2(l *loader, _ Config, _ Limits) design {
	return design{freqs: l.rotation(halves), qkvBias: true}
}

// qwen3 is Qwen3. Each head of queries and keys is normed.
func qwen3(l *loader, _ Config, _ Limits) design {
	return design{freqs: l.rotation(halves), headNorms: true}
}

// qwen3moe is Qwen3 with a mixture of experts in each layer. The weights of the chosen experts
// always add up to 1; files have no setting for this.
func qwen3moe(l *loader, c Config, lim Limits) design {
	d := qwen3(l, c, lim)
	route := l.routeShape(compute.GatingSoftmax)
	route.Normalise = true
	d.route = &route
	return d
}
