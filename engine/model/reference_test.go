package model_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/cpu"
	"github.com/ingot-run/ingot/engine/model"
	"github.com/ingot-run/ingot/engine/model/modeltest"
)

// eachReference runs a test on the CPU for every model that has cases.
func eachReference(t *testing.T, test func(t *testing.T, m model.Model, cases []modeltest.Case)) {
	t.Helper()
	modeltest.Each(t, func(t *testing.T, path string, cases []modeltest.Case) {
		t.Helper()
		test(t, loadModel(t, path), cases)
	})
}

func loadModel(t *testing.T, path string) model.Model {
	t.Helper()
	be, err := cpu.New(0)
	require.NoError(t, err)
	return modeltest.Load(t, be, path)
}

// TestGreedy computes each prompt in one step, then the model's own choices one by one.
func TestGreedy(t *testing.T) {
	eachReference(t, func(t *testing.T, m model.Model, cases []modeltest.Case) {
		t.Helper()
		for i, c := range cases {
			require.Equal(t, c.GreedyTokens, modeltest.Greedy(t, m, c.PromptTokens, len(c.GreedyTokens)), "case %d", i)
		}
	})
}

// TestLogprobs compares the log-probabilities of the recorded tokens at every position of prompt
// and answer.
func TestLogprobs(t *testing.T) {
	eachReference(t, func(t *testing.T, m model.Model, cases []modeltest.Case) {
		t.Helper()
		worst := 0.0
		for i, c := range cases {
			off := modeltest.WorstLogprob(t, m, &c, len(c.Tokens()))
			require.Less(t, off, 0.01, "case %d", i)
			worst = max(worst, off)
		}
		t.Logf("log-probabilities differ by at most %.2g", worst)
	})
}

// TestCheckpoints compares the sum and the norm of the last position's hidden state after each
// layer.
func TestCheckpoints(t *testing.T) {
	eachReference(t, func(t *testing.T, m model.Model, cases []modeltest.Case) {
		t.Helper()
		for i, c := range cases {
			var got [][2]float64
			b := modeltest.Batch(c.Tokens(), 0)
			b.Trace = func(p compute.Checkpoint) {
				last := p.Layer == m.Config().Layers-1 && p.Stage == "layer_out" // the reference has the final norm instead
				wanted := p.Stage == "embd" || p.Stage == "layer_out" || p.Stage == "norm"
				if wanted && !last && p.Row == len(b.Tokens)-1 {
					got = append(got, [2]float64{p.Sum, p.Norm})
				}
			}
			_, err := m.Forward(b)
			require.NoError(t, err)
			require.Len(t, got, len(c.LayerSums), "case %d", i)
			for at, want := range c.LayerSums {
				norm := want[1]
				require.InDelta(t, want[0], got[at][0], 2e-3*norm+1e-3, "case %d, sum %d", i, at)
				require.InDelta(t, norm, got[at][1], 1e-3*norm+1e-3, "case %d, norm %d", i, at)
			}
		}
	})
}

// TestDrafts fills the MTP layer's cache over prompt and answer and compares the three drafts made
// after each token of the answer. If two logits differ by less than the margin, either draft is
// accepted, and the rest of the chain is not compared.
func TestDrafts(t *testing.T) {
	const margin = 0.01
	eachReference(t, func(t *testing.T, m model.Model, cases []modeltest.Case) {
		t.Helper()
		if m.Config().DraftLayers == 0 {
			require.Empty(t, cases[0].MTPDrafts, "the reference has drafts, but the model has no MTP layer")
			return
		}
		d, ok := m.(model.Drafter)
		require.True(t, ok)
		total, same := 0, 0
		for i, c := range cases {
			tokens := c.Tokens()
			_, err := m.Forward(modeltest.Batch(tokens, 0))
			require.NoError(t, err)
			prompt := len(c.PromptTokens)
			require.NoError(t, d.Draft(modeltest.Batch(tokens[1:prompt], 0), model.TrunkStates, rows(prompt-1)))
			for at, want := range c.MTPDrafts {
				got := drafts(t, d, tokens[prompt+at], prompt+at-1, len(want))
				for k, top := range want {
					if top[0][1]-top[1][1] < margin {
						break
					}
					total++
					if got[k] != int32(top[0][0]) {
						require.NotZero(t, k, "case %d, token %d: first draft is %d, not %g", i, at, got[k], top[0][0])
						break
					}
					same++
				}
			}
		}
		t.Logf("%d of %d drafts equal the reference's", same, total)
		require.GreaterOrEqual(t, float64(same), 0.98*float64(total))
	})
}

// drafts returns a chain of n drafts after a known token. The first draft is computed from the
// model's hidden state at position slot, the position before the token.
func drafts(t *testing.T, m model.Drafter, token int32, slot, n int) []int32 {
	t.Helper()
	var out []int32
	from, state := model.TrunkStates, int32(slot)
	for len(out) < n {
		require.NoError(t, m.Draft(modeltest.Batch([]int32{token}, slot+len(out)), from, []int32{state}))
		token = modeltest.Best(m.Logits()[0])
		out = append(out, token)
		from, state = model.DraftStates, 0
	}
	return out
}

// rows returns the indices 0 to n-1.
func rows(n int) []int32 {
	all := make([]int32, n)
	for i := range all {
		all[i] = int32(i)
	}
	return all
}
