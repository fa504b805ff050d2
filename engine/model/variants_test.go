package model_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/cpu"
	"github.com/ingot-run/ingot/engine/gguf"
	"github.com/ingot-run/ingot/engine/model"
	"github.com/ingot-run/ingot/engine/model/modeltest"
)

// tolerance limits the distance of logits from the plain forward pass. The difference comes from
// rounding, from a float16 cache and, with weights in blocks, from activations of 16 bits. The
// logits of an unrelated model have a distance of 1.4.
const tolerance = 2e-3

// smallLimits has room for the tests' sequences.
var smallLimits = model.Limits{Rows: 32, Outputs: 32, Context: 64, Pages: modeltest.Limits.Pages, PageSize: 4, States: 2, Drafts: 1}

// load loads a file on one thread.
func load(tb testing.TB, path string) (model.Model, error) {
	tb.Helper()
	f, err := gguf.Open(path)
	require.NoError(tb, err)
	be, err := cpu.New(1)
	require.NoError(tb, err)
	closeBoth := func() {
		require.NoError(tb, be.Close())
		require.NoError(tb, f.Close())
	}
	m, err := model.Load(be, f, smallLimits)
	if err != nil { // not at the end of a test that loads hundreds of files
		closeBoth()
		return nil, err
	}
	tb.Cleanup(closeBoth)
	return m, nil
}

// sequence is some tokens with the results of the plain forward pass.
type sequence struct {
	tokens           []int32
	hidden, logits   [][]float64
	own, draftLogits [][]float64 // states and logits of the MTP layer; the last ones are those of a draft that follows another draft
	pages            []int32
}

// draw draws tokens. It avoids near ties in the choice of experts, since rounding could decide them
// either way.
func (p *plain) draw(r *rand.Rand, n int, drafts bool) *sequence {
	const margin = 2e-3
	for {
		p.tie = 1
		s := &sequence{}
		for range n {
			s.tokens = append(s.tokens, r.Int32N(vocab))
		}
		s.hidden, s.logits = p.forward(s.tokens)
		if drafts {
			slots, states := s.tokens[1:], s.hidden[:n-1]
			own, _ := p.draft(slots, states)
			s.own, s.draftLogits = p.draft(append(slices.Clone(slots), s.tokens[0]), append(slices.Clone(states), own[n-2]))
		}
		if p.tie > margin {
			return s
		}
	}
}

// requirePlain compares a file's model with the plain forward pass. It computes two sequences in
// steps that mix them, and drafts.
func requirePlain(t *testing.T, path string) {
	t.Helper()
	m, err := load(t, path)
	require.NoError(t, err)
	p, r := newPlain(t, path), rand.New(rand.NewPCG(3, 4))
	drafts := m.Config().DraftLayers > 0
	a, b := p.draw(r, 14, drafts), p.draw(r, 9, drafts)
	a.pages, b.pages = []int32{7, 2, 11, 5}, []int32{1, 9, 4}

	worst := 0.0
	at := []int{0, 0}
	for _, rows := range [][2]int{{5, 1}, {1, 7}, {8, 1}} {
		var step compute.Batch
		var want [][]float64
		for i, s := range []*sequence{a, b} {
			step.Seqs = append(step.Seqs, compute.Seq{Rows: rows[i], Pages: s.pages})
			for range rows[i] {
				step.Outputs = append(step.Outputs, int32(len(step.Tokens)))
				step.Tokens = append(step.Tokens, s.tokens[at[i]])
				step.Positions = append(step.Positions, int32(at[i]))
				want = append(want, s.logits[at[i]])
				at[i]++
			}
		}
		got, err := m.Forward(&step)
		require.NoError(t, err)
		for i := range want {
			worst = max(worst, distance(got[i], want[i]))
		}
	}
	t.Logf("logits are at most %.2g apart", worst)
	require.Less(t, worst, tolerance)
	if drafts {
		requirePlainDrafts(t, m.(model.Drafter), a)
	}
}

