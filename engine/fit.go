package engine

import (
	"cmp"
	"errors"
	"fmt"
	"sort"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/gguf"
	"github.com/ingot-run/ingot/engine/internal/cache"
	"github.com/ingot-run/ingot/engine/internal/draft"
	"github.com/ingot-run/ingot/engine/internal/schedule"
	"github.com/ingot-run/ingot/engine/model"
)

// Fit describes how an engine divides its memory. The parts are the weights of the model and of the
// small model that drafts, if any (field Weights), the memory for steps (Steps), the memory for
// prompts and results outside of steps (Rows), and the pages of the KV cache, which get all
// remaining memory. A model with recurrent layers also has states (States).
type Fit struct {
	Sequences int   `json:"sequences"`                          // number of sequences in a step for which the memory is divided
	Weights   int64 `json:"weights"`                            // bytes of weights, as the backend packs them
	States    int64 `json:"states,omitempty"`                   // bytes of recurrent states: one for each sequence, and a few for the beginnings of prompts
	State     int64 `json:"state,omitempty"`                    // bytes of one recurrent state
	Steps     int64 `json:"steps"`                              // bytes of step buffers, tables, scratch memory, and running sequences' tokens
	Rows      int64 `json:"rows"`                               // bytes for prompts and results outside of steps
	PerToken  int64 `json:"cache_per_token"`                    // bytes of one position in the KV cache, in all layers
	Windowed  int64 `json:"cache_per_token_windowed,omitempty"` // bytes of PerToken in layers with a sliding window; freed once the position is before the window
	Window    int   `json:"window,omitempty"`                   // length of the sliding window in positions; 0 if nothing is freed
	Memory    int64 `json:"memory"`                             // maximum bytes of all parts; without Rows if the GPU has dedicated memory
	Trained   int   `json:"trained_context"`                    // number of positions that the model was trained for
	Context   int   `json:"context"`                            // maximum number of positions of a sequence
	Tokens    int   `json:"cache_tokens"`                       // maximum positions of all sequences together, if each has the whole context
	Pages     int   `json:"cache_pages"`

	slots, drafts int // slots of recurrent states, and rows of their logs
}

// MaxAutomatic is the maximum number of sequences in a step if Options.MaxSequences is 0.
const MaxAutomatic = 256

// With Options.MaxSequences 0, steps take at most 1/automaticShare of the memory more than with one
// sequence, and the cache has room for half of automaticTokens tokens of each sequence. It takes no
// more memory than for automaticTokens of each sequence, or for wholeContexts sequences with the
// whole context.
const automaticShare, automaticTokens, wholeContexts = 8, 1024, 16

// statesShare is the same as automaticShare for recurrent states.
const statesShare = 4

// Prompts and results (Fit.Rows) get 1/rowsShare of the memory that is left after weights and
// steps, but at least minRows and at most maxRows bytes. With a GPU with dedicated memory, they get
// maxRows bytes of the machine's main memory.
const (
	rowsShare = 4
	maxRows   = 512 << 20
	minRows   = 4 << 20
)

// CheckFit computes how Open would divide the memory, without loading weights. If the model does
// not fit, the error gives the reason, and fit has the figures that were computed before the error.
func CheckFit(path string, be compute.Backend, opts Options) (fit Fit, err error) {
	if opts, err = opts.withDefaults(); err != nil {
		return fit, err
	}
	f, err := openFiles(path, &opts)
	if err != nil {
		return fit, err
	}
	fit, err = f.fit(&opts, be)
	return fit, errors.Join(err, f.close())
}

// fit divides the memory that the options allow on a backend. If the options do not set a context,
// the result has the context that the model was trained for or, if that does not fit into the
// memory, the largest context that fits. fit completes the options: with MaxSequences 0, it chooses
// the largest number of sequences for which steps need little more memory than for one, the context
// hardly becomes shorter, and the cache has room.
func (f *files) fit(o *Options, be compute.Backend) (Fit, error) {
	given, host := *o, be.Plan().Host()
	if given.MaxSequences > 0 {
		*o = f.sized(given, given.MaxSequences, host)
		return f.fitSized(o, be, 0)
	}
	*o = f.sized(given, 1, host)
	alone, err := f.fitSized(o, be, automaticTokens)
	if err != nil {
		return alone, err
	}
	for n := MaxAutomatic; n > 1; n /= 2 {
		if given.StepTokens > 0 && n > given.StepTokens {
			continue
		}
		sized := f.sized(given, n, host)
		fit, err := f.fitSized(&sized, be, automaticTokens)
		if err == nil && fit.Steps-alone.Steps <= fit.Memory/automaticShare && fit.States-alone.States <= fit.Memory/statesShare && fit.Context >= alone.Context/4*3 &&
			fit.Tokens >= n*min(fit.Context, automaticTokens/2) {
			*o = sized
			return fit, nil
		}
	}
	return alone, nil
}

