package modeltest

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/gguf"
	"github.com/ingot-run/ingot/engine/model"
)

const (
	pageSize = 16
	pages    = 64
	groups   = 8 // maximum number of groups of layers; see model.Groups
)

// Limits has room for one sequence of 1,024 positions, with 256 rows per step, and for several
// recurrent states.
var Limits = model.Limits{
	Rows: 256, Outputs: 256, Context: pages * pageSize, Pages: groups * pages, PageSize: pageSize, States: 16, Drafts: 3,
}

// Load loads a model with Limits onto a backend. It closes the backend at the end of the test.
func Load(tb testing.TB, be compute.Backend, path string) model.Model {
	tb.Helper()
	f, err := gguf.Open(path)
	require.NoError(tb, err)
	tb.Cleanup(func() {
		require.NoError(tb, be.Close())
		require.NoError(tb, f.Close())
	})
	m, err := model.Load(be, f, Limits)
	require.NoError(tb, err)
	return m
}

// Batch returns a batch with rows of one sequence. first is the position of the first row. Every
// row is an output. The sequence's pages are in a shuffled order. There are page tables for any
// model's groups of layers. Rows from position 0 on are those of a prompt, and all others are
// generated.
func Batch(tokens []int32, first int) *compute.Batch {
	tables := make([][]int32, groups)
	for g := range tables {
		for i := range pages {
			tables[g] = append(tables[g], int32(g*pages+(i*7+3)%pages))
		}
	}
	b := &compute.Batch{Tokens: tokens, Seqs: []compute.Seq{{Rows: len(tokens), Pages: tables[0], Further: tables[1:]}}}
	if first == 0 {
		b.Seqs[0].State = compute.SeqState{From: -1, Prompt: len(tokens)}
	}
	for i := range tokens {
		b.Positions = append(b.Positions, int32(first+i))
		b.Outputs = append(b.Outputs, int32(i))
	}
	return b
}

// Best returns the token with the highest logit; of equal logits, the lowest id.
func Best(logits []float32) int32 {
	id := 0
	for i, v := range logits {
		if v > logits[id] {
			id = i
		}
	}
	return int32(id)
}

// LogSumExp returns the logarithm of the sum of the exponentials of all logits.
func LogSumExp(logits []float32) float64 {
	top, sum := float64(logits[Best(logits)]), 0.0
	for _, v := range logits {
		sum += math.Exp(float64(v) - top)
	}
	return top + math.Log(sum)
}

func finite(logits []float32) bool {
	for _, v := range logits {
		if v-v != 0 {
			return false
		}
	}
	return true
}

// Greedy computes a prompt in one step, generates n tokens greedily, and returns them. All logits
// must be finite.
func Greedy(tb testing.TB, m model.Model, prompt []int32, n int) []int32 {
	tb.Helper()
	var tokens []int32
	logits, err := m.Forward(Batch(prompt, 0))
	require.NoError(tb, err)
	for {
		row := logits[len(logits)-1]
		require.True(tb, finite(row), "token %d: a logit is not finite", len(tokens))
		tokens = append(tokens, Best(row))
		if len(tokens) == n {
			return tokens
		}
		logits, err = m.Forward(Batch(tokens[len(tokens)-1:], len(prompt)+len(tokens)-1))
		require.NoError(tb, err)
	}
}

// WorstLogprob computes a case's tokens in steps of atOnce rows. It returns the maximum difference
// from the reference's log-probabilities.
func WorstLogprob(tb testing.TB, m model.Model, c *Case, atOnce int) float64 {
	tb.Helper()
	worst, tokens := 0.0, c.Tokens()
	for from := 0; from < len(tokens); from += atOnce {
		logits, err := m.Forward(Batch(tokens[from:min(from+atOnce, len(tokens))], from))
		require.NoError(tb, err)
		for i, row := range logits {
			require.True(tb, finite(row), "position %d: a logit is not finite", from+i)
			sum := LogSumExp(row)
			for _, pair := range c.TopLogits[from+i] {
				got, want := float64(row[int(pair[0])])-sum, pair[1]-c.LogSumExp[from+i]
				worst = max(worst, math.Abs(got-want))
			}
		}
	}
	return worst
}
