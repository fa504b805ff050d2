package table_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLongLines: lines are read whole, however long they are, up to the longest record.
func TestLongLines(t *testing.T) {
	t.Parallel()
	for name, form := range map[string]string{"in.jsonl": `{"text": "%s"}`, "in.txt": "%s"} {
		path := filepath.Join(t.TempDir(), name)
		var text strings.Builder
		lengths := []int{1, 64<<10 - 20, 64 << 10, 200 << 10, 2 << 20, 17 << 20, 3}
		for i, n := range lengths {
			fmt.Fprintf(&text, form+strings.Repeat("\r\n", 1+i%2), strings.Repeat(string(rune('a'+i)), n))
		}
		require.NoError(t, os.WriteFile(path, []byte(text.String()), 0o600))
		_, all, failed := readAll(t, path)
		require.Len(t, failed, 1, name)
		require.Len(t, all, len(lengths)-1, name)
		for _, r := range all {
			i := int(r.Fields[0].Value[1] - 'a')
			require.Len(t, r.Fields[0].Value, lengths[i]+2, "%s, line %d", name, r.Number)
			require.Equal(t, strings.Repeat(string(rune('a'+i)), lengths[i]), string(r.Fields[0].Value[1:lengths[i]+1]))
			require.NotContains(t, failed, r.Number)
		}
		for _, says := range failed {
			require.Contains(t, says, "longer than 16 MiB")
		}
	}
}
