package engine_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/engine/model/modeltest"
)

// prompted returns requests whose prompts begin with the given tokens. Their results change if a
// single bit of a logit differs.
func prompted(beginning []int32, own ...int) []generation.Request {
	reqs := make([]generation.Request, len(own))
	for i, n := range own {
		reqs[i] = generation.Request{Tokens: slices.Concat(beginning, randomTokens(uint64(1000+i), n)), MaxTokens: 9, IgnoreEOS: true, Logprobs: true, TopLogprobs: 3}
	}
	return reqs
}

// TestStatesOfBeginnings checks which positions of prompts with the same beginning are not computed
// again in a model with recurrent layers. A snapshot of the state is needed: the first prompt
// leaves none, because nothing shows where another prompt will differ. All results must have the
// same bits as those of requests alone.
func TestStatesOfBeginnings(t *testing.T) {
	t.Parallel()
	path := modeltest.Recurrent(t, "qwen35")
	beginning := randomTokens(3, 300)
	alone := open(t, path, engine.Options{Context: 512, MaxSequences: 1, Draft: engine.DraftOff, NoSharing: true})
	for _, c := range []struct {
		name     string
		pageSize int
		cached   int // positions that later prompts share
	}{{"pages of 16", 16, 256}, {"pages of 128", 128, 256}, {"pages of 24", 24, 192}} {
		t.Run(c.name, func(t *testing.T) {
			e := open(t, path, engine.Options{Context: 512, MaxSequences: 4, PageSize: c.pageSize})
			for i, req := range prompted(beginning, 20, 70, 1, 129, 33) {
				got := generate(t, e, req)
				want := c.cached
				if i < 2 {
					want = 0
				}
				require.Equal(t, want, got.Stats.CachedTokens, "prompt %d", i)
				same(t, generate(t, alone, req), got, fmt.Sprint("prompt ", i))
			}
		})
	}
}

// TestStatesOfGroups computes two groups of prompts at once. All begin in the same way, and those
// of a group have more in common. Each common part must be computed only once.
func TestStatesOfGroups(t *testing.T) {
	t.Parallel()
	path := modeltest.Recurrent(t, "qwen35moe")
	alone := open(t, path, engine.Options{Context: 512, MaxSequences: 1, Draft: engine.DraftOff, NoSharing: true})
	all := randomTokens(4, 130)
	var reqs []generation.Request
	for group := range uint64(2) {
		reqs = append(reqs, prompted(slices.Concat(all, randomTokens(50+group, 130)), 20, 30, 40)...)
	}
	g := newGate()
	e := open(t, path, engine.Options{Context: 512, MaxSequences: 8, StepTokens: 200, Draft: engine.DraftOff, Trace: g.trace})
	computed := 0
	for i, got := range generateAll(t, e, g, reqs) {
		same(t, generate(t, alone, reqs[i]), got, fmt.Sprint("prompt ", i))
		computed += len(reqs[i].Tokens) - got.Stats.CachedTokens
	}
	// 128 positions of all, 128 further ones of each group, and the rest of each prompt. The first
	// step of the first prompt may begin before the others arrive, and computes those of all
	// without a snapshot.
	const once = 128 + 2*128 + 2*((4+20)+(4+30)+(4+40))
	require.Contains(t, []int{once, once + 128}, computed)
}

// TestStatesOfChoices computes several choices of a prompt. They share the state of the prompt up
// to the last position on the grid.
func TestStatesOfChoices(t *testing.T) {
	t.Parallel()
	path := modeltest.Recurrent(t, "qwen35")
	e := open(t, path, engine.Options{Context: 512, MaxSequences: 5, Draft: engine.DraftOff})
	req := prompted(nil, 200)[0]
	req.N, req.Sampling = 5, generation.Sampling{Temperature: 1, Seed: 8}
	generate(t, e, req)
	idle(t, e)
	require.Equal(t, uint64(192+5*8), e.Snapshot().PromptTokens)
}