func requirePlainDrafts(t *testing.T, m model.Drafter, s *sequence) {
	t.Helper()
	n := len(s.tokens)
	_, err := m.Forward(modeltest.Batch(s.tokens, 0))
	require.NoError(t, err)
	require.NoError(t, m.Draft(modeltest.Batch(s.tokens[1:], 0), model.TrunkStates, rows(n-1)))
	for i, got := range m.Logits() {
		require.Less(t, distance(got, s.draftLogits[i]), tolerance, "slot %d", i)
	}
	require.NoError(t, m.Draft(modeltest.Batch(s.tokens[:1], n-1), model.DraftStates, []int32{int32(n - 2)}))
	require.Less(t, distance(m.Logits()[0], s.draftLogits[n-1]), tolerance, "the chained slot")
}

func TestLlamaVariants(t *testing.T) {
	base := llamaLayout{hidden: 64, heads: 4, kvHeads: 2}
	for _, v := range []struct {
		name   string
		layout llamaLayout
		change func(b *build)
	}{
		{"plain", base, nil},
		{"no head_count_kv", llamaLayout{hidden: 64, heads: 4, kvHeads: 4}, func(b *build) { b.remove("attention.head_count_kv") }},
		{"a key head a query head", llamaLayout{hidden: 64, heads: 4, kvHeads: 4}, nil},
		{"one key head", llamaLayout{hidden: 64, heads: 4, kvHeads: 1}, nil},
		{"tied", llamaLayout{hidden: 64, heads: 4, kvHeads: 2, tied: true}, nil},
		{"a given head size", llamaLayout{hidden: 64, heads: 4, kvHeads: 2, key: 24, value: 24, rope: 24}, nil},
		{"values shorter than keys", llamaLayout{hidden: 64, heads: 4, kvHeads: 2, key: 20, value: 12, rope: 20}, nil},
		{"head size that does not divide", llamaLayout{hidden: 62, heads: 3, kvHeads: 1, key: 14}, nil},
		{"half of a head rotated", llamaLayout{hidden: 64, heads: 4, kvHeads: 2, rope: 8}, nil},
		{"as Mixtral", llamaLayout{hidden: 64, heads: 4, kvHeads: 2, experts: 8}, nil},
		{"as Mixtral, with the experts' size", llamaLayout{hidden: 64, heads: 4, kvHeads: 2, experts: 8}, func(b *build) { b.set("expert_feed_forward_length", 128) }},
		{"as Mixtral, all experts used but one", llamaLayout{hidden: 64, heads: 4, kvHeads: 2, experts: 3}, nil},
		{"llama3 factors", base, func(b *build) {
			b.floats("rope_freqs.weight", []float32{1, 1, 1.5, 3, 6, 8, 8, 8}, 8)
		}},
		{"linear scaling", base, func(b *build) {
			b.set("rope.scaling.type", "linear")
			b.set("rope.scaling.factor", float32(4))
		}},
		{"a factor without a type", base, func(b *build) { b.set("rope.scaling.factor", float32(4)) }},
		{"no scaling, by name", base, func(b *build) {
			b.set("rope.scaling.type", "none")
		}},
		{"YaRN", base, func(b *build) {
			b.set("rope.scaling.type", "yarn")
			b.set("rope.scaling.factor", float32(8))
			b.set("rope.scaling.original_context_length", 64)
		}},
		{"a table of an old file", base, func(b *build) { b.vector("blk.0.attn_rot_embd.weight", 8) }},
	} {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			b := v.layout.build()
			if v.change != nil {
				v.change(b)
			}
			requirePlain(t, b.write(t))
		})
	}
}

// TestWeightTypes compares a model in every type of weights with the same model dequantised.
func TestWeightTypes(t *testing.T) {
	for _, kind := range gguf.FileTypes() {
		t.Run(kind.String(), func(t *testing.T) {
			t.Parallel()
			layout := llamaLayout{hidden: max(64, kind.BlockSize()), heads: 4, kvHeads: 2, kind: kind}
			requirePlain(t, layout.build().write(t))
		})
	}
}

