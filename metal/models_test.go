package metal_test

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/cpu"
	"github.com/ingot-run/ingot/engine/gguf"
	"github.com/ingot-run/ingot/engine/model"
	"github.com/ingot-run/ingot/metal"
	"github.com/ingot-run/ingot/metal/host"
)

// refCase is a case of a reference file, computed by Hugging Face transformers in float32.
type refCase struct {
	PromptTokens []int32        `json:"prompt_tokens"`
	GreedyTokens []int32        `json:"greedy_tokens"`
	TopLogits    [][][2]float64 `json:"top_logits"` // [token][8]{id, logit}
	LogSumExp    []float64      `json:"logsumexp"`  // [token]
}

var references = []struct{ name, file, cases, key string }{
	{"micro-llama", "../engine/model/testdata/micro-llama.gguf", "../engine/model/testdata/micro-llama.json", ""},
	{"micro-glm", "../engine/model/testdata/micro-glm.gguf", "../engine/model/testdata/micro-glm.json", ""},
	{"tiny-llama", "$INGOT_MODELS/tiny-llama.f16.gguf", "$INGOT_MODELS/tiny-llama.reference.json", "llama"},
	{"tiny-glm", "$INGOT_MODELS/tiny-glm.f16.gguf", "$INGOT_MODELS/tiny-glm.reference.json", "glm"},
}

func readCases(t *testing.T, path, key string) []refCase {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	var cases []refCase
	if key != "" {
		var byKey map[string]json.RawMessage
		if json.Unmarshal(data, &byKey) == nil {
			data = byKey[key]
		}
	}
	require.NoError(t, json.Unmarshal(data, &cases))
	require.NotEmpty(t, cases)
	return cases
}

const (
	pageSize = 16
	pages    = 64
)

// load loads a model onto a backend, which it closes at the end of the test.
func load(tb testing.TB, be compute.Backend, path string) model.Model {
	tb.Helper()
	f, err := gguf.Open(path)
	require.NoError(tb, err)
	tb.Cleanup(func() {
		require.NoError(tb, be.Close())
		require.NoError(tb, f.Close())
	})
	m, err := model.Load(be, f, model.Limits{Rows: 256, Outputs: 256, Context: pages * pageSize, Pages: pages, PageSize: pageSize})
	require.NoError(tb, err)
	return m
}

// batch is one sequence's rows from position first on, every row an output, with pages in an order of its own.
func batch(tokens []int32, first int) *compute.Batch {
	b := &compute.Batch{Tokens: tokens, Seqs: []compute.Seq{{Rows: len(tokens), Pages: make([]int32, pages)}}}
	for i := range b.Seqs[0].Pages {
		b.Seqs[0].Pages[i] = int32((i*7 + 3) % pages)
	}
	for i := range tokens {
		b.Positions = append(b.Positions, int32(first+i))
		b.Outputs = append(b.Outputs, int32(i))
	}
	return b
}

func best(logits []float32) int32 {
	id := 0
	for i, v := range logits {
		if v > logits[id] {
			id = i
		}
	}
	return int32(id)
}

func logSumExp(logits []float32) float64 {
	top, sum := float64(logits[best(logits)]), 0.0
	for _, v := range logits {
		sum += math.Exp(float64(v) - top)
	}
	return top + math.Log(sum)
}

// generate feeds a prompt at once, then the model's own choices one by one.
func generate(t *testing.T, m model.Model, prompt []int32, n int) (tokens []int32) {
	t.Helper()
	logits, err := m.Forward(batch(prompt, 0))
	require.NoError(t, err)
	for len(tokens) < n {
		row := logits[len(logits)-1]
		require.False(t, math.IsNaN(logSumExp(row)) || math.IsInf(logSumExp(row), 0), "token %d: the logits are not finite", len(tokens))
		token := best(row)
		tokens = append(tokens, token)
		logits, err = m.Forward(batch([]int32{token}, len(prompt)+len(tokens)-1))
		require.NoError(t, err)
	}
	return tokens
}

