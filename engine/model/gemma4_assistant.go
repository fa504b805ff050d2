package model

import (
	"errors"
	"fmt"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/gguf"
)

// assistantArch is the GGUF architecture of Gemma 4's small drafters.
const assistantArch = "gemma4-assistant"

// assistant is a small model that drafts for a gemma4 model. It reads the model's embedding of a
// token and its hidden state before the token, and attends to the model's keys and values. It
// stores none, so its drafts need neither a cache nor a pass over known tokens.
type assistant struct {
	pre, post []compute.Weight // one weight {2*target hidden, hidden}, and one {hidden, target hidden}
	head      []compute.Weight // one weight {hidden, vocab}: the assistant's embedding
	norm      compute.Weight   // {hidden}
	eps       float32
	layers    []gemma4Layer

	concat compute.Tensor // [outputs, 2*target hidden] the embedding, then the hidden state
	x      compute.Tensor // [outputs, hidden] the residual stream
	h      compute.Tensor // [outputs, hidden] the normed residual stream
	q      compute.Tensor // [outputs, the most columns of a layer's queries]
	attn   compute.Tensor // as q
	ffn    compute.Tensor // [outputs, ffn]
	states compute.Tensor // [outputs, target hidden] the states from which further drafts start

	// bases are the positions that the rows of the last pass attended from: all drafts of a
	// sequence in a row attend to the same keys, and have the position after them.
	bases  []int32 // [outputs]
	batch  compute.Batch
	source []int32 // [outputs] the row of each output's hidden state
}

// LoadAssistant loads a drafter onto the backend of a gemma4 model that Load has loaded with the
// same limits. The model then is a Drafter, whose method Draft runs the drafter.
func LoadAssistant(be compute.Backend, m Model, f *gguf.File, lim Limits) (Drafter, error) {
	target, ok := m.(*gemma4)
	if !ok {
		return nil, fmt.Errorf("load %s: a drafter of architecture %s drafts only for models of architecture gemma4, but the model is of architecture %s: %w",
			f.Path(), assistantArch, m.Config().Architecture, ErrUnsupported)
	}
	l := newLoader(be, f, assistantArch)
	c := assistantConfig(l)
	a := l.assistant(c, lim)
	if l.err == nil {
		l.err = a.attach(target, l)
	}
	if l.err != nil {
		return nil, fmt.Errorf("load %s: %w", f.Path(), l.err)
	}
	target.assistant = a
	return target, f.Release()
}

func assistantConfig(l *loader) Config {
	s := l.gemma4Shape()
	hidden := l.size("embedding_length")
	c := Config{Architecture: l.arch, Name: l.name(), Context: l.context(), Layers: s.layers, Hidden: hidden, Assistant: true}
	if l.err == nil {
		c.Vocab = l.vocab(hidden)
	}
	return c
}

var errAssistant = errors.New("the model only drafts for another one; give it as the drafter of that model, with --draft model=FILE")

// planAssistant is the function of the table of families. It only counts memory, since a drafter is
// loaded with LoadAssistant.
func planAssistant(l *loader, c Config, lim Limits) Model {
	if !l.planning {
		l.fail(fmt.Errorf("%w: %w", errAssistant, ErrUnsupported))
		return nil
	}
	l.assistant(c, lim)
	return nil
}

func (l *loader) assistant(c Config, lim Limits) *assistant {
	s, target := l.gemma4Shape(), l.size("embedding_length_out")
	l.refuse("attn_logit_softcapping", 0)
	a := &assistant{
		eps: l.eps(), norm: l.weight("output_norm.weight", c.Hidden), head: []compute.Weight{l.weight("token_embd.weight", c.Hidden, c.Vocab)},
		pre:  []compute.Weight{l.weight(l.either("nextn.pre_projection.weight", blockTensor(0, "nextn.pre_projection.weight")), 2*target, c.Hidden)},
		post: []compute.Weight{l.weight(l.either("nextn.post_projection.weight", blockTensor(0, "nextn.post_projection.weight")), c.Hidden, target)},
	}
	full, sliding := l.gemma4Ropes(s, 1, lim)
	ffn := l.sizes("feed_forward_length", c.Layers)
	s.shared = s.layers // no layer has keys and values
	queries, width := 1, 1
	for i := range c.Layers {
		layer := l.gemma4Layer(&gemma4{trunk: trunk{config: c}}, s, i, ffn[i])
		if layer.attention.rope = full; l.err == nil && s.slides[i] {
			layer.attention.rope = sliding
		}
		queries, width = max(queries, layer.attention.cols), max(width, ffn[i])
		a.layers = append(a.layers, layer)
	}
	// The centroids are a shortcut to the most likely tokens, which the whole head makes
	// unnecessary.
	l.unused(func(name string) bool {
		return isDerived(name) || name == "mtp.centroids.weight" || name == "mtp.token_ordering" || name == "mtp.token_ordering.weight" || s.sharedTensor(name)
	})
	a.concat, a.states = l.buffer(lim.Outputs, 2*target), l.buffer(lim.Outputs, target)
	a.x, a.h = l.buffer(lim.Outputs, c.Hidden), l.buffer(lim.Outputs, c.Hidden)
	a.q, a.attn, a.ffn = l.buffer(lim.Outputs, queries), l.buffer(lim.Outputs, queries), l.buffer(lim.Outputs, width)
	return a
}

// either returns the first of two names that a tensor of the file has, or the first name.
func (l *loader) either(name, other string) string {
	if _, ok := l.file.Tensor(name); !ok {
		if _, ok := l.file.Tensor(other); ok {
			return other
		}
	}
	return name
}

