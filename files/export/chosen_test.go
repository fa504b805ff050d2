package export_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/files/export"
	"github.com/ingot-run/ingot/files/table"
)

// sheet is an input without types, such as CSV. A row that begins with ! is a damaged record. A
// cell that begins with = is JSON, as in a file with types that follows.
type sheet struct {
	names, rows []string
	next        int
	failure     error // of the reader, after the last row
	opened      *int  // number of readers that were not closed
}

func sheetOf(names string, rows ...string) *sheet {
	return &sheet{names: strings.Split(names, ","), rows: rows, failure: io.EOF, opened: new(int)}
}

func (s *sheet) open() (table.Reader, error) {
	*s.opened++
	return &sheet{s.names, s.rows, 0, s.failure, s.opened}, nil
}

func (s *sheet) Close() error {
	*s.opened--
	return nil
}

func (s *sheet) Columns() (columns []table.Column) {
	for _, name := range s.names {
		columns = append(columns, table.Column{Name: name, Kind: table.String, Untyped: true})
	}
	return columns
}

func (s *sheet) Next() (table.Record, error) {
	if s.next == len(s.rows) {
		return table.Record{}, s.failure
	}
	text, damaged := strings.CutPrefix(s.rows[s.next], "!")
	s.next++
	var fields []table.Field
	for i, cell := range strings.Split(text, ",") {
		value, err := json.Marshal(cell)
		if err != nil {
			return table.Record{}, err
		}
		if typed, ok := strings.CutPrefix(cell, "="); ok {
			value = []byte(typed)
		}
		fields = append(fields, table.Field{Name: s.names[i], Value: value})
	}
	if damaged {
		return table.Record{}, &table.RecordError{Number: s.next, Fields: fields, Err: errors.New("damaged"), Request: sum}
	}
	return table.Record{Number: s.next, Fields: fields, Request: sum}, nil
}

// TestChosenColumns: a table has the columns that are named, in this order. A generated column that
// no answer has is left out.
func TestChosenColumns(t *testing.T) {
	t.Parallel()
	in := sheetOf("id,n", "a,1", "b,2")
	a := open(t, answer(t, 1, "a", stop("one")), answer(t, 2, "b", choice{"two", "because", "stop", 5}))
	plain := open(t, answer(t, 1, "a", stop("one")))
	for _, c := range []struct {
		columns []string
		prefix  string
		answers *export.Answers
		want    []string
	}{
		{[]string{"response", "id"}, "", a, []string{`{"response":"one","id":"a"}`, `{"response":"two","id":"b"}`}},
		{[]string{"n", "reasoning"}, "", a, []string{`{"n":"1","reasoning":null}`, `{"n":"2","reasoning":"because"}`}},
		{[]string{"n", "reasoning", "sample_index"}, "", plain, []string{`{"n":"1"}`}},
		{[]string{"x_error", "x_completion_tokens", "x_tool_calls"}, "x_", plain, []string{`{"x_error":null,"x_completion_tokens":3}`}},
	} {
		got, _ := write(t, export.Options{Input: in.open, Answers: []*export.Answers{c.answers}, Columns: c.columns, Prefix: c.prefix})
		require.Equal(t, c.want, got)
	}
	for prefix, name := range map[string]string{"": "x_reasoning", "x_": "reasoning"} {
		_, err := export.WriteTable(t.Context(), io.Discard, export.Options{
			Format: export.CSV, Input: in.open, Answers: []*export.Answers{plain}, Columns: []string{"id", name}, Prefix: prefix,
		})
		require.ErrorContains(t, err, `the table has no column "`+name+`": its columns are "id", "n", "`+prefix+`response", `)
	}
}

