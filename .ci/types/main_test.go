package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestCheck checks a package that is right for Linux and wrong for Apple silicon.
func TestCheck(t *testing.T) {
	t.Parallel()
	found, err := check(t.Context(), "linux", "amd64", "./testdata/wrong")
	require.NoError(t, err)
	require.Empty(t, found)
	found, err = check(t.Context(), "darwin", "arm64", "./testdata/wrong")
	require.NoError(t, err)
	require.Len(t, found, 1)
	require.ErrorContains(t, found[0], "wrong.go:7:45: s.Atim undefined (type *syscall.Stat_t has no field or method Atim)")
	_, err = check(t.Context(), "linux", "amd64", "./testdata/missing")
	require.ErrorContains(t, err, "run go list")
}
