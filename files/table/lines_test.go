package table_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/files/table"
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

// The error of a line that is too long has the line's start: one byte more than a record may have.
func TestTheStartOfALongLine(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "in.txt")
	longest := strings.Repeat("x", 16<<20-1) + "\n" // with its end, as long as a record may be
	require.NoError(t, os.WriteFile(path, []byte(longest+"xxxxxx"+longest+"next\n"), 0o600))
	in, err := table.Open([]string{path}, table.Options{})
	require.NoError(t, err)
	r, err := in.Records()
	require.NoError(t, err)
	record, err := r.Next()
	require.NoError(t, err)
	require.Len(t, record.Line, 16<<20-1)
	_, err = r.Next()
	var long *table.RecordError
	require.ErrorAs(t, err, &long)
	require.Len(t, long.Line, 16<<20+1)
	record, err = r.Next()
	require.NoError(t, err)
	require.Equal(t, "next", string(record.Line))
	require.NoError(t, r.Close())
}

// The fields before the fault of an object are read.
func TestFieldsBeforeAFault(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		`{"a":1,"b":[2]}`: {"a:1", "b:[2]"}, `{"a":1,"b":`: {"a:1"}, `{"a":1,"b":tru`: {"a:1"}, `{"a":1,"b"`: {"a:1"}, `{"a":1,`: {"a:1"},
		`{"a":1,"b":2`: {"a:1", "b:2"}, `{"a":1 "b":2}`: {"a:1"}, `{"a":1,2}`: {"a:1"}, `{"a":1,"b":x,"c":3}`: {"a:1"}, `{"a":1}}`: {"a:1"}, `{`: nil, `[{"a":1}`: nil, ``: nil,
	} {
		fields, err := table.Fields([]byte(text))
		require.Equal(t, json.Valid([]byte(text)), err == nil, text)
		var got []string
		for _, f := range fields {
			got = append(got, f.Name+":"+string(f.Value))
		}
		require.Equal(t, want, got, text)
	}
}
