package openai

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The identifier changes with a default, and with nothing else: batches compare it between versions.
func TestDefaultsID(t *testing.T) {
	t.Parallel()
	require.Equal(t, "0d480065", DefaultsID(), "another default makes workers of this version refuse batches that an earlier one has begun")
}
