package table_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/files/table"
)

// TestSameFile: two spellings of a path are one file, even before the file exists.
func TestSameFile(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	in := func(name string) string { return folder + "/" + name }
	require.NoError(t, os.WriteFile(in("there"), nil, 0o600))
	require.NoError(t, os.Symlink("there", in("link")))
	require.NoError(t, os.Mkdir(in("sub"), 0o700))
	require.NoError(t, os.Link(in("there"), in("sub/there")))
	require.NoError(t, os.WriteFile(in("sub/link"), nil, 0o600))
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{in("there"), in("sub/../there"), true},
		{in("there"), in("link"), true},
		{in("there"), in("sub/there"), true},
		{in("link"), in("sub/link"), false},
		{in("there"), in("absent"), false},
		{in("absent"), in("./absent"), true},
		{in("absent"), in("sub/../absent"), true},
		{in("absent"), in("sub/absent"), false},
		{in("absent"), in("other"), false},
		{in("none/absent"), in("none/absent"), false},
		{"-", "-", false},
		{"-", in("there"), false},
		{"", "", false},
		{"", filepath.Join(folder, "absent"), false},
	} {
		require.Equal(t, c.same, table.SameFile(c.a, c.b), "%s %s", c.a, c.b)
		require.Equal(t, c.same, table.SameFile(c.b, c.a), "%s %s", c.b, c.a)
	}
}
