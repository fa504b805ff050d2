package generation_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/generation"
)

func TestValidateNamesTheSetting(t *testing.T) {
	t.Parallel()
	for want, p := range map[string]generation.Sampling{
		"temperature":                  {Temperature: -1},
		"temperature is NaN":           {Temperature: math.NaN()},
		"temperature is +Inf":          {Temperature: math.Inf(1)},
		"top_p":                        {TopP: 1.5},
		"min_p":                        {MinP: -0.1},
		"top_k":                        {TopK: -1},
		"top_k is 9":                   {TopK: math.MaxInt},
		"repetition_penalty":           {RepetitionPenalty: -1},
		"repetition_penalty is 1e-4":   {RepetitionPenalty: 1e-40},
		"presence_penalty":             {PresencePenalty: math.Inf(-1)},
		"frequency_penalty":            {FrequencyPenalty: math.NaN()},
		`"logit_bias" names token 10,`: {LogitBias: map[int32]float64{10: 1}},
		`"logit_bias" names token -1,`: {LogitBias: map[int32]float64{-1: 1}},
		`"logit_bias" of token 3`:      {LogitBias: map[int32]float64{3: math.NaN()}},
	} {
		require.ErrorContains(t, p.Validate(10), want)
	}
}

// TestNumbersAreLimited: each number is accepted at the ends of its range and refused beyond them.
func TestNumbersAreLimited(t *testing.T) {
	t.Parallel()
	for _, n := range generation.Numbers {
		for _, v := range []float64{n.Low, n.High} {
			var p generation.Sampling
			*n.Of(&p) = v
			require.NoError(t, p.Validate(10), n.Name)
		}
		for _, v := range []float64{math.Nextafter(n.Low, math.Inf(-1)), math.Nextafter(n.High, math.Inf(1)), math.NaN()} {
			var p generation.Sampling
			*n.Of(&p) = v
			require.ErrorContains(t, p.Validate(10), n.Name+" is ")
		}
	}
}
