package computetest

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/compute"
)

// TestFindsWrongArguments checks that the suite finds faults in the arguments of one operation.
// With most of these faults, a model would still generate plausible text.
func TestFindsWrongArguments(t *testing.T) {
	for _, fault := range []struct {
		name, check string
		replace     func(s site) compute.Step
	}{
		{"another token", "Embed", func(s site) compute.Step { return otherToken{s} }},
		{"the row before", "Gather", func(s site) compute.Step { return rowBefore{s} }},
		{"eps", "RMSNorm", func(s site) compute.Step { return wrongEps{s} }},
		{"eps of latents", "Latents", func(s site) compute.Step { return wrongEps{s} }},
		{"weights exchanged", "MatMul", func(s site) compute.Step { return swapped{s} }},
		{"gate and up exchanged", "GatedMatMul", func(s site) compute.Step { return swapped{s} }},
		{"set, not added", "MatMulAdd", func(s site) compute.Step { return setting{s} }},
		{"activations of 8 bits for MatMul", "MatMul", func(s site) compute.Step { return rounding{s, eightBits} }},
		{"activations of 8 bits for MatMulAdd", "MatMulAdd", func(s site) compute.Step { return rounding{s, eightBits} }},
		{"activations of 8 bits for GatedMatMul", "GatedMatMul", func(s site) compute.Step { return rounding{s, eightBits} }},
		{"activations of 8 bits for Expand", "Expand", func(s site) compute.Step { return rounding{s, eightBits} }},
		{"activations of 8 bits for GatedExperts", "GatedExperts", func(s site) compute.Step { return rounding{s, eightBits} }},
		{"activations of 8 bits for ExpertsAdd", "ExpertsAdd", func(s site) compute.Step { return rounding{s, eightBits} }},
		{"rotated by the next position", "RopeStore", func(s site) compute.Step { return moved{s} }},
		{"latents of the next position", "Latents", func(s site) compute.Step { return moved{s} }},
		{"stored on another page", "Attention", func(s site) compute.Step { return misplaced{s, "store"} }},
		{"read from another page", "Attention", func(s site) compute.Step { return misplaced{s, "read"} }},
		{"latents stored on another page", "AttentionMLA", func(s site) compute.Step { return misplaced{s, "store"} }},
		{"not itself in its attention", "Attention", func(s site) compute.Step { return shortSighted{s} }},
		{"another layer", "Attention", func(s site) compute.Step { return otherLayer{s} }},
		{"normed, not added", "RMSNormAdd", func(s site) compute.Step { return setting{s} }},
		{"not scaled", "Affine", func(s site) compute.Step { return plainAffine{s, 1, true} }},
		{"no bias added", "Affine", func(s site) compute.Step { return plainAffine{s, 0, false} }},
		{"gated by itself", "Gate", func(s site) compute.Step { return gatedByItself{s} }},
		{"another limit", "SoftCap", func(s site) compute.Step { return otherLimit{s} }},
		{"gate and up of tensors exchanged", "Activate", func(s site) compute.Step { return swapped{s} }},
		{"values not normed", "RopeStore", func(s site) compute.Step {
			return projected{s, func(p *compute.Projection) { p.ValueNorm = false }}
		}},
		{"values not from keys", "RopeStore", func(s site) compute.Step {
			return projected{s, func(p *compute.Projection) { p.ValuesFromKeys = false }}
		}},
		{"another part", "Attention", func(s site) compute.Step { return otherPart{s} }},
		{"weights of experts not scaled", "Route", func(s site) compute.Step { return unscaledExperts{s} }},
		{"another activation", "GatedMatMul", func(s site) compute.Step { return siluOnly{s} }},
		{"another activation of experts", "GatedExperts", func(s site) compute.Step { return siluOnly{s} }},
		{"no biases of experts", "GatedExperts", func(s site) compute.Step { return unbiased{s} }},
		{"no bias of down products", "ExpertsAdd", func(s site) compute.Step { return unbiased{s} }},
		{"no bias of a projection", "RopeStore", func(s site) compute.Step {
			return projected{s, func(p *compute.Projection) { p.Bias = nil }}
		}},
		{"heads not normed", "RopeStore", func(s site) compute.Step {
			return projected{s, func(p *compute.Projection) { p.QueryNorm, p.KeyNorm = nil, nil }}
		}},
		{"norms exchanged", "RopeStore", func(s site) compute.Step {
			return projected{s, func(p *compute.Projection) { p.QueryNorm, p.KeyNorm = p.KeyNorm, p.QueryNorm }}
		}},
		{"eps of heads", "RopeStore", func(s site) compute.Step {
			return projected{s, func(p *compute.Projection) { p.Eps /= 10 }}
		}},
		{"no window", "Attention", func(s site) compute.Step {
			return reshaped{s, func(a *compute.AttentionShape) { a.Window = 0 }}
		}},
		{"a window too long by one", "Attention", func(s site) compute.Step {
			return reshaped{s, func(a *compute.AttentionShape) { a.Window++ }}
		}},
		{"no sinks", "Attention", func(s site) compute.Step {
			return reshaped{s, func(a *compute.AttentionShape) { a.Sinks = nil }}
		}},
		{"bias of probabilities", "Route", func(s site) compute.Step { return biasedLate{s} }},
		{"rows of a convolution on another page", "ShortConv", func(s site) compute.Step { return misplaced{s, "read"} }},
		{"rows of a convolution in another layer", "ShortConv", func(s site) compute.Step { return otherLayer{s} }},
		{"a convolution of the next position", "ShortConv", func(s site) compute.Step { return moved{s} }},
		{"gates of a convolution exchanged", "ShortConv", func(s site) compute.Step { return swapped{s} }},
		{"no scale", "AttentionMLA", func(s site) compute.Step { return unscaled{s} }},
		{"no bias", "Route", func(s site) compute.Step { return unbiased{s} }},
		{"not normalised", "Route", func(s site) compute.Step { return unnormalised{s} }},
		{"worst first", "Route", func(s site) compute.Step { return reversed{s} }},
		{"the last of equals", "RouteTies", func(s site) compute.Step { return lastOfEquals{s} }},
		{"no shared experts", "GatedExperts", func(s site) compute.Step { return unshared{s} }},
		{"shared experts not added", "ExpertsAdd", func(s site) compute.Step { return unshared{s} }},
		{"no checkpoints", "Checkpoint", func(s site) compute.Step { return untraced{s} }},
		{"the tokens of the batch", "InFlight", func(s site) compute.Step { return staleTokens{s} }},
		{"the last of the best", "Top", func(s site) compute.Step { return lastOfBest{s} }},
		{"drawn without edits", "Draw", changedDraws(func(d *compute.Draw) { d.Edits = nil })},
		{"drawn without a mask", "Draw", changedDraws(func(d *compute.Draw) { d.Mask = nil })},
		{"drawn without top_k", "Draw", changedDraws(func(d *compute.Draw) { d.TopK = 0 })},
		{"drawn without top_p", "Draw", changedDraws(func(d *compute.Draw) { d.TopP = 0 })},
		{"drawn without min_p", "Draw", changedDraws(func(d *compute.Draw) { d.MinP = 0 })},
		{"drawn without presence penalty", "Draw", changedDraws(func(d *compute.Draw) { d.Presence = 0 })},
		{"drawn for the position before", "Draw", changedDraws(func(d *compute.Draw) { d.Position-- })},
		{"drawn for the first choice", "Draw", changedDraws(func(d *compute.Draw) { d.Choice = 0 })},
		{"drawn although given", "Draw", changedDraws(func(d *compute.Draw) { d.Given = false })},
		{"no bias of a convolution", "Convolve", func(s site) compute.Step { return unbiased{s} }},
		{"another layer's inputs", "Convolve", func(s site) compute.Step { return otherLayer{s} }},
		{"another layer's matrices", "DeltaNet", func(s site) compute.Step { return otherLayer{s} }},
		{"key heads in another order", "DeltaNet", func(s site) compute.Step { return regrouped{s} }},
		{"the gate after the norm", "GatedNorm", func(s site) compute.Step { return gateLast{s} }},
		{"inputs of an empty state", "Convolve", changedStates(func(st *compute.SeqState) { st.From = -1 })},
		{"matrices of an empty state", "DeltaNet", changedStates(func(st *compute.SeqState) { st.From = -1 })},
		{"inputs of the slot", "Convolve", changedStates(fromSlot)},
		{"matrices of the slot", "DeltaNet", changedStates(fromSlot)},
		{"inputs without accepted drafts", "Convolve", changedStates(func(st *compute.SeqState) { st.Accepted = 0 })},
		{"matrices without accepted drafts", "DeltaNet", changedStates(func(st *compute.SeqState) { st.Accepted = 0 })},
		{"inputs of rejected drafts", "Convolve", changedStates(func(st *compute.SeqState) { st.Drafts = 0 })},
		{"matrices with rejected drafts", "DeltaNet", changedStates(func(st *compute.SeqState) { st.Drafts = 0 })},
		{"another layer's matrices of a scan", "Scan", func(s site) compute.Step { return otherLayer{s} }},
		{"matrices of a scan of an empty state", "Scan", changedStates(func(st *compute.SeqState) { st.From = -1 })},
		{"matrices of a scan of the slot", "Scan", changedStates(fromSlot)},
		{"a scan without accepted drafts", "Scan", changedStates(func(st *compute.SeqState) { st.Accepted = 0 })},
		{"a scan with rejected drafts", "Scan", changedStates(func(st *compute.SeqState) { st.Drafts = 0 })},
		{"chunks of generated rows of a scan", "Scan", changedStates(func(st *compute.SeqState) { st.Prompt++ })},
		{"one group of heads", "Scan", func(s site) compute.Step { return oneGroup{s} }},
		{"bias in place of skip", "Scan", func(s site) compute.Step { return otherSkip{s} }},
		{"chunks of generated rows", "DeltaNet", changedStates(func(st *compute.SeqState) { st.Prompt++ })},
		{"operations out of order", "Sequence", func(s site) compute.Step { return &late{site: s} }},
	} {
		t.Run(fault.name, func(t *testing.T) {
			t.Parallel()
			err := verdict(t, fault.check, fault.replace)
			require.Error(t, err)
			t.Log(err)
		})
	}
}