// TestNumbersOfTexts: in Parquet, a column of texts has numbers if all of its texts are numbers as
// JSON writes them.
func TestNumbersOfTexts(t *testing.T) {
	t.Parallel()
	const whole, number, text = "INT(64,true)", "DOUBLE", "STRING"
	for _, c := range []struct {
		cells string // of a column
		kind  string
		want  []any
	}{
		{"1 -2 0", whole, []any{int64(1), int64(-2), int64(0)}},
		{"9223372036854775807 -9223372036854775808", whole, []any{int64(9223372036854775807), int64(-9223372036854775808)}},
		{"5 _ _", whole, []any{int64(5), nil, nil}},
		{"_ !5", whole, []any{nil, int64(5)}},
		{"1.5 2", number, []any{1.5, 2.0}},
		{"2 _ 1.5 3", number, []any{2.0, nil, 1.5, 3.0}},
		{"1e3 -0.5", number, []any{1000.0, -0.5}},
		{"9e9 0E0", number, []any{9e9, 0.0}},
		{"_ _", text, []any{"", ""}},
		{"1 a 2", text, []any{"1", "a", "2"}},
		{"1 a 2 3.5", text, []any{"1", "a", "2", "3.5"}},
		{"1 !x", text, []any{"1", "x"}},
		{"007", text, []any{"007"}}, {"+1", text, []any{"+1"}}, {"-0", text, []any{"-0"}}, {"-", text, []any{"-"}}, {"1.", text, []any{"1."}}, {".5", text, []any{".5"}},
		{"9223372036854775808", text, []any{"9223372036854775808"}}, {"1e999", text, []any{"1e999"}}, {"NaN", text, []any{"NaN"}}, {"true", text, []any{"true"}},
		{"[1.5]", text, []any{"[1.5]"}}, {"1.5\t", text, []any{"1.5\t"}}, {"{}", text, []any{"{}"}}, {`"1.5"`, text, []any{`"1.5"`}}, {"null", text, []any{"null"}},
	} {
		var rows, answers []string
		for i, cell := range strings.Split(c.cells, " ") {
			rows = append(rows, strings.ReplaceAll(cell, "_", "")+",text")
			answers = append(answers, answer(t, i+1, fmt.Sprint("line-", i+1), stop("one")))
		}
		for _, texts := range []bool{false, true} {
			var b bytes.Buffer
			in := sheetOf("cell,other", rows...)
			_, err := export.WriteTable(t.Context(), &b, export.Options{
				Input: in.open, Answers: []*export.Answers{open(t, answers...)}, Format: export.Parquet, Columns: []string{"other", "cell"}, Texts: texts,
			})
			require.NoError(t, err)
			require.Zero(t, *in.opened, "all readers are closed")
			file, err := parquet.OpenFile(bytes.NewReader(b.Bytes()), int64(b.Len()))
			require.NoError(t, err)
			kinds := map[string]string{}
			for _, f := range file.Schema().Fields() {
				kinds[f.Name()] = f.Type().String()
			}
			if texts {
				require.Equal(t, map[string]string{"cell": text, "other": text}, kinds, c.cells)
				continue
			}
			require.Equal(t, map[string]string{"cell": c.kind, "other": text}, kinds, c.cells)
			values := make([]map[string]any, len(rows))
			for i := range values {
				values[i] = map[string]any{}
			}
			n, err := parquet.NewGenericReader[map[string]any](bytes.NewReader(b.Bytes()), file.Schema()).Read(values)
			if err != nil {
				require.ErrorIs(t, err, io.EOF)
			}
			require.Equal(t, len(rows), n)
			for i, want := range c.want {
				require.Equal(t, map[string]any{"cell": want, "other": "text"}, values[i], c.cells)
			}
		}
	}
}

// TestNumbersAfterTexts: a column has numbers if a file with types, whose values are numbers,
// follows one whose texts are numbers.
func TestNumbersAfterTexts(t *testing.T) {
	t.Parallel()
	for kind, cells := range map[string][]string{"INT(64,true)": {"1", "=2", "=34", "=567", "=null"}, "DOUBLE": {"1", "=9", "=2.5"}} {
		var answers []string
		for i := range cells {
			answers = append(answers, answer(t, i+1, fmt.Sprint("line-", i+1), stop("one")))
		}
		var b bytes.Buffer
		_, err := export.WriteTable(t.Context(), &b, export.Options{
			Input: sheetOf("cell", cells...).open, Answers: []*export.Answers{open(t, answers...)}, Format: export.Parquet, Columns: []string{"cell"},
		})
		require.NoError(t, err)
		file, err := parquet.OpenFile(bytes.NewReader(b.Bytes()), int64(b.Len()))
		require.NoError(t, err)
		require.Equal(t, kind, file.Schema().Fields()[0].Type().String())
		require.EqualValues(t, len(cells), file.NumRows())
	}
}

