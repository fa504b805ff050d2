package metal

import (
	"fmt"
	"io/fs"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	// nvidiaFunction matches the beginning of a function up to the brace of its body, in macros
	// too.
	nvidiaFunction = regexp.MustCompile(`__(device|global)__ [^;{}]*?\b(\w+)\(([^;{}()]|\([^()]*\))*\)[\s\\]*\{`)
	nvidiaCall     = regexp.MustCompile(`\b(\w+)(?:<[^;()]*>)?\(`)
)

// body returns the rest of a function's body. text begins after the opening brace.
func body(text string) string {
	depth := 1
	for i, r := range text {
		switch r {
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				return text[:i]
			}
		}
	}
	return text
}

// TestNvidiaKernelsWait checks that every kernel for NVIDIA calls wait_for_previous, itself or in
// the function that does its work. Kernels of a graph start before the kernels they depend on have
// ended. The function stream of bulk.h waits too.
func TestNvidiaKernelsWait(t *testing.T) {
	t.Parallel()
	waits := map[string]bool{"wait_for_previous": true}
	entries := map[string]string{} // bodies of kernels
	all := 0
	require.NoError(t, fs.WalkDir(kernels, "kernels/cuda", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(kernels, path)
		text := string(data)
		all += strings.Count(text, "__global__")
		for _, at := range nvidiaFunction.FindAllStringSubmatchIndex(text, -1) {
			name, in := text[at[4]:at[5]], body(text[at[1]:])
			if text[at[2]:at[3]] == "global" {
				entries[fmt.Sprintf("%s in %s at byte %d", name, path, at[0])] = in
			} else if strings.Contains(in, "wait_for_previous(") || strings.Contains(in, "A().stream(") {
				waits[name] = true
			}
		}
		return err
	}))
	for name, in := range entries {
		called := false
		for _, c := range nvidiaCall.FindAllStringSubmatch(in, -1) {
			called = called || waits[c[1]]
		}
		require.True(t, called, "kernel %s does not wait", name)
	}
	require.Len(t, entries, all)
	require.NotEmpty(t, entries)
}
