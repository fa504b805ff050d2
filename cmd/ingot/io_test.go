package main

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestEndlessFilesAreRefused: a file without an end is refused before it is read or copied.
func TestEndlessFilesAreRefused(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "out.jsonl")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"run", "/dev/zero", "-o", out, "--model", tinyLlama}, "open /dev/zero: it is a device: give a file or a pipe"},
		{[]string{"show", "/dev/zero"}, "open /dev/zero: it is a device: give a file or a pipe"},
		{[]string{"version", "--config", "/dev/zero"}, ""},
		{[]string{"run", "-", "-o", out, "--config", "/dev/zero"}, "read config file /dev/zero: the file is larger than 1 MiB"},
		{[]string{"render", "--template", "/dev/zero"}, "read template: the text is larger than 64 MiB"},
	} {
		got := ingot(t, "", c.args...)
		require.Contains(t, got.stderr, c.want)
		require.Equal(t, c.want == "", got.code == exitOK, c.args)
	}
	require.NoFileExists(t, out)
	require.Equal(t, exitOK, ingot(t, "", "show", "/dev/null").code, "it ends at once")
}
