package rows

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/openai"
)

// fromRecord returns an answer to a row that was made from a record.
func fromRecord(line int, sum string) result {
	return newResult(line, openai.OutputLine{RecordSum: sum, Response: &openai.Response{StatusCode: 200, Body: struct{}{}}})
}

// TestDrop: results that are dropped are gone from the file, and their rows are answered anew.
func TestDrop(t *testing.T) {
	t.Parallel()
	own := answerOf(4, `"model_sha256":"m","arithmetic":"a","default_sampling":"s","context":8,"context_full":true`)
	all := []result{answer(1), failure(2), fromRecord(3, "0000aaaa"), own, answerOf(70, `"context":8`)}
	want := []Result{
		{Line: 1, Sum: "00000001"}, {Line: 2, Sum: "00000002", Failed: true}, {Line: 3, Sum: "00000003", Record: "0000aaaa"},
		{Line: 4, Sum: "00000004", Model: Model{"m", "a", "s", 8}}, {Line: 70, Sum: "00000046"},
	}
	o, path, err := openWith(t, lines(all...)+`{"id":"batch_req_b-5`)
	require.NoError(t, err)
	require.Equal(t, []string{path, "b"}, []string{o.Path(), o.Batch()})
	require.True(t, o.Regular())
	var got []Result
	require.NoError(t, o.Drop(func(r Result) bool {
		got = append(got, r)
		return false
	}))
	require.Equal(t, want, got)
	require.Equal(t, lines(all...), content(t, path))
	require.Equal(t, map[int]bool{2: true}, o.Failed())
	require.Equal(t, 4, o.Answers())

	require.NoError(t, o.Drop(func(r Result) bool { return r.Failed || r.Record != "" || r.Line == 70 }))
	require.Equal(t, lines(all[0], own), content(t, path))
	results, failed := o.Counts()
	require.Equal(t, []int{2, 0, 2, 2}, []int{results, failed, o.Kept(), o.Answers()})
	require.Empty(t, o.Failed())
	require.Empty(t, o.Codes())
	for line := range 80 {
		require.Equal(t, line == 1 || line == 4, o.Has(line), line)
	}
	n, _ := o.ByOtherModels(Model{SHA256: "m", Arithmetic: "b"})
	require.Equal(t, 1, n)
	write(t, o, answer(2), answer(1), failure(3))
	require.NoError(t, o.Close())
	require.Equal(t, lines(all[0], own, answer(2), failure(3)), content(t, path))
	files, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, files, 1)
}

// TestDropNothing: an output without results, and one that is not a file, have none to drop.
func TestDropNothing(t *testing.T) {
	t.Parallel()
	never := func(Result) bool { panic("there are no results") }
	o, _, err := openWith(t, "")
	require.NoError(t, err)
	require.NoError(t, o.Drop(never))
	var b bytes.Buffer
	w := NewOutput(&b, "b")
	write(t, w, answer(1))
	require.NoError(t, w.Drop(never))
	record, err := w.Record(1)
	require.NoError(t, err)
	require.Empty(t, record)

	o, path, err := openWith(t, lines(answer(1)))
	require.NoError(t, err)
	moved := filepath.Join(filepath.Dir(path), "moved")
	require.NoError(t, os.Rename(path, moved))
	err = o.Drop(func(Result) bool { return true })
	require.ErrorIs(t, err, ErrNotOurs)
	require.ErrorContains(t, err, "remove results of rows that are answered anew: ")
	require.True(t, o.Has(1))
	require.Equal(t, lines(answer(1)), content(t, moved))
}