func TestGLMVariants(t *testing.T) {
	scaled := func(multiplier float32) func(b *build) {
		return func(b *build) {
			b.set("rope.scaling.type", "yarn")
			b.set("rope.scaling.factor", float32(40))
			b.set("rope.scaling.original_context_length", 64)
			if multiplier > 0 {
				b.set("rope.scaling.yarn_log_multiplier", multiplier)
			}
		}
	}
	for _, v := range []struct {
		name   string
		layout func(g *glmLayout)
		change func(b *build)
	}{
		{"as GLM-4.7-Flash", func(*glmLayout) {}, nil},
		{"architecture glm4moelite", func(g *glmLayout) { g.arch = "glm4moelite" }, nil},
		{"joint key and value", func(g *glmLayout) { g.joint = true }, nil},
		{"joint key and value in float16", func(g *glmLayout) { g.joint, g.kind = true, gguf.TypeF16 }, nil},
		{"joint key and value in bfloat16", func(g *glmLayout) { g.joint, g.kind = true, gguf.TypeBF16 }, nil},
		{"joint, older keys", func(g *glmLayout) { g.joint, g.olderKeys = true, true }, nil},
		{"split, older keys", func(g *glmLayout) { g.olderKeys = true }, nil},
		{"queries not compressed", func(g *glmLayout) { g.qRank = 0 }, nil},
		{"as DeepSeek-V2-Lite", func(g *glmLayout) {
			*g = glmLayout{arch: "deepseek2", layers: 3, dense: 1, joint: true, olderKeys: true, shared: 2}
		}, func(b *build) { scaled(0.0707)(b); b.set("expert_weights_scale", float32(1)) }},
		{"no dense layers", func(g *glmLayout) { g.dense = 0 }, nil},
		{"two dense layers", func(g *glmLayout) { g.dense = 2 }, nil},
		{"all layers dense", func(g *glmLayout) { g.dense = 3 }, nil},
		{"all layers dense, the MTP layer too", func(g *glmLayout) { g.dense = 4 }, nil},
		{"all layers dense and no experts announced", func(g *glmLayout) { g.dense, g.mtp = 3, 0 }, func(b *build) {
			for _, key := range b.meta.Keys() {
				if len(key) > 16 && key[:16] == "deepseek2.expert" {
					b.remove(key)
				}
			}
		}},
		{"no leading_dense_block_count", func(g *glmLayout) { g.dense = 0 }, func(b *build) { b.remove("leading_dense_block_count") }},
		{"no shared experts", func(g *glmLayout) { g.shared = 0 }, nil},
		{"no expert_shared_count", func(g *glmLayout) { g.shared = 0 }, func(b *build) { b.remove("expert_shared_count") }},
		{"two shared experts", func(g *glmLayout) { g.shared = 2 }, nil},
		{"softmax gating", func(g *glmLayout) { g.gating = 1 }, nil},
		{"no gating setting", func(g *glmLayout) { g.gating = 0 }, nil},
		{"weights not normalised", func(g *glmLayout) { g.norm = false }, nil},
		{"no normalising setting", func(g *glmLayout) { g.norm = false }, func(b *build) { b.remove("expert_weights_norm") }},
		{"softmax, not normalised, no bias", func(g *glmLayout) { g.gating, g.norm, g.bias = 1, false, false }, nil},
		{"no correction bias", func(g *glmLayout) { g.bias = false }, nil},
		{"scale of 0", func(*glmLayout) {}, func(b *build) { b.set("expert_weights_scale", float32(0)) }},
		{"all experts used", func(*glmLayout) {}, func(b *build) { b.set("expert_used_count", glmExperts) }},
		{"YaRN", func(*glmLayout) {}, scaled(0)},
		{"YaRN with mscale 0.707", func(*glmLayout) {}, scaled(0.0707)},
		{"YaRN with mscale 1", func(*glmLayout) {}, scaled(0.1)},
		{"YaRN with its own betas", func(*glmLayout) {}, func(b *build) {
			scaled(0.1)(b)
			b.set("rope.scaling.yarn_beta_fast", float32(4))
			b.set("rope.scaling.yarn_beta_slow", float32(2))
		}},
		{"tied", func(g *glmLayout) { g.tied = true }, nil},
		{"MTP with a separate embedding and head", func(g *glmLayout) { g.ownMTP = true }, nil},
		{"no MTP", func(g *glmLayout) { g.mtp = 0 }, nil},
		{"float16", func(g *glmLayout) { g.kind = gguf.TypeF16 }, nil},
	} {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			g := flash()
			v.layout(&g)
			b := g.build()
			if v.change != nil {
				v.change(b)
			}
			requirePlain(t, b.write(t))
		})
	}
}
