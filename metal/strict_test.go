package metal_test

import (
	"io/fs"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/metal"
)

var attributes = regexp.MustCompile(`\[\[[^\]]*\]\]`)

// checkStrictly is what clang says of a source whose pointers have address spaces.
func checkStrictly(t *testing.T, clang string, src metal.Source) string {
	t.Helper()
	declarations, err := os.ReadFile("testdata/strict.h")
	require.NoError(t, err)
	text := strings.ReplaceAll(attributes.ReplaceAllString(src.Text, ""), "#include <", "// ")
	cmd := exec.CommandContext(t.Context(), clang, "--target=aarch64-linux-gnu", "-x", "c++", "-std=c++20", "-fsyntax-only",
		"-Wall", "-Wextra", "-Wno-unused-parameter", "-Wno-ignored-qualifiers", "-Wno-unused-function", "-Werror", "-")
	cmd.Stdin = strings.NewReader("#line 1 \"strict.h\"\n" + string(declarations) + text)
	out, err := cmd.CombinedOutput()
	if err == nil {
		require.Empty(t, string(out))
	}
	return string(out)
}

// TestAddressSpaces checks all kernels with clang, as a stand-in for Apple's compiler in what the host driver lets pass.
func TestAddressSpaces(t *testing.T) {
	clang, err := exec.LookPath("clang++")
	if err != nil {
		t.Skip("address spaces of the kernels are not checked: clang++ is not installed")
	}
	files, err := fs.Glob(os.DirFS("kernels"), "*.metal")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, name := range files {
		t.Run(name, func(t *testing.T) {
			src, err := metal.Kernel(name, metal.AllCandidates())
			require.NoError(t, err)
			require.Empty(t, checkStrictly(t, clang, src))
		})
	}
	for _, wrong := range []string{
		"float f(device const float* p) { const float* q = p; return *q; }",
		"void f(threadgroup float* p) { device float* q = p; *q = 0; }",
	} {
		require.NotEmpty(t, checkStrictly(t, clang, metal.Source{Text: wrong}), wrong)
	}
}
