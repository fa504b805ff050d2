package table_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/files/table"
)

// TestEncodings: texts in another encoding are converted. Bytes that it does not have are errors of
// their record.
func TestEncodings(t *testing.T) {
	t.Parallel()
	parquet, err := os.ReadFile(filepath.Join("testdata", "uncompressed.parquet"))
	require.NoError(t, err)
	for _, c := range []struct {
		name, encoding, text string
		want                 []string
	}{
		{"a.csv", "windows-1252", "a,b\ncaf\xe9,\x80\n", []string{`1: {"a":"café","b":"€"}`}},
		{"a.csv", "UTF-8", "a,b\ncafé,1\n", []string{`1: {"a":"café","b":"1"}`}},
		{"a.csv", "utf-8", "a,b\ncaf\xe9,1\n", []string{`1! column "a" is not UTF-8`}},
		{"a.csv", "utf-16le", "\xff\xfea\x00\n\x00\xe9\x00\n\x00", []string{`1: {"a":"é"}`}},
		{"a.txt", "shift_jis", "\x93\xfa\x96{\n\xff\n", []string{`1: {"text":"日本"}`, `2! the record is not shift_jis`}},
		{"a.csv", "shift_jis", "a\n\x93\xfa\n\xff\n", []string{`1: {"a":"日"}`, `2! column "a" is not shift_jis`}},
	} {
		got, err := readInput(t, table.Options{Encoding: c.encoding}, put(t, t.TempDir(), c.name, c.text))
		require.NoError(t, err, c.encoding)
		require.Equal(t, c.want, got, c.encoding)
	}
	path := put(t, t.TempDir(), "a.parquet", string(parquet))
	want, err := readInput(t, table.Options{}, path)
	require.NoError(t, err)
	require.NotEmpty(t, want)
	got, err := readInput(t, table.Options{Encoding: "windows-1252"}, path)
	require.NoError(t, err)
	require.Equal(t, want, got, "Parquet has an encoding of its own")
}

// TestUnknownEncodings: the error lists the four names that are most like the unknown one.
func TestUnknownEncodings(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"utf-8", "latin1", "cp1252", "Shift_JIS", "koi8-r"} {
		require.NoError(t, table.CheckEncoding(name), name)
	}
	for name, similar := range map[string]string{
		"utf9":         "utf-8, utf-16le, utf-16be and latin1",
		"Windows 1253": "windows-1253, windows-1250, windows-1251 and windows-1252",
		"cp-1251":      "cp1252, windows-1251, windows-1250 and windows-1252",
		"iso8859-99":   "iso-8859-9, iso-8859-1, iso-8859-2 and iso-8859-3",
		"jis":          "shift_jis, iso-8859-1, iso-8859-2 and iso-8859-3",
		"gb":           "gbk, gb2312, gb18030 and utf-8",
		"kr-euc":       "euc-kr, euc-jp, utf-8 and utf-16le",
		"":             "utf-8, utf-16le, utf-16be and latin1",
		"macinto5h":    "macintosh, x-mac-cyrillic, ascii and latin1",
		"az-latin":     "latin1, macintosh, windows-874 and windows-1250",
	} {
		want := `encoding "` + name + `" is not known: similar names are ` + similar
		require.EqualError(t, table.CheckEncoding(name), want)
		if name == "" {
			continue // means UTF-8 in options
		}
		_, err := readInput(t, table.Options{Encoding: name}, put(t, t.TempDir(), "a.csv", "a\n1\n"))
		require.ErrorContains(t, err, want)
	}
}

// TestHintsOfEncodings: single bytes suggest Western European letters, and bytes in a row others.
func TestHintsOfEncodings(t *testing.T) {
	t.Parallel()
	const western, others = "such as windows-1252", "such as windows-1251, shift_jis or gb18030"
	for text, want := range map[string]string{
		"caf\xe9":                                western,
		"\xe9":                                   western,
		"\xe9t\xe9 and \xef\xf0\xe8":             western, // two alone, two in a row after the first
		"\xe9 \xef\xf0":                          western, // one alone, one after the first
		"\xe9 \xef\xf0\xe8":                      others,
		"\xcf\xf0\xe8\xe2\xe5\xf2":               others,
		"a\xe9":                                  western,
		"5 \x80":                                 western,
		"\x80\x80\x80":                           others,
		"\xcf\xf0\xe8\xe2\xe5\xf2 a\xe9 b\xe9 c": others,
	} {
		_, err := readOne(t, put(t, t.TempDir(), "a.txt", text+"\n"))
		require.ErrorContains(t, err, "not UTF-8", "%q", text)
		require.Regexp(t, want+"$", table.EncodingHint(err), "%q", text)
	}
	require.Empty(t, table.EncodingHint(os.ErrNotExist))
}

// readOne returns the first record of a file.
func readOne(t *testing.T, path string) (table.Record, error) {
	t.Helper()
	in, err := table.Open([]string{path}, table.Options{})
	require.NoError(t, err)
	r, err := in.Records()
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close()) }()
	return r.Next()
}
