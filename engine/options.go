package engine

import (
	"fmt"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/draft"
	"github.com/ingot-run/ingot/engine/model"
)

// Options sizes an engine. Zero values take the defaults.
type Options struct {
	// Context is the most positions of a sequence, prompt and answer together. The default is what the model was trained
	// for, or less where CacheBytes does not hold as much.
	Context int
	// MaxSequences is the most sequences in a step.
	MaxSequences int
	// StepTokens is the most rows of a step: one a sequence that is generating, the rest for prompts.
	StepTokens int
	// PrefillChunk is the most rows of one prompt in a step.
	PrefillChunk int
	// PageSize is the positions of a page of the KV cache.
	PageSize int
	// CacheBytes is the most memory of the KV cache.
	CacheBytes int64
	// Draft is how tokens are drafted; DraftAuto where empty.
	Draft Drafting
	// DraftModel is the file of the small model of DraftModel.
	DraftModel string
	// DraftTokens is how many tokens are drafted for a sequence in a step. 0 leaves it to what is measured.
	DraftTokens int
	// Trace receives the checkpoints of every step, where it is not nil. Only for debugging: it makes steps slow.
	Trace func(compute.Checkpoint)
}

// The defaults of Options.
const (
	DefaultMaxSequences = 32
	DefaultStepTokens   = 512
	DefaultPageSize     = 16
	DefaultCacheBytes   = 2 << 30
)

// promptOutputs is the most prompt rows of a step that reach the output head, for their log-probabilities.
const promptOutputs = 64

// cacheValueBytes is the memory of a value in the cache.
const cacheValueBytes = 4

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
	if o.CacheBytes < 0 {
		return o, fmt.Errorf("the memory of the cache is %d bytes; it must be at least 1", o.CacheBytes)
	}
	if o.CacheBytes == 0 {
		o.CacheBytes = DefaultCacheBytes
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

// limits sizes the memory of models that share page tables, and settles o.Context. The first is the one that answers.
func (o *Options) limits(models ...model.Config) (model.Limits, error) {
	c, position := models[0], int64(0)
	for _, m := range models {
		position += int64(m.Layers+m.DraftLayers) * int64(m.KeyCols+m.ValueCols) * cacheValueBytes
	}
	pages := int(o.CacheBytes / (position * int64(o.PageSize)))
	fits := pages * o.PageSize
	switch {
	case o.Context > c.Context:
		return model.Limits{}, fmt.Errorf("a context of %d is more than the %d positions that the model was trained for", o.Context, c.Context)
	case o.Context > fits:
		return model.Limits{}, fmt.Errorf("a context of %d takes %.1f MiB of cache, of which %.1f are allowed; give a smaller context or more memory",
			o.Context, mib(int64(o.Context)*position), mib(o.CacheBytes))
	case fits == 0:
		return model.Limits{}, fmt.Errorf("the cache of %d bytes holds no page of %d positions, which takes %d", o.CacheBytes, o.PageSize, position*int64(o.PageSize))
	case o.Context == 0:
		o.Context = min(c.Context, fits)
	}
	perSequence := (o.Context + o.PageSize - 1) / o.PageSize
	return model.Limits{
		Rows:     o.StepTokens,
		Outputs:  o.MaxSequences + promptOutputs + draftOutputs,
		Context:  o.Context,
		Pages:    min(pages, o.MaxSequences*perSequence),
		PageSize: o.PageSize,
	}, nil
}

func mib(bytes int64) float64 { return float64(bytes) / (1 << 20) }
