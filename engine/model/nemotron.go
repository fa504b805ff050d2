package model

import (
	"fmt"

	"github.com/ingot-run/ingot/engine/compute"
)

// nemotron is Nemotron-H and Nemotron 3. Each layer is one of Mamba-2, attention without a
// rotation, and a network whose activation is the square of ReLU, without a gate.
func nemotron(l *loader, c Config, _ Limits) design {
	recurrent, networks := l.nemotronLayers(c.Layers)
	return design{
		freqs: l.rotation(halves), unrotated: func(int) bool { return true }, recurrence: l.mambaLayers(recurrent), networks: networks,
		ffnNorm: "attn_norm", noGate: true, activation: compute.ReLU, extraLayers: true,
	}
}

// nemotronMoE is the same with a mixture of experts as the network. In some models, the routed
// experts read and write a smaller vector.
func nemotronMoE(l *loader, c Config, lim Limits) design {
	d := nemotron(l, c, lim)
	route := l.routeShape(compute.GatingSigmoid)
	d.route, d.latent = &route, l.sizeOr("moe_latent_size", 0)
	return d
}

// nemotronLayers returns which layers are recurrent, and which are a network. All others have
// attention.
func (l *loader) nemotronLayers(layers int) (recurrent, networks []bool) {
	recurrent, networks = l.zeros("attention.head_count_kv", layers), l.zeros("feed_forward_length", layers)
	for i, none := range networks {
		recurrent[i] = recurrent[i] && none
		networks[i] = !none
	}
	return recurrent, networks
}

// nemotronConfig completes the settings. The MTP layers, which are the last blocks, are not used:
// one block with attention and experts, or a block of each.
func nemotronConfig(l *loader, c *Config) {
	blocks, mtp := l.size("block_count"), l.sizeOr("nextn_predict_layers", 0)
	c.Layers, c.DraftLayers = blocks, 0
	for i := max(blocks-mtp, 0); i < blocks; i++ {
		if _, ok := l.file.Tensor(blockTensor(i, "nextn.eh_proj.weight")); ok {
			c.Layers = i
			break
		}
	}
	recurrent, networks := l.nemotronLayers(c.Layers)
	if l.err != nil {
		return
	}
	c.States = l.mambaLayers(recurrent).shape
	for _, network := range networks {
		if network {
			c.ExtraLayers--
		}
	}
	if l.err == nil && c.CachedLayers() < 1 {
		l.fail(fmt.Errorf("%s has no layer with attention: %w", l.key("attention.head_count_kv"), ErrUnsupported))
	}
}