type staleTokens struct{ site }

func (s staleTokens) Embed(dst compute.Tensor, table compute.Weight) {
	from := s.batch.From
	s.batch.From = compute.Tensor{}
	s.Step.Embed(dst, table)
	s.batch.From = from
}

type lastOfBest struct{ site }

func (s lastOfBest) Top(dst, logits compute.Tensor, k int) {
	s.Step.Top(dst, logits, k)
	for _, row := range s.be.Floats(dst) {
		slices.Reverse(row[:k])
	}
}

// changedDraws makes steps that change each draw.
func changedDraws(change func(d *compute.Draw)) func(s site) compute.Step {
	return func(s site) compute.Step { return otherDraws{s, change} }
}

type otherDraws struct {
	site
	change func(d *compute.Draw)
}

func (s otherDraws) Draw(dst, logits compute.Tensor, draws []compute.Draw) {
	draws = slices.Clone(draws)
	for i := range draws {
		s.change(&draws[i])
	}
	s.Step.Draw(dst, logits, draws)
}

type otherToken struct{ site }

func (s otherToken) Embed(dst compute.Tensor, table compute.Weight) {
	if table.Shape()[0] != dst.Stride { // change only views, because the checks load their inputs into whole buffers with Embed
		slices.Reverse(s.batch.Tokens)
		defer slices.Reverse(s.batch.Tokens)
	}
	s.Step.Embed(dst, table)
}

