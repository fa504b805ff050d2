package model

import (
	"math"

	"github.com/ingot-run/ingot/engine/compute"
)

// layers27B is the number of layers of Gemma 3 27B. This model scales its attention scores
// differently from the other sizes of Gemma 3, and files do not state the scale.
const layers27B = 62

// gemma3 is the text model of Gemma 3. Five of six layers have a sliding window. The outputs of
// attention and network are normed.
func gemma3(l *loader, c Config, _ Limits) design {
	d := design{
		freqs: l.rotation(halves), headNorms: true, postNorms: true, activation: compute.GELU,
		embedScale: math.Sqrt(float64(c.Hidden)),
	}
	if c.Layers == layers27B {
		d.scale = float32(math.Sqrt(float64(l.size("attention.head_count")) / float64(c.Hidden)))
	}
	if c.Window > 0 {
		f, _ := l.baseFreqs("rope.freq_base_swa", l.ropeDims())
		local := rotation(f)
		local.Halves = true
		d.slidingFreqs = &local
	}
	return d
}

// gemma3Window reads the window. If a file does not state the pattern, every sixth layer has no
// window.
func gemma3Window(l *loader) window {
	return window{length: l.sizeOr("attention.sliding_window", 0), slides: l.slidingLayers(6)}
}
