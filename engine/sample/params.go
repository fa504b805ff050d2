// Package sample goes from a row of logits to a token: penalties, temperature, truncation, and a draw that depends on the
// seed, the position and the choice alone, so that a row gets the same tokens in any batch and after any retry.
package sample

// Params says how tokens are drawn from logits. The zero value is greedy without penalties.
type Params struct {
	Temperature       float64           // 0 is greedy
	TopK              int               // 0 keeps all
	TopP              float64           // 0 and 1 keep all
	MinP              float64           // least probability, as a share of the best one's; 0 keeps all
	RepetitionPenalty float64           // on tokens of the prompt and the answer (Keskar et al. 2019); 0 and 1 do nothing
	PresencePenalty   float64           // OpenAI's, on tokens of the answer
	FrequencyPenalty  float64           // OpenAI's, on tokens of the answer
	LogitBias         map[int32]float64 // added to the logits of these ids
	Seed              uint64
}
