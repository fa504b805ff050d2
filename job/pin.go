package job

import "github.com/ingot-run/ingot/openai"

// Pin identifies what decides the answers of a batch besides its rows: the model's file, which holds the chat template too, and the
// defaults of sampling. A batch takes answers with the pin of its first one only, unless it may mix models.
func Pin(modelSHA256 string) string { return modelSHA256 + "/" + openai.DefaultsID() }
