package metal_test

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/cpu"
	"github.com/ingot-run/ingot/engine/gguf"
	"github.com/ingot-run/ingot/engine/model"
	"github.com/ingot-run/ingot/engine/model/modeltest"
	"github.com/ingot-run/ingot/metal"
	"github.com/ingot-run/ingot/metal/emulator"
)

// bundled lists the paths of the bundled models.
var bundled = []string{"../models/tiny-glm.q8_0.gguf", "../models/tiny-llama.q4_0.gguf"}

// TestReferences compares greedy tokens, and the log-probabilities of the likeliest tokens at every
// position, with the results of an independent implementation. The CPU's greedy tokens must be the
// same.
func TestReferences(t *testing.T) {
	t.Parallel()
	references(t, emulated, emulable)
}

// emulable returns the cases that are run on the emulator: a third of those with few tokens, or all
// cases with INGOT_LONG=1.
func emulable(cases []modeltest.Case) (some []modeltest.Case) {
	if long {
		return cases
	}
	for i, c := range cases {
		if i%3 == 0 && len(c.GreedyTokens) <= 25 {
			some = append(some, c)
		}
	}
	return some
}

func allCases(cases []modeltest.Case) []modeltest.Case { return cases }

func references(t *testing.T, start starter, choose func([]modeltest.Case) []modeltest.Case) {
	t.Helper()
	modeltest.Each(t, func(t *testing.T, path string, cases []modeltest.Case) {
		t.Helper()
		cases = choose(cases)
		require.NotEmpty(t, cases)
		m := modeltest.Load(t, start(t, metal.Options{}), path)
		worst := 0.0
		for i, c := range cases {
			require.Equal(t, c.GreedyTokens, modeltest.Greedy(t, m, c.PromptTokens, len(c.GreedyTokens)), "case %d", i)
			worst = max(worst, modeltest.WorstLogprob(t, m, &c, len(c.Tokens())))
		}
		t.Logf("log-probabilities differ by at most %.5f", worst)
		require.Less(t, worst, 0.001)
	})
}

// TestReferencesWithFastKernels compares log-probabilities with fast arithmetic, once with all
// tokens in one step and once with one token per step.
func TestReferencesWithFastKernels(t *testing.T) {
	t.Parallel()
	modeltest.Each(t, func(t *testing.T, path string, cases []modeltest.Case) {
		t.Helper()
		m := modeltest.Load(t, open(t, metal.Options{Mode: metal.FastMath}, emulator.Options{}), path)
		worst := 0.0
		for i, c := range emulable(cases) {
			worst = max(worst, modeltest.WorstLogprob(t, m, &c, len(c.Tokens())))
			if i%5 == 0 { // one step per token is slow
				worst = max(worst, modeltest.WorstLogprob(t, m, &c, 1))
			}
		}
		t.Logf("log-probabilities differ by at most %.5f", worst)
		require.Less(t, worst, 0.02)
	})
}

// TestLongGeneration generates 160 tokens, or 512 with INGOT_LONG=1. All logits must be finite, and
// the tokens must equal the CPU's until the first near tie.
func TestLongGeneration(t *testing.T) {
	t.Parallel()
	tokens := 160
	if long {
		tokens = 512
	}
	longGeneration(t, emulated, tokens)
}

func longGeneration(t *testing.T, start starter, tokens int) {
	t.Helper()
	for _, path := range bundled {
		t.Run(filepath.Base(path), func(t *testing.T) {
			prompt := []int32{5, 300, 17, 900, 41, 7, 1200, 33}
			got := modeltest.Greedy(t, modeltest.Load(t, start(t, metal.Options{}), path), prompt, tokens)
			reference, err := cpu.New(0)
			require.NoError(t, err)
			cpuModel := modeltest.Load(t, reference, path)
			all := slices.Concat(prompt, got)
			for from := 0; from < len(all); from += modeltest.Limits.Rows {
				to := min(from+modeltest.Limits.Rows, len(all))
				logits, err := cpuModel.Forward(modeltest.Batch(all[from:to], from))
				require.NoError(t, err)
				for i := max(from, len(prompt)-1); i < min(to, len(all)-1); i++ {
					row := logits[i-from]
					// The CPU rounds activations to 8 bits, so its choice may be another token with
					// nearly the same logit.
					require.Less(t, float64(row[modeltest.Best(row)]-row[all[i+1]]), 0.35, "token %d", i+1)
				}
			}
		})
	}
}

// TestStepIsOneSubmission checks the number of submissions, dispatches and waits of a step with one
// row.
func TestStepIsOneSubmission(t *testing.T) {
	for _, c := range []struct {
		path   string
		layers int
		max    int // maximum number of dispatches
	}{
		// A layer of experts has 13 dispatches: norm, q_a and kv_a, latents, q_b, absorb, attention
		// and its join, expand, output, norm, logits of the routing, gated experts with the choice,
		// down. A dense layer has 12. The other dispatches are embedding, final norm, gather and
		// output head, and two that draw the token.
		{"../models/tiny-glm.q8_0.gguf", 5, 12 + 4*13},
		{"../models/tiny-llama.q4_0.gguf", 4, 4 * 9},
	} {
		t.Run(filepath.Base(c.path), func(t *testing.T) {
			be := open(t, metal.Options{}, emulator.Options{})
			m := modeltest.Load(t, be, c.path)
			loaded := be.Counters()
			const long = 260 // positions, so that attention is split
			for from := 0; from < long; from += 130 {
				b := modeltest.Batch(make([]int32, 130), from)
				b.Outputs = nil
				_, err := m.Forward(b)
				require.NoError(t, err)
			}
			b := modeltest.Batch([]int32{9}, long)
			before := be.Counters()
			require.Equal(t, loaded.Buffers, before.Buffers, "even the first steps make no buffers")
			require.Equal(t, loaded.Pipelines, before.Pipelines)
			b.Draws = []compute.Draw{{Temperature: 1, TopP: 0.9}}
			require.NoError(t, m.Decode(b, 1))
			require.Len(t, m.Drawn(0), 1)
			after := be.Counters()
			require.Equal(t, 1, after.CommandBuffers-before.CommandBuffers)
			require.Equal(t, 1, after.Waits-before.Waits)
			require.Zero(t, after.Pipelines-before.Pipelines)
			require.Zero(t, after.Buffers-before.Buffers)
			require.Zero(t, after.UploadedBytes-before.UploadedBytes)
			require.LessOrEqual(t, after.Dispatches-before.Dispatches, c.max+6)
			t.Logf("%d dispatches over %d layers", after.Dispatches-before.Dispatches, c.layers)
			if raced {
				return
			}
			require.Zero(t, testing.AllocsPerRun(20, func() {
				if err := m.Decode(b, 1); err != nil {
					panic(err)
				}
			}))
		})
	}
}

// TestModelTooLarge loads a model that does not fit into the device's memory. The error must
// contain the available and the required memory.
func TestModelTooLarge(t *testing.T) {
	be := open(t, metal.Options{}, emulator.Options{Memory: 12 << 20})
	f, err := gguf.Open("../models/tiny-glm.q8_0.gguf")
	require.NoError(t, err)
	_, err = model.Load(be, f, model.Limits{Rows: 16, Outputs: 16, Context: 64, Pages: 4, PageSize: 16})
	require.ErrorIs(t, err, metal.ErrMemory)
	require.ErrorContains(t, err, "of the device's 12 MiB")
	free, err := be.Free()
	require.NoError(t, err)
	require.Positive(t, free)
	require.NoError(t, be.Close())
	require.NoError(t, f.Close())
}
