package model_test

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/cpu"
	"github.com/ingot-run/ingot/engine/gguf"
	"github.com/ingot-run/ingot/engine/model"
)

// refCase is a case of a reference file, computed by Hugging Face transformers in float32.
type refCase struct {
	PromptTokens []int32          `json:"prompt_tokens"`
	GreedyTokens []int32          `json:"greedy_tokens"`
	SmallestGap  float64          `json:"smallest_gap"`
	TopLogits    [][][2]float64   `json:"top_logits"` // [token][8]{id, logit}
	LogSumExp    []float64        `json:"logsumexp"`  // [token]
	LayerSums    [][2]float64     `json:"layer_sums"` // {sum, norm} of the last token: embedding, each layer but the last, final norm
	MTPDrafts    [][][][2]float64 `json:"mtp_drafts"` // [greedy token][3 drafts][4]{id, logit}
}

func (c *refCase) tokens() []int32 {
	return append(c.PromptTokens[:len(c.PromptTokens):len(c.PromptTokens)], c.GreedyTokens...)
}

// references lists the models that have reference files. The micro models are in the tree; the others are found through
// INGOT_MODELS.
var references = []struct {
	name, file, cases, key string // key is the field of the file that holds the cases, where it is not the file itself
}{
	{"micro-llama", "testdata/micro-llama.gguf", "testdata/micro-llama.json", ""},
	{"micro-glm", "testdata/micro-glm.gguf", "testdata/micro-glm.json", ""},
	{"tiny-llama", "$INGOT_MODELS/tiny-llama.f16.gguf", "$INGOT_MODELS/tiny-llama.reference.json", "llama"},
	{"tiny-glm", "$INGOT_MODELS/tiny-glm.f16.gguf", "$INGOT_MODELS/tiny-glm.reference.json", "glm"},
}

func eachReference(t *testing.T, test func(t *testing.T, m model.Model, cases []refCase)) {
	t.Helper()
	for _, ref := range references {
		t.Run(ref.name, func(t *testing.T) {
			if filepath.Dir(ref.file) == "$INGOT_MODELS" && os.Getenv("INGOT_MODELS") == "" {
				t.Skipf("set INGOT_MODELS to the folder of %s to compare it with its reference", filepath.Base(ref.file))
			}
			test(t, loadModel(t, os.ExpandEnv(ref.file)), readCases(t, os.ExpandEnv(ref.cases), ref.key))
		})
	}
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
	pages    = 32
)

func loadModel(t *testing.T, path string) model.Model {
	t.Helper()
	f, err := gguf.Open(path)
	require.NoError(t, err)
	be, err := cpu.New(0)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, be.Close())
		require.NoError(t, f.Close())
	})
	m, err := model.Load(be, f, model.Limits{Rows: 256, Outputs: 256, Context: 512, Pages: pages, PageSize: pageSize})
	require.NoError(t, err)
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
	}
	b.Outputs = rows(len(tokens))
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

// TestGreedy feeds each prompt at once, then the model's own choices one by one.
func TestGreedy(t *testing.T) {
	eachReference(t, func(t *testing.T, m model.Model, cases []refCase) {
		t.Helper()
		for i, c := range cases {
			var got []int32
			logits, err := m.Forward(batch(c.PromptTokens, 0))
			require.NoError(t, err)
			for len(got) < len(c.GreedyTokens) {
				token := best(logits[len(logits)-1])
				got = append(got, token)
				logits, err = m.Forward(batch([]int32{token}, len(c.PromptTokens)+len(got)-1))
				require.NoError(t, err)
			}
			require.Equal(t, c.GreedyTokens, got, "case %d", i)
		}
	})
}

// TestLogprobs compares the log-probabilities of the recorded tokens at every position of prompt and answer.
func TestLogprobs(t *testing.T) {
	const tolerance = 0.01
	eachReference(t, func(t *testing.T, m model.Model, cases []refCase) {
		t.Helper()
		worst := 0.0
		for i, c := range cases {
			logits, err := m.Forward(batch(c.tokens(), 0))
			require.NoError(t, err)
			for at, top := range c.TopLogits {
				sum := logSumExp(logits[at])
				for _, pair := range top {
					want := pair[1] - c.LogSumExp[at]
					got := float64(logits[at][int(pair[0])]) - sum
					worst = max(worst, math.Abs(got-want))
					require.InDelta(t, want, got, tolerance, "case %d, position %d, token %g", i, at, pair[0])
				}
			}
		}
		t.Logf("log-probabilities differ by at most %.2g", worst)
	})
}

// TestCheckpoints compares the sums and norms of the last position's hidden states, layer by layer.
func TestCheckpoints(t *testing.T) {
	eachReference(t, func(t *testing.T, m model.Model, cases []refCase) {
		t.Helper()
		for i, c := range cases {
			var got [][2]float64
			b := batch(c.tokens(), 0)
			b.Trace = func(p compute.Checkpoint) {
				last := p.Layer == m.Config().Layers-1 && p.Stage == "layer_out" // the reference has the norm's in its place
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

// TestDrafts fills the MTP layer's cache over prompt and answer and compares the three drafts made after each token of the
// answer. A near tie, of two logits within the margin, may be decided either way; what follows it in a chain is not compared.
func TestDrafts(t *testing.T) {
	const margin = 0.01
	eachReference(t, func(t *testing.T, m model.Model, cases []refCase) {
		t.Helper()
		if m.Config().DraftLayers == 0 {
			t.Skip("the model has no MTP layer")
		}
		d, ok := m.(model.Drafter)
		require.True(t, ok)
		total, same := 0, 0
		for i, c := range cases {
			tokens := c.tokens()
			_, err := m.Forward(batch(tokens, 0))
			require.NoError(t, err)
			prompt := len(c.PromptTokens)
			_, err = d.Draft(batch(tokens[1:prompt], 0), model.TrunkStates, rows(prompt-1))
			require.NoError(t, err)
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
		t.Logf("%d of %d drafts are the reference's", same, total)
		require.GreaterOrEqual(t, float64(same), 0.98*float64(total))
	})
}

// drafts chains n drafts after a known token. The slot before it, whose state the trunk has, is the first to be computed.
func drafts(t *testing.T, m model.Drafter, token int32, slot, n int) []int32 {
	t.Helper()
	var out []int32
	from, state := model.TrunkStates, int32(slot)
	for len(out) < n {
		logits, err := m.Draft(batch([]int32{token}, slot+len(out)), from, []int32{state})
		require.NoError(t, err)
		token = best(logits[0])
		out = append(out, token)
		from, state = model.DraftStates, 0
	}
	return out
}

// rows is the indices 0 to n-1.
func rows(n int) []int32 {
	all := make([]int32, n)
	for i := range all {
		all[i] = int32(i)
	}
	return all
}
