package model

import "github.com/ingot-run/ingot/engine/compute"

// trunk is the part of a model that all families share: the embedding before the layers, the output head after them, the cache,
// and the buffers of the residual stream.
type trunk struct {
	steps
	config Config
	eps    float32

	embd   compute.Weight   // {hidden, vocab}
	norm   compute.Weight   // {hidden}
	output []compute.Weight // one weight {hidden, vocab}; the embedding if the file has no separate output head
	rope   compute.Rope
	cache  compute.Cache // KV cache of the layers and of the MTP layer, which comes last

	x      compute.Tensor // [rows, hidden] the residual stream
	h      compute.Tensor // [rows, hidden] the normed residual stream
	last   compute.Tensor // [outputs, hidden] the normed hidden states of the output rows
	logits compute.Tensor // [outputs, vocab]
}

// trunk loads the weights before and after the layers.
func (l *loader) trunk(c Config) trunk {
	t := trunk{config: c, eps: l.eps()}
	t.embd = l.weight("token_embd.weight", c.Hidden, c.Vocab)
	t.norm = l.weight("output_norm.weight", c.Hidden)
	t.output = l.headOr(t.embd, "output.weight", c)
	return t
}

// memory makes the cache and the buffers. forward records the model's forward pass.
func (t *trunk) memory(l *loader, lim Limits, forward func(s compute.Step, b *compute.Batch) compute.Tensor) {
	c := t.config
	t.x, t.h = l.buffer(lim.Rows, c.Hidden), l.buffer(lim.Rows, c.Hidden)
	t.last, t.logits = l.buffer(lim.Outputs, c.Hidden), l.buffer(lim.Outputs, c.Vocab)
	t.cache = l.cache(c, lim)
	t.steps = l.steps(lim, forward)
}

// Config implements Model.
func (t *trunk) Config() Config { return t.config }

// head computes the logits of the outputs from the normed hidden states of all rows.
func (t *trunk) head(s compute.Step, b *compute.Batch, hidden compute.Tensor) (logits compute.Tensor) {
	last := t.last.Head(len(b.Outputs))
	if last.Rows > 0 {
		s.Gather(last, hidden, b.Outputs)
	}
	return t.project(s, last, t.output)
}

// project multiplies the normed hidden states of the output rows with an output head.
func (t *trunk) project(s compute.Step, last compute.Tensor, output []compute.Weight) (logits compute.Tensor) {
	logits = t.logits.Head(last.Rows)
	if last.Rows > 0 {
		s.MatMul(logits, last, output...)
		s.Checkpoint(t.config.Layers, "logits", logits)
	}
	return logits
}
