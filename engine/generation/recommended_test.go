package generation_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/generation"
)

// Recommended settings are named if they have an effect: 0 and 1 switch some of them off, and the
// temperature is left out only with all others.
func TestRecommendedSettingsAsText(t *testing.T) {
	t.Parallel()
	for want, s := range map[string]generation.Sampling{
		"":                          {Temperature: 1},
		"temperature=0":             {},
		"temperature=0.6":           {Temperature: 0.6, TopP: 1, RepetitionPenalty: 1},
		"temperature=1,top_p=0.95":  {Temperature: 1, TopP: 0.95},
		"temperature=1,top_k=20":    {Temperature: 1, TopK: 20, RepetitionPenalty: 1},
		"temperature=1,min_p=0.1":   {Temperature: 1, MinP: 0.1},
		"temperature=1,top_p=2":     {Temperature: 1, TopP: 2},
		"temperature=0.6,top_p=0.9": {Temperature: 0.6, TopP: 0.9},
		"temperature=1,repetition_penalty=1.1,presence_penalty=-1,frequency_penalty=0.5": {Temperature: 1, RepetitionPenalty: 1.1, PresencePenalty: -1, FrequencyPenalty: 0.5},
	} {
		require.Equal(t, want, generation.Recommended{Sampling: s, Source: "the model"}.String())
		require.Empty(t, generation.Recommended{Sampling: s}.String())
	}
}
