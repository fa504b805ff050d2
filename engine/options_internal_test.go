package engine

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A step has room for a row of every sequence and for prompts in addition.
func TestStepsGrowWithTheSequences(t *testing.T) {
	t.Parallel()
	o, err := Options{}.withDefaults()
	require.NoError(t, err)
	for _, sequences := range []int{1, 32, 512, 4096} {
		require.Equal(t, sequences+DefaultStepTokens, o.sized(sequences, true).StepTokens)
		require.Equal(t, sequences+DedicatedStepTokens, o.sized(sequences, false).StepTokens)
	}
}
