package export_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/files/export"
)

// The lines of several files are sorted by row. Those of the same row keep the order of the files.
func TestLinesOfSeveralFiles(t *testing.T) {
	t.Parallel()
	a, b := answer(t, 1, "a", stop("x")), answer(t, 1, "b", stop("x"))
	second, third := answer(t, 2, "c", stop("x")), answer(t, 3, "d", stop("x"))
	var out bytes.Buffer
	require.NoError(t, export.WriteLines(t.Context(), &out, []*export.Answers{open(t, third, a), open(t, b, second)}))
	require.Equal(t, a+"\n"+b+"\n"+second+"\n"+third+"\n", out.String())
}
