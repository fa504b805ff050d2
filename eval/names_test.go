package eval_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/eval"
)

func TestNames(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"a", "7", "Nightly-2026.01_02", strings.Repeat("x", 64)} {
		require.NoError(t, eval.CheckName("entry", s))
	}
	for _, s := range []string{"", ".", "..", "-x", "_x", "a/b", "a b", "a:b", "a\n", "é", strings.Repeat("x", 65)} {
		require.ErrorContains(t, eval.CheckName("entry", s), "a name has up to 64 letters")
	}
	require.EqualError(t, eval.CheckName("baseline", "../main"),
		`baseline "../main": a name has up to 64 letters, digits, dots, dashes and underscores, and begins with a letter or digit`)
}