// attach lets the layers of an assistant attend to the target's last layers with keys and values,
// of the same kinds.
func (a *assistant) attach(target *gemma4, l *loader) error {
	c := target.config
	if hidden := l.size("embedding_length_out"); hidden != c.Hidden {
		return fmt.Errorf("%s is %d, but the model for which it drafts has a hidden size of %d: use the drafter of this model", l.key("embedding_length_out"), hidden, c.Hidden)
	}
	if vocab := a.head[0].Shape()[1]; vocab != c.Vocab {
		return fmt.Errorf("the drafter has %d tokens, but the model has %d: use the drafter of this model", vocab, c.Vocab)
	}
	own := l.gemma4Shape()
	for i := range a.layers {
		layer := &a.layers[i].attention
		source := -1
		for k := range target.places {
			if target.shape.slides[k] == own.slides[i] {
				source = k
			}
		}
		if source < 0 {
			return fmt.Errorf("layer %d attends to a layer of a kind that the model for which it drafts does not have: use the drafter of this model", i)
		}
		of := target.shape.of(source)
		if of.KeyDim != layer.shape.KeyDim || layer.shape.Heads%of.KVHeads != 0 || of.Window != layer.shape.Window {
			return fmt.Errorf("layer %d has %d heads of %d values and a window of %d, but the model for which it drafts has %d key heads of %d values and a window of %d: use the drafter of this model",
				i, layer.shape.Heads, layer.shape.KeyDim, layer.shape.Window, of.KVHeads, of.KeyDim, of.Window)
		}
		layer.shape.KVHeads, layer.stored = of.KVHeads, target.places[source]
		if of.Window > 0 {
			layer.shape.Window = max(of.Window-1, 1) // the window of the position after the last key
		}
	}
	return nil
}

// Draft implements Drafter. Only rows that are outputs are computed, since nothing is stored.
func (m *gemma4) Draft(b *compute.Batch, source States, states []int32) error {
	a := m.assistant
	if a == nil {
		return fmt.Errorf("draft for a model of architecture gemma4: no drafter is loaded: %w", ErrUnsupported)
	}
	if len(b.Outputs) == 0 {
		return nil
	}
	a.prepare(b, source, states)
	from := m.x
	if source == DraftStates {
		from = a.states
	}
	return m.runDraft(&a.batch, func(s compute.Step) compute.Tensor { return a.forward(s, m, from) })
}

// prepare makes the batch of the outputs of b. The row of an output at position p drafts the token
// after the one at p+1, whose keys are not known: it has this token, and attends up to p. The rows
// of further drafts attend like the first.
func (a *assistant) prepare(b *compute.Batch, source States, states []int32) {
	n := &a.batch
	bases := make([]int32, 0, len(b.Outputs))
	n.Tokens, n.Seqs, n.Outputs, a.source = n.Tokens[:0], n.Seqs[:0], n.Outputs[:0], a.source[:0]
	n.Top, n.From = b.Top, compute.Tensor{}
	end, next := 0, 0
	for _, seq := range b.Seqs {
		end += seq.Rows
		seq.Rows = 0
		for ; next < len(b.Outputs) && int(b.Outputs[next]) < end; next++ {
			row := b.Outputs[next]
			base := b.Positions[row]
			if source == DraftStates {
				base = a.bases[states[row]]
			}
			bases, n.Tokens, a.source = append(bases, base), append(n.Tokens, b.Tokens[row]), append(a.source, states[row])
			n.Outputs = append(n.Outputs, int32(next))
			seq.Rows++
		}
		if seq.Rows > 0 {
			n.Seqs = append(n.Seqs, seq)
		}
	}
	a.bases, n.Positions = bases, bases
}

func (a *assistant) forward(s compute.Step, m *gemma4, states compute.Tensor) (logits compute.Tensor) {
	rows, hidden := len(a.batch.Tokens), m.config.Hidden
	concat, x, h := a.concat.Head(rows), a.x.Head(rows), a.h.Head(rows)
	s.Embed(concat.Slice(0, hidden), m.embd)
	s.Affine(concat.Slice(0, hidden), m.embedScale, nil)
	s.Gather(concat.Slice(hidden, hidden), states, a.source)
	s.MatMul(x, concat, a.pre...)
	add := func(in compute.Tensor, w []compute.Weight, gain compute.Weight) {
		s.MatMul(h, in, w...)
		s.RMSNormAdd(x, h, gain, a.eps)
	}
	for i := range a.layers {
		l := &a.layers[i]
		q, attn, ffn := a.q.Head(rows).Slice(0, l.attention.cols), a.attn.Head(rows).Slice(0, l.attention.cols), a.ffn.Head(rows).Slice(0, l.network.gate.Shape()[1])
		s.RMSNorm(h, x, l.attention.norm, a.eps)
		s.MatMul(q, h, l.attention.weights...)
		s.RopeStore(q, l.attention.projection, l.attention.storing, l.attention.rope, m.cache, l.attention.stored)
		s.Attention(attn, q, l.attention.shape, m.cache, l.attention.stored)
		add(attn, l.attention.output, l.attention.postNorm)
		s.RMSNorm(h, x, l.network.norm, a.eps)
		s.GatedMatMul(ffn, h, l.network.gate, l.network.up, l.network.activation)
		add(ffn, l.network.down, l.network.postNorm)
		s.Affine(x, l.scale, nil)
	}
	s.RMSNorm(h, x, a.norm, a.eps)
	s.MatMul(a.states.Head(rows), h, a.post...)
	logits = m.logits.Head(rows)
	s.MatMul(logits, h, a.head...)
	return logits
}
