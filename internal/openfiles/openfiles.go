// Package openfiles lets tests check that files are closed.
package openfiles

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// descriptors is the folder with a link for each open file of the process, on Linux.
const descriptors = "/proc/self/fd"

// Paths returns the paths that contain a text, of the files that this process has open. It returns
// nil on systems that do not tell.
func Paths(t testing.TB, text string) (paths []string) {
	t.Helper()
	links, err := os.ReadDir(descriptors)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	require.NoError(t, err)
	for _, l := range links {
		path, err := os.Readlink(filepath.Join(descriptors, l.Name()))
		if err == nil && strings.Contains(path, text) { // it may have been closed meanwhile
			paths = append(paths, path)
		}
	}
	return paths
}

// Require requires that this process has n files open whose paths contain a text. It requires
// nothing on systems that do not tell.
func Require(t testing.TB, n int, text string) {
	t.Helper()
	if _, err := os.Stat(descriptors); err == nil {
		require.Len(t, Paths(t, text), n)
	}
}
