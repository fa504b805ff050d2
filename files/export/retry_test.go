package export_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/files/export"
	"github.com/ingot-run/ingot/files/rows"
	"github.com/ingot-run/ingot/files/table"
)

// TestFailedAnswers: the rows that a run answers again are those with an answer that cannot become
// columns.
func TestFailedAnswers(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "out.csv")
	put(t, out+".answers.jsonl", strings.Join([]string{
		answer(t, 1, "a", stop(`{"n":1}`)), answer(t, 2, "b", stop(`{"n":1}`), cut(`{"n":`)), answer(t, 3, "c"), answer(t, 5, "e", stop("five")),
		answer(t, 6, "f", stop("six")), answer(t, 7, "g", stop("seven")), answer(t, 8, "h", stop("{}")),
	}, "\n")+"\n")
	ownForm := func() (table.Reader, error) {
		r := &checked{}
		for _, n := range []int{1, 2, 3, 4, 6, 7, 8, 9, 10} { // row 5 is left out, and the last two have no answer
			r.records = append(r.records, table.Record{Number: n, OwnForm: n == 7})
		}
		return r, nil
	}
	o := &export.Output{Path: out, Format: export.CSV, Table: export.Options{Fields: export.Fields{JSON: true}}}
	got, err := o.FailedAnswers(t.Context(), "", ownForm)
	require.NoError(t, err)
	require.Equal(t, map[int]bool{2: true, 6: true}, got)
	got, err = o.FailedAnswers(t.Context(), "", from(`{}`, "not JSON", `{}`, `{}`, "not JSON"))
	require.NoError(t, err)
	require.Empty(t, got, "a row that cannot be read is not answered again")

	for name, change := range map[string]func(*export.Output){
		"batch lines":        func(o *export.Output) { o.Format = export.Batch },
		"stdout":             func(o *export.Output) { o.Path = "-" },
		"no columns":         func(o *export.Output) { o.Table.Fields = export.Fields{} },
		"no answers so far":  func(o *export.Output) { o.Path += ".new" },
		"another model's":    func(o *export.Output) {},
		"columns from texts": func(o *export.Output) { o.Table.Fields = export.Fields{Schema: `{"type":"object"}`}; o.Path += ".new" },
	} {
		other := *o
		change(&other)
		got, err := other.FailedAnswers(t.Context(), map[bool]string{true: "m"}[name == "another model's"], func() (table.Reader, error) { panic("the input is not read") })
		require.NoError(t, err, name)
		require.Empty(t, got, name)
	}

	broken := errors.New("broken")
	for name, in := range map[string]func() (table.Reader, error){
		"opening": func() (table.Reader, error) { return nil, broken },
		"reading": func() (table.Reader, error) { return &failing{input{}, broken, nil}, nil },
		"closing": func() (table.Reader, error) { return &failing{input{}, nil, broken}, nil },
	} {
		_, err := o.FailedAnswers(t.Context(), "", in)
		require.ErrorIs(t, err, broken, name)
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	_, err = o.FailedAnswers(stopped, "", ownForm)
	require.ErrorIs(t, err, context.Canceled)
	put(t, out+".answers.jsonl", "no answers\n")
	_, err = o.FailedAnswers(t.Context(), "", ownForm)
	require.ErrorContains(t, err, "the line is not a result of ingot")
}

// TestRowsWithSomeFailedAnswers: the answers that can become columns are in the table, whatever the
// others of their row are, and the row is among the failed ones.
func TestRowsWithSomeFailedAnswers(t *testing.T) {
	t.Parallel()
	a := open(t, answer(t, 1, "a", stop("no"), stop(`{"n":1}`), cut("no"), stop(`{"n":2}`)))
	var failed bytes.Buffer
	got, counts := write(t, export.Options{Answers: []*export.Answers{a}, Input: sheetOf("id", "a").open, Fields: export.Fields{JSON: true},
		Columns: []string{"sample_index", "n"}, Failed: export.NewFailedRows(&failed, export.CSV)})
	require.Equal(t, []string{`{"sample_index":1,"n":1}`, `{"sample_index":3,"n":2}`}, got)
	require.Equal(t, "id,ingot_error\na,"+notJSON+"\n", failed.String(), "with the reason of the first one")
	require.Equal(t, export.Counts{Records: 2, Dropped: map[export.Reason]int{export.Failed: 2}, Failed: 1, Unparsed: 2}, counts)
}

// TestAnswersBesideTables: the answers of a table are beside it.
func TestAnswersBesideTables(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	path := func(name string) string { return filepath.Join(folder, name) }
	for _, name := range []string{"both.csv", "both.csv.answers.jsonl", "table.csv", "answers.csv.answers.jsonl", "folder.csv.answers.jsonl"} {
		put(t, path(name), "")
	}
	require.NoError(t, os.Mkdir(path("folder.csv"), 0o700))
	for name, want := range map[string]string{
		"both.csv": "both.csv.answers.jsonl", "table.csv": "table.csv", "answers.csv": "answers.csv", "folder.csv": "folder.csv", "none.csv": "none.csv",
	} {
		require.Equal(t, path(want), export.AnswersOf(path(name)))
		require.Equal(t, strings.HasPrefix(name, "both") || strings.HasPrefix(name, "table"), (&export.Output{Path: path(name)}).Exists(), name)
	}
	require.Equal(t, "-", export.AnswersOf("-"))
	require.False(t, (&export.Output{Path: "-"}).Exists())
	o := &export.Output{Path: path("table.csv"), Format: export.CSV}
	require.Error(t, o.Guard(""))
	o.Overwrite = true
	require.NoError(t, o.Guard(""))
}

// TestUnparsedAnswersAreReported: the summary has the number of answers without columns.
func TestUnparsedAnswersAreReported(t *testing.T) {
	t.Parallel()
	var summary string
	o := &export.Output{Path: filepath.Join(t.TempDir(), "out.csv"), Format: export.CSV, Summary: func(s string) { summary = s },
		Table: export.Options{Format: export.CSV, Fields: export.Fields{Schema: `{"type":"array"}`}}}
	answers := put(t, o.Path+".answers.jsonl", answer(t, 1, "a", stop("[1]"))+"\n"+answer(t, 2, "b", stop("[1"))+"\n"+answer(t, 3, "c", cut("["))+"\n")
	require.NoError(t, o.Write(t.Context(), []string{answers}, nil))
	require.Equal(t, 2, o.Unparsed)
	require.Equal(t, o.Path+": 3 records; 2 answers without the columns of their text", summary)
	text := read(t, o.Path)
	require.Contains(t, text, "b,[1,stop,tiny,7,2,unparsed_answer: the answer is not JSON\n")
	require.Contains(t, text, `"unparsed_answer: the answer is not JSON, since it was cut at the maximum number of tokens: `)
}

// TestTheEncodingOfAnotherInput: if records differ and cannot be read, the encoding may be wrong.
func TestTheEncodingOfAnotherInput(t *testing.T) {
	t.Parallel()
	path := put(t, filepath.Join(t.TempDir(), "in.csv"), "id,text\na,\"M\xfcller\"\n")
	in, err := table.Open([]string{path}, table.Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, in.Close()) }()
	a := open(t, strings.Replace(answer(t, 1, "a", stop("one")), `"custom_id":"a"`, `"custom_id":"a","record_sum":"00000000"`, 1))
	_, err = export.WriteTable(t.Context(), &strings.Builder{}, export.Options{Format: export.CSV, Input: in.Records, Answers: []*export.Answers{a}})
	require.ErrorIs(t, err, rows.ErrOtherFile)
	require.ErrorContains(t, err, "--encoding")
}
