package hub

import (
	"slices"
	"strings"
)

// Entry is a model of the catalog: a short name for one file of a repository.
type Entry struct {
	Name    string
	File    string // name of the model as user/repo:selection
	Bytes   int64  // approximate size of the model's files
	Cache   int64  // bytes per token in an f16 KV cache, computed from the model's layers with attention to all tokens, KV heads and head size
	State   int64  // bytes per row of any length: recurrent state in f32, and full windows of attention in f16
	Licence string
	For     string // what the model is good for
}

// Catalog is a small list of models to begin with, sorted by size. The sizes are rounded;
// docs/models.md says which of them come from the repositories.
var Catalog = []Entry{
	{"smollm2-1.7b", "HuggingFaceTB/SmolLM2-1.7B-Instruct-GGUF:Q4_K_M", 1.06e9, 2 * 2 * 24 * 32 * 64, 0, "Apache-2.0", "first steps, short English texts"},
	{"smollm3-3b", "bartowski/HuggingFaceTB_SmolLM3-3B-GGUF:Q4_K_M", 1.92e9, 2 * 2 * 36 * 4 * 128, 0, "Apache-2.0", "laptops: summaries, six European languages"},
	{"qwen3-4b", "bartowski/Qwen_Qwen3-4B-GGUF:Q4_K_M", 2.50e9, 2 * 2 * 36 * 8 * 128, 0, "Apache-2.0", "laptops: classification, extraction, many languages"},
	{"qwen3-8b", "bartowski/Qwen_Qwen3-8B-GGUF:Q4_K_M", 5.03e9, 2 * 2 * 36 * 8 * 128, 0, "Apache-2.0", "general use, many languages, reasoning"},
	{"lfm2-8b", "LiquidAI/LFM2-8B-A1B-GGUF:Q4_K_M", 5.05e9, 2 * 2 * 6 * 8 * 64, 4 * 18 * 2 * 2048, "LFM1.0", "extraction, tags; 1B of 8B weights per token"},
	{"qwen3.5-9b", "bartowski/Qwen_Qwen3.5-9B-GGUF:Q4_K_M", 5.89e9, 2 * 2 * 8 * 4 * 256, 4 * 24 * 32 * 128 * 128, "Apache-2.0", "general use, many languages, reasoning"},
	{"gemma3-12b", "bartowski/google_gemma-3-12b-it-GGUF:Q4_K_M", 7.30e9, 2 * 2 * 48 * 8 * 256, 0, "Gemma", "translation, writing"},
	{"phi4-14b", "bartowski/phi-4-GGUF:Q4_K_M", 9.05e9, 2 * 2 * 40 * 10 * 128, 0, "MIT", "knowledge, mathematics, data sets in English"},
	{"gpt-oss-20b", "bartowski/openai_gpt-oss-20b-GGUF:MXFP4", 12.1e9, 2 * 2 * 24 * 8 * 64, 0, "Apache-2.0", "reasoning at the speed of a small model"},
	{"gemma4-26b", "bartowski/google_gemma-4-26B-A4B-it-GGUF:Q4_K_M", 17.0e9, 2 * 2 * 5 * 2 * 512, 2 * 2 * 25 * 8 * 256 * 1024, "Apache-2.0", "translation, writing; 4B of 26B weights per token"},
	{"qwen3.6-27b", "bartowski/Qwen_Qwen3.6-27B-GGUF:Q4_K_M", 17.1e9, 2 * 2 * 16 * 4 * 256, 4 * 48 * 48 * 128 * 128, "Apache-2.0", "code, reasoning, many languages; all 27B weights per token"},
	{"glm-4.7-flash", "bartowski/zai-org_GLM-4.7-Flash-GGUF:Q4_K_M", 18.47e9, 2 * 47 * (512 + 64), 0, "MIT", "code, reasoning, long prompts; 3B of 30B weights per token"},
	{"qwen3-30b", "bartowski/Qwen_Qwen3-30B-A3B-GGUF:Q4_K_M", 18.6e9, 2 * 2 * 48 * 4 * 128, 0, "Apache-2.0", "large data sets, many languages; 3B of 30B weights per token"},
	{"qwen3.6-35b", "bartowski/Qwen_Qwen3.6-35B-A3B-GGUF:Q4_K_M", 22.1e9, 2 * 2 * 10 * 2 * 256, 4 * 30 * 32 * 128 * 128, "Apache-2.0", "large data sets, code, many languages; 3B of 35B weights per token"},
	{"nemotron3-30b", "unsloth/Nemotron-3-Nano-30B-A3B-GGUF:Q4_K_M", 24.6e9, 2 * 2 * 6 * 2 * 128, 4 * 23 * (64*64*128 + 3*6144), "NVIDIA", "synthetic data, long prompts; 3B of 30B weights per token"},
}

// Memory assumes MemoryRows rows with MemoryTokens tokens each.
const (
	MemoryRows   = 16
	MemoryTokens = 1000
)

// Memory estimates the bytes that a model needs for MemoryRows rows of MemoryTokens tokens:
// weights, the buffers of a step, the KV cache and states.
func (e Entry) Memory() int64 {
	const steps = 256 << 20
	return e.Bytes + e.Bytes/20 + steps + MemoryRows*(MemoryTokens*e.Cache+e.State)
}

// bytesPerCore is the size of a model's file for each core up to which Fitting proposes the model:
// larger ones answer slowly.
const bytesPerCore = 1.1e9

// Fitting returns at most n models of the catalog that fit into the given number of bytes of memory
// and are not too slow for the number of cores of a machine without GPU, the largest first. If none
// fits, it returns the smallest model.
func Fitting(memory int64, cores, n int) (fitting []Entry) {
	for _, e := range slices.Backward(Catalog) {
		if e.Memory() <= memory && e.Bytes <= int64(cores)*bytesPerCore && len(fitting) < n {
			fitting = append(fitting, e)
		}
	}
	if len(fitting) == 0 {
		fitting = Catalog[:1]
	}
	return fitting
}

// lookup returns the entry with a short name. Case does not matter.
func lookup(name string) (Entry, bool) {
	for _, m := range Catalog {
		if strings.EqualFold(m.Name, name) {
			return m, true
		}
	}
	return Entry{}, false
}
