package recommended

import (
	"regexp"

	"github.com/ingot-run/ingot/engine/generation"
)

// Entry is a model, or a family of models, with the settings that its makers recommend.
type Entry struct {
	Models   string // for people
	Sampling generation.Sampling
	Source   string // the page or file that names the settings

	name *regexp.Regexp // matches the beginning of a name of namesOf
}

// vendor matches the vendors that names of files and models begin with.
const vendor = `^(?:(?:qwen|google|meta|openai|zai-org|liquidai|nvidia|huggingfacetb|mistralai|microsoft|deepseek-ai)-)?`

func entry(models, pattern string, s generation.Sampling, source string) Entry {
	return Entry{models, s, source, regexp.MustCompile(vendor + `(?:` + pattern + `)`)}
}

// List has the models whose settings are used if their file names none. The first match counts.
// Models with a thinking mode have the settings of that mode, in which they answer by default.
// docs/models.md shows the same list.
var List = []Entry{
	entry("Qwen3.5, Qwen3.6, Qwen3.8", `qwen-?3\.[568]`, generation.Sampling{Temperature: 1, TopP: 0.95, TopK: 20}, "generation_config.json of Qwen/Qwen3.6-27B"),
	entry("Qwen3-Coder", `qwen-?3-coder`, generation.Sampling{Temperature: 0.7, TopP: 0.8, TopK: 20, RepetitionPenalty: 1.05}, "generation_config.json of Qwen/Qwen3-Coder-30B-A3B-Instruct"),
	entry("Qwen3 Instruct (2507, Next)", `qwen-?3-.*instruct`, generation.Sampling{Temperature: 0.7, TopP: 0.8, TopK: 20}, "generation_config.json of Qwen/Qwen3-30B-A3B-Instruct-2507"),
	entry("Qwen3, Qwen3 Thinking", `qwen-?3(?:-|$)`, generation.Sampling{Temperature: 0.6, TopP: 0.95, TopK: 20}, "generation_config.json of Qwen/Qwen3-8B"),
	entry("Qwen2.5 Instruct 0.5B and 1.5B", `qwen-?2\.5-(?:coder-)?(?:0\.5|1\.5)b-instruct`, generation.Sampling{Temperature: 0.7, TopP: 0.8, TopK: 20, RepetitionPenalty: 1.1}, "generation_config.json of Qwen/Qwen2.5-1.5B-Instruct"),
	entry("Qwen2.5 Instruct from 3B", `qwen-?2\.5-(?:coder-)?\d+b-instruct`, generation.Sampling{Temperature: 0.7, TopP: 0.8, TopK: 20, RepetitionPenalty: 1.05}, "generation_config.json of Qwen/Qwen2.5-7B-Instruct"),
	entry("R1 distilled", `deepseek-r1-distill`, generation.Sampling{Temperature: 0.6, TopP: 0.95}, "generation_config.json of deepseek-ai/DeepSeek-R1-Distill-Qwen-7B"),
	entry("Gemma 3, Gemma 4", `gemma-?[34]`, generation.Sampling{Temperature: 1, TopP: 0.95, TopK: 64}, "generation_config.json of google/gemma-3-12b-it"),
	entry("Llama 3.1 to 3.3 Instruct", `llama-?3\.[123]-.*instruct`, generation.Sampling{Temperature: 0.6, TopP: 0.9}, "generation_config.json of meta-llama/Llama-3.1-8B-Instruct"),
	entry("gpt-oss", `gpt-oss`, generation.Sampling{Temperature: 1}, "README of openai/gpt-oss"),
	entry("GLM-4.6, GLM-4.7", `glm-?4\.[67]`, generation.Sampling{Temperature: 1, TopP: 0.95}, "model card of zai-org/GLM-4.7-Flash"),
	entry("Nemotron 3", `nemotron-?3`, generation.Sampling{Temperature: 1}, "model card of nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16"),
	entry("LFM2", `lfm2-`, generation.Sampling{Temperature: 0.3, MinP: 0.15, RepetitionPenalty: 1.05}, "model card of LiquidAI/LFM2-8B-A1B"),
	entry("SmolLM3", `smollm-?3`, generation.Sampling{Temperature: 0.6, TopP: 0.95}, "model card of HuggingFaceTB/SmolLM3-3B"),
	entry("Mistral Small 3", `mistral-small-3`, generation.Sampling{Temperature: 0.15}, "model card of mistralai/Mistral-Small-3.2-24B-Instruct-2506"),
	entry("Phi-4 reasoning", `phi-?4-reasoning`, generation.Sampling{Temperature: 0.8, TopP: 0.95, TopK: 50}, "model card of microsoft/Phi-4-reasoning"),
}
