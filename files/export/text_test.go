package export_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/files/export"
	"github.com/ingot-run/ingot/files/rows"
	"github.com/ingot-run/ingot/files/table"
)

func inputOf(t *testing.T, text string) *table.Input {
	t.Helper()
	path := filepath.Join(t.TempDir(), "answers.jsonl")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	in, err := table.Open([]string{path}, table.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, in.Close()) })
	return in
}

// result returns an answer to a line with the checksum of its text.
func result(line, sum, id, body string) string {
	return `{"id":"batch_req_local-` + line + `-` + sum + `","custom_id":"` + id + `",` + body + `}` + "\n"
}

const (
	twoChoices = `"response":{"body":{"choices":[{"message":{"content":"one\r\n  two\n"}},{"text":"three\u001b[31m"}]}},"error":null,` +
		`"stats":{"prompt_tokens":10,"prefill_tps":99.6,"completion_tokens":5,"decode_tps":7.4,"ttft_ms":1.5,"total_ms":20.4,"batch_mean":2.25}`
	broken = `"response":null,"error":{"code":"failed","message":"it broke"},"stats":{}`
)

func TestAnswersAsText(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	w := export.TextWriter{Out: &out}
	text := result("2", "00000000", "a\\u0007", twoChoices) + " \n" + result("1", "00000000", "b", broken) + `{"id":"batch_req_lo`
	require.NoError(t, w.Answers(inputOf(t, text)))
	require.Equal(t, "\na\\a\n  > one\n      two\n  > three\\x1b[31m\n"+
		"    10 prompt tokens at 100/s, 5 generated at 7/s, first after 2 ms, all after 20 ms, 2.2 sequences per step\n"+
		"\nb\n  ! failed: it broke\n", out.String())
	for limit, want := range []int{2, 1, 2, 2} {
		var some bytes.Buffer
		require.NoError(t, (&export.TextWriter{Out: &some, Limit: limit}).Answers(inputOf(t, text)))
		require.Equal(t, want, strings.Count("\n"+some.String(), "\n\n"), "limit %d", limit)
		require.True(t, strings.HasPrefix(out.String(), some.String()))
	}
	require.ErrorContains(t, w.Answers(inputOf(t, result("1", "00000000", "a", broken)+"{}\n")), ":2: the line is not a result of ingot")
	require.ErrorContains(t, w.Answers(inputOf(t, "5\n")), ":1: the line is not a result of ingot")
	require.ErrorIs(t, (&export.TextWriter{Out: full{}}).Answers(inputOf(t, text)), errFull)
}

var errFull = errors.New("full")

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errFull }

// Answers can be printed in the order of the rows.
func TestAnswersInOrder(t *testing.T) {
	t.Parallel()
	text := result("20", "00000000", "b", broken) + result("3", "00000000", "a", broken) + result("100", "00000000", "c", broken)
	want := []string{"\na\n  ! failed: it broke\n", "\nb\n  ! failed: it broke\n", "\nc\n  ! failed: it broke\n"}
	for limit, n := range []int{3, 1, 2, 3, 3} {
		var out bytes.Buffer
		require.NoError(t, (&export.TextWriter{Out: &out, Ordered: true, Limit: limit}).Answers(inputOf(t, text)))
		require.Equal(t, strings.Join(want[:n], ""), out.String(), "limit %d", limit)
	}
	w := export.TextWriter{Out: full{}, Ordered: true}
	require.ErrorIs(t, w.Answers(inputOf(t, text)), errFull)
	require.ErrorContains(t, w.Answers(inputOf(t, "{}\n")), "the line is not a result of ingot")
}

