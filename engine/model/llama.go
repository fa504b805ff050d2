package model

import "fmt"

// llama is the Llama family, with Mistral: grouped-query attention with RoPE over neighbouring values, and a gated feed-forward
// network. Each has an RMS norm before it.
func llama(l *loader, _ Config, _ Limits) design {
	if l.sizeOr("expert_count", 0) > 0 {
		l.fail(fmt.Errorf("a mixture of experts of architecture llama: %w", ErrUnsupported))
	}
	return design{freqs: l.rotation(neighbours)}
}
