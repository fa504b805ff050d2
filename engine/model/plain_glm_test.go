package model_test

import (
	"fmt"
	"math"
	"slices"
)

// glmLayer is a block of DeepSeek-V2: MLA, then a dense network or a mixture of experts.
func (p *plain) glmLayer(i int, x [][]float64) [][]float64 {
	name := func(s string) string { return fmt.Sprintf("blk.%d.%s.weight", i, s) }
	out := make([][]float64, len(x))
	for t, attn := range p.latentAttention(i, p.normAll(x, name("attn_norm"))) {
		y := add(x[t], attn)
		h := p.norm(y, name("ffn_norm"))
		if p.has(name("ffn_gate")) {
			out[t] = add(y, gatedNetwork(p.tensor(name("ffn_gate")), p.tensor(name("ffn_up")), p.tensor(name("ffn_down")), h))
		} else {
			out[t] = add(y, p.mixture(i, h))
		}
	}
	return out
}

// latentAttention computes MLA over the normed h. A head's keys are [W_uk·c | k_pe], and its values
// are W_uv·c.
func (p *plain) latentAttention(i int, h [][]float64) [][]float64 {
	name := func(s string) string { return fmt.Sprintf("blk.%d.%s.weight", i, s) }
	heads, rank, dims := p.count("attention.head_count"), p.count("attention.kv_lora_rank"), p.count("rope.dimension_count")
	keyDim := p.count("attention.key_length_mla", "attention.key_length")
	nope := keyDim - dims
	inverse := p.inverseFrequencies(dims)
	scale := 1 / math.Sqrt(float64(keyDim))
	if factor := p.number("rope.scaling.factor"); factor > 1 {
		// DeepSeek-V2: softmax_scale·mscale², mscale = 0.1·mscale_all_dim·ln(factor) + 1; files
		// hold 0.1·mscale_all_dim.
		mscale := p.number("rope.scaling.yarn_log_multiplier")*math.Log(factor) + 1
		scale *= mscale * mscale
	}
	keys, values := make([][][]float64, heads), make([][][]float64, heads) // [head][position]
	out := make([][]float64, len(h))
	for t, row := range h {
		var q []float64
		if p.has(name("attn_q")) {
			q = times(p.tensor(name("attn_q")), row)
		} else {
			q = times(p.tensor(name("attn_q_b")), p.norm(times(p.tensor(name("attn_q_a")), row), name("attn_q_a_norm")))
		}
		kv := times(p.tensor(name("attn_kv_a_mqa")), row)
		c, kPE := p.norm(kv[:rank], name("attn_kv_a_norm")), rotate(kv[rank:], inverse, t, 1)
		var attn []float64
		for head := range heads {
			k, v := p.expand(i, head, c, nope)
			keys[head] = append(keys[head], slices.Concat(k, kPE))
			values[head] = append(values[head], v)
			query := q[head*keyDim : (head+1)*keyDim]
			query = slices.Concat(query[:nope], rotate(query[nope:], inverse, t, 1))
			attn = append(attn, attend(query, keys[head], values[head], scale)...)
		}
		out[t] = times(p.tensor(name("attn_output")), attn)
	}
	return out
}

// expand computes the key and value of one head from latent c. Some files have W_uk and W_uv of
// each head side by side in one tensor. Other files have two tensors: W_uk, transposed, and W_uv.
func (p *plain) expand(i, head int, c []float64, nope int) (key, value []float64) {
	valueDim := p.count("attention.value_length_mla", "attention.value_length")
	rank := len(c)
	if joint := fmt.Sprintf("blk.%d.attn_kv_b.weight", i); p.has(joint) {
		both := times(p.tensor(joint)[head*(nope+valueDim)*rank:(head+1)*(nope+valueDim)*rank], c)
		return both[:nope], both[nope:]
	}
	transposed := p.tensor(fmt.Sprintf("blk.%d.attn_k_b.weight", i))[head*nope*rank:]
	key = make([]float64, nope)
	for j := range key {
		for l, v := range c {
			key[j] += transposed[l*nope+j] * v
		}
	}
	return key, times(p.tensor(fmt.Sprintf("blk.%d.attn_v_b.weight", i))[head*valueDim*rank:(head+1)*valueDim*rank], c)
}

// mixture returns the weighted sum of the chosen experts' outputs, plus the outputs of the shared
// experts.
func (p *plain) mixture(i int, h []float64) []float64 {
	name := func(s string) string { return fmt.Sprintf("blk.%d.%s", i, s) }
	scores := times(p.tensor(name("ffn_gate_inp.weight")), h)
	sum := 0.0
	for e, s := range scores {
		if p.count("expert_gating_func") == 2 {
			scores[e] = 1 / (1 + math.Exp(-s))
		} else {
			scores[e] = math.Exp(s)
			sum += scores[e]
		}
	}
	order := make([]int, len(scores))
	biased := make([]float64, len(scores))
	for e := range scores {
		if sum > 0 {
			scores[e] /= sum
		}
		order[e], biased[e] = e, scores[e]
		if p.has(name("exp_probs_b.bias")) {
			biased[e] += p.tensor(name("exp_probs_b.bias"))[e]
		}
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case biased[a] > biased[b]:
			return -1
		case biased[a] < biased[b]:
			return 1
		}
		return 0
	})
	used := p.count("expert_used_count")
	if used < len(order) {
		p.tie = min(p.tie, biased[order[used-1]]-biased[order[used]])
	}
	sum = 1
	if p.number("expert_weights_norm") != 0 {
		sum = 0
		for _, e := range order[:used] {
			sum += scores[e]
		}
	}
	scale := p.number("expert_weights_scale")
	if scale == 0 {
		scale = 1
	}
	out := make([]float64, len(h))
	for _, e := range order[:used] {
		expert := func(s string) []float64 {
			all := p.tensor(name(s))
			n := len(all) / len(order)
			return all[e*n : (e+1)*n]
		}
		y := gatedNetwork(expert("ffn_gate_exps.weight"), expert("ffn_up_exps.weight"), expert("ffn_down_exps.weight"), h)
		for j, v := range y {
			out[j] += scale * scores[e] / sum * v
		}
	}
	if p.has(name("ffn_gate_shexp.weight")) {
		out = add(out, gatedNetwork(p.tensor(name("ffn_gate_shexp.weight")), p.tensor(name("ffn_up_shexp.weight")), p.tensor(name("ffn_down_shexp.weight")), h))
	}
	return out
}

// draft runs the MTP layer over the positions from 0 on. Position p is computed from the token at
// p+1 and states[p]. draft returns the MTP layer's states and logits.
func (p *plain) draft(tokens []int32, states [][]float64) (own, logits [][]float64) {
	i := p.count("block_count") - p.count("nextn_predict_layers")
	name := func(s string) string { return fmt.Sprintf("blk.%d.nextn.%s.weight", i, s) }
	table := "token_embd.weight"
	if p.has(name("embed_tokens")) {
		table = name("embed_tokens")
	}
	x := p.embed(table, tokens)
	for s := range x {
		x[s] = times(p.tensor(name("eh_proj")), slices.Concat(p.norm(x[s], name("enorm")), p.norm(states[s], name("hnorm"))))
	}
	own = p.glmLayer(i, x)
	return own, p.head(p.normAll(own, name("shared_head_norm")), name("shared_head_head"), "output.weight", "token_embd.weight")
}
