package metal_test

import (
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/gguf"
	"github.com/ingot-run/ingot/metal"
)

// TestReadSource checks that each header is included once and that #line directives give the
// original line numbers.
func TestReadSource(t *testing.T) {
	dir := fstest.MapFS{
		"a.metal": {Data: []byte("#include <metal_stdlib>\n#include \"b.h\"\n  #include  \"c.h\" // again\nlast")},
		"b.h":     {Data: []byte("#include \"c.h\"\nof b\n")},
		"c.h":     {Data: []byte("of c\n")},
		"bad.h":   {Data: []byte("first\n#include \"missing.h\"\n")},
	}
	src, err := metal.ReadSource(dir, "a.metal")
	require.NoError(t, err)
	require.Equal(t, metal.Source{Name: "a.metal", Text: "#line 1 \"a.metal\"\n#include <metal_stdlib>\n" +
		"#line 1 \"b.h\"\n#line 1 \"c.h\"\nof c\n\n#line 2 \"b.h\"\nof b\n\n" +
		"#line 3 \"a.metal\"\n#line 4 \"a.metal\"\nlast\n"}, src)

	_, err = metal.ReadSource(dir, "bad.h")
	require.ErrorContains(t, err, "bad.h:2")
	_, err = metal.ReadSource(dir, "none.metal")
	require.ErrorContains(t, err, "none.metal")
}

// TestKernelTypes compares the lists of types in the kernels with the tables of package gguf, and
// checks that every type has a struct.
func TestKernelTypes(t *testing.T) {
	for _, c := range []struct {
		file, macro, prefix string
		types               []gguf.Type
	}{
		{"product.metal", "EACH_TYPE", "", gguf.Types()},
		{"attention.metal", "EACH_PAGE_TYPE", "Page", gguf.CacheTypes()},
	} {
		src, err := metal.Kernel(c.file, nil)
		require.NoError(t, err)
		_, list, found := strings.Cut(src.Text, "#define "+c.macro+"(X)")
		require.True(t, found, c.file)
		list, _, _ = strings.Cut(list, "\n")
		var want, got []string
		for _, kind := range c.types {
			want = append(want, c.prefix+kind.String()+" "+kind.String())
			require.Regexp(t, `\bstruct `+c.prefix+kind.String()+`\b`, src.Text)
		}
		for _, x := range regexp.MustCompile(`X\((\w+), "(\w+)"\)`).FindAllStringSubmatch(list, -1) {
			got = append(got, x[1]+" "+x[2])
		}
		require.Equal(t, want, got, "%s of kernels/%s", c.macro, c.file)
	}
}

// TestConstantsAreReplaced checks that no kernel is left with the name of a constant that this
// package defines.
func TestConstantsAreReplaced(t *testing.T) {
	for _, file := range metal.Files() {
		src, err := metal.Kernel(file, metal.DefaultGeometry())
		require.NoError(t, err)
		require.NotRegexp(t, `\b(EMBED|COPY|TOP|GROUP)_THREADS|SPLIT_KEYS|TILE_STRIDE|ATTENTION_PAIRS\b`, src.Text)
	}
}
