package table

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// readCSV returns all records, and the errors of damaged records.
func readCSV(r io.Reader) (records []string) {
	in := csv.NewReader(r)
	in.FieldsPerRecord = -1
	for {
		cells, err := in.Read()
		if errors.Is(err, io.EOF) {
			return records
		}
		text := strings.Join(cells, "|")
		var damaged *csv.ParseError
		if errors.As(err, &damaged) {
			damaged.Column = 0 // a \r changes the column
			text = err.Error()
		}
		records = append(records, text)
	}
}

// The content of cells is read exactly as a CSV writer wrote it.
func TestLineEndsInCells(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		cell := rapid.StringOfN(rapid.RuneFrom([]rune("\r\n\",a ")), 0, 6, -1)
		rows := rapid.SliceOfN(rapid.SliceOfN(cell, 2, 3), 1, 5).Draw(t, "rows")
		var b bytes.Buffer
		w := csv.NewWriter(&b)
		require.NoError(t, w.WriteAll(rows))
		in := csv.NewReader(iotest.OneByteReader(&lineEnds{in: bufio.NewReader(&b), separator: ','}))
		in.FieldsPerRecord = -1
		got, err := in.ReadAll()
		require.NoError(t, err)
		require.Equal(t, rows, got)
	})
}

// For any text, records and errors equal those of encoding/csv, except for the \r that it drops.
func TestLineEndsOfDamagedFiles(t *testing.T) {
	t.Parallel()
	check := func(t require.TestingT, text string) {
		want := readCSV(strings.NewReader(text))
		got := readCSV(&lineEnds{in: bufio.NewReader(strings.NewReader(text)), separator: ','})
		require.Len(t, got, len(want))
		for i := range want {
			require.Equal(t, want[i], strings.ReplaceAll(got[i], "\r\n", "\n"))
		}
	}
	for _, text := range []string{"a\",\"\n\r\n", "\"a\"b,\"\n\r\n"} {
		check(t, text) // the quote after the comma is in a line that encoding/csv skips
	}
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOfN(rapid.RuneFrom([]rune("\r\n\n\"\",,ab")), 0, 40, -1).Draw(t, "text")
		check(t, strings.TrimRight(text, "\r"))
	})
}
