package model

import "fmt"

// museGlimmer is Meta's Muse Glimmer. Three of four layers have a sliding window and a rotation,
// the others have neither. Attention is gated by the normed input, and the logits are multiplied by
// logit_scale and then limited by a soft cap.
func museGlimmer(l *loader, c Config, _ Limits) design {
	const postEps = 1e-8 // files do not state it
	l.require("logit_scale")
	l.require("final_logit_softcapping")
	scale := l.floatOr("logit_scale", 1)
	if scale == 0 {
		l.fail(fmt.Errorf("%s is 0, but must be above 0", l.key("logit_scale")))
	}
	d := design{
		headNorms: true, postNorms: true, postEps: postEps, attnGate: true, embedNorm: true,
		logitScale: 1 / scale, logitCap: l.floatOr("final_logit_softcapping", 0),
	}
	base := "rope.freq_base"
	if l.has("rope.freq_base_swa") { // all layers with a rotation have the window
		base = "rope.freq_base_swa"
	}
	f, _ := l.baseFreqs(base, l.ropeDims())
	d.freqs = rotation(f)
	w := museGlimmerWindow(l)
	d.unrotated = func(layer int) bool { return !w.slides(layer) }
	return d
}

func museGlimmerWindow(l *loader) window {
	return window{length: l.size("attention.sliding_window"), slides: l.slidingLayers(4)}
}
