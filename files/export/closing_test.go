package export_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/ingot-run/ingot/files/export"
	"github.com/ingot-run/ingot/files/table"
	"github.com/ingot-run/ingot/internal/openfiles"
)

// TestNothingStaysOpen: no file of answers, rows or tables is open after it was used, or after an
// error.
func TestNothingStaysOpen(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	answers := put(t, filepath.Join(folder, "out.csv.answers.jsonl"), answer(t, 2, "b")+"\n\n"+answer(t, 1, "a", stop("{}"))+"\n")
	in := sheetOf("id", "a", "b")
	lines, err := table.Open([]string{answers}, table.Options{})
	require.NoError(t, err)
	o := &export.Output{
		Path: filepath.Join(folder, "out.csv"), Format: export.CSV, Failed: filepath.Join(folder, "failed.csv"), Summary: func(string) {},
		Table: export.Options{Format: export.CSV, Fields: export.Fields{JSON: true}},
	}
	damaged := put(t, filepath.Join(folder, "damaged.jsonl"), "{}\n")
	for name, use := range map[string]func() error{
		"a table":            func() error { return o.Write(t.Context(), []string{answers}, in.open) },
		"the failed answers": func() error { _, err := o.FailedAnswers(t.Context(), "", in.open); return err },
		"a text":             func() error { return (&export.TextWriter{Out: io.Discard}).Answers(lines) },
		"the order":          func() error { return export.Order(t.Context(), answers) },
		"damaged answers":    func() error { return o.Write(t.Context(), []string{answers, damaged}, nil) },
		"a folder in the way": func() error {
			other := *o
			other.Path = filepath.Join(folder, "folder")
			require.NoError(t, os.MkdirAll(filepath.Join(other.Path, "x"), 0o700))
			return other.Write(t.Context(), []string{answers}, in.open)
		},
	} {
		err := use()
		require.Equal(t, name == "damaged answers" || name == "a folder in the way", err != nil, "%s: %v", name, err)
		openfiles.Require(t, 0, folder+"/")
		require.Zero(t, *in.opened, name)
		hidden, err := filepath.Glob(filepath.Join(folder, ".*"))
		require.NoError(t, err)
		require.Empty(t, hidden, "%s: no unfinished file is left", name)
	}
}

// TestCompressedTablesToAPipe: a pipe gets the whole table, with the end of its compression.
func TestCompressedTablesToAPipe(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "fifo.csv.gz")
	require.NoError(t, unix.Mkfifo(path, 0o600))
	packed := make(chan []byte, 1)
	go func() {
		b, _ := os.ReadFile(path)
		packed <- b
	}()
	answers := put(t, filepath.Join(t.TempDir(), "answers.jsonl"), answer(t, 1, "a", stop("one"))+"\n")
	o := export.Output{Path: path, Format: export.CSV, Summary: func(string) {}, Table: export.Options{Format: export.CSV}}
	require.NoError(t, o.Write(t.Context(), []string{answers}, nil))
	r, err := gzip.NewReader(bytes.NewReader(<-packed))
	require.NoError(t, err)
	text, err := io.ReadAll(r)
	require.NoError(t, err)
	require.Contains(t, string(text), "a,one,stop,")
}
