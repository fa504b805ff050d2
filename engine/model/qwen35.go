package model

import "github.com/ingot-run/ingot/engine/compute"

// qwen35 is Qwen3.5 to Qwen3.8: most layers are gated delta nets, and every fourth one has
// attention whose output is multiplied by a gate. Their files describe the rotation by sections for
// positions in images; for text, all sections have the same position, which makes an ordinary
// rotation.
func qwen35(l *loader, c Config, _ Limits) design {
	return design{
		freqs: l.rotation(halves), headNorms: true, gatedHeads: true, ffnNorm: "post_attention_norm",
		recurrence: l.recurrence(c.Layers), normedDrafts: true,
	}
}

// qwen35moe is the same with a mixture of experts in each layer, and a shared expert with a gate.
func qwen35moe(l *loader, c Config, lim Limits) design {
	d := qwen35(l, c, lim)
	route := l.routeShape(compute.GatingSoftmax)
	route.Normalise = true
	d.route, d.sharedGate = &route, true
	return d
}

// qwen3next is Qwen3-Next and Qwen3-Coder-Next. The heads of values that share a key head are side
// by side.
func qwen3next(l *loader, c Config, lim Limits) design {
	d := qwen35moe(l, c, lim)
	d.recurrence.grouped = true
	return d
}

// recurrentFamily is decoderFamily for decoders with recurrent layers.
func recurrentFamily(read func(l *loader, c Config, lim Limits) design) family {
	config := func(l *loader) Config {
		c := decoderConfig(l)
		if l.err == nil {
			c.States = l.recurrence(c.Layers).shape
		}
		return c
	}
	return family{config, func(l *loader, c Config, lim Limits) Model {
		shape := l.groupedShape()
		l.refuseScores()
		if l.err != nil {
			return nil
		}
		d := read(l, c, lim)
		if l.err != nil {
			return nil
		}
		return l.groupedDecoder(&d, shape, c, lim)
	}}
}
