package model

import "github.com/ingot-run/ingot/engine/compute"

// trunk is the part of a model that all families share: embedding, output head, cache, and the
// buffers of the residual stream.
type trunk struct {
	steps
	config Config
	eps    float32
	// postEps is the eps of norms of the outputs of attention and network. logitCap is the soft cap
	// of the logits; 0 for none.
	postEps, logitCap float32

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

func (l *loader) trunk(c Config) trunk {
	t := trunk{config: c, eps: l.eps()}
	t.embd = l.weight("token_embd.weight", c.Hidden, c.Vocab)
	t.norm = l.weight(l.outputNorm(), c.Hidden)
	t.output = l.headOr(t.embd, "output.weight", c)
	return t
}

// outputNorm returns the name of the last norm. LFM2's files have it under another name.
func (l *loader) outputNorm() string {
	const other = "token_embd_norm.weight"
	if _, ok := l.file.Tensor(other); ok && l.arch != "llama" {
		return other
	}
	return "output_norm.weight"
}

func (t *trunk) memory(l *loader, lim Limits, forward func(s compute.Step, b *compute.Batch) compute.Tensor) {
	c := t.config
	t.x, t.h = l.buffer(lim.Rows, c.Hidden), l.buffer(lim.Rows, c.Hidden)
	t.last, t.logits = l.buffer(lim.Outputs, c.Hidden), l.buffer(lim.Outputs, c.Vocab)
	t.cache = l.cache(c, lim)
	t.steps = l.steps(lim, forward)
}

func (t *trunk) Config() Config { return t.config }

func (t *trunk) head(s compute.Step, b *compute.Batch, hidden compute.Tensor) (logits compute.Tensor) {
	last := t.last.Head(len(b.Outputs))
	if last.Rows > 0 {
		s.Gather(last, hidden, b.Outputs)
	}
	return t.project(s, last, t.output)
}

func (t *trunk) project(s compute.Step, last compute.Tensor, output []compute.Weight) (logits compute.Tensor) {
	logits = t.logits.Head(last.Rows)
	if last.Rows > 0 {
		s.MatMul(logits, last, output...)
		if t.logitCap > 0 {
			s.SoftCap(logits, t.logitCap)
		}
		s.Checkpoint(t.config.Layers, "logits", logits)
	}
	return logits
}

// normed returns x after the norm before a layer's attention or network, or x itself if the layer
// has no such norm.
func (t *trunk) normed(s compute.Step, x compute.Tensor, gain compute.Weight) compute.Tensor {
	if gain == nil {
		return x
	}
	h := t.h.Head(x.Rows)
	s.RMSNorm(h, x, gain, t.eps)
	return h
}

// add computes x += w·in. w has one weight. If gain is not nil, the product is normed before it is
// added.
func (t *trunk) add(s compute.Step, x, in compute.Tensor, w []compute.Weight, gain compute.Weight) {
	if gain == nil {
		s.MatMulAdd(x, in, w[0])
		return
	}
	h := t.h.Head(x.Rows)
	s.MatMul(h, in, w...)
	s.RMSNormAdd(x, h, gain, t.postEps)
}
