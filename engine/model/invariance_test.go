package model_test

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/cpu"
	"github.com/ingot-run/ingot/engine/gguf"
	"github.com/ingot-run/ingot/engine/model"
)

// invarianceLimits has room for sequences of up to 40 positions.
var invarianceLimits = model.Limits{Rows: 64, Outputs: 64, Context: 64, Pages: invariancePages * invarianceGroups, PageSize: 8, States: 5}

// invariancePages is the number of pages of a group of layers, of which a model has at most
// invarianceGroups.
const invariancePages, invarianceGroups = 40, 6

// TestBatchInvariance computes sequences in different steps: one sequence in one step, one row per
// step, in chunks, and mixed with other sequences. Logits and drafts must have the same bits in all
// of them, with any number of threads.
func TestBatchInvariance(t *testing.T) {
	half := flash()
	half.kind = gguf.TypeF16
	files := maps.Clone(bases)
	files["llama, Q8_0"] = func() *build { return llamaLayout{hidden: 64, heads: 4, kvHeads: 2, kind: gguf.TypeQ80}.build() }
	files["glm, F16"] = half.build
	for name, base := range files {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := base().write(t)
			r := rand.New(rand.NewPCG(5, 6))
			var all [][]int32
			for _, n := range []int{31, 1, 8, 17, 25} {
				tokens := make([]int32, n)
				for i := range tokens {
					tokens[i] = r.Int32N(vocab)
				}
				all = append(all, tokens)
			}
			want := run(t, path, 1, all, func(left []int) []int { // one sequence after another
				i := slices.IndexFunc(left, func(n int) bool { return n > 0 })
				rows := make([]int, len(left))
				rows[i] = left[i]
				return rows
			})
			for how, plan := range map[string]func(left []int) []int{
				"a row at a time": func(left []int) []int { return each(left, func(n int) int { return min(n, 1) }) },
				"seven at a time": func(left []int) []int { return each(left, func(n int) int { return min(n, 7) }) },
				"mixed":           func(left []int) []int { return each(left, func(n int) int { return min(n, r.IntN(13)) }) },
			} {
				for threads := 1; threads <= 3; threads++ {
					require.Equal(t, want, run(t, path, threads, all, plan), "%s, %d threads", how, threads)
				}
			}
		})
	}
}

func each(left []int, rows func(n int) int) []int {
	out := make([]int, len(left))
	for i, n := range left {
		out[i] = rows(n)
	}
	return out
}

// run computes the sequences in steps. plan gets the number of rows that each sequence has left,
// and returns the number of rows of each sequence in the next step. run returns the logits of every
// row, and the MTP layer's logits of every row that is followed by a token.
func run(t *testing.T, path string, threads int, all [][]int32, plan func(left []int) []int) [][][]float32 {
	t.Helper()
	f, err := gguf.Open(path)
	require.NoError(t, err)
	be, err := cpu.New(threads)
	require.NoError(t, err)
	defer func() {
		require.NoError(t, be.Close())
		require.NoError(t, f.Close())
	}()
	m, err := model.Load(be, f, invarianceLimits)
	require.NoError(t, err)

	out := make([][][]float32, 2*len(all))
	left := make([]int, len(all))
	tables := pageTables(len(all))
	for i, tokens := range all {
		left[i] = len(tokens)
	}
	for slices.Max(left) > 0 {
		counts := plan(left)
		var step, draft compute.Batch
		var of, draftOf []int // the sequence of each row of the step and of the draft
		var states []int32
		for i, n := range counts {
			if n == 0 {
				continue
			}
			first := len(all[i]) - left[i]
			known := min(n, len(all[i])-1-first) // rows that are followed by a token
			if known > 0 {
				draft.Seqs = append(draft.Seqs, compute.Seq{Rows: known, Pages: tables[i][0], Further: tables[i][1:]})
			}
			state := compute.SeqState{From: i, Slot: i} // all rows are generated ones, which a step may divide anywhere
			if first == 0 {
				state.From = -1
			}
			step.Seqs = append(step.Seqs, compute.Seq{Rows: n, Pages: tables[i][0], Further: tables[i][1:], State: state})
			for p := first; p < first+n; p++ {
				if p < first+known {
					states = append(states, int32(len(step.Tokens)))
					draft.Tokens, draft.Positions = append(draft.Tokens, all[i][p+1]), append(draft.Positions, int32(p))
					draftOf = append(draftOf, i)
				}
				step.Tokens, step.Positions = append(step.Tokens, all[i][p]), append(step.Positions, int32(p))
				of = append(of, i)
			}
			left[i] -= n
		}
		if len(of) == 0 {
			continue
		}
		step.Outputs, draft.Outputs = rows(len(of)), rows(len(draftOf))
		logits, err := m.Forward(&step)
		require.NoError(t, err)
		for row, i := range of {
			out[i] = append(out[i], slices.Clone(logits[row]))
		}
		if m.Config().DraftLayers == 0 || len(draftOf) == 0 {
			continue
		}
		require.NoError(t, m.(model.Drafter).Draft(&draft, model.TrunkStates, states))
		logits = m.Logits()
		for row, i := range draftOf {
			out[len(all)+i] = append(out[len(all)+i], slices.Clone(logits[row]))
		}
	}
	return out
}

// pageTables returns page tables for n sequences: [sequence][group of layers]. It deals out the
// pages of a group in turn.
func pageTables(n int) [][][]int32 {
	tables := make([][][]int32, n)
	for i := range tables {
		tables[i] = make([][]int32, invarianceGroups)
		for group := range tables[i] {
			for page := i; page < invariancePages; page += n {
				tables[i][group] = append(tables[i][group], int32(group*invariancePages+page))
			}
		}
	}
	return tables
}

// TestJointForm rewrites micro-glm to the older layout, which has one tensor for keys and values
// and no *_mla settings. The logits must have the same bits.
func TestJointForm(t *testing.T) {
	b := rebuild(t, "testdata/micro-glm.gguf")
	const heads, nope, value, rank = 2, 32, 32, 32
	for layer := range 4 {
		k, v := b.tensor(blockName(layer, "attn_k_b")), b.tensor(blockName(layer, "attn_v_b"))
		keys, values := k.Values(), v.Values()
		var joint []float32
		for head := range heads {
			for i := range nope {
				for j := range rank {
					joint = append(joint, keys[(head*rank+j)*nope+i])
				}
			}
			joint = append(joint, values[head*value*rank:(head+1)*value*rank]...)
		}
		data := make([]byte, 2*len(joint))
		require.NoError(t, gguf.Quantise(data, gguf.TypeF16, joint))
		b.remove(blockName(layer, "attn_k_b"))
		b.remove(blockName(layer, "attn_v_b"))
		b.tensors = append(b.tensors, gguf.Tensor{
			Name: blockName(layer, "attn_kv_b"), Type: gguf.TypeF16, Shape: []int{rank, heads * (nope + value)}, Data: data,
		})
	}
	b.remove("attention.key_length_mla")
	b.remove("attention.value_length_mla")
	b.set("attention.key_length", 48)
	b.set("attention.value_length", 32)

	all := [][]int32{{5, 77, 1033, 4, 9, 2000, 17, 256}}
	once := slices.Clone[[]int]
	require.Equal(t, run(t, "testdata/micro-glm.gguf", 1, all, once), run(t, b.write(t), 1, all, once))
}
