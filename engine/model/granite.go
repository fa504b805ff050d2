package model

// granite is the dense models of Granite 3 and 4: Llama with factors for embeddings, attention
// scores, branches and logits. A factor of 0 means no factor.
func granite(l *loader, _ Config, _ Limits) design {
	d := design{
		freqs:      l.rotation(neighbours),
		scale:      float32(l.floatOr("attention.scale", 0)),
		embedScale: l.floatOr("embedding_scale", 0), branchScale: l.floatOr("residual_scale", 0), logitScale: l.floatOr("logit_scale", 0),
	}
	l.require("logit_scale")
	if !l.boolOr("rope.scaling.finetuned", true) { // marks a model without rotation
		d.unrotated = func(int) bool { return true }
	}
	return d
}
