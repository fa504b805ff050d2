package engine

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A step has room for a row of every sequence and for prompts in addition.
func TestStepsGrowWithTheSequences(t *testing.T) {
	t.Parallel()
	for _, sequences := range []int{0, 1, 32, 512, 4096} {
		o, err := Options{MaxSequences: sequences}.withDefaults()
		require.NoError(t, err)
		require.Equal(t, o.MaxSequences+DefaultStepTokens, o.StepTokens)
	}
}