type rowBefore struct{ site }

func (s rowBefore) Gather(dst, src compute.Tensor, rows []int32) {
	rows = slices.Clone(rows)
	for i := range rows {
		rows[i] = max(rows[i]-1, 0)
	}
	s.Step.Gather(dst, src, rows)
}

type wrongEps struct{ site }

func (s wrongEps) RMSNorm(dst, src compute.Tensor, gain compute.Weight, eps float32) {
	s.Step.RMSNorm(dst, src, gain, eps/10)
}

func (s wrongEps) Latents(dst, a compute.Tensor, qGain, kvGain compute.Weight, eps float32, rope compute.Rope, cache compute.Cache, layer int) {
	s.Step.Latents(dst, a, qGain, kvGain, 1000*eps, rope, cache, layer)
}

type swapped struct{ site }

func (s swapped) MatMul(dst, x compute.Tensor, w ...compute.Weight) {
	w = slices.Clone(w)
	slices.Reverse(w)
	s.Step.MatMul(dst, x, w...)
}

func (s swapped) GatedMatMul(dst, x compute.Tensor, gate, up compute.Weight, act compute.Activation) {
	s.Step.GatedMatMul(dst, x, up, gate, act)
}

func (s swapped) ShortConv(c, b, x compute.Tensor, w compute.Weight, shape compute.AttentionShape, cache compute.Cache, layer int) {
	s.Step.ShortConv(c, x, b, w, shape, cache, layer)
}

