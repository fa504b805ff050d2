// Package modeltest compares models on any backend with results that Hugging Face transformers
// computed from the same weights in float32. The cases for the micro models and for the bundled
// models' weights are in engine/model/testdata. If the environment variable INGOT_MODELS names a
// folder, its F16 files are compared instead of the bundled models, which were quantised from them.
package modeltest

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/gguf"
)

// Case is a prompt with the reference's greedy answer and logits.
type Case struct {
	Text         string           `json:"text"` // text of the prompt; empty for the micro models
	PromptTokens []int32          `json:"prompt_tokens"`
	GreedyTokens []int32          `json:"greedy_tokens"`
	GreedyText   string           `json:"greedy_text"`  // text without the stop token; empty for the micro models
	TopLogits    [][][2]float64   `json:"top_logits"`   // [token of prompt and answer][8]{id, logit}
	LogSumExp    []float64        `json:"logsumexp"`    // [token of prompt and answer] of all logits
	LayerSums    [][2]float64     `json:"layer_sums"`   // {sum, norm} of the last token: embedding, each layer but the last, final norm
	MTPDrafts    [][][][2]float64 `json:"mtp_drafts"`   // [greedy token][3 drafts][4]{id, logit}
	SmallestGap  float64          `json:"smallest_gap"` // smallest difference between the two highest logits, over all greedy tokens
}

// Tokens returns the prompt and the answer.
func (c *Case) Tokens() []int32 {
	return append(c.PromptTokens[:len(c.PromptTokens):len(c.PromptTokens)], c.GreedyTokens...)
}

// Each runs a test for every model that has cases, in one subtest per model.
func Each(t *testing.T, test func(t *testing.T, path string, cases []Case)) {
	t.Helper()
	for _, name := range Micros(t) {
		t.Run(name, func(t *testing.T) {
			path := Micro(t, name)
			test(t, path, Cases(t, path))
		})
	}
	for _, name := range []string{"tiny-llama", "tiny-glm"} {
		t.Run(name, func(t *testing.T) {
			path := Tiny(t, name)
			test(t, path, Cases(t, path))
		})
	}
}

// Micros returns the names of the micro models: untrained models of a few hundred thousand weights,
// one or more per family.
func Micros(tb testing.TB) []string {
	tb.Helper()
	paths, err := filepath.Glob(filepath.Join(testdata(tb), "micro-*.gguf"))
	require.NoError(tb, err)
	require.NotEmpty(tb, paths)
	names := make([]string, len(paths))
	for i, path := range paths {
		names[i] = strings.TrimSuffix(filepath.Base(path), ".gguf")
	}
	return names
}

// Micro returns the path of a micro model, such as micro-llama.
func Micro(tb testing.TB, name string) string {
	tb.Helper()
	return filepath.Join(testdata(tb), name+".gguf")
}

func testdata(tb testing.TB) string {
	tb.Helper()
	dir, err := os.Getwd()
	require.NoError(tb, err)
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return filepath.Join(dir, "engine", "model", "testdata")
		}
		require.NotEqual(tb, dir, filepath.Dir(dir), "found no go.mod in the working directory or in a folder above it")
		dir = filepath.Dir(dir)
	}
}

// bundled has the files of the tiny models, relative to engine/model/testdata.
var bundled = map[string]string{
	"tiny-llama": "../../../models/tiny-llama.q4_0.gguf",
	"tiny-glm":   "../../../models/tiny-glm.q8_0.gguf",
}

// Tiny returns the path of tiny-llama or tiny-glm, with exactly the weights of its reference cases.
// If INGOT_MODELS names the folder of the F16 files, this is the F16 file. Otherwise, it is a copy
// of the bundled file in float32. The cases for these weights are then in the same folder.
func Tiny(tb testing.TB, name string) string {
	tb.Helper()
	if dir := os.Getenv("INGOT_MODELS"); dir != "" {
		return filepath.Join(dir, name+".f16.gguf")
	}
	f, err := gguf.Open(filepath.Join(testdata(tb), bundled[name]))
	require.NoError(tb, err)
	var tensors []gguf.Tensor
	for _, t := range f.Tensors() {
		weights := t.Values()
		t.Type, t.Data = gguf.TypeF32, make([]byte, 0, 4*len(weights))
		for _, w := range weights {
			t.Data = binary.LittleEndian.AppendUint32(t.Data, math.Float32bits(w))
		}
		tensors = append(tensors, t)
	}
	path := filepath.Join(tb.TempDir(), name+".gguf")
	out, err := os.Create(path)
	require.NoError(tb, err)
	require.NoError(tb, gguf.Write(out, f.Meta(), tensors))
	require.NoError(tb, out.Close())
	require.NoError(tb, f.Close())
	cases, err := os.ReadFile(filepath.Join(testdata(tb), name+".json"))
	require.NoError(tb, err)
	require.NoError(tb, os.WriteFile(strings.TrimSuffix(path, ".gguf")+".json", cases, 0o600))
	return path
}

// Cases reads the cases of a model from the folder of its file.
func Cases(tb testing.TB, path string) []Case {
	tb.Helper()
	base := strings.TrimSuffix(path, ".gguf")
	if tiny, ok := strings.CutSuffix(base, ".f16"); ok {
		base = tiny + ".reference"
	}
	data, err := os.ReadFile(base + ".json")
	require.NoError(tb, err)
	var cases []Case
	if data[0] == '[' {
		require.NoError(tb, json.Unmarshal(data, &cases))
	} else { // one list per family, all but one of them empty
		var families map[string][]Case
		require.NoError(tb, json.Unmarshal(data, &families))
		for _, c := range families {
			cases = append(cases, c...)
		}
	}
	require.NotEmpty(tb, cases)
	return cases
}
