package model_test

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/gguf"
)

// plain computes models as their papers define them: in float64, over whole sequences, one token at
// a time and without a cache. Multi-head latent attention is not absorbed: the keys and values of
// every head are made from the latents.
type plain struct {
	tb      testing.TB
	file    *gguf.File
	tensors map[string][]float64
	// tie is the smallest difference so far between the scores of a chosen expert and of an expert
	// that was not chosen.
	tie float64
}

func newPlain(tb testing.TB, path string) *plain {
	tb.Helper()
	f, err := gguf.Open(path)
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, f.Close()) })
	p := &plain{tb: tb, file: f, tensors: map[string][]float64{}, tie: math.Inf(1)}
	for _, tensor := range f.Tensors() {
		values := tensor.Values()
		wide := make([]float64, len(values))
		for i, v := range values {
			wide[i] = float64(v)
		}
		p.tensors[tensor.Name] = wide
	}
	p.scaleNVFP4()
	return p
}

func (p *plain) arch() string {
	arch, err := p.file.Meta().String("general.architecture")
	require.NoError(p.tb, err)
	return arch
}

// number reads a setting of the architecture. The file may have it under any of the names. It
// returns 0 if the file has none of them.
func (p *plain) number(names ...string) float64 {
	for _, name := range names {
		switch v, _ := p.file.Meta().Any(p.arch() + "." + name); v := v.(type) {
		case uint32:
			return float64(v)
		case float32:
			return float64(v)
		case bool:
			if v {
				return 1
			}
		}
	}
	return 0
}

func (p *plain) count(names ...string) int { return int(p.number(names...)) }

func (p *plain) has(name string) bool { return p.tensors[name] != nil }

func (p *plain) tensor(name string) []float64 {
	require.True(p.tb, p.has(name), "the file has no tensor %s", name)
	return p.tensors[name]
}

// times returns W·x. Each row of W has len(x) values.
func times(w, x []float64) []float64 {
	out := make([]float64, len(w)/len(x))
	for o := range out {
		out[o] = inner(w[o*len(x):], x)
	}
	return out
}

func inner(w, x []float64) float64 {
	sum := 0.0
	for i, v := range x {
		sum += w[i] * v
	}
	return sum
}

func add(a, b []float64) []float64 {
	out := make([]float64, len(a))
	for i := range a {
		out[i] = a[i] + b[i]
	}
	return out
}

func (p *plain) norm(x []float64, gain string) []float64 {
	mean := inner(x, x) / float64(len(x))
	scale := 1 / math.Sqrt(mean+p.number("attention.layer_norm_rms_epsilon"))
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = v * scale * p.tensor(gain)[i]
	}
	return out
}

func (p *plain) normAll(x [][]float64, gain string) [][]float64 {
	out := make([][]float64, len(x))
	for i, row := range x {
		out[i] = p.norm(row, gain)
	}
	return out
}

func silu(x float64) float64 { return x / (1 + math.Exp(-x)) }

// gatedNetwork returns W_down(silu(W_gate·x)*(W_up·x)).
func gatedNetwork(gate, up, down, x []float64) []float64 {
	g, u := times(gate, x), times(up, x)
	for i := range g {
		g[i] = silu(g[i]) * u[i]
	}
	return times(down, g)
}

// inverseFrequencies returns the inverse frequencies of RoPE for dims values. They are unchanged,
// divided by a factor (linear), or changed by YaRN (Peng et al. 2023) as in DeepSeek-V2's own code.
func (p *plain) inverseFrequencies(dims int) []float64 {
	base, factor := p.number("rope.freq_base"), p.number("rope.scaling.factor")
	if factor == 0 {
		factor = 1
	}
	kind, _ := p.file.Meta().String(p.arch() + ".rope.scaling.type")
	if kind == "" {
		kind = "linear" // the earliest files have only a factor
	}
	out := make([]float64, dims/2)
	for i := range out {
		extra := 1 / math.Pow(base, float64(2*i)/float64(dims))
		inter := 1 / (factor * math.Pow(base, float64(2*i)/float64(dims)))
		switch kind {
		case "linear":
			out[i] = inter
		case "yarn":
			correction := func(rotations float64) float64 {
				context := p.number("rope.scaling.original_context_length")
				return float64(dims) * math.Log(context/(rotations*2*math.Pi)) / (2 * math.Log(base))
			}
			fast, slow := cmp.Or(p.number("rope.scaling.yarn_beta_fast"), 32), cmp.Or(p.number("rope.scaling.yarn_beta_slow"), 1)
			low, high := max(math.Floor(correction(fast)), 0), min(math.Ceil(correction(slow)), float64(dims-1))
			if low == high {
				high += 0.001
			}
			mask := 1 - min(max((float64(i)-low)/(high-low), 0), 1)
			out[i] = inter*(1-mask) + extra*mask
		default:
			out[i] = extra
		}
		if p.has("rope_freqs.weight") {
			out[i] /= p.tensor("rope_freqs.weight")[i]
		}
	}
	return out
}

// rotate rotates the first pairs of x by the angles of a position.
func rotate(x, inverse []float64, position int, scale float64) []float64 {
	out := slices.Clone(x)
	for i, f := range inverse {
		sin, cos := math.Sincos(float64(position) * f)
		out[2*i] = scale * (x[2*i]*cos - x[2*i+1]*sin)
		out[2*i+1] = scale * (x[2*i]*sin + x[2*i+1]*cos)
	}
	return out
}