// TestTextsBesideNumbers: a column with a text stays one of texts, whatever its other values and
// the other columns are.
func TestTextsBesideNumbers(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	answers := open(t, answer(t, 1, "a", stop("one")), answer(t, 2, "b", stop("one")), answer(t, 3, "c", stop("one")))
	_, err := export.WriteTable(t.Context(), &b, export.Options{
		Input: sheetOf("texts,numbers", "1,1", "x,2", "3,3").open, Answers: []*export.Answers{answers}, Format: export.Parquet, Columns: []string{"texts", "numbers"},
	})
	require.NoError(t, err)
	file, err := parquet.OpenFile(bytes.NewReader(b.Bytes()), int64(b.Len()))
	require.NoError(t, err)
	kinds := map[string]string{}
	for _, f := range file.Schema().Fields() {
		kinds[f.Name()] = f.Type().String()
	}
	require.Equal(t, map[string]string{"texts": "STRING", "numbers": "INT(64,true)"}, kinds)
}

// TestNumbersThatCannotBeRead: an input that fails is an error in each of its passes.
func TestNumbersThatCannotBeRead(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	in := sheetOf("id", "1")
	for fails := 1; fails <= 3; fails++ {
		for _, opening := range []bool{true, false} {
			opened := 0
			_, err := export.WriteTable(t.Context(), io.Discard, export.Options{Format: export.Parquet, Input: func() (table.Reader, error) {
				s := *in
				switch opened++; {
				case opened == fails && opening:
					return nil, broken
				case opened == fails:
					s.failure = broken
				}
				return s.open()
			}})
			if fails == 1 && !opening { // the columns of a table are known without its records
				require.NoError(t, err)
				continue
			}
			require.ErrorIs(t, err, broken, "pass %d", fails)
		}
	}
}

func TestNamesOfColumns(t *testing.T) {
	t.Parallel()
	input, fields := []table.Column{{Name: "id"}}, []table.Column{{Name: "score"}}
	require.NoError(t, export.CheckNames("--unique", nil, input, fields, ""))
	require.NoError(t, export.CheckNames("--unique", []string{"id", "x_score", "x_response", "x_sample_index", "x_error"}, input, fields, "x_"))
	for _, name := range []string{"x_id", "score", "response"} {
		require.EqualError(t, export.CheckNames("--unique", []string{"id", name}, input, fields, "x_"), `--unique: the table has no column "`+name+`": its columns are `+
			`"id", "x_score", "x_sample_index", "x_response", "x_reasoning", "x_tool_calls", "x_finish_reason", "x_model", "x_prompt_tokens", "x_completion_tokens", "x_error"`)
	}
}

// TestArraysOfRecords: the format JSON is one array of the objects that Simple has on lines.
func TestArraysOfRecords(t *testing.T) {
	t.Parallel()
	a := open(t, answer(t, 1, "a", stop("one")), answer(t, 2, "b", stop("two")))
	for want, o := range map[string]export.Options{
		"[\n{\"custom_id\":\"a\",\"response\":\"one\"},\n{\"custom_id\":\"b\",\"response\":\"two\"}\n]\n": {},
		"[\n{\"custom_id\":\"a\",\"response\":\"one\"}\n]\n":                                              {Filter: export.Filter{Unique: []string{"finish_reason"}}},
		"[]\n": {Filter: export.Filter{MinTokens: 9}},
	} {
		o.Answers, o.Format, o.Columns = []*export.Answers{a}, export.JSON, []string{"custom_id", "response"}
		var b bytes.Buffer
		_, err := export.WriteTable(t.Context(), &b, o)
		require.NoError(t, err)
		require.Equal(t, want, b.String())
	}
}

// TestAnswersThatFiltersCannotRead: a filter by the text needs a text.
func TestAnswersThatFiltersCannotRead(t *testing.T) {
	t.Parallel()
	a := open(t, strings.Replace(answer(t, 1, "a", stop("one")), `"content":"one"`, `"content":5`, 1))
	_, err := export.WriteTable(t.Context(), io.Discard, export.Options{Format: export.CSV, Answers: []*export.Answers{a}, Filter: export.Filter{MinChars: 1}})
	require.ErrorContains(t, err, "read the answer to row 1: its response is not a text")
}
