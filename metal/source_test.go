package metal_test

import (
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/metal"
)

// TestReadSource puts headers in their place, each once, and keeps lines where they were.
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
