package engine

import (
	"fmt"
	"slices"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/draft"
	"github.com/ingot-run/ingot/engine/gguf"
)

// Options sizes an engine. Zero values take the defaults.
type Options struct {
	// Context is the most positions of a sequence, prompt and answer together. The default is what the model was trained
	// for, or less where Memory does not hold as much.
	Context int
	// MaxSequences is the most sequences in a step.
	MaxSequences int
	// StepTokens is the most rows of a step: one a sequence that is generating, the rest for prompts.
	StepTokens int
	// PrefillChunk is the most rows of one prompt in a step.
	PrefillChunk int
	// PageSize is the positions of a page of the KV cache.
	PageSize int
	// KV is how the KV cache keeps values: F32, the zero value, exactly; F16, Q8_0 or Q4_0 in less memory.
	KV gguf.Type
	// Memory is the most bytes of weights and KV cache together. The default is MemoryShare of what the backend has free.
	Memory int64
	// Draft is how tokens are drafted; DraftAuto where empty.
	Draft Drafting
	// DraftModel is the file of the small model of DraftModel.
	DraftModel string
	// DraftTokens is how many tokens are drafted for a sequence in a step. 0 leaves it to what is measured.
	DraftTokens int
	// NoSharing computes every prompt in full, also where its beginning is in the cache. Only for measuring what sharing
	// brings.
	NoSharing bool
	// Trace receives the checkpoints of every step, where it is not nil. Only for debugging: it makes steps slow.
	Trace func(compute.Checkpoint)
}

// The defaults of Options.
const (
	DefaultMaxSequences = 32
	DefaultStepTokens   = 512
	DefaultPageSize     = 16

	// MemoryShare is the share of free memory, in percent, that weights and KV cache take at most.
	MemoryShare = 70
)

// promptOutputs is the most prompt rows of a step that reach the output head, for their log-probabilities.
const promptOutputs = 64

// withDefaults fills in all but Context, and checks.
func (o Options) withDefaults() (Options, error) {
	for _, s := range []struct {
		name      string
		value     *int
		otherwise int
	}{
		{"the most sequences of a step", &o.MaxSequences, DefaultMaxSequences},
		{"the most tokens of a step", &o.StepTokens, max(DefaultStepTokens, o.MaxSequences)},
		{"the size of a cache page", &o.PageSize, DefaultPageSize},
		{"the context", &o.Context, 0},
		{"the prefill chunk", &o.PrefillChunk, 0},
	} {
		if *s.value < 0 {
			return o, fmt.Errorf("%s is %d; it must be at least 1", s.name, *s.value)
		}
		if *s.value == 0 {
			*s.value = s.otherwise
		}
	}
	if o.PrefillChunk == 0 {
		o.PrefillChunk = o.StepTokens
	}
	if o.Memory < 0 {
		return o, fmt.Errorf("the memory is %d bytes; it must be at least 1", o.Memory)
	}
	if !slices.Contains([]gguf.Type{gguf.TypeF32, gguf.TypeF16, gguf.TypeQ80, gguf.TypeQ40}, o.KV) {
		return o, fmt.Errorf("the KV cache is to keep %s; it keeps F32, F16, Q8_0 or Q4_0", o.KV)
	}
	if o.Draft == "" {
		o.Draft = DraftAuto
	}
	if o.DraftTokens < 0 || o.DraftTokens > draft.MaxTokens {
		return o, fmt.Errorf("%d tokens to draft; give 1 to %d, or 0 to leave it to what is measured", o.DraftTokens, draft.MaxTokens)
	}
	if o.StepTokens < o.MaxSequences {
		return o, fmt.Errorf("a step of %d tokens is too small for %d sequences, which generate a token each", o.StepTokens, o.MaxSequences)
	}
	return o, nil
}
