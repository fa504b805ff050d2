package engine

import (
	"errors"
	"fmt"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/gguf"
	"github.com/ingot-run/ingot/engine/model"
	"github.com/ingot-run/ingot/engine/tokenizer"
)

// Fit is whether and how a model fits into memory, with the small model that drafts for it where there is one.
type Fit struct {
	Weights  int64 // bytes
	PerToken int64 // bytes of the KV cache, all layers
	Memory   int64 // bytes that both may take together
	Trained  int   // positions that the model was trained for
	Context  int   // positions of a sequence as Open would choose them
	Tokens   int   // positions of all sequences together that the cache would have room for
}

// CheckFit finds out what Open would do about memory, without loading weights. Where the model does not fit, the error says
// so with the figures, and Fit has those that are known.
func CheckFit(path string, be compute.Backend, opts Options) (fit Fit, err error) {
	if opts, err = opts.withDefaults(); err != nil {
		return fit, err
	}
	f, err := gguf.Open(path)
	if err != nil {
		return fit, err
	}
	e := &Engine{file: f, opts: opts}
	defer func() { err = errors.Join(err, e.closeFiles()) }()
	if e.config, err = model.ReadConfig(f); err != nil {
		return fit, err
	}
	if e.tokenizer, err = tokenizer.New(f.Meta()); err != nil {
		return fit, fmt.Errorf("load the tokenizer of %s: %w", path, err)
	}
	plan := memoryPlan{context: e.config.Context}
	if err := plan.add(f, e.config, opts.KV); err != nil {
		return fit, err
	}
	if opts.Draft == DraftModel {
		if err := e.openDraftFile(&plan); err != nil {
			return fit, fmt.Errorf("draft with %s: %w", opts.DraftModel, err)
		}
	}
	if e.opts.Memory == 0 {
		free, err := be.Free()
		if err != nil {
			return fit, fmt.Errorf("find out how much memory is free: %w", err)
		}
		e.opts.Memory = free / 100 * MemoryShare
	}
	fit = Fit{Weights: plan.weights, PerToken: plan.position, Memory: e.opts.Memory, Trained: e.config.Context}
	limits, err := plan.limits(&e.opts, be)
	if err != nil {
		return fit, fmt.Errorf("make room for %s: %w", path, err)
	}
	fit.Context = e.opts.Context
	fit.Tokens = limits.Pages * limits.PageSize
	return fit, nil
}
