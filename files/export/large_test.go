package export_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/files/export"
	"github.com/ingot-run/ingot/files/table"
)

// counted is a large table whose rows are generated one at a time. It measures the memory in use.
type counted struct {
	rows, next int
	peak       uint64 // largest number of bytes in use
}

func (c *counted) Columns() []table.Column {
	return []table.Column{{Name: "id", Kind: table.Integer}, {Name: "text", Kind: table.String}}
}

func (c *counted) Close() error { return nil }

func (c *counted) Next() (table.Record, error) {
	if c.next == c.rows {
		return table.Record{}, io.EOF
	}
	c.next++
	if c.next%(c.rows/40) == 0 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		c.peak = max(c.peak, m.HeapAlloc)
	}
	return table.Record{Number: c.next, Request: "00000000", Fields: []table.Field{
		{Name: "id", Value: json.RawMessage(fmt.Sprint(c.next))}, {Name: "text", Value: json.RawMessage(fmt.Sprintf(`"question %d"`, c.next))},
	}}, nil
}

// A table is made from a million answers, in any order, without holding them in memory.
func TestMemoryOfALargeTable(t *testing.T) { // not parallel, since it measures memory
	rows, size := 12_000, 6000
	if os.Getenv("INGOT_LONG") != "" {
		rows, size = 1_000_000, 500
	}
	const perRow, rest = 24, 60 << 20 // memory per answer, and memory for a row group and the compressor
	folder := t.TempDir()
	path := filepath.Join(folder, "answers.jsonl")
	writeAnswers(t, path, rows, size)
	a, err := export.OpenAnswers(path)
	require.NoError(t, err)
	defer func() { require.NoError(t, a.Close()) }()

	in := &counted{rows: rows}
	out, err := os.Create(filepath.Join(folder, "out.parquet"))
	require.NoError(t, err)
	counts, err := export.WriteTable(t.Context(), out, export.Options{
		Input: func() (table.Reader, error) { in.next = 0; return in, nil }, Answers: []*export.Answers{a}, Format: export.Parquet,
	})
	require.NoError(t, err)
	require.NoError(t, out.Close())
	require.Equal(t, rows, counts.Records)
	info, err := os.Stat(path)
	require.NoError(t, err)
	t.Logf("%d rows of answers, %d MB: at most %d MB in memory", rows, info.Size()/1e6, in.peak/1e6)
	require.Less(t, in.peak, uint64(perRow*rows+rest))

	written, err := table.Open([]string{out.Name()}, table.Options{})
	require.NoError(t, err)
	records, err := written.Records()
	require.NoError(t, err)
	defer func() { require.NoError(t, errors.Join(records.Close(), written.Close())) }()
	for row := 1; row <= rows; row++ {
		r, err := records.Next()
		require.NoError(t, err)
		if string(r.Fields[0].Value) != fmt.Sprint(row) || !strings.HasPrefix(string(r.Fields[2].Value), fmt.Sprintf(`"answer %d `, row)) {
			require.Fail(t, "a row has another answer", "row %d: %s %.40s", row, r.Fields[0].Value, r.Fields[2].Value)
		}
	}
	_, err = records.Next()
	require.ErrorIs(t, err, io.EOF)
}

// writeAnswers writes answers of about size bytes each, in random order.
func writeAnswers(t *testing.T, path string, rows, size int) {
	t.Helper()
	f, err := os.Create(path)
	require.NoError(t, err)
	w := bufio.NewWriterSize(f, 1<<20)
	random := rand.New(rand.NewPCG(1, 1))
	for _, i := range random.Perm(rows) {
		fmt.Fprintf(w, `{"id":"batch_req_local-%d-00000000","custom_id":"line-%[1]d","response":{"body":{"model":"m","choices":[{"message":{"content":"answer %[1]d `, i+1) //nolint:errcheck // Flush returns the error
		for n := 0; n < size; n += 16 {
			fmt.Fprintf(w, "%016x", random.Uint64()) //nolint:errcheck // Flush returns the error
		}
		_, err := w.WriteString(`"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":2}}},"error":null}` + "\n")
		require.NoError(t, err)
	}
	require.NoError(t, errors.Join(w.Flush(), f.Close()))
}