// Answers that cannot be read are an error, not an end.
func TestAnswersThatCannotBeRead(t *testing.T) {
	t.Parallel()
	whole := gzipped(t, result("1", "00000000", "a", broken))
	path := put(t, filepath.Join(t.TempDir(), "answers.jsonl.gz"), whole[:len(whole)-4])
	in, err := table.Open([]string{path}, table.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, in.Close()) })
	two, err := table.Open([]string{path, path}, table.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, two.Close()) })
	never := func() (table.Reader, error) { panic("the records are not read") }
	rowsNever := func() (*rows.Reader, error) { panic("the rows are not read") }
	for answers, want := range map[*table.Input]error{in: io.ErrUnexpectedEOF, two: errors.ErrUnsupported} {
		w := export.TextWriter{Out: io.Discard}
		require.ErrorIs(t, w.Answers(answers), want)
		require.ErrorIs(t, (&export.TextWriter{Out: io.Discard, Ordered: true}).Answers(answers), want)
		require.ErrorIs(t, w.Records(answers, never), want)
		require.ErrorIs(t, w.Rows(t.Context(), answers, rowsNever), want)
	}
	require.ErrorContains(t, (&export.TextWriter{Out: io.Discard}).Answers(in), "read "+path+": ")
}

// With the rows, each answer stands below its question; an answer to another row is an error.
func TestRowsAsText(t *testing.T) {
	t.Parallel()
	input := `{"custom_id":"q1","messages":[{"role":"user","content":"first"},{"role":"user","content":"Why?\nHow?"}]}
{"custom_id":"q2","prompt":["x","y"]}
{"custom_id":"q3","prompt":[1,2,3]}
{"custom_id":"q4","temperature":1}
{"custom_id":"q5","messages":[{"role":"user","content":[{"type":"text","text":"parts"}]}]}
`
	open := func() (*rows.Reader, error) { return rows.NewReader(strings.NewReader(input), rows.Options{}), nil }
	sums := map[string]string{}
	reader, err := open()
	require.NoError(t, err)
	for row, err := range reader.Rows(t.Context()) {
		require.NoError(t, err)
		sums[row.CustomID] = row.Sum
	}
	show := func(answers string) (string, error) {
		var out bytes.Buffer
		w := export.TextWriter{Out: &out}
		err := w.Rows(t.Context(), inputOf(t, answers), open)
		return out.String(), err
	}
	got, err := show(result("3", sums["q3"], "q3", broken) + result("1", sums["q1"], "q1", broken))
	require.NoError(t, err)
	require.Equal(t, "\nq1\n  ? Why?\n    How?\n  ! failed: it broke\n\nq2\n  ? x\n    y\n    no answer yet\n\nq3\n  ? 3 token ids\n  ! failed: it broke\n"+
		"\nq4\n    no answer yet\n\nq5\n  ? parts\n    no answer yet\n", got)
	_, err = show(result("2", "00000000", "q2", broken))
	require.ErrorIs(t, err, rows.ErrOtherFile)
	require.ErrorContains(t, err, "line 2 of ROWS is not the row that was answered")
	_, err = show(result("9", "00000000", "q9", broken) + result("7", "00000000", "q7", broken))
	require.ErrorContains(t, err, "ROWS has no row on line 7")
	lost := errors.New("lost")
	w := export.TextWriter{Out: &bytes.Buffer{}}
	require.ErrorIs(t, w.Rows(t.Context(), inputOf(t, ""), func() (*rows.Reader, error) { return nil, lost }), lost)
	require.ErrorIs(t, (&export.TextWriter{Out: full{}}).Rows(t.Context(), inputOf(t, ""), open), errFull)
	stopped, stop := context.WithCancel(t.Context())
	stop()
	require.ErrorIs(t, w.Rows(stopped, inputOf(t, ""), open), context.Canceled)
}

