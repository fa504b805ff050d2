package engine

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Steps have room for prompts in addition to a row of every sequence.
func TestStepsGrowWithTheSequences(t *testing.T) {
	t.Parallel()
	for _, sequences := range []int{0, 1, 32, 512, 4096} {
		o, err := Options{MaxSequences: sequences}.withDefaults()
		require.NoError(t, err)
		require.Equal(t, o.MaxSequences+DefaultStepTokens, o.StepTokens)
	}
}
