package table_test

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestReadsWhatOtherSoftwareWrote: the readers return the values of each kind that Node's libraries
// wrote.
func TestReadsWhatOtherSoftwareWrote(t *testing.T) {
	t.Parallel()
	requireNode(t)
	var rows []map[string]json.RawMessage
	var stdin strings.Builder
	for _, text := range hard {
		var row map[string]json.RawMessage
		require.NoError(t, json.Unmarshal([]byte(text), &row))
		if n, ok := row["count"]; ok && string(n) != "null" { // numbers in JavaScript are exact up to 53 bits
			row["count"] = json.RawMessage(`"` + string(n) + `"`)
		}
		line, err := json.Marshal(row)
		require.NoError(t, err)
		stdin.Write(append(line, '\n'))
		rows = append(rows, row)
	}
	for _, name := range []string{"t.csv", "t.csv.gz", "t.tsv", "t.parquet"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), name)
			node := exec.CommandContext(t.Context(), "node", "write.mjs", path)
			node.Dir, node.Stdin = "node", strings.NewReader(stdin.String())
			text, err := node.CombinedOutput()
			require.NoError(t, err, string(text))
			columns, got, failed := readAll(t, path)
			require.Empty(t, failed)
			require.Len(t, got, len(rows))
			parquet := strings.HasSuffix(name, ".parquet")
			if parquet {
				require.Equal(t, kinds, columns)
			}
			for i, row := range rows {
				require.Equal(t, i+1, got[i].Number)
				for j, f := range got[i].Fields {
					require.Equal(t, names[j], f.Name)
					want := row[f.Name]
					switch {
					case parquet && want == nil:
						want = json.RawMessage("null")
					case parquet && f.Name == "count":
						want = json.RawMessage(strings.Trim(string(want), `"`))
					case !parquet:
						want = cell(t, want)
					}
					require.JSONEq(t, string(want), string(f.Value), "row %d, column %s", i+1, f.Name)
				}
			}
		})
	}
}

// cell returns a value as a CSV reader returns it: as a text.
func cell(t *testing.T, v json.RawMessage) json.RawMessage {
	t.Helper()
	var s string
	switch {
	case v == nil || string(v) == "null":
	case json.Unmarshal(v, &s) == nil:
	default:
		s = strings.ReplaceAll(string(v), "1e300", "1e+300") // JavaScript writes the exponent with a sign
	}
	text, err := json.Marshal(s)
	require.NoError(t, err)
	return text
}
