package recommended

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/gguf"
)

// file writes a model's file without tensors, whose metadata are pairs of keys and values, and
// opens it.
func file(t *testing.T, name string, pairs ...any) *gguf.File {
	t.Helper()
	meta := new(gguf.Metadata)
	meta.Set("general.architecture", "llama")
	for i := 0; i < len(pairs); i += 2 {
		meta.Set("general."+pairs[i].(string), pairs[i+1])
	}
	path := filepath.Join(t.TempDir(), name)
	out, err := os.Create(path)
	require.NoError(t, err)
	require.NoError(t, gguf.Write(out, meta, nil))
	require.NoError(t, out.Close())
	f, err := gguf.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	return f
}

func TestSettingsInTheFile(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pairs []any
		want  string
	}{
		{[]any{"sampling.temp", float32(0.6), "sampling.top_k", int32(20), "sampling.top_p", float32(0.95)}, "temperature=0.6,top_p=0.95,top_k=20"},
		{[]any{"sampling.top_k", int32(20)}, "temperature=1,top_k=20"},
		{[]any{"sampling.min_p", float32(0.15), "sampling.penalty_repeat", float32(1.05), "sampling.temp", float32(0.3)}, "temperature=0.3,min_p=0.15,repetition_penalty=1.05"},
		{[]any{"sampling.temp", float32(0)}, "temperature=0"},
		{[]any{"sampling.temp", float32(1), "sampling.top_p", float32(1)}, ""},
		// The file counts, and not the list, even if it names only one setting.
		{[]any{"name", "Qwen3 8B", "sampling.temp", float32(0.7)}, "temperature=0.7"},
		{[]any{"name", "Qwen3 8B", "sampling.temp", float32(1)}, ""},
		// Values that a request may not have are left out.
		{[]any{"sampling.temp", float32(math.NaN()), "sampling.top_p", float32(2), "sampling.top_k", int32(-1), "sampling.min_p", float32(-1), "sampling.penalty_repeat", float32(0)}, ""},
		{[]any{"sampling.temp", "hot", "sampling.top_k", uint64(1 << 40)}, ""},
		{nil, ""},
	} {
		got := Of(file(t, "model.gguf", c.pairs...))
		require.Equal(t, c.want, got.String(), "%v", c.pairs)
		if c.want != "" {
			require.Equal(t, FromFile, got.Source)
		}
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"Qwen3 8B":                            "temperature=0.6,top_p=0.95,top_k=20",
		"Qwen3-30B-A3B-Thinking-2507":         "temperature=0.6,top_p=0.95,top_k=20",
		"Qwen3-30B-A3B-Instruct-2507":         "temperature=0.7,top_p=0.8,top_k=20",
		"Qwen3-Next-80B-A3B-Instruct":         "temperature=0.7,top_p=0.8,top_k=20",
		"Qwen3 Coder 30B A3B Instruct":        "temperature=0.7,top_p=0.8,top_k=20,repetition_penalty=1.05",
		"Qwen3.5-35B-A3B":                     "temperature=1,top_p=0.95,top_k=20",
		"Qwen3.6 27B":                         "temperature=1,top_p=0.95,top_k=20",
		"Qwen2.5 7B Instruct":                 "temperature=0.7,top_p=0.8,top_k=20,repetition_penalty=1.05",
		"Qwen2.5-Coder-1.5B-Instruct":         "temperature=0.7,top_p=0.8,top_k=20,repetition_penalty=1.1",
		"Gemma 3 12b It":                      "temperature=1,top_p=0.95,top_k=64",
		"google_gemma-4-26b-a4b-it":           "temperature=1,top_p=0.95,top_k=64",
		"Meta Llama 3.1 8B Instruct":          "temperature=0.6,top_p=0.9",
		"GLM 4.7 Flash":                       "temperature=1,top_p=0.95",
		"LFM2 8B A1B":                         "temperature=0.3,min_p=0.15,repetition_penalty=1.05",
		"SmolLM3 3B":                          "temperature=0.6,top_p=0.95",
		"Mistral Small 3.2 24B Instruct 2506": "temperature=0.15",
		"Phi 4 Reasoning Plus":                "temperature=0.8,top_p=0.95,top_k=50",
		"DeepSeek R1 Distill Qwen 7B":         "temperature=0.6,top_p=0.95",
		"gpt-oss-20b":                         "", // temperature 1 without limits
		"NVIDIA Nemotron 3 Nano 30B A3B":      "",
		"Qwen3 8B Base":                       "",
		"gemma-3-12b-pt":                      "",
		"Llama 3.1 8B":                        "",
		"Hermes 3 Llama 3.1 8B Instruct":      "", // trained further by others
		"LFM2.5 1.2B Instruct":                "",
		"Phi 4":                               "",
		"tiny-llama":                          "",
	} {
		require.Equal(t, want, Of(file(t, "model.gguf", "name", name)).String(), name)
	}
	require.Equal(t, "temperature=0.6,top_p=0.95,top_k=20", Of(file(t, "Qwen_Qwen3-4B-Q4_K_M.gguf")).String(), "the name of the file")
	require.Equal(t, "temperature=0.7,top_p=0.8,top_k=20", Of(file(t, "m.gguf", "basename", "Qwen3", "finetune", "Instruct-2507")).String())
	require.Empty(t, Of(file(t, "Qwen3-8B.gguf", "finetune", "Base", "basename", "Qwen3")).String())
}

// Every entry of the list is a row of the table in docs/models.md, with its settings and source.
func TestDocs(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/models.md")
	require.NoError(t, err)
	for _, e := range List {
		require.Equal(t, 1, strings.Count(string(page), row(e)+"\n"), "docs/models.md needs this row once:\n%s", row(e))
	}
}

func row(e Entry) string {
	cell := func(v float64) string {
		if v == 0 {
			return ""
		}
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	s := e.Sampling
	return fmt.Sprintf("| %s | %s | %s | %s | %s | %s | %s |", e.Models, cell(s.Temperature), cell(s.TopP), cell(float64(s.TopK)), cell(s.MinP), cell(s.RepetitionPenalty), e.Source)
}
