package model

import (
	"fmt"

	"github.com/ingot-run/ingot/engine/gguf"
)

// granite is Granite 3 and 4, the dense models: Llama with factors of embeddings, scores, branches and logits. A factor of 0 means
// that there is none.
func granite(l *loader, _ Config, _ Limits) design {
	d := design{
		freqs:      l.rotation(neighbours),
		scale:      float32(l.floatOr("attention.scale", 0)),
		embedScale: l.floatOr("embedding_scale", 0), branchScale: l.floatOr("residual_scale", 0), logitScale: l.floatOr("logit_scale", 0),
	}
	if !l.has("logit_scale") {
		l.fail(fmt.Errorf("metadata %s: %w", l.key("logit_scale"), gguf.ErrMissing))
	}
	if !l.boolOr("rope.scaling.finetuned", true) { // the sign of a model without positions
		d.unrotated = func(int) bool { return true }
	}
	return d
}
