package model

import (
	"fmt"

	"github.com/ingot-run/ingot/engine/compute"
)

// gptOSS is gpt-oss. Every product has a bias, attention has sinks, and layers 0, 2, 4 and so on
// have a sliding window.
func gptOSS(l *loader, _ Config, _ Limits) design {
	route := l.routeShape(softmaxOfChosen)
	route.BiasLogits = true
	if route.Gating != compute.GatingSoftmax || !route.Normalise {
		l.fail(fmt.Errorf("%s is %d: %w", l.key("expert_gating_func"), l.sizeOr("expert_gating_func", 0), ErrUnsupported))
	}
	return design{
		freqs:   l.rotationWith(halves, true),
		qkvBias: true, outputBias: true, sinks: true,
		ffnNorm:    "post_attention_norm",
		activation: compute.SwiGLU, route: &route, expertBias: true,
	}
}

func gptOSSWindow(l *loader) window {
	return window{length: l.size("attention.sliding_window"), slides: func(layer int) bool { return layer%2 == 0 }}
}