// attend returns softmax(scale·q·kᵀ)·v.
func attend(q []float64, keys, values [][]float64, scale float64) []float64 {
	weights := make([]float64, len(keys))
	best, sum := math.Inf(-1), 0.0
	for s, k := range keys {
		weights[s] = scale * inner(k, q)
		best = max(best, weights[s])
	}
	for s := range weights {
		weights[s] = math.Exp(weights[s] - best)
		sum += weights[s]
	}
	out := make([]float64, len(values[0]))
	for s, v := range values {
		for i := range out {
			out[i] += weights[s] / sum * v[i]
		}
	}
	return out
}

// forward returns the hidden states after the final norm and the logits of every position.
func (p *plain) forward(tokens []int32) (hidden, logits [][]float64) {
	x := p.embed("token_embd.weight", tokens)
	layers := p.count("block_count")
	if p.arch() == "llama" {
		for i := range layers {
			x = p.llamaLayer(i, x)
		}
	} else {
		for i := range layers - p.count("nextn_predict_layers") {
			x = p.glmLayer(i, x)
		}
	}
	hidden = p.normAll(x, "output_norm.weight")
	return hidden, p.head(hidden, "output.weight", "token_embd.weight")
}

func (p *plain) embed(table string, tokens []int32) [][]float64 {
	n := p.count("embedding_length")
	x := make([][]float64, len(tokens))
	for i, token := range tokens {
		x[i] = p.tensor(table)[int(token)*n : int(token+1)*n]
	}
	return x
}

// head returns the logits. It uses the first of the named weights that the file has.
func (p *plain) head(hidden [][]float64, names ...string) [][]float64 {
	at := slices.IndexFunc(names, p.has)
	require.GreaterOrEqual(p.tb, at, 0)
	logits := make([][]float64, len(hidden))
	for i, row := range hidden {
		logits[i] = times(p.tensor(names[at]), row)
	}
	return logits
}

func (p *plain) llamaLayer(i int, x [][]float64) [][]float64 {
	name := func(s string) string { return fmt.Sprintf("blk.%d.%s.weight", i, s) }
	hidden, heads := p.count("embedding_length"), p.count("attention.head_count")
	kvHeads := p.count("attention.head_count_kv", "attention.head_count")
	dim := cmp.Or(p.count("attention.key_length"), hidden/heads)
	valueDim := cmp.Or(p.count("attention.value_length"), dim)
	inverse, scale := p.inverseFrequencies(cmp.Or(p.count("rope.dimension_count"), dim)), 1.0
	if kind, _ := p.file.Meta().String("llama.rope.scaling.type"); kind == "yarn" {
		scale = 0.1*math.Log(p.number("rope.scaling.factor")) + 1
	}
	keys, values := make([][][]float64, kvHeads), make([][][]float64, kvHeads) // [head][position]
	out := make([][]float64, len(x))
	for t, h := range p.normAll(x, name("attn_norm")) {
		q, k, v := times(p.tensor(name("attn_q")), h), times(p.tensor(name("attn_k")), h), times(p.tensor(name("attn_v")), h)
		for head := range kvHeads {
			keys[head] = append(keys[head], rotate(k[head*dim:(head+1)*dim], inverse, t, scale))
			values[head] = append(values[head], v[head*valueDim:(head+1)*valueDim])
		}
		var attn []float64
		for head := range heads {
			kv := head / (heads / kvHeads)
			query := rotate(q[head*dim:(head+1)*dim], inverse, t, scale)
			attn = append(attn, attend(query, keys[kv], values[kv], 1/math.Sqrt(float64(dim)))...)
		}
		y := add(x[t], times(p.tensor(name("attn_output")), attn))
		n := p.norm(y, name("ffn_norm"))
		if p.count("expert_count") > 0 {
			out[t] = add(y, p.mixtralExperts(i, n))
			continue
		}
		out[t] = add(y, gatedNetwork(p.tensor(name("ffn_gate")), p.tensor(name("ffn_up")), p.tensor(name("ffn_down")), n))
	}
	return out
}

// mixtralExperts returns the output of a layer's experts as Mixtral's paper defines it (Jiang et
// al. 2024): the sum of the experts with the highest logits, weighted by the softmax of these
// logits.
func (p *plain) mixtralExperts(layer int, h []float64) []float64 {
	name := func(s string) string { return fmt.Sprintf("blk.%d.%s.weight", layer, s) }
	logits := times(p.tensor(name("ffn_gate_inp")), h)
	order := make([]int, len(logits))
	for e := range order {
		order[e] = e
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(logits[b], logits[a]) })
	used := p.count("expert_used_count")
	p.tie = min(p.tie, logits[order[used-1]]-logits[order[used]])
	sum := 0.0
	for _, e := range order[:used] {
		sum += math.Exp(logits[e])
	}
	out := make([]float64, len(h))
	for _, e := range order[:used] {
		expert := func(s string) []float64 {
			all := p.tensor(name(s))
			n := len(all) / len(order)
			return all[e*n : (e+1)*n]
		}
		for j, v := range gatedNetwork(expert("ffn_gate_exps"), expert("ffn_up_exps"), expert("ffn_down_exps"), h) {
			out[j] += math.Exp(logits[e]) / sum * v
		}
	}
	return out
}
