package engine

import (
	"fmt"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/gguf"
	"github.com/ingot-run/ingot/engine/model"
)

// memoryPlan is what has to fit: the weights of models that share page tables, and as many pages of their cache as there
// is room for. The first model is the one that answers.
type memoryPlan struct {
	context  int   // positions that the first model was trained for
	weights  int64 // bytes
	position int64 // bytes of the cache that a position takes
}

// add counts a model in.
func (p *memoryPlan) add(f *gguf.File, c model.Config, kv gguf.Type) error {
	for _, t := range f.Tensors() {
		p.weights += int64(len(t.Data))
	}
	bytes, err := c.PositionBytes(kv)
	if err != nil {
		return fmt.Errorf("keep the cache of %s as %s: %w", f.Path(), kv, err)
	}
	p.position += int64(bytes)
	return nil
}

// limits sizes the model's memory, and settles o.Context.
func (p *memoryPlan) limits(o *Options, be compute.Backend) (model.Limits, error) {
	memory := o.Memory
	if memory == 0 {
		free, err := be.Free()
		if err != nil {
			return model.Limits{}, fmt.Errorf("find out how much memory is free (give a limit instead): %w", err)
		}
		memory = free / 100 * MemoryShare
	}
	pages := max(0, memory-p.weights) / (p.position * int64(o.PageSize))
	fits := int(min(pages*int64(o.PageSize), int64(p.context)))
	switch {
	case o.Context > p.context:
		return model.Limits{}, fmt.Errorf("a context of %d is more than the %d positions that the model was trained for", o.Context, p.context)
	case fits == 0:
		return model.Limits{}, fmt.Errorf("the weights take %s and the cache at least %s, of %s that they may take together; "+
			"allow more memory, or take a smaller model or fewer bits a weight", size(p.weights), size(p.position*int64(o.PageSize)), size(memory))
	case o.Context > fits:
		return model.Limits{}, fmt.Errorf("the weights take %s and the cache of a context of %d takes %s, of %s that they may take together; "+
			"give a smaller context, allow more memory, or keep the cache in fewer bits", size(p.weights), o.Context, size(int64(o.Context)*p.position), size(memory))
	case o.Context == 0:
		o.Context = fits
	}
	perSequence := (o.Context + o.PageSize - 1) / o.PageSize
	return model.Limits{
		Rows:     o.StepTokens,
		Outputs:  o.MaxSequences + promptOutputs + draftOutputs,
		Context:  o.Context,
		Pages:    int(min(pages, int64(o.MaxSequences*perSequence))),
		PageSize: o.PageSize,
		KV:       o.KV,
	}, nil
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