func (s swapped) Activate(dst, gate, up compute.Tensor, act compute.Activation) {
	s.Step.Activate(dst, up, gate, act)
}

// otherPart reads from another layer that shares the memory of the right one.
type otherPart struct{ site }

func (s otherPart) Attention(dst, q compute.Tensor, shape compute.AttentionShape, cache compute.Cache, layer int) {
	c := cache.Shape()
	if _, _, part, parts := c.Place(layer); parts > 1 {
		layer += (part+1)%parts - part
	}
	s.Step.Attention(dst, q, shape, cache, layer)
}

type unscaledExperts struct{ site }

func (s unscaledExperts) Route(dst, x compute.Tensor, router, bias compute.Weight, shape compute.RouteShape) {
	if shape.Scaled {
		defer func() {
			for _, row := range s.be.Floats(dst) {
				for k := range shape.Used {
					row[shape.Used+k] /= 1.5
				}
			}
		}()
	}
	s.Step.Route(dst, x, router, bias, shape)
}

type setting struct{ site }

func (s setting) MatMulAdd(dst, x compute.Tensor, w compute.Weight) { s.MatMul(dst, x, w) }

func (s setting) RMSNormAdd(dst, src compute.Tensor, gain compute.Weight, eps float32) {
	s.RMSNorm(dst, src, gain, eps)
}

// plainAffine replaces the scale of Affine, or drops the bias.
type plainAffine struct {
	site
	scale float32 // 0 for the right scale
	bias  bool
}

func (s plainAffine) Affine(t compute.Tensor, scale float32, bias compute.Weight) {
	if s.scale != 0 {
		scale = s.scale
	}
	if !s.bias {
		bias = nil
	}
	s.Step.Affine(t, scale, bias)
}

type gatedByItself struct{ site }

func (s gatedByItself) Gate(dst, _ compute.Tensor) { s.Step.Gate(dst, dst) }

type otherLimit struct{ site }

func (s otherLimit) SoftCap(t compute.Tensor, limit float32) { s.Step.SoftCap(t, 1.001*limit) }

type siluOnly struct{ site }

func (s siluOnly) GatedMatMul(dst, x compute.Tensor, gate, up compute.Weight, _ compute.Activation) {
	s.Step.GatedMatMul(dst, x, gate, up, compute.SiLU)
}

func (s siluOnly) GatedExperts(dst, x, routing compute.Tensor, e compute.Experts) {
	e.Activation = compute.SiLU
	s.Step.GatedExperts(dst, x, routing, e)
}

// projected changes the projection of RopeStore.
type projected struct {
	site
	change func(p *compute.Projection)
}

func (s projected) RopeStore(qkv compute.Tensor, p compute.Projection, shape compute.AttentionShape, rope compute.Rope, cache compute.Cache, layer int) {
	s.change(&p)
	s.Step.RopeStore(qkv, p, shape, rope, cache, layer)
}

// reshaped changes the shape of Attention.
type reshaped struct {
	site
	change func(a *compute.AttentionShape)
}

func (s reshaped) Attention(dst, q compute.Tensor, shape compute.AttentionShape, cache compute.Cache, layer int) {
	s.change(&shape)
	s.Step.Attention(dst, q, shape, cache, layer)
}

type biasedLate struct{ site }

func (s biasedLate) Route(dst, x compute.Tensor, router, bias compute.Weight, shape compute.RouteShape) {
	shape.BiasLogits = false
	s.Step.Route(dst, x, router, bias, shape)
}

// moved rotates each row by the next position instead of its own.
type moved struct{ site }

func (s moved) shift(by int32) {
	for i := range s.batch.Positions {
		s.batch.Positions[i] += by
	}
}

func (s moved) RopeStore(qkv compute.Tensor, p compute.Projection, shape compute.AttentionShape, rope compute.Rope, cache compute.Cache, layer int) {
	s.inRoom(cache, layer, func() { s.Step.RopeStore(qkv, p, shape, rope, cache, layer) })
}

func (s moved) ShortConv(c, b, x compute.Tensor, w compute.Weight, shape compute.AttentionShape, cache compute.Cache, layer int) {
	s.inRoom(cache, layer, func() { s.Step.ShortConv(c, b, x, w, shape, cache, layer) })
}

func (s moved) Latents(dst, a compute.Tensor, qGain, kvGain compute.Weight, eps float32, rope compute.Rope, cache compute.Cache, layer int) {
	s.inRoom(cache, layer, func() { s.Step.Latents(dst, a, qGain, kvGain, eps, rope, cache, layer) })
}

