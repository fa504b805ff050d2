package model

import "github.com/ingot-run/ingot/engine/compute"

// glm4 is GLM-4-0414 and GLM-Z1. They have norms before and after attention and network, and rotate
// half of each head.
func glm4(l *loader, _ Config, _ Limits) design {
	return design{freqs: l.rotation(neighbours), qkvBias: true, postNorms: true, fusedUp: true}
}

// glm4moe is GLM-4.5 to GLM-4.7. They have a few dense layers, then layers with mixtures of
// experts, and optionally an MTP layer.
func glm4moe(l *loader, _ Config, _ Limits) design {
	route := l.routeShape(compute.GatingSigmoid)
	_, norms := l.file.Tensor(blockTensor(0, "attn_q_norm.weight")) // only the large models have these norms
	return design{
		freqs: l.rotation(halves), qkvBias: true, headNorms: norms, ffnNorm: "post_attention_norm",
		route: &route, dense: l.sizeOr("leading_dense_block_count", 0),
	}
}
