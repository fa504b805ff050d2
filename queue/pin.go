package queue

import "github.com/ingot-run/ingot/openai"

// Pin returns a text that identifies a worker's model file (weights and chat template) and default
// sampling options. Under each alias, a batch accepts only answers with the same Pin as the first
// answer, unless Batch.MixModels is set.
func Pin(modelSHA256 string) string { return modelSHA256 + "/" + openai.DefaultsID() }
