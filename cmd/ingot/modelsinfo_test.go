package main

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/bench"
	"github.com/ingot-run/ingot/engine/model/modeltest"
	"github.com/ingot-run/ingot/internal/textfmt"
)

const ownTools = "Hermes, written by Ingot: the chat template has no tools, or a form of calls that is not known"

// TestModelInfo compares the output with the figures in the models' cards.
func TestModelInfo(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]bench.ModelInfo{
		tinyGLM: {
			Name: "tiny-glm", Architecture: "deepseek2", Parameters: 6_090_432 + 1_199_552 + 5*8, // the last term is the biases of five routers, which the card does not count
			Layers: 5, MTPLayers: 1, Hidden: 256, Heads: 4, KVHeads: 1, Experts: 8, ExpertsUsed: 2, ExpertsShared: 1,
			Context: 4096, Vocab: 2048, Tokenizer: "gpt2", PreTokenizer: "glm4", ChatTemplate: true, Tools: ownTools,
			CacheBytesPerToken: 6 * (64 + 32) * 2,
			SHA256:             "c4d04f92bf1d16b14e3924cb64aefe76336164e36d970f6044bc3741d51a1b00",
		},
		tinyLlama: {
			Name: "tiny-llama", Architecture: "llama", Parameters: 3_541_248,
			Layers: 4, Hidden: 256, Heads: 8, KVHeads: 2, Context: 4096, Vocab: 2048,
			Tokenizer: "gpt2", PreTokenizer: "glm4", ChatTemplate: true, Tools: ownTools,
			CacheBytesPerToken: 4 * (2*32 + 2*32) * 2,
			SHA256:             "8e227e38c18a31dbe3a9281d96dd31910690c610a8d3c0afff65ad7a6bdcb38d",
		},
	} {
		r := ingot(t, "", "models", "info", path, "--json", "--sha256")
		require.Equal(t, exitOK, r.code, r.stderr)
		var got bench.ModelInfo
		require.NoError(t, json.Unmarshal([]byte(r.stdout), &got))
		tensors, bytes := 0, uint64(0)
		for _, s := range got.Tensors {
			tensors += s.Count
			bytes += s.Bytes
		}
		require.Positive(t, tensors)
		require.Less(t, bytes, uint64(got.Bytes))
		require.Greater(t, bytes, uint64(got.Bytes)*9/10)
		require.True(t, got.Run.Fits)
		require.Positive(t, got.Run.Context)
		require.Greater(t, got.Run.Weights, got.Bytes/2)
		require.Positive(t, got.Run.TokensPerS)
		require.Greater(t, got.Run.ManyTokensPerS, got.Run.TokensPerS, "rows share the reading of weights")
		want.Path, want.Bytes, want.Tensors, want.Run = path, got.Bytes, got.Tensors, got.Run
		require.Equal(t, want, got)
	}
}

func TestModelInfoText(t *testing.T) {
	t.Parallel()
	r := ingot(t, "", "model", "info", tinyGLM) // the former name
	require.Equal(t, exitOK, r.code, r.stderr)
	for _, line := range []string{
		`architecture\s+deepseek2`, `layers\s+5`, `experts\s+8, 2 used per token, 1 shared`, `tokenizer\s+gpt2, split rule glm4`,
		`chat template\s+yes`, `tools\s+` + ownTools, `cache\s+1\.1 KiB per token in f16`, `Q8_0\s+\d+\s+\S+ MiB`,
		`memory\s+weights \S+ MiB, steps \S+ MiB, rows .*`, `fits here\s+yes, with a context of 4096 tokens and \d+ in all rows together`,
		`speed here\s+at most \d+ tokens/s for one row and \d+ for 16 rows without drafts, since memory is read at \S+ GiB/s`,
	} {
		require.Regexp(t, "(?m)^"+line+"$", r.stdout)
	}
	require.NotContains(t, r.stdout, "cannot be run")
}

// TestModelInfoOfAModelThatCannotBeRun: the info of an unsupported model has everything that its
// file states.
func TestModelInfoOfAModelThatCannotBeRun(t *testing.T) {
	t.Parallel()
	path := filepath.Join(vectors(t), "tokenizers", "gpt-2.gguf")
	r := ingot(t, "", "models", "info", path)
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Regexp(t, `(?m)^architecture +gpt2$`, r.stdout)
	require.Regexp(t, `(?m)^cannot be run +.*architecture "gpt2".*$`, r.stdout)
	require.Regexp(t, `(?m)^vocabulary +50257$`, r.stdout)
	require.NotContains(t, r.stdout, "type", "it has no tensors")
}

func TestBytesText(t *testing.T) {
	t.Parallel()
	for n, want := range map[uint64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1536: "1.5 KiB", 1 << 20: "1.0 MiB", 5 << 30: "5.0 GiB"} {
		require.Equal(t, want, textfmt.Bytes(n))
	}
}

// TestModelInfoOfStates: the reference of Qwen3.5 has 4 recurrent layers of 6 heads with matrices
// of 16 by 16, and 3 rows of 160 columns for the convolution. The room for 4 drafts adds 4 such
// rows, and 4·6·34 values. There are 4 states for 2 rows.
func TestModelInfoOfStates(t *testing.T) {
	t.Parallel()
	path := modeltest.Recurrent(t, "qwen35")
	r := ingot(t, "", "models", "info", path)
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Regexp(t, `(?m)^state\s+31\.5 KiB per row$`, r.stdout)
	r = ingot(t, "", "doctor", "--model", path, "--concurrency", "2", "--backend", "cpu")
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Contains(t, r.stdout, ", states 217.0 KiB (54.2 KiB per row), cache ")
}

// TestModelInfoOfWindows: the reference of Gemma 3 has 7 layers, of which 6 attend to 16 positions.
func TestModelInfoOfWindows(t *testing.T) {
	t.Parallel()
	modeltest.Families(t, func(t *testing.T, f *modeltest.Family) {
		if f.Name != "gemma3" {
			return
		}
		r := ingot(t, "", "models", "info", f.Files[0])
		require.Equal(t, exitOK, r.code, r.stderr)
		require.Regexp(t, `(?m)^cache\s+1\.8 KiB per token in f16, 1\.5 KiB of it only for the last 16 tokens of a row$`, r.stdout)
		r = ingot(t, "", "doctor", "--model", f.Files[0], "--kv", "f16")
		require.Equal(t, exitOK, r.code, r.stderr)
		require.Contains(t, r.stdout, "cache 1.8 KiB per token, 1.5 KiB of it only for the last 16 tokens of a row; together")
	})
}
