package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// version is the compiler version of the committed files. Other versions can produce other code.
const version = "19.1.7"

// TestGeneratedFilesAreCurrent compares the hash of the sources and of the generated files with the
// one that was written with these files. If it differs, and with INGOT_LONG=1, it compiles the C
// sources and compares the result with the files in the tree.
func TestGeneratedFilesAreCurrent(t *testing.T) {
	sum, err := hash("..")
	require.NoError(t, err)
	written, err := os.ReadFile(filepath.Join("..", sumFile))
	require.NoError(t, err)
	if sum == string(written) && os.Getenv("INGOT_LONG") == "" {
		return
	}
	out, err := exec.Command(tool("CLANG", "clang-19"), "--version").Output()
	if err != nil || !strings.Contains(string(out), version) {
		t.Skipf("clang %s is not installed (Debian: clang-19 and lld-19): cannot check that the generated kernels match the C sources", version)
	}
	if _, err := exec.LookPath(tool("LLD", "ld.lld-19")); err != nil {
		t.Skip("lld is not installed (Debian: lld-19): cannot check that the generated kernels match the C sources")
	}
	folder := t.TempDir()
	require.NoError(t, os.CopyFS(filepath.Join(folder, "c"), os.DirFS(filepath.Join("..", "c"))))
	for _, l := range levels {
		require.NoError(t, l.generate(folder))
		for _, ending := range []string{".s", ".go"} {
			want, err := os.ReadFile(l.path(folder) + ending)
			require.NoError(t, err)
			got, err := os.ReadFile(l.path("..") + ending)
			require.NoError(t, err)
			require.True(t, bytes.Equal(want, got), "%s is not up to date with the C sources: run go generate ./engine/cpu/kernels", l.path("")+ending)
		}
	}
	require.Equal(t, sum, string(written), "%s is not up to date: run go generate ./engine/cpu/kernels", sumFile)
}
