package engine

import (
	"cmp"
	"strings"
)

// numerics is the version of the program's arithmetic. It changes with every change of the program
// that can change the tokens of an answer: the order of sums, the formats in which intermediate
// values are stored, or how tokens are sampled.
const numerics = "4"

// arithmetic returns Info.Arithmetic: parts separated by slashes.
func (e *Engine) arithmetic() string {
	parts := []string{numerics, e.backend.Arithmetic(), strings.ToLower(e.opts.KV.String())}
	if rope := e.ropeFactors(); rope != "" {
		parts = append(parts, rope)
	}
	return strings.Join(parts, "/")
}

// ropeFactors names the RoPE factors that a model with several sets uses; empty for other models.
// As in package model, the context that the user asked for or, by default, the trained one decides.
func (e *Engine) ropeFactors() string {
	if _, ok := e.files.model.Tensor("rope_factors_long.weight"); !ok {
		return ""
	}
	original, err := e.files.model.Meta().Uint(e.files.config.Architecture + ".rope.scaling.original_context_length")
	if err == nil && uint64(cmp.Or(e.opts.Context, e.fit.Trained)) > original {
		return "long"
	}
	return "short"
}
