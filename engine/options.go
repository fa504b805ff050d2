package engine

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/gguf"
	"github.com/ingot-run/ingot/engine/internal/draft"
)

// Options are the sizes and settings of an engine. Zero values select the defaults.
type Options struct {
	// Context is the maximum number of positions of a sequence, prompt and answer together. The
	// default is the number that the model was trained for, or the largest number that fits into
	// the memory if that is less. Models with several sets of RoPE factors, such as Phi-3, use
	// those for the given number or, by default, for the number that they were trained for.
	Context int
	// MaxSequences is the maximum number of sequences in a step. With 0, it is as many as the
	// memory allows, up to MaxAutomatic, and as the measured cost of steps makes worthwhile.
	MaxSequences int
	// StepTokens is the maximum number of rows of a step. A row computes one token of a sequence.
	// Each generating sequence has one row, and prompts and drafts get the remaining rows. The
	// default depends on the backend's memory.
	StepTokens int
	// StepTime is the maximum duration of a step with prompts. It limits how long the tokens of
	// other sequences are delayed. With 0, the engine derives the maximum from measured durations:
	// steps are short while there are interactive requests, and long otherwise.
	StepTime time.Duration
	// PrefillChunk is the maximum number of rows of one prompt in a step. The default is
	// StepTokens.
	PrefillChunk int
	// PageSize is the number of positions of a page of the KV cache.
	PageSize int
	// KV is the type of the values in the KV cache, one of gguf.CacheTypes. F32, the zero value, is
	// exact. The other types take less memory.
	KV gguf.Type
	// Memory is the maximum number of bytes that all parts of Fit may take together; see
	// Fit.Memory. With 0, MemoryPercent sets it.
	Memory int64
	// MemoryPercent is used if Memory is 0. It limits the memory to a percentage of the backend's
	// free memory.
	MemoryPercent int
	// Draft selects how tokens are drafted. The default is DraftAuto.
	Draft Drafting
	// DraftModel is the file of the small model, if Draft is DraftModel.
	DraftModel string
	// DraftTokens is the number of tokens that are drafted for a sequence in a step, at most
	// MaxDraftTokens. With 0, the engine chooses the number by measured acceptance and cost.
	DraftTokens int
	// Recommended makes Info.Recommended the settings that the model's makers recommend. The engine
	// itself does not use them: its callers use them for requests that set no sampling option.
	Recommended bool
	// NoSharing computes every prompt in full, even if its beginning is in the cache. It is for
	// measuring how much sharing saves.
	NoSharing bool
	// Loading, if it is not nil, is called while the model is loaded, with the number of bytes so
	// far and in total.
	Loading func(done, total int64)
	// Trace receives the checkpoints of every step, if it is not nil. It is for debugging: it makes
	// steps slow.
	Trace func(compute.Checkpoint)
}

// The defaults of Options.
const (
	// The default of StepTokens is MaxSequences plus DefaultStepTokens, or DedicatedStepTokens if
	// the backend has memory of its own, whose processors compute many rows faster.
	DefaultStepTokens    = 512
	DedicatedStepTokens  = 2048
	DefaultPageSize      = 16
	DefaultMemoryPercent = 70
)

// withDefaults checks the options and replaces zeros by the defaults. Context, Memory,
// MaxSequences, StepTokens, PrefillChunk, StepTime and DraftTokens can stay 0: the engine then
// derives them from the model, the free memory or measurements.
func (o Options) withDefaults() (Options, error) {
	for _, s := range []struct {
		name  string
		value *int
		def   int
	}{
		{"the maximum number of sequences", &o.MaxSequences, 0},
		{"the maximum number of tokens of a step", &o.StepTokens, 0},
		{"the size of a cache page", &o.PageSize, DefaultPageSize},
		{"the context", &o.Context, 0},
		{"the prefill chunk", &o.PrefillChunk, 0},
		{"the percentage of the free memory", &o.MemoryPercent, DefaultMemoryPercent},
	} {
		if *s.value < 0 {
			return o, fmt.Errorf("%s is %d, but must be at least 1, or 0 for the default", s.name, *s.value)
		}
		if *s.value == 0 {
			*s.value = s.def
		}
	}
	if o.StepTime < 0 {
		return o, fmt.Errorf("the maximum time of a step is %v, but must be positive, or 0 to derive it from measured durations", o.StepTime)
	}
	if o.Memory < 0 {
		return o, fmt.Errorf("the memory is %d bytes, but must be at least 1, or 0 for a share of the free memory", o.Memory)
	}
	if types := gguf.CacheTypes(); !slices.Contains(types, o.KV) {
		return o, fmt.Errorf("KV cache type %s is not supported; use one of %s", o.KV, gguf.Names(types))
	}
	if o.Draft == "" {
		o.Draft = DraftAuto
	}
	if o.DraftTokens < 0 || o.DraftTokens > draft.MaxTokens {
		return o, fmt.Errorf("the number of tokens to draft is %d; give 1 to %d, or 0 to let the engine choose", o.DraftTokens, draft.MaxTokens)
	}
	if o.StepTokens > 0 && o.StepTokens < o.MaxSequences {
		return o, fmt.Errorf("the maximum number of tokens of a step is %d, but must be at least the maximum number of sequences, which is %d",
			o.StepTokens, o.MaxSequences)
	}
	return o, nil
}

// sized returns the options for a number of sequences, with the defaults that depend on it. host
// reports whether the backend's memory is the machine's main memory.
func (o Options) sized(sequences int, host bool) Options {
	o.MaxSequences = sequences
	if o.StepTokens == 0 {
		o.StepTokens = DedicatedStepTokens + sequences
		if host {
			o.StepTokens = DefaultStepTokens + sequences
		}
	}
	if o.PrefillChunk == 0 {
		o.PrefillChunk = o.StepTokens
	}
	return o
}

// Drafting selects how tokens are drafted (speculative decoding).
type Drafting string

// The ways to draft.
const (
	DraftAuto  Drafting = "auto"  // by the MTP layer, if any, or from n-grams, chosen by measured acceptance and cost
	DraftMTP   Drafting = "mtp"   // by the model's MTP layer
	DraftNGram Drafting = "ngram" // from n-grams of the sequence's own text
	DraftModel Drafting = "model" // by a small model of the same vocabulary
	DraftOff   Drafting = "off"
)

// DraftSettings lists the settings that ParseDrafting accepts. FILE is the file of the small model.
const DraftSettings = "auto, mtp, ngram, model=FILE or off"

// MaxDraftTokens is the maximum of Options.DraftTokens.
const MaxDraftTokens = draft.MaxTokens

// ParseDrafting parses s, which must be one of DraftSettings. file is the FILE of model=FILE, and
// empty for other settings.
func ParseDrafting(s string) (how Drafting, file string, err error) {
	if file, ok := strings.CutPrefix(s, string(DraftModel)+"="); ok && file != "" {
		return DraftModel, file, nil
	}
	switch how := Drafting(s); how {
	case DraftAuto, DraftMTP, DraftNGram, DraftOff:
		return how, "", nil
	}
	return "", "", fmt.Errorf("%q is not known: use %s", s, DraftSettings)
}
