package rows

import (
	"bytes"
	"compress/gzip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/openai"
)

func TestReaderDetectsTheFormat(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, input string
		format      Format
		want        []string // bodies, or the codes of errors
	}{
		{"objects", "{\"prompt\":\"a\"}\n{\"prompt\":\"b\"}\n", FormatAuto, []string{`{"prompt":"a"}`, `{"prompt":"b"}`}},
		{"objects after empty lines and a mark", "\ufeff\n \n{\"prompt\":\"a\"}", FormatAuto, []string{`{"prompt":"a"}`}},
		{"text later in a file of objects", "{\"prompt\":\"a\"}\nb\n", FormatAuto, []string{`{"prompt":"a"}`, openai.CodeInvalidJSON}},
		{"text", "Say <b> & \"c\".\n", FormatAuto, []string{`{"messages":[{"role":"user","content":"Say <b> & \"c\"."}]}`}},
		{"objects later in a text", "a\n{\"prompt\":\"b\"}\n", FormatAuto, []string{
			`{"messages":[{"role":"user","content":"a"}]}`, `{"messages":[{"role":"user","content":"{\"prompt\":\"b\"}"}]}`,
		}},
		{"a text that begins with a bracket", "[INST] a [/INST]\n", FormatAuto, []string{`{"messages":[{"role":"user","content":"[INST] a [/INST]"}]}`}},
		{"text, without a format", "a\n", "", []string{`{"messages":[{"role":"user","content":"a"}]}`}},
		{"text by name", "{a}\n", FormatText, []string{`{"messages":[{"role":"user","content":"{a}"}]}`}},
		{"objects by name", "a\n", FormatJSONL, []string{openai.CodeInvalidJSON}},
		{"no rows", "\n\n", FormatAuto, nil},
		{"nothing", "", FormatAuto, nil},
		{"last line without an end", "a\nb", FormatAuto, []string{
			`{"messages":[{"role":"user","content":"a"}]}`, `{"messages":[{"role":"user","content":"b"}]}`,
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, row := range readAll(t, strings.NewReader(c.input), c.format) {
				if row.Err != nil {
					got = append(got, row.Err.Code)
				} else {
					got = append(got, string(row.Body))
				}
			}
			require.Equal(t, c.want, got)
		})
	}
}

func TestReaderRefusesFilesThatHoldNoRows(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, input, want string }{
		{"pretty array", "[\n  {\"prompt\":\"a\"}\n]\n", "one JSON array"},
		{"compact array", `[{"prompt":"a"},{"prompt":"b"}]`, "one JSON array"},
		{"pretty objects", "\n{\r\n  \"prompt\": \"a\"\r\n}\r\n{\r\n", "JSON objects that span several lines"},
		{"UTF-16", "\xff\xfe{\x00\"\x00", "input is UTF-16: convert it"},
		{"gzip", gzipped(t, `{"prompt":"a"}`), "input is compressed (gzip): decompress it"},
		{"zstd", "\x28\xb5\x2f\xfd\x04\n", "input is compressed (zstd): decompress it"},
		{"xz", "\xfd7zXZ\x00\x00", "input is compressed (xz)"},
		{"zip", "PK\x03\x04\x14\x00", "input is a zip archive"},
		{"Parquet", "PAR1\x15\x04", "input is a Parquet file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for _, f := range []Format{FormatAuto, FormatJSONL} {
				rows, err := readRows(strings.NewReader(c.input), f)
				require.Empty(t, rows)
				require.ErrorContains(t, err, c.want)
			}
		})
	}
}

func gzipped(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write([]byte(text))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return b.String()
}

// An array is told from a text that begins with a bracket by what follows the bracket.
func TestBeginningsOfArrays(t *testing.T) {
	t.Parallel()
	for first, want := range map[string]bool{"[": true, "[ ": true, "[{": true, "[ {": true, "[\t{\"a\":1}": true, "[1": false, "[a]": false, "{": false, "": false, " {": false} {
		require.Equal(t, want, beginsArray([]byte(first)), first)
	}
}