// sized is Options.sized for the model. A step of a model with recurrent states must have room for
// a chunk of a prompt next to a row of each other sequence.
func (f *files) sized(o Options, sequences int, host bool) Options {
	o = o.sized(sequences, host)
	if f.config.States.Layers > 0 {
		o.StepTokens = max(o.StepTokens, sequences+compute.ChunkRows)
		o.PrefillChunk = max(o.PrefillChunk, compute.ChunkRows)
	}
	return o
}

// fitSized is fit for complete options. If each is not 0, the cache gets only as many pages as
// wholeContexts sequences with the whole context need, or all sequences with that many tokens each.
func (f *files) fitSized(o *Options, be compute.Backend, each int) (fit Fit, err error) {
	fit.Trained, fit.Sequences = f.config.Context, o.MaxSequences
	if fit.Memory, err = o.memory(be); err != nil {
		return fit, err
	}
	if o.Context > fit.Trained {
		return fit, fmt.Errorf("choose the context of %s: %d is more than the %d positions that the model was trained for; "+
			"give a smaller context (--context)", f.model.Path(), o.Context, fit.Trained)
	}
	holds := func(context int) bool {
		if err == nil {
			err = f.divide(&fit, context, o, be, each)
		}
		return fit.Tokens >= context
	}
	context := o.Context
	if context == 0 {
		context = fit.Trained
		if !holds(context) {
			pages := sort.Search(context/o.PageSize, func(i int) bool { return !holds((i + 1) * o.PageSize) })
			context = min(context, max(1, pages)*o.PageSize)
		}
	}
	enough := holds(context)
	if err == nil && !enough {
		err = fmt.Errorf("fit %s into memory: %w", f.model.Path(), fit.tooLittle(o))
	}
	return fit, err
}

// divide computes the sizes for sequences of up to context positions. fit.Tokens is less than
// context if none fits. For each, see fitSized.
func (f *files) divide(fit *Fit, context int, o *Options, be compute.Backend, each int) error {
	fit.Context, fit.Pages, fit.PerToken, fit.Windowed, fit.Window = context, 1, 0, 0, 0
	plan := be.Plan()
	fit.planStates(f.config.States, o)
	limits := fit.limits(o, &f.draftConfig)
	groups := f.config.Groups(limits)
	slotBytes := int64(0) // bytes of one position in a page, in the caches of both models
	for _, m := range []struct {
		file   *gguf.File
		config model.Config
	}{{f.model, f.config}, {f.draft, f.draftConfig}} {
		if m.file == nil {
			continue
		}
		g := m.config.Groups(limits)
		bytes, err := g.SlotBytes(m.config, o.KV) // both caches have the same number of pages
		if err != nil {
			return fmt.Errorf("store the KV cache of %s as %s: %w; choose another type (--kv)", m.file.Path(), o.KV, err)
		}
		slotBytes += int64(bytes)
		if err := model.Plan(be, plan, m.file, limits); err != nil {
			return err
		}
	}
	fit.Weights, fit.Steps = plan.Bytes()
	free := fit.Memory - fit.Weights - fit.Steps - fit.States
	fit.Rows = maxRows
	if plan.Host() {
		fit.Rows = max(minRows, min(free/rowsShare, maxRows))
		free -= fit.Rows
	}
	fit.PerToken, fit.Windowed, fit.Window = int64(groups.Full+groups.Sliding)*slotBytes, int64(groups.Sliding)*slotBytes, groups.Window
	perSlot := slotBytes
	if plan.Host() {
		perSlot += sequenceBytes(o) // memory outside of the cache for the token in the slot
	}
	pages := schedule.Groups(f.config, limits)
	prefill, decode := pages.Pages(context, o.chunk(), o.PageSize), pages.Pages(context, 1, o.PageSize)
	most := prefill + (o.MaxSequences-1)*decode
	if each > 0 {
		few := pages.Pages(min(context, each), 1, o.PageSize)
		most = min(most, max(prefill+(wholeContexts-1)*decode, prefill+(o.MaxSequences-1)*few))
	}
	fit.Pages = int(min(max(0, free)/(perSlot*int64(o.PageSize)), int64(most)))
	fit.Tokens = fit.positions(pages, prefill, decode, o)
	if plan.Host() {
		fit.Steps += int64(fit.Tokens) * sequenceBytes(o)
	}
	return nil
}

