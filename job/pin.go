package job

import "github.com/ingot-run/ingot/openai"

// Pin identifies the model file (weights and chat template) and the default sampling options of a worker. Under each
// alias, a batch accepts only answers with the same pin as the first one, unless MixModels is set.
func Pin(modelSHA256 string) string { return modelSHA256 + "/" + openai.DefaultsID() }