// With the records, each answer stands below its record's columns.
func TestRecordsAsText(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "in.csv")
	require.NoError(t, os.WriteFile(path, []byte("q,n\nWhy?,1\n\"a\nb\",\n\xff,3\n"), 0o600))
	in, err := table.Open([]string{path}, table.Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, in.Close()) }()
	var sums []string
	records, err := in.Records()
	require.NoError(t, err)
	for {
		r, err := records.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		var damaged *table.RecordError
		if errors.As(err, &damaged) {
			r = damaged.Record()
		}
		sums = append(sums, r.Sum())
	}
	require.NoError(t, records.Close())
	require.Len(t, sums, 3)
	show := func(answers string, selected bool) (string, error) {
		var out bytes.Buffer
		w := export.TextWriter{Out: &out, Selected: selected}
		err := w.Records(inputOf(t, answers), in.Records)
		return out.String(), err
	}
	of := func(row, sum string) string {
		return strings.Replace(result(row, "00000000", "r"+row, broken), `"custom_id"`, `"record_sum":"`+sum+`","custom_id"`, 1)
	}
	got, err := show(of("3", sums[2])+of("1", sums[0]), false)
	require.NoError(t, err)
	require.Equal(t, "\nr1\n  ? q: Why?\n    n: 1\n  ! failed: it broke\n\nline-2\n  ? q: a\n    b\n    n: \n    no answer yet\n"+
		"\nr3\n  ? q: \uFFFD\n    n: 3\n  ! failed: it broke\n", got)
	_, err = show(of("1", sums[1]), false)
	require.ErrorIs(t, err, rows.ErrOtherFile)
	require.ErrorContains(t, err, "line 1 of ROWS is not the row that was answered")
	_, err = show(of("7", sums[0])+of("5", sums[0]), false)
	require.ErrorContains(t, err, "ROWS has no row on line 5")
	_, err = show(of("7", sums[0]), true)
	require.NoError(t, err)
	_, err = show("{}\n", false)
	require.ErrorContains(t, err, "the line is not a result of ingot")
	lost := errors.New("lost")
	w := export.TextWriter{Out: io.Discard}
	open := sheetOf("id", "a")
	require.NoError(t, w.Records(inputOf(t, ""), open.open))
	require.Zero(t, *open.opened, "the reader is closed")
	require.ErrorIs(t, w.Records(inputOf(t, ""), func() (table.Reader, error) { return nil, lost }), lost)
	require.ErrorIs(t, w.Records(inputOf(t, ""), func() (table.Reader, error) { return &failing{input{}, lost, nil}, nil }), lost)
	require.ErrorIs(t, (&export.TextWriter{Out: full{}}).Records(inputOf(t, ""), in.Records), errFull)
}

func TestFormatsOfPaths(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]export.Format{
		"a.csv": export.CSV, "a.CSV": export.CSV, "a.tsv": export.TSV, "a.tab": export.TSV, "a.parquet": export.Parquet, "a.pq": export.Parquet, "a.jsonl": export.Batch, "a": export.Batch, "-": export.Batch,
		"a.csv.gz": export.CSV, "a.tsv.zst": export.TSV, "a.gz": export.Batch, "csv": export.Batch,
		"a.json": export.JSON, "a.JSON.gz": export.JSON, "json": export.Batch,
	} {
		require.Equal(t, want, export.FormatOf(path), path)
	}
	require.EqualError(t, export.Parquet.CheckPath("a.parquet.gz"), "a Parquet file has its own compression: leave out the extension .gz")
	for _, extension := range []string{".xlsx", ".xls", ".ods", ".numbers"} {
		require.EqualError(t, export.CSV.CheckPath("a"+strings.ToUpper(extension)), "a spreadsheet ("+extension+") cannot be written: give a name that ends in .csv, which spreadsheets open")
	}
	for _, extension := range []string{".feather", ".arrow", ".avro", ".orc"} {
		require.EqualError(t, export.Batch.CheckPath("a"+extension+".gz"), "this format ("+extension+") cannot be written: give a name that ends in .parquet")
	}
	for _, err := range []error{export.Parquet.CheckPath("a.parquet"), export.CSV.CheckPath("a.csv.gz"), export.Batch.CheckPath("a.zst")} {
		require.NoError(t, err)
	}
}
