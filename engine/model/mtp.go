package model

import (
	"fmt"

	"github.com/ingot-run/ingot/engine/compute"
)

// mtp has the parts of an MTP layer that all families share: the input, which joins embedding and
// hidden state, and the output head.
type mtp struct {
	enorm, hnorm compute.Weight   // {hidden}
	ehProj       []compute.Weight // one weight {2*hidden, hidden}
	headNorm     compute.Weight   // {hidden}; the trunk's last norm if the file has none
	// embd and output are tensors of the layer or, if the file does not have them, of the trunk.
	embd   compute.Weight
	output []compute.Weight
	// normedStates makes the layer's states those after headNorm.
	normedStates bool

	embedded compute.Tensor // [rows, hidden]
	concat   compute.Tensor // [rows, 2*hidden] the normed embedding, then the normed hidden state
	x        compute.Tensor // [rows, hidden] the residual stream up to the attention
	out      compute.Tensor // [outputs, hidden] the layer's output, before headNorm
}

// mtp loads the parts of an MTP layer. With normedStates, the last norm is optional: see
// design.normedDrafts.
func (l *loader) mtp(layer int, t *trunk, lim Limits, normedStates bool) mtp {
	hidden, vocab := t.config.Hidden, t.config.Vocab
	name := func(s string) string { return blockTensor(layer, "nextn."+s) }
	m := mtp{
		enorm:    l.weight(name("enorm.weight"), hidden),
		hnorm:    l.weight(name("hnorm.weight"), hidden),
		ehProj:   []compute.Weight{l.weight(name("eh_proj.weight"), 2*hidden, hidden)},
		embd:     l.optional(name("embed_tokens.weight"), hidden, vocab),
		output:   l.headOr(t.output[0], name("shared_head_head.weight"), t.config),
		embedded: l.buffer(lim.Rows, hidden),
		concat:   l.buffer(lim.Rows, 2*hidden),
		x:        l.buffer(lim.Rows, hidden),
		out:      l.buffer(lim.Outputs, hidden),
	}
	if m.embd == nil {
		m.embd = t.embd
	}
	m.normedStates = normedStates
	switch norm := name("shared_head_norm.weight"); {
	case !normedStates:
		m.headNorm = l.weight(norm, hidden)
	default:
		if m.headNorm = l.optional(norm, hidden); m.headNorm == nil {
			m.headNorm = t.norm
		}
	}
	return m
}

func (m *mtp) begin(s compute.Step, t *trunk, b *compute.Batch, trunkStates compute.Tensor, source States, states []int32) (x compute.Tensor) {
	n, hidden := len(b.Tokens), t.config.Hidden
	embedded, concat, x, h := m.embedded.Head(n), m.concat.Head(n), m.x.Head(n), t.h.Head(n)
	hiddenStates := trunkStates
	if source == DraftStates {
		hiddenStates = m.out
	}
	s.Embed(embedded, m.embd)
	s.RMSNorm(concat.Slice(0, hidden), embedded, m.enorm, t.eps)
	s.Gather(h, hiddenStates, states)
	s.RMSNorm(concat.Slice(hidden, hidden), h, m.hnorm, t.eps)
	s.MatMul(x, concat, m.ehProj...)
	return x
}

func (m *mtp) outputs(s compute.Step, b *compute.Batch, x compute.Tensor) compute.Tensor {
	out := m.out.Head(len(b.Outputs))
	s.Gather(out, x, b.Outputs)
	return out
}

// end records the output head. It reads the buffer that outputs returned, to which the network has
// added its output.
func (m *mtp) end(s compute.Step, t *trunk, b *compute.Batch) (logits compute.Tensor) {
	out, last := m.out.Head(len(b.Outputs)), t.last.Head(len(b.Outputs))
	switch {
	case out.Rows > 0 && m.normedStates:
		s.RMSNorm(out, out, m.headNorm, t.eps)
		return t.project(s, out, m.output)
	case out.Rows > 0:
		s.RMSNorm(last, out, m.headNorm, t.eps)
	}
	return t.project(s, last, m.output)
}

// runDraft runs a pass of an MTP layer. record is the function that records the pass and returns
// the buffer of its logits.
func (t *trunk) runDraft(b *compute.Batch, record func(s compute.Step) compute.Tensor) error {
	s := t.be.Begin(b)
	logits := record(s)
	if len(b.Outputs) > 0 { // without outputs, Best and Logits keep the earlier results
		t.top(s, b, 0, logits)
	}
	if err := s.Run(); err != nil {
		return fmt.Errorf("run the MTP layer for %d tokens: %w", len(b.Tokens), err)
	}
	return nil
}

// mtpLayers subtracts the MTP layers, which are the last blocks, from c.Layers, and sets
// c.DraftLayers to 1 if there are any: only the first MTP layer is used. Some files state a number
// of MTP layers but do not have the tensors. In some of these files, block_count does not include
// the MTP layers.
func (l *loader) mtpLayers(c *Config) {
	n := l.sizeOr("nextn_predict_layers", 0)
	if l.err == nil && n >= c.Layers {
		l.fail(fmt.Errorf("%s is %d, but must be less than block_count, which is %d", l.key("nextn_predict_layers"), n, c.Layers))
		return
	}
	for range n {
		_, isMTP := l.file.Tensor(blockTensor(c.Layers-1, "nextn.eh_proj.weight"))
		_, isTrunk := l.file.Tensor(blockTensor(c.Layers-1, "attn_norm.weight"))
		if isTrunk && !isMTP {
			break
		}
		if isMTP {
			c.DraftLayers = 1
		}
		c.Layers--
	}
}
