package where

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A fault of the program is not taken for an error of the expression.
func TestFaultsAreNotErrors(t *testing.T) {
	t.Parallel()
	c, err := Compile("true", nil)
	require.NoError(t, err)
	c.root.run = func(*frame) any { panic("fault") }
	require.PanicsWithValue(t, "fault", func() { _, _ = c.Match(nil) })
}
