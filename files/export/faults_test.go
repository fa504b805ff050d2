package export_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/ingot-run/ingot/files/export"
	"github.com/ingot-run/ingot/files/table"
)

var errFault = errors.New("an injected fault")

// faults lets one use of a file fail.
type faults struct{ left int }

func (f *faults) next() error {
	if f.left--; f.left == 0 {
		return errFault
	}
	return nil
}

// each calls operation with the first use of its files failing, then with the second one, and so
// on, until no use fails. The operation must return each fault.
func each(t *testing.T, name string, operation func(f *faults) error) {
	t.Helper()
	for n := 1; ; n++ {
		f := &faults{n}
		err := operation(f)
		if f.left > 0 {
			require.NoError(t, err, name)
			require.Greater(t, n, 1, "%s uses no file", name)
			return
		}
		require.ErrorIs(t, err, errFault, "%s: use %d", name, n)
	}
}

// faultyInput is an input whose opening, reading and closing may fail.
type faultyInput struct {
	input
	faults *faults
}

func (f *faults) input(lines ...string) func() (table.Reader, error) {
	return func() (table.Reader, error) { return &faultyInput{input{lines: lines}, f}, f.next() }
}

func (in *faultyInput) Close() error { return in.faults.next() }
func (in *faultyInput) Next() (table.Record, error) {
	if err := in.faults.next(); err != nil {
		return table.Record{}, err
	}
	return in.input.Next()
}

type faultyWriter struct{ faults *faults }

func (w faultyWriter) Write(p []byte) (int, error) { return len(p), w.faults.next() }

// Each fault of the input, the table and the file of failed rows ends the writing of a table.
func TestFaultsWhileATableIsWritten(t *testing.T) {
	t.Parallel()
	lines := []string{`{"id":"a"}`, `{"id":"b"}`, "not JSON", `{"id":"d"}`}
	a := open(t, answer(t, 1, "a", stop(`{"n":1}`)), answer(t, 2, "b"), answer(t, 3, "c"), answer(t, 4, "d", stop(`{"m":1}`)))
	for _, format := range []export.Format{export.Simple, export.JSON, export.CSV, export.TSV, export.Parquet} {
		each(t, string(format), func(f *faults) error {
			_, err := export.WriteTable(t.Context(), faultyWriter{f}, export.Options{
				Answers: []*export.Answers{a}, Input: f.input(lines...), Format: format, Texts: true, Fields: export.Fields{JSON: true},
				Filter: export.Filter{Unique: []string{"id"}}, Failed: export.NewFailedRows(faultyWriter{f}, format),
			})
			return err
		})
	}
}

// A format without tables is an error of the file of failed rows, with failed rows or without.
func TestFailedRowsInNoFormat(t *testing.T) {
	t.Parallel()
	for _, line := range []string{answer(t, 1, "a"), answer(t, 1, "a", stop("one"))} {
		_, err := export.WriteTable(t.Context(), io.Discard, export.Options{
			Answers: []*export.Answers{open(t, line)}, Input: from(`{"id":"a"}`), Format: export.CSV, Failed: export.NewFailedRows(io.Discard, "xls"),
		})
		require.EqualError(t, err, `"xls" is not the format of a table`)
	}
}

// Answers that are changed while they are read are an error of every use of them.
func TestAnswersThatChangeMeanwhile(t *testing.T) {
	t.Parallel()
	whole := answer(t, 1, "a", stop(`{"n":1}`)) + "\n"
	for name, c := range map[string]struct{ text, want string }{
		"truncated":   {"", "EOF"},
		"overwritten": {strings.Repeat("x", len(whole)-1) + "\n", "read the answer to row 1 in "},
	} {
		path := filepath.Join(t.TempDir(), "out.csv")
		answers := put(t, path+".answers.jsonl", whole)
		change := func() { put(t, answers, c.text) }
		changing := func() (table.Reader, error) {
			change()
			return from(`{"id":"a"}`)()
		}
		opened := func() *export.Answers {
			put(t, answers, whole)
			a, err := export.OpenAnswers(answers)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, a.Close()) })
			return a
		}
		for of, use := range map[string]func() error{
			"the answers that failed": func() error {
				o := &export.Output{Path: path, Format: export.CSV, Table: export.Options{Fields: export.Fields{JSON: true}}}
				_, err := o.FailedAnswers(t.Context(), "", changing)
				return err
			},
			"a table": func() error {
				_, err := export.WriteTable(t.Context(), io.Discard, export.Options{Format: export.CSV, Answers: []*export.Answers{opened()}, Input: changing})
				return err
			},
			"a table with columns of answers": func() error {
				_, err := export.WriteTable(t.Context(), io.Discard, export.Options{
					Format: export.CSV, Answers: []*export.Answers{opened()}, Input: changing, Fields: export.Fields{JSON: true},
				})
				return err
			},
		} {
			put(t, answers, whole)
			require.ErrorContains(t, use(), c.want, "%s, %s", of, name)
		}
	}
}

// What cannot be written to a pipe is reported, and its reader sees the end.
func TestATableForAPipeThatFails(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "fifo.csv")
	require.NoError(t, unix.Mkfifo(path, 0o600))
	text := make(chan []byte, 1)
	go func() {
		b, _ := os.ReadFile(path)
		text <- b
	}()
	answers := put(t, filepath.Join(t.TempDir(), "answers.jsonl"), answer(t, 1, "a", stop("one"))+"\n")
	o := &export.Output{Path: path, Format: export.CSV, Table: export.Options{Format: export.CSV}}
	require.ErrorIs(t, o.Write(t.Context(), []string{answers}, func() (table.Reader, error) { return nil, errFault }), errFault)
	require.Empty(t, bytes.TrimSpace(<-text))
}