// inRoom runs an operation with the positions of the rows increased by one. It does not change rows
// whose page table has no room for the next position.
func (s moved) inRoom(cache compute.Cache, layer int, op func()) {
	shape, row := cache.Shape(), 0
	group, _, _, _ := shape.Place(layer)
	for _, seq := range s.batch.Seqs {
		row += seq.Rows
		if int(s.batch.Positions[row-1])+1 >= len(seq.Table(group))*shape.PageSize {
			op()
			return
		}
	}
	s.shift(1)
	op()
	s.shift(-1)
}

// misplaced swaps the first two pages of every page table, either while keys and values are stored
// or while they are read.
type misplaced struct {
	site
	when string
}

func (s misplaced) swap(when string, op func()) {
	tables := make([][]int32, len(s.batch.Seqs))
	for i := range s.batch.Seqs {
		tables[i] = s.batch.Seqs[i].Pages
		if pages := slices.Clone(tables[i]); when == s.when && len(pages) > 1 {
			pages[0], pages[1] = pages[1], pages[0]
			s.batch.Seqs[i].Pages = pages
		}
	}
	op()
	for i := range s.batch.Seqs {
		s.batch.Seqs[i].Pages = tables[i]
	}
}

func (s misplaced) RopeStore(qkv compute.Tensor, p compute.Projection, shape compute.AttentionShape, rope compute.Rope, cache compute.Cache, layer int) {
	s.swap("store", func() { s.Step.RopeStore(qkv, p, shape, rope, cache, layer) })
}

// ShortConv stores rows and reads them in one operation, so it is misplaced as a whole.
func (s misplaced) ShortConv(c, b, x compute.Tensor, w compute.Weight, shape compute.AttentionShape, cache compute.Cache, layer int) {
	s.swap("read", func() { s.Step.ShortConv(c, b, x, w, shape, cache, layer) })
}

func (s misplaced) Latents(dst, a compute.Tensor, qGain, kvGain compute.Weight, eps float32, rope compute.Rope, cache compute.Cache, layer int) {
	s.swap("store", func() { s.Step.Latents(dst, a, qGain, kvGain, eps, rope, cache, layer) })
}

func (s misplaced) Attention(dst, q compute.Tensor, shape compute.AttentionShape, cache compute.Cache, layer int) {
	s.swap("read", func() { s.Step.Attention(dst, q, shape, cache, layer) })
}

type shortSighted struct{ site }

func (s shortSighted) Attention(dst, q compute.Tensor, shape compute.AttentionShape, cache compute.Cache, layer int) {
	positions := slices.Clone(s.batch.Positions)
	for i := range positions {
		s.batch.Positions[i] = max(positions[i]-1, 0)
	}
	s.Step.Attention(dst, q, shape, cache, layer)
	copy(s.batch.Positions, positions)
}

type otherLayer struct{ site }

func (s otherLayer) Attention(dst, q compute.Tensor, shape compute.AttentionShape, cache compute.Cache, layer int) {
	s.Step.Attention(dst, q, shape, cache, (layer+1)%cache.Shape().Layers)
}

// ShortConv stores the rows of short steps in another layer.
func (s otherLayer) ShortConv(c, b, x compute.Tensor, w compute.Weight, shape compute.AttentionShape, cache compute.Cache, layer int) {
	if c.Rows == 1 {
		layer = (layer + 1) % cache.Shape().Layers
	}
	s.Step.ShortConv(c, b, x, w, shape, cache, layer)
}

type unscaled struct{ site }

func (s unscaled) Attention(dst, q compute.Tensor, shape compute.AttentionShape, cache compute.Cache, layer int) {
	shape.Scale = float32(1 / math.Sqrt(float64(shape.KeyDim)))
	s.Step.Attention(dst, q, shape, cache, layer)
}

type untraced struct{ site }

func (untraced) Checkpoint(int, string, compute.Tensor) {}

// late runs the norms at the end of the step instead of in order.
type late struct {
	site
	norms []func()
}

func (s *late) RMSNorm(dst, src compute.Tensor, gain compute.Weight, eps float32) {
	s.norms = append(s.norms, func() { s.Step.RMSNorm(dst, src, gain, eps) })
}

func (s *late) Run() error {
	for _, norm := range s.norms {
		norm()
	}
	return s.Step.Run()
}