// planStates computes the memory of recurrent states.
func (f *Fit) planStates(shape compute.StateShape, o *Options) {
	if shape.Layers == 0 {
		return
	}
	f.slots = schedule.Slots(o.MaxSequences)
	if o.Draft != DraftOff {
		f.drafts = cmp.Or(o.DraftTokens, stateDrafts)
	}
	shape.Drafts = f.drafts
	f.State = shape.SlotBytes()
	f.States = int64(f.slots) * f.State
}

// stateDrafts is the maximum number of drafts of a sequence with a recurrent state in a step,
// unless Options.DraftTokens is set. Each takes memory in all states.
const stateDrafts = 4

// positions returns the number of positions that the pages of the cache hold. As many sequences as
// possible have the whole context, and one more sequence gets the remaining pages. prefill is the
// maximum number of pages that a sequence with the whole context takes while its prompt is computed
// in chunks. decode is the maximum number while it generates. positions assumes that at most one
// sequence is in prefill at a time.
func (f *Fit) positions(groups cache.Groups, prefill, decode int, o *Options) int {
	sequences, left, rows := 0, f.Pages, o.chunk()
	if f.Pages >= prefill {
		sequences = 1 + (f.Pages-prefill)/decode
		left, rows = (f.Pages-prefill)%decode, 1
	}
	rest := sort.Search((f.Context+o.PageSize-1)/o.PageSize, func(i int) bool { return groups.Pages((i+1)*o.PageSize, rows, o.PageSize) > left })
	if sequences == 0 {
		return rest * o.PageSize
	}
	perSequence := (f.Context + o.PageSize - 1) / o.PageSize * o.PageSize
	return min(sequences*perSequence+rest*o.PageSize, o.MaxSequences*perSequence)
}

func (o *Options) chunk() int { return min(o.PrefillChunk, o.StepTokens) }

// sequenceBytes returns the bytes per token of a running sequence outside of the cache: the token
// and the n-gram tables.
func sequenceBytes(o *Options) int64 {
	bytes := int64(4)
	if o.Draft == DraftAuto || o.Draft == DraftNGram {
		bytes += draft.NGramBytes
	}
	return bytes
}

func (o *Options) memory(be compute.Backend) (int64, error) {
	if o.Memory > 0 {
		return o.Memory, nil
	}
	free, err := be.Free()
	if err != nil {
		return 0, fmt.Errorf("read how much memory is free: %w; set the memory to a size, such as --memory 12GiB", err)
	}
	return free / 100 * int64(o.MemoryPercent), nil
}

func (f *Fit) tooLittle(o *Options) error {
	taken := fmt.Sprintf("the weights take %s; steps, prompts and answers take %s;", size(f.Weights), size(f.Steps+f.Rows))
	if f.States > 0 {
		taken += fmt.Sprintf(" the states of %d sequences take %s;", o.MaxSequences, size(f.States))
	}
	if o.Context == 0 {
		return fmt.Errorf("%s and the cache needs at least %s, but together they may take only %s; "+
			"allow more memory (--memory), or use a smaller model or one with fewer bits per weight",
			taken, size(f.PerToken*int64(o.PageSize)), size(f.Memory))
	}
	return fmt.Errorf("%s and the cache of a context of %d needs %s, but together they may take only %s; "+
		"give a smaller context (--context), allow more memory (--memory), or store the cache in fewer bits (--kv)",
		taken, o.Context, size(f.contextBytes(o)), size(f.Memory))
}

func (f *Fit) contextBytes(o *Options) int64 {
	windowed := f.Context
	if f.Window > 0 {
		windowed = min(windowed, f.Window+o.chunk()+o.PageSize)
	}
	return int64(f.Context)*(f.PerToken-f.Windowed) + int64(windowed)*f.Windowed
}

func (f *Fit) limits(o *Options, small *model.Config) model.Limits {
	return model.Limits{
		Rows:     o.StepTokens,
		Outputs:  schedule.Outputs(o.MaxSequences),
		Context:  f.Context,
		Pages:    f.Pages,
		PageSize: o.PageSize,
		KV:       o.KV,
		States:   f.slots,
		Drafts:   f.drafts,

		RopeContext: cmp.Or(o.Context, f.Trained),
		// A small model for drafts uses the page tables of the main model, but its layers are
		// grouped differently. Pages before windows are therefore not freed if a small model
		// drafts. An assistant has no keys and values of its own.
		FreeWindows: o.Draft != DraftModel || small.Assistant,
	}
}

// size formats a number of bytes for messages, as in "12.0 KiB".
func size(bytes int64) string {
	for _, unit := range []struct {
		name  string
		bytes float64
	}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if float64(bytes) >= unit.bytes {
			return fmt.Sprintf("%.1f %s", float64(bytes)/unit.bytes, unit.name)
		}
	}
	return fmt.Sprintf("%d bytes", bytes)
}
