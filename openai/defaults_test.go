package openai

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// DefaultsID must change only when a default changes: batches compare it between versions of the
// program.
func TestDefaultsID(t *testing.T) {
	t.Parallel()
	require.Equal(t, "0d480065", DefaultsID(), "another default makes workers of this version refuse batches that an earlier one has begun")
}
