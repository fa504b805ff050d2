package model

import (
	"cmp"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/gguf"
)

// layers loads the layers and the MTP layer, and makes the memory of the model. attention loads the
// attention of a layer.
func (l *loader) layers(m *decoder, d *design, lim Limits, attention func(i int) attention) Model {
	c, width := m.config, 1
	if d.route != nil {
		m.route = *d.route
	}
	if d.sharedGate {
		m.sharedGate = l.buffer(lim.Rows, 1)
	}
	if d.latent > 0 {
		m.latent = l.buffer(lim.Rows, 2*d.latent)
	}
	for i := range c.Layers + c.DraftLayers {
		var layer decoderLayer
		if len(d.networks) == 0 || !d.networks[i] {
			layer.attention = attention(i)
		}
		if len(d.networks) == 0 || d.networks[i] {
			layer.network = l.network(d, i, m)
		}
		if l.err != nil {
			return nil
		}
		width = max(width, layer.network.width(m.route))
		if i < c.Layers {
			m.layers = append(m.layers, layer)
		} else {
			m.mtp = &mtpLayer{mtp: l.mtp(i, &m.trunk, lim, d.normedDrafts), layer: layer}
		}
	}
	l.unused(func(name string) bool {
		// Only the first MTP layer is used. Further MTP layers in the file are ignored.
		return isDerived(name) || (c.DraftLayers > 0 || d.extraLayers) && inBlocks(name, c.Layers+c.DraftLayers)
	})
	m.ffn = l.buffer(lim.Rows, width)
	if m.route.Used > 0 {
		m.routing = l.buffer(lim.Rows, 2*m.route.Used)
	}
	m.memory(l, lim, m.forward)
	return m
}

func (n *network) width(route compute.RouteShape) int {
	if n.gate == nil {
		return n.mixture.width(route)
	}
	return n.gate.Shape()[1]
}

func (l *loader) network(d *design, i int, m *decoder) network {
	name := func(s string) string { return blockTensor(i, s) }
	n, hidden := network{activation: d.activation}, m.config.Hidden
	if !d.noPreNorms {
		n.norm = l.weight(name(cmp.Or(d.ffnNorm, "ffn_norm")+".weight"), hidden)
	}
	if d.postNorms {
		n.postNorm = l.weight(name("post_ffw_norm.weight"), hidden)
	}
	if d.route != nil && i >= d.dense {
		n.mixture = l.mixture(i, hidden, m.route, d)
		n.mixture.latents = m.latent
		n.mixture.experts.Activation = d.activation
		if d.sharedGate && l.err == nil && n.mixture.experts.SharedGate != nil {
			n.mixture.sharedGate = []compute.Weight{l.weight(name("ffn_gate_inp_shexp.weight"), hidden, 1)}
			n.mixture.gate = m.sharedGate
		}
		if d.expertBias {
			l.expertBiases(i, hidden, m.route, &n.mixture.experts)
		}
		return n
	}
	ffn := l.uniform("feed_forward_length")
	switch {
	case d.noGate:
		n.up = l.weight(name("ffn_up.weight"), hidden, ffn)
		n.gate = n.up
	case d.fusedUp:
		up := l.tensor(name("ffn_up.weight"), hidden, 2*ffn)
		n.gate, n.up = l.place(rowsOf(up, 0, ffn)), l.place(rowsOf(up, ffn, ffn))
	default:
		n.gate = l.weight(name("ffn_gate.weight"), hidden, ffn)
		n.up = l.weight(name("ffn_up.weight"), hidden, ffn)
	}
	n.down = []compute.Weight{l.weight(name("ffn_down.weight"), ffn, hidden)}
	return n
}

// rowsOf returns rows [from, from+n) of a matrix. They share the memory of the matrix.
func rowsOf(t gguf.Tensor, from, n int) gguf.Tensor {
	if len(t.Shape) != 2 { // the loader has an error already
		return t
	}
	each := len(t.Data) / t.Shape[1]
	t.Data = t.Data[from*each : (from+n)*each]
	t.Shape = []int{t.Shape[0], n}
	return t
}
