package table_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/files/table"
	"github.com/ingot-run/ingot/internal/openfiles"
)

// TestNothingStaysOpen: after Close, and after an error, no file of the input is open, nor a
// temporary copy.
func TestNothingStaysOpen(t *testing.T) { // not parallel, since it looks at all open files
	const mark = "nothing-stays-open"
	dir := filepath.Join(t.TempDir(), mark)
	require.NoError(t, os.Mkdir(dir, 0o700))
	parquet, err := os.ReadFile("testdata/snappy.parquet")
	require.NoError(t, err)
	csv, other := put(t, dir, "a.csv", "x\n1\n2\n"), put(t, dir, "b.csv", "y\n1\n")
	lines := put(t, dir, "a.jsonl", "{\"a\":1}\n{\"a\":2}\n")
	var packed bytes.Buffer
	zstdPart(&packed, "x\n1\n")
	for name, c := range map[string]struct {
		paths []string
		o     table.Options
		fails string
	}{
		"CSV":                       {[]string{csv, csv}, table.Options{}, ""},
		"a sample":                  {[]string{csv}, table.Options{Select: table.Selection{Sample: 1}}, ""},
		"a condition":               {[]string{lines}, table.Options{Select: table.Selection{Where: "a > 1"}}, ""},
		"Parquet":                   {[]string{"testdata/snappy.parquet"}, table.Options{}, ""},
		"gzip":                      {[]string{put(t, dir, "c.gz", gzipOf("x\n1\n"))}, table.Options{}, ""},
		"zstd":                      {[]string{put(t, dir, "d.zst", packed.String())}, table.Options{}, ""},
		"Parquet in gzip":           {[]string{put(t, dir, "e.gz", gzipOf(string(parquet)))}, table.Options{}, ""},
		"Parquet of stdin":          {[]string{"-"}, table.Options{Stdin: bytes.NewReader(parquet)}, ""},
		"a copy of stdin":           {[]string{"-"}, table.Options{Stdin: strings.NewReader("x\n1\n2\n"), Select: table.Selection{Sample: 1}}, ""},
		"other columns":             {[]string{csv, other}, table.Options{}, "has other columns"},
		"a wrong condition":         {[]string{csv}, table.Options{Select: table.Selection{Where: "z > 1"}}, "unknown name z"},
		"a wrong condition of JSON": {[]string{lines}, table.Options{Select: table.Selection{Where: "z > 1"}}, "unknown name z"},
		"a delimiter of JSON":       {[]string{lines}, table.Options{Comma: ';'}, "--delimiter is for CSV"},
		"a damaged header":          {[]string{put(t, dir, "f.csv", "a,b\"\n1\n")}, table.Options{}, "header: parse error on line 1"},
		"damaged Parquet":           {[]string{put(t, dir, "g.parquet", string(parquet[:len(parquet)-9])+"PAR1")}, table.Options{}, "read "},
		"damaged gzip":              {[]string{put(t, dir, "h.gz", "\x1f\x8b\x00")}, table.Options{}, "h.gz"},
		"damaged content of gzip":   {[]string{put(t, dir, "k.gz", gzipOf("x\n1\n")[:12])}, table.Options{}, "k.gz"},
		"a damaged sample":          {[]string{put(t, dir, "i.gz", gzipOf("x\n1\n2\n")[:25])}, table.Options{Select: table.Selection{Sample: 1}}, "i.gz"},
		"a damaged sample of stdin": {[]string{"-"}, table.Options{Stdin: bytes.NewReader(parquet[:900]), Select: table.Selection{Sample: 1}}, "stdin"},
		"damaged JSON's columns":    {[]string{put(t, dir, "j.gz", gzipOf(strings.Repeat("{\"a\":1}\n", 3))[:30])}, table.Options{Format: table.Lines, Select: table.Selection{Where: "a > 1"}}, "j.gz"},
		"binary":                    {[]string{put(t, dir, "k.csv", "a\x00\x00\x00")}, table.Options{}, "the file is binary"},
	} {
		in, err := table.Open(c.paths, c.o)
		require.NoError(t, err, name)
		r, err := in.Records()
		if err == nil {
			_, err = r.Next()
			if c.fails != "" {
				for err == nil {
					_, err = r.Next()
				}
			}
			require.NoError(t, r.Close(), name)
		}
		if c.fails == "" {
			require.NoError(t, err, name)
		} else {
			require.ErrorContains(t, err, c.fails, name)
		}
		require.NoError(t, in.Close(), name)
		for _, text := range []string{mark, "testdata", "ingot-table-"} {
			openfiles.Require(t, 0, text)
		}
	}

	in, err := table.Open([]string{csv}, table.Options{})
	require.NoError(t, err)
	_, err = table.ColumnsOf(in.Records)
	require.NoError(t, err)
	content, err := in.Content()
	require.NoError(t, err)
	openfiles.Require(t, 1, mark)
	require.NoError(t, content.Close())
	out := filepath.Join(dir, "out.csv")
	for _, commit := range []bool{true, false} {
		f, err := table.CreateFile(out)
		require.NoError(t, err)
		if commit {
			require.NoError(t, f.Commit())
		}
		f.Discard()
	}
	_, err = table.Open([]string{"/dev/zero"}, table.Options{})
	require.Error(t, err)
	openfiles.Require(t, 0, mark)
	openfiles.Require(t, 0, "/dev/zero")
	require.FileExists(t, out)
}

// TestFilesThatVanish: a file that is removed after Open is an error of its first reader.
func TestFilesThatVanish(t *testing.T) {
	t.Parallel()
	for _, s := range []table.Selection{{}, {Sample: 1}, {Where: "a > 1"}} {
		dir := t.TempDir()
		paths := []string{put(t, dir, "a.jsonl", "{\"a\":1}\n"), put(t, dir, "b.jsonl", "{\"a\":2}\n")}
		for i := range paths {
			in, err := table.Open(paths, table.Options{Select: s})
			require.NoError(t, err)
			require.NoError(t, os.Rename(paths[i], paths[i]+"-away"))
			r, err := in.Records()
			if err == nil {
				for err == nil {
					_, err = r.Next()
				}
			}
			require.ErrorIs(t, err, fs.ErrNotExist)
			require.ErrorContains(t, err, paths[i])
			require.NoError(t, os.Rename(paths[i]+"-away", paths[i]))
		}
	}
	stdin, err := os.Open(put(t, t.TempDir(), "a.csv", "x\n1\n"))
	require.NoError(t, err)
	in, err := table.Open([]string{"-"}, table.Options{Stdin: stdin})
	require.NoError(t, err)
	require.True(t, in.Seekable())
	require.NoError(t, stdin.Close())
	_, err = in.Records()
	require.ErrorIs(t, err, os.ErrClosed)
	require.ErrorContains(t, err, "seek ")
}
