package engine

import (
	"errors"
	"fmt"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/gguf"
	"github.com/ingot-run/ingot/engine/model"
	"github.com/ingot-run/ingot/engine/schedule"
)

// Fit is how an engine divides its memory: the weights of the model, and of the small model that drafts for it if there is
// one, and as many pages of their KV cache as the rest holds.
type Fit struct {
	Weights  int64 `json:"weights"`         // bytes
	PerToken int64 `json:"cache_per_token"` // bytes of a position in the KV cache, all layers
	Memory   int64 `json:"memory"`          // bytes that both may take together
	Trained  int   `json:"trained_context"` // positions that the model was trained for
	Context  int   `json:"context"`         // positions of a sequence
	Tokens   int   `json:"cache_tokens"`    // positions of all sequences together
}

// CheckFit computes how Open would divide the memory, without loading weights. If the model does not fit, the error gives the
// reason with the figures, and Fit has those that are known.
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

// fit divides the memory that the options allow on a backend.
func (f *files) fit(o *Options, be compute.Backend) (Fit, error) {
	fit := Fit{Trained: f.config.Context}
	err := fit.add(f.model, f.config, o.KV)
	if err == nil && f.draft != nil {
		err = fit.add(f.draft, f.draftConfig, o.KV)
	}
	if err != nil {
		return fit, err
	}
	if fit.Memory, err = o.memory(be); err != nil {
		return fit, err
	}
	if err := fit.divide(o); err != nil {
		return fit, fmt.Errorf("fit %s into memory: %w", f.model.Path(), err)
	}
	return fit, nil
}

// add adds the weights and the cache of a model. All models share page tables.
func (f *Fit) add(file *gguf.File, c model.Config, kv gguf.Type) error {
	for _, t := range file.Tensors() {
		f.Weights += int64(len(t.Data))
	}
	bytes, err := c.PositionBytes(kv)
	if err != nil {
		return fmt.Errorf("store the KV cache of %s as %s: %w", file.Path(), kv, err)
	}
	f.PerToken += int64(bytes)
	return nil
}

// memory is the bytes that weights and cache may take.
func (o *Options) memory(be compute.Backend) (int64, error) {
	if o.Memory > 0 {
		return o.Memory, nil
	}
	free, err := be.Free()
	if err != nil {
		return 0, fmt.Errorf("read how much memory is free (give a memory limit instead): %w", err)
	}
	return free / 100 * int64(o.MemoryPercent), nil
}

// divide settles the sizes of the cache.
func (f *Fit) divide(o *Options) error {
	pages := max(0, f.Memory-f.Weights) / (f.PerToken * int64(o.PageSize))
	fits := int(min(pages*int64(o.PageSize), int64(f.Trained)))
	switch {
	case o.Context > f.Trained:
		return fmt.Errorf("a context of %d is more than the %d positions that the model was trained for; give a smaller context", o.Context, f.Trained)
	case fits == 0:
		return fmt.Errorf("the weights take %s and the cache at least %s, of %s that they may take together; "+
			"allow more memory, or use a smaller model or one with fewer bits per weight", size(f.Weights), size(f.PerToken*int64(o.PageSize)), size(f.Memory))
	case o.Context > fits:
		return fmt.Errorf("the weights take %s and the cache of a context of %d takes %s, of %s that they may take together; "+
			"give a smaller context, allow more memory, or store the cache in fewer bits", size(f.Weights), o.Context, size(int64(o.Context)*f.PerToken), size(f.Memory))
	}
	f.Context = o.Context
	if f.Context == 0 {
		f.Context = fits
	}
	perSequence := (f.Context + o.PageSize - 1) / o.PageSize
	f.Tokens = int(min(pages, int64(o.MaxSequences*perSequence))) * o.PageSize
	return nil
}

// limits are the sizes that models are loaded with.
func (f *Fit) limits(o *Options) model.Limits {
	return model.Limits{
		Rows:     o.StepTokens,
		Outputs:  schedule.Outputs(o.MaxSequences),
		Context:  f.Context,
		Pages:    f.Tokens / o.PageSize,
		PageSize: o.PageSize,
		KV:       o.KV,
	}
}

// size is a number of bytes for people.
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