// TestRecordsOfResults: the record of a row, or the row itself, is known from its result.
func TestRecordsOfResults(t *testing.T) {
	t.Parallel()
	o, _, err := openWith(t, lines(answer(1), fromRecord(2, "0000aaaa"), failure(3)))
	require.NoError(t, err)
	for line, want := range map[int]string{1: "00000001", 2: "0000aaaa", 3: "00000003", 4: ""} {
		got, err := o.Record(line)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for _, c := range []struct {
		line          int
		sum           string
		present, same bool
	}{{1, "00000001", true, true}, {1, "00000002", true, false}, {4, "00000004", false, false}, {1, "000001", true, false}} {
		present, same := o.Compare(c.line, c.sum)
		require.Equal(t, []bool{c.present, c.same}, []bool{present, same}, "line %d, %s", c.line, c.sum)
		present, err := o.CheckSum(c.line, c.sum)
		require.Equal(t, c.present, present)
		require.Equal(t, c.present && !c.same, errors.Is(err, ErrOtherFile))
		require.Equal(t, c.present && !c.same, errors.Is(o.Check(Row{Line: c.line, Sum: c.sum}), ErrOtherFile))
	}
}

func TestErrorsOfChangedRows(t *testing.T) {
	t.Parallel()
	e := &ChangedError{Output: "out.jsonl", Changed: 2, Answers: 5, Line: 7}
	require.EqualError(t, e, "2 of 5 answers in out.jsonl are of other rows than those of this command: line 7 of the input is the first that has changed")
	e.SameRecord = true
	require.EqualError(t, e, "2 of 5 answers in out.jsonl are of other rows than those of this command: "+
		"the input is the same, but a template such as --prompt, or a default such as --max-tokens or --schema, has changed")
	require.ErrorIs(t, e, ErrOtherFile)
	require.NotErrorIs(t, e, ErrNotOurs)
	_, err := NewReader(strings.NewReader("[{}]"), Options{}).Next()
	require.ErrorIs(t, err, ErrFormat)
	require.NotErrorIs(t, err, ErrOtherFile)
}

// TestEmptyAnswers: answers with a choice without text are counted while they are written.
func TestEmptyAnswers(t *testing.T) {
	t.Parallel()
	body := func(line int, choices string) result {
		r := answer(line)
		r.text = bytes.Replace(r.text, []byte(`"body":{}`), []byte(`"body":{"choices":[`+choices+`]}`), 1)
		return r
	}
	const empty = `{"message":{"content":"","role":"assistant"}}`
	all := []result{
		body(1, empty), body(2, `{"text":"","index":0}`), body(3, `{"message":{"content":"a","role":"assistant"}},`+empty),
		body(4, `{"message":{"content":"\"content\":\"\",","role":"assistant"}}`), failure(5),
	}
	o, path, err := openWith(t, "")
	require.NoError(t, err)
	write(t, o, all...)
	write(t, o, all...)
	require.Equal(t, 3, o.Empty())
	require.NoError(t, o.Close())
	o, err = OpenOutput(path, "b")
	require.NoError(t, err)
	require.Zero(t, o.Empty(), "only those that are written count")
	require.NoError(t, o.Close())
	for _, c := range []struct {
		empty, answers int
		many           bool
	}{{0, 0, false}, {0, 9, false}, {1, 4, true}, {1, 5, false}, {2, 8, true}, {2, 9, false}, {3, 3, true}} {
		require.Equal(t, c.many, ManyEmpty(c.empty, c.answers), "%d of %d", c.empty, c.answers)
	}
}

// TestSurveys: a survey counts rows that continue a text, and chats on request.
func TestSurveys(t *testing.T) {
	t.Parallel()
	const text = `{"prompt":"a"}` + "\n\n" +
		`{"custom_id":"b","url":"/v1/completions","body":{"prompt":"a"}}` + "\n" +
		`{"custom_id":"c","body":{"prompt":"a"}}` + "\n" +
		`{"url":"/v1/completions","prompt":"a"}` + "\n" +
		`{"prompt":[1,2]}` + "\n" + `{"messages":[{"role":"user","content":"prompt"}]}` + "\n" +
		`{"custom_id":"d","url":"/v1/chat/completions","body":{"messages":[]}}` + "\n" + `{"prompt":` + "\n"
	var numbers []int
	got, err := ReadSurvey(strings.NewReader(text), SurveyOptions{Line: func(l Line) {
		numbers = append(numbers, l.Number)
		require.Equal(t, Checksum(l.Text), l.Sum())
	}})
	require.NoError(t, err)
	require.Equal(t, Survey{Rows: 8, Continued: 3}, got)
	require.Equal(t, []int{1, 3, 4, 5, 6, 7, 8, 9}, numbers)
	got, err = ReadSurvey(strings.NewReader(text), SurveyOptions{Chats: true})
	require.NoError(t, err)
	require.Equal(t, Survey{Rows: 8, Continued: 3, Chats: 2}, got)
	got, err = ReadSurvey(strings.NewReader("prompt\n\nb\n"), SurveyOptions{Format: FormatText, Chats: true})
	require.NoError(t, err)
	require.Equal(t, Survey{Rows: 2, Chats: 2}, got)
	_, err = ReadSurvey(strings.NewReader("[{}]"), SurveyOptions{})
	require.ErrorIs(t, err, ErrFormat)
	n, err := Count(strings.NewReader(text), FormatAuto)
	require.NoError(t, err)
	require.Equal(t, 8, n)
	rows := NewReader(strings.NewReader(text), Options{})
	for i, want := range []bool{true, false, true, false, false, false, false, false} { // a row that cannot be used continues nothing
		row, err := rows.Next()
		require.NoError(t, err)
		require.Equal(t, want, row.Continue, i)
	}
	for line, want := range map[string]bool{
		`{"custom_id":"b","url":"/v1/completions","body":{"prompt":"a"}}`: true, `{"prompt":"a"}`: true, `{"prompt":[1]}`: false, `{"prompt":`: false,
		`{"messages":[{"role":"user","content":"a"}]}`: false, `{"messages":[{"role":"user","content":"a"}],"x":"\"prompt\""}`: false,
	} {
		require.Equal(t, want, HasText([]byte(line)), line)
	}
}

// TestReaderOptions: rows have the checksums of their records, and errors for clients over HTTP do
// not name flags.
func TestReaderOptions(t *testing.T) {
	t.Parallel()
	const text = `{"prompt":"a","x":1}` + "\n\n" + `{"prompt":"a","model":"n"}` + "\n" + `{"custom_id":"é","prompt":"` + "\xff" + `"}` + "\n" + `{"custom_id":"` + "\xff" + `","prompt":"a"}`
	for _, remote := range []bool{false, true} {
		r := NewReader(strings.NewReader(text), Options{Remote: remote, Models: []string{"m"}, RecordSum: func(line int) string { return fmt.Sprint("sum-", line) }})
		for i, want := range []struct{ id, record, code, hint string }{
			{"line-1", "sum-1", "unknown_field", " (--unknown-fields ignore accepts unknown fields)"},
			{"line-3", "sum-3", "model_not_found", " (--unknown-fields ignore accepts other names)"},
			{"é", "sum-4", openai.CodeInvalidText, ""}, {"line-5", "sum-5", openai.CodeInvalidText, ""},
		} {
			row, err := r.Next()
			require.NoError(t, err)
			require.Equal(t, []string{want.id, want.record, want.code}, []string{row.CustomID, row.Record, row.Err.Code}, i)
			require.Equal(t, want.hint != "" && !remote, strings.HasSuffix(row.Err.Message, ")"), row.Err.Message)
			if !remote {
				require.True(t, strings.HasSuffix(row.Err.Message, want.hint))
			}
		}
	}
}

// TestLargeRows: the reader waits until a large row was handled, and the iteration can end at any
// row.
func TestLargeRows(t *testing.T) {
	t.Parallel()
	large := `{"prompt":"` + strings.Repeat("x", largeLine) + `"}` + "\n"
	text := large + `{"prompt":"a"}` + "\n" + large + large
	for end := 1; end <= 5; end++ {
		n := 0
		for row, err := range NewReader(strings.NewReader(text), Options{}).Rows(t.Context()) {
			require.NoError(t, err)
			n++
			require.Equal(t, n, row.Line)
			require.Equal(t, n != 2, len(row.Body) > largeLine)
			if n == end {
				break
			}
		}
		require.Equal(t, min(end, 4), n)
	}
	r := NewReader(strings.NewReader(text), Options{})
	for n := 1; n <= 4; n++ {
		l, err := r.NextLine()
		require.NoError(t, err)
		require.Equal(t, n, l.Number)
		require.Equal(t, n != 2, r.buf == nil, "the memory of a large line is freed")
	}
}

// TestOutputsThatCannotBeRead: a folder is no output, and an output that is removed while it is
// opened is in use.
func TestOutputsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	_, err := OpenOutput(t.TempDir(), "b")
	require.Error(t, err)
	_, err = OpenOutput(filepath.Join(t.TempDir(), "none", "out.jsonl"), "b")
	require.ErrorContains(t, err, "none for the output does not exist: make it")
	require.Equal(t, openai.Error{}, errorOf([]byte("no JSON")))
	require.Equal(t, openai.Error{Code: "c", Message: "m"}, errorOf([]byte(`{"error":{"code":"c","message":"m"}}`)))
	for text, want := range map[string]int{"": -1, "é": -1, "\uFFFD": -1, "a\xff": 1, "\xc3": 0, "é\xc3x": 2, "\uFFFD\xe9": 3} {
		require.Equal(t, want, invalidUTF8([]byte(text)), "%q", text)
	}
}