// TestReferences compares greedy tokens with those of an independent implementation, and the log-probabilities of the
// likeliest tokens at every position.
func TestReferences(t *testing.T) {
	for _, ref := range references {
		t.Run(ref.name, func(t *testing.T) {
			if filepath.Dir(ref.file) == "$INGOT_MODELS" && os.Getenv("INGOT_MODELS") == "" {
				t.Skipf("set INGOT_MODELS to the folder of %s to compare it with its reference", filepath.Base(ref.file))
			}
			m := load(t, open(t, metal.Options{}, host.Options{}), os.ExpandEnv(ref.file))
			worst := 0.0
			for i, c := range readCases(t, os.ExpandEnv(ref.cases), ref.key) {
				require.Equal(t, c.GreedyTokens, generate(t, m, c.PromptTokens, len(c.GreedyTokens)), "case %d", i)
				logits, err := m.Forward(batch(append(c.PromptTokens[:len(c.PromptTokens):len(c.PromptTokens)], c.GreedyTokens...), 0))
				require.NoError(t, err)
				for at, top := range c.TopLogits {
					sum := logSumExp(logits[at])
					for _, pair := range top {
						got, want := float64(logits[at][int(pair[0])])-sum, pair[1]-c.LogSumExp[at]
						worst = max(worst, math.Abs(got-want))
					}
				}
			}
			t.Logf("log-probabilities differ by at most %.5f", worst)
			require.Less(t, worst, 0.02)
		})
	}
}

// TestLongGeneration generates hundreds of tokens, all of finite logits, and compares them with the CPU's up to a near tie.
func TestLongGeneration(t *testing.T) {
	for _, c := range []struct {
		path   string
		tokens int
	}{{"../models/tiny-llama.q4_0.gguf", 512}, {"../models/tiny-glm.q8_0.gguf", 160}} {
		t.Run(filepath.Base(c.path), func(t *testing.T) {
			path := c.path
			prompt := []int32{5, 300, 17, 900, 41, 7, 1200, 33}
			got := generate(t, load(t, open(t, metal.Options{}, host.Options{}), path), prompt, c.tokens)
			reference, err := cpu.New(0)
			require.NoError(t, err)
			cpuModel := load(t, reference, path)
			all := slices.Concat(prompt, got)
			for from := 0; from < len(all); from += 256 {
				logits, err := cpuModel.Forward(batch(all[from:min(from+256, len(all))], from))
				require.NoError(t, err)
				for i := max(from, len(prompt)-1); i < min(from+256, len(all)-1); i++ {
					row := logits[i-from]
					// The CPU rounds activations to 8 bits.
					require.Less(t, float64(row[best(row)]-row[all[i+1]]), 0.35, "token %d", i+1)
				}
			}
		})
	}
}

// TestStepIsOneSubmission counts what a step of one row does.
func TestStepIsOneSubmission(t *testing.T) {
	for _, c := range []struct {
		path   string
		layers int
		most   int // dispatches of all layers
	}{
		// A layer of experts takes 13: norm, q_a and kv_a, latents, q_b, absorb, attention and its join, expand, output,
		// norm, route, gated experts, down; a dense one 12. Then embedding, final norm, gather and the output head.
		{"../models/tiny-glm.q8_0.gguf", 5, 12 + 4*13},
		{"../models/tiny-llama.q4_0.gguf", 4, 4 * 9},
	} {
		t.Run(filepath.Base(c.path), func(t *testing.T) {
			be := open(t, metal.Options{}, host.Options{})
			m := load(t, be, c.path)
			const long = 260 // positions, so that attention is split
			for from := 0; from < long; from += 130 {
				b := batch(make([]int32, 130), from)
				b.Outputs = nil
				_, err := m.Forward(b)
				require.NoError(t, err)
			}
			b := batch([]int32{9}, long)
			before := be.Counters()
			_, err := m.Forward(b)
			require.NoError(t, err)
			after := be.Counters()
			require.Equal(t, 1, after.CommandBuffers-before.CommandBuffers)
			require.Equal(t, 1, after.Waits-before.Waits)
			require.Zero(t, after.Pipelines-before.Pipelines)
			require.Zero(t, after.Buffers-before.Buffers)
			require.Zero(t, after.UploadedBytes-before.UploadedBytes)
			require.LessOrEqual(t, after.Dispatches-before.Dispatches, c.most+4)
			t.Logf("%d dispatches over %d layers", after.Dispatches-before.Dispatches, c.layers)
			if raced {
				return
			}
			require.Zero(t, testing.AllocsPerRun(3, func() {
				if _, err := m.Forward(b); err != nil {
					panic(err)
				}
			}))
		})
	}
}

// TestModelTooLarge loads a model onto a device without room for it, and learns how much there is and how much it takes.
func TestModelTooLarge(t *testing.T) {
	be := open(t, metal.Options{}, host.Options{Memory: 3 << 20})
	f, err := gguf.Open("../models/tiny-glm.q8_0.gguf")
	require.NoError(t, err)
	_, err = model.Load(be, f, model.Limits{Rows: 16, Outputs: 16, Context: 64, Pages: 4, PageSize: pageSize})
	require.ErrorIs(t, err, metal.ErrMemory)
	require.ErrorContains(t, err, "of 3 MB")
	free, err := be.Free()
	require.NoError(t, err)
	require.Positive(t, free)
	require.NoError(t, be.Close())
	require.NoError(t, f.Close())
}
