package metal

import (
	"io/fs"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	nativeFunction = regexp.MustCompile(`(?s)__device__ (?:inline )?void (\w+)\([^{;]*\{\n(.*?)\n\}`)
	nativeEntry    = regexp.MustCompile(`(?s)__global__ void [^{;]*\{(.*?)\n? *\}\s*(?:\\?\n|$)`)
	nativeCall     = regexp.MustCompile(`\b(\w+)(?:<[^;()]*>)?\(`)
)

// TestNativeKernelsWait checks that every native kernel calls wait_for_previous, directly or in the function that does its work. In a CUDA
// graph, a kernel can start before the kernels on which it depends have ended.
func TestNativeKernelsWait(t *testing.T) {
	t.Parallel()
	waits := map[string]bool{"wait_for_previous": true}
	var texts []string
	require.NoError(t, fs.WalkDir(kernels, "kernels/cuda", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(kernels, path)
		texts = append(texts, string(text))
		return err
	}))
	for _, text := range texts {
		for _, f := range nativeFunction.FindAllStringSubmatch(text, -1) {
			if strings.Contains(f[2], "wait_for_previous();") {
				waits[f[1]] = true
			}
		}
	}
	entries := 0
	for _, text := range texts {
		for _, k := range nativeEntry.FindAllStringSubmatch(text, -1) {
			entries++
			called := false
			for _, c := range nativeCall.FindAllStringSubmatch(k[1], -1) {
				called = called || waits[c[1]]
			}
			require.True(t, called, "this kernel does not call wait_for_previous:\n%s", k[0])
		}
	}
	require.Greater(t, entries, 15)
}
