package export_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/files/export"
	"github.com/ingot-run/ingot/files/rows"
	"github.com/ingot-run/ingot/files/table"
	"github.com/ingot-run/ingot/openai"
	"github.com/ingot-run/ingot/queue"
)

// choice is an answer in a test: its text and why it ended.
type choice struct {
	text, reasoning string
	finish          generation.FinishReason
	tokens          int
}

// sum is the checksum of every request.
const sum = "0000abcd"

// answer returns the output line of a row, as runs write it. Without choices, the row has failed.
func answer(t *testing.T, row int, name string, choices ...choice) string {
	t.Helper()
	j := &queue.Job{Batch: "local", Line: row, Sum: sum, CustomID: name}
	if len(choices) == 0 {
		return string(queue.Failure(j, openai.Error{Code: openai.CodeTimeout, Message: "too slow"}, queue.Stats{}).Text)
	}
	request, err := openai.ParseRequest(openai.Chat, []byte(`{"messages":[{"role":"user","content":"Hi"}]}`))
	require.NoError(t, err)
	var c generation.Completion
	c.Stats.PromptTokens = 7
	for _, one := range choices {
		c.Choices = append(c.Choices, generation.Choice{Text: one.text, Reasoning: one.reasoning, FinishReason: one.finish, Tokens: make([]int32, one.tokens)})
		c.Stats.CompletionTokens += one.tokens
	}
	return string(queue.Answered(j, request, []generation.Completion{c}, time.Unix(0, 0), queue.Stats{Origin: queue.Origin{Model: "tiny"}}).Text)
}

// open writes lines to a file and opens the file as Answers.
func open(t *testing.T, lines ...string) *export.Answers {
	t.Helper()
	path := filepath.Join(t.TempDir(), "answers.jsonl")
	require.NoError(t, os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o644))
	a, err := export.OpenAnswers(path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, a.Close()) })
	return a
}

// input is a table.Reader of lines. A line that is not a JSON object is a record with an error.
type input struct {
	lines []string
	next  int
}

func from(lines ...string) func() (table.Reader, error) {
	return func() (table.Reader, error) { return &input{lines: lines}, nil }
}

func (in *input) Columns() []table.Column { return nil }
func (in *input) Close() error            { return nil }

func (in *input) Next() (table.Record, error) {
	if in.next == len(in.lines) {
		return table.Record{}, io.EOF
	}
	line := []byte(in.lines[in.next])
	in.next++
	fields, err := fieldsOf(line)
	if err != nil {
		return table.Record{}, &table.RecordError{Number: in.next, Line: line, Err: err, Request: sum}
	}
	return table.Record{Number: in.next, Line: line, Fields: fields, Request: sum}, nil
}

func fieldsOf(line []byte) ([]table.Field, error) {
	d := json.NewDecoder(bytes.NewReader(line))
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	var fields []table.Field
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, err
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, err
		}
		fields = append(fields, table.Field{Name: name.(string), Value: value})
	}
	return fields, nil
}

// write returns the lines of a table in the format simple.
func write(t *testing.T, o export.Options) ([]string, export.Counts) {
	t.Helper()
	var b bytes.Buffer
	o.Format = export.Simple
	counts, err := export.WriteTable(t.Context(), &b, o)
	require.NoError(t, err)
	return strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n"), counts
}

func stop(text string) choice {
	return choice{text: text, finish: generation.FinishStop, tokens: len(text)}
}

func TestATableHasTheRowsInOrderWithTheirAnswers(t *testing.T) {
	t.Parallel()
	in := from(`{"id":"a","n":1}`, `{"id":"b","extra":{"x":[1]}}`, `not JSON`, `{"id":"d"}`, `{"id":"e"}`)
	a := open(t,
		answer(t, 5, "e", stop("five")),
		answer(t, 3, "line-3"),
		answer(t, 1, "a", stop("one"), choice{"again", "", generation.FinishLength, 9}),
		answer(t, 2, "b", choice{"two", "because", generation.FinishStop, 4}),
	)
	got, counts := write(t, export.Options{Input: in, Answers: []*export.Answers{a}})
	require.Equal(t, []string{
		`{"id":"a","n":1,"extra":null,"sample_index":0,"response":"one","reasoning":null,"finish_reason":"stop","model":"tiny","prompt_tokens":7,"completion_tokens":3,"error":null}`,
		`{"id":"a","n":1,"extra":null,"sample_index":1,"response":"again","reasoning":null,"finish_reason":"length","model":"tiny","prompt_tokens":7,"completion_tokens":9,"error":null}`,
		`{"id":"b","n":null,"extra":{"x":[1]},"sample_index":0,"response":"two","reasoning":"because","finish_reason":"stop","model":"tiny","prompt_tokens":7,"completion_tokens":4,"error":null}`,
		`{"id":null,"n":null,"extra":null,"sample_index":null,"response":null,"reasoning":null,"finish_reason":null,"model":null,"prompt_tokens":null,"completion_tokens":null,"error":"timeout: line 3: too slow"}`,
		`{"id":"e","n":null,"extra":null,"sample_index":0,"response":"five","reasoning":null,"finish_reason":"stop","model":"tiny","prompt_tokens":7,"completion_tokens":4,"error":null}`,
	}, got)
	require.Equal(t, export.Counts{Records: 5, Unanswered: 1, Dropped: map[export.Reason]int{}}, counts)
}

// An answer that only calls tools has no text, and its calls as JSON.
func TestToolCallsAreAColumn(t *testing.T) {
	t.Parallel()
	calls := answer(t, 1, "a", choice{finish: generation.FinishToolCalls, tokens: 4})
	calls = strings.Replace(calls, `"content":""`, `"content":null,"tool_calls":[{"id":"call_1","type":"function","function":{"name":"f","arguments":"{\"a\": 1}"}}]`, 1)
	got, _ := write(t, export.Options{Input: from(`{"id":"a"}`, `{"id":"b"}`), Answers: []*export.Answers{open(t, calls, answer(t, 2, "b", stop("two")))}})
	require.Equal(t, []string{
		`{"id":"a","response":null,"tool_calls":[{"id":"call_1","type":"function","function":{"name":"f","arguments":"{\"a\": 1}"}}],"finish_reason":"tool_calls","model":"tiny","prompt_tokens":7,"completion_tokens":4,"error":null}`,
		`{"id":"b","response":"two","tool_calls":null,"finish_reason":"stop","model":"tiny","prompt_tokens":7,"completion_tokens":3,"error":null}`,
	}, got)
}

func TestColumnsOnlyWhereTheyHaveValues(t *testing.T) {
	t.Parallel()
	got, _ := write(t, export.Options{Input: from(`{"id":"a"}`), Answers: []*export.Answers{open(t, answer(t, 1, "a", stop("one")))}, Prefix: "x_"})
	require.Equal(t, []string{`{"id":"a","x_response":"one","x_finish_reason":"stop","x_model":"tiny","x_prompt_tokens":7,"x_completion_tokens":3,"x_error":null}`}, got)
}

// The number of tokens of each of several answers is null if the statistics do not have it.
func TestTokensOfSeveralAnswers(t *testing.T) {
	t.Parallel()
	both := answer(t, 1, "a", stop("one"), stop("three"))
	for tokens, want := range map[string]string{"[3,5]": "3 5", "[3]": "null null", "[3,5,1]": "null null", "null": "null null"} {
		line := strings.Replace(both, `"choice_tokens":[3,5]`, `"choice_tokens":`+tokens, 1)
		require.Equal(t, tokens == "[3,5]", line == both)
		got, _ := write(t, export.Options{Answers: []*export.Answers{open(t, line)}})
		require.Len(t, got, 2)
		for i, tokens := range strings.Fields(want) {
			require.Contains(t, got[i], `"prompt_tokens":7,"completion_tokens":`+tokens+`,`)
		}
	}
}

// If a run is repeated with another selection, OUT.answers.jsonl has answers to rows that the new
// selection leaves out.
func TestAnswersOfRowsThatAreLeftOut(t *testing.T) {
	t.Parallel()
	a := open(t, answer(t, 1, "a", stop("one")), answer(t, 2, "b", stop("two")), answer(t, 3, "c", stop("three")), answer(t, 4, "d", stop("four")))
	selection := func() (table.Reader, error) {
		return &skipping{input{lines: []string{"{}", `{"id":"b"}`, `{"id":"c"}`}}}, nil
	}
	got, counts := write(t, export.Options{Input: selection, Answers: []*export.Answers{a}, Selected: true})
	require.Len(t, got, 2)
	require.Contains(t, got[0], `{"id":"b","response":"two",`)
	require.Equal(t, 2, counts.Records)
	_, err := export.WriteTable(t.Context(), io.Discard, export.Options{Input: selection, Answers: []*export.Answers{a}, Format: export.CSV})
	require.ErrorIs(t, err, rows.ErrOtherFile)
}

// skipping is an input that leaves out its first record.
type skipping struct{ input }

func (s *skipping) Next() (table.Record, error) {
	if s.next == 0 {
		s.next = 1
	}
	return s.input.Next()
}

func TestWithoutTheInputRowsHaveTheirNames(t *testing.T) {
	t.Parallel()
	a := open(t, answer(t, 4, "d", stop("four")), answer(t, 2, "b", stop("two")))
	b := open(t, answer(t, 3, "c"), answer(t, 2, "b", stop("zwei")))
	a.Model, b.Model = "english", "german"
	got, _ := write(t, export.Options{Answers: []*export.Answers{a, b}})
	const figures = `"finish_reason":"stop","model":%q,"prompt_tokens":7,"completion_tokens":%d,"error":null}`
	require.Equal(t, []string{
		fmt.Sprintf(`{"custom_id":"b","response":"two",`+figures, "english", 3),
		fmt.Sprintf(`{"custom_id":"b","response":"zwei",`+figures, "german", 4),
		`{"custom_id":"c","response":null,"finish_reason":null,"model":"german","prompt_tokens":null,"completion_tokens":null,"error":"timeout: line 3: too slow"}`,
		fmt.Sprintf(`{"custom_id":"d","response":"four",`+figures, "english", 4),
	}, got)
}

func TestFilters(t *testing.T) {
	t.Parallel()
	in := from(`{"q":"1"}`, `{"q":"2"}`, `{"q":"3"}`, `{"q":"4"}`)
	a := open(t,
		answer(t, 1, "line-1", stop("Äpfel"), choice{"Birnen und", "", generation.FinishLength, 64}),
		answer(t, 2, "line-2", stop(" A\u0308pfel\n"), stop("Sorry, no")),
		answer(t, 3, "line-3"),
		answer(t, 4, "line-4", stop("")),
	)
	re := func(s string) []*regexp.Regexp { return []*regexp.Regexp{regexp.MustCompile(s)} }
	all := []string{"Äpfel", "Birnen und", " A\u0308pfel\n", "Sorry, no", "error", ""}
	for _, c := range []struct {
		name   string
		filter export.Filter
		want   []string
		counts map[export.Reason]int
	}{
		{"none", export.Filter{}, all, map[export.Reason]int{}},
		{"finish reason", export.Filter{FinishReasons: []string{"stop"}}, []string{all[0], all[2], all[3], all[5]},
			map[export.Reason]int{export.Failed: 1, export.OtherFinish: 1}},
		{"finish reasons", export.Filter{FinishReasons: []string{"length", "tool_calls"}}, []string{all[1]},
			map[export.Reason]int{export.Failed: 1, export.OtherFinish: 4}},
		{"match", export.Filter{Match: re(`pfel`)}, []string{all[0], all[2]}, map[export.Reason]int{export.Failed: 1, export.Unmatched: 3}},
		{"no match", export.Filter{NotMatch: re(`(?i)^sorry`)}, []string{all[0], all[1], all[2], all[5]},
			map[export.Reason]int{export.Failed: 1, export.Matched: 1}},
		{"characters", export.Filter{MinChars: 5, MaxChars: 7}, []string{all[0]}, // " A\u0308pfel\n" has 8
			map[export.Reason]int{export.Failed: 1, export.TooShort: 1, export.TooLong: 3}},
		{"tokens", export.Filter{MinTokens: 1, MaxTokens: 9}, []string{all[0], all[2], all[3]},
			map[export.Reason]int{export.Failed: 1, export.TooShort: 1, export.TooLong: 1}},
		{"duplicates", export.Filter{Unique: []string{"response"}}, []string{all[0], all[1], all[3], all[5]},
			map[export.Reason]int{export.Failed: 1, export.Duplicate: 1}},
		{"duplicates of a row", export.Filter{Unique: []string{"q", "finish_reason"}}, []string{all[0], all[1], all[2], all[5]},
			map[export.Reason]int{export.Failed: 1, export.Duplicate: 1}},
		{"several", export.Filter{FinishReasons: []string{"stop"}, NotMatch: re(`^Sorry`), MinChars: 1, Unique: []string{"response"}}, []string{all[0]},
			map[export.Reason]int{export.Failed: 1, export.OtherFinish: 1, export.Matched: 1, export.TooShort: 1, export.Duplicate: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			lines, counts := write(t, export.Options{Input: in, Answers: []*export.Answers{a}, Filter: c.filter})
			var got []string
			for _, line := range lines {
				var r struct{ Response, Error *string }
				require.NoError(t, json.Unmarshal([]byte(line), &r))
				if r.Error != nil {
					got = append(got, "error")
				} else {
					got = append(got, *r.Response)
				}
			}
			require.Equal(t, c.want, got)
			require.Equal(t, export.Counts{Records: len(c.want), Dropped: c.counts}, counts)
		})
	}
	_, err := export.WriteTable(t.Context(), io.Discard, export.Options{Format: export.CSV, Input: in, Answers: []*export.Answers{a},
		Filter: export.Filter{Unique: []string{"answer"}}})
	require.ErrorContains(t, err, `the table has no column "answer": its columns are "q", "sample_index", "response", `)
}

func TestFailedRowsInTheShapeOfTheInput(t *testing.T) {
	t.Parallel()
	lines := []string{`{ "id": "a", "n": 1 }`, `{"id":"b","n":2}`, `not JSON`, `{"n":4}`, ` {} `}
	var answers []*export.Answers
	for range 2 { // a row that two models failed to answer is written once
		answers = append(answers, open(t, answer(t, 1, "a"), answer(t, 2, "b", stop("two")), answer(t, 3, "line-3"), answer(t, 4, "line-4"), answer(t, 5, "line-5")))
	}
	for _, c := range []struct {
		format export.Format
		want   string
	}{
		{export.Batch, `{ "id": "a", "n": 1,"ingot_error":"timeout: line 1: too slow"}
{"line":"not JSON","ingot_error":"timeout: line 3: too slow"}
{"n":4,"ingot_error":"timeout: line 4: too slow"}
{"ingot_error":"timeout: line 5: too slow"}
`},
		{export.CSV, `id,n,line,ingot_error
a,1,,timeout: line 1: too slow
,,not JSON,timeout: line 3: too slow
,4,,timeout: line 4: too slow
,," {} ",timeout: line 5: too slow
`},
	} {
		var failed bytes.Buffer
		got, counts := write(t, export.Options{Input: from(lines...), Answers: answers, Failed: export.NewFailedRows(&failed, c.format)})
		require.Len(t, got, 2)
		require.Equal(t, c.want, failed.String())
		require.Equal(t, export.Counts{Records: 2, Dropped: map[export.Reason]int{export.Failed: 8}, Failed: 4}, counts)
	}
}

func TestNoRowsFailed(t *testing.T) {
	t.Parallel()
	var failed bytes.Buffer
	write(t, export.Options{Input: from(`{"id":"a"}`), Answers: []*export.Answers{open(t, answer(t, 1, "a", stop("one")))},
		Failed: export.NewFailedRows(&failed, export.CSV)})
	require.Equal(t, "id,ingot_error\n", failed.String())
}

func TestTablesAreRefused(t *testing.T) {
	t.Parallel()
	in := from(`{"id":"a"}`, `{"id":"b"}`)
	for _, c := range []struct {
		name    string
		in      func() (table.Reader, error)
		answers []string
		want    string
		other   bool
	}{
		{"a column's name", from(`{"model":"x","answer_model":"y"}`), nil, `the input has a column "model", which is also the name of a generated column: give ` +
			`the generated columns a prefix, such as --column-prefix=answer2_`, false},
		{"a row too few", in, []string{answer(t, 3, "c", stop("three"))}, "the input has no row 3", true},
		{"a row between", in, []string{answer(t, 2, "b", stop("two")), answer(t, 9, "c", stop("nine"))}, "the input has no row 9", true},
		{"another row", in, []string{answer(t, 2, "c", stop("two"))}, `row 2 has the id "c" in the answers, but "b" in the input`, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := export.WriteTable(t.Context(), io.Discard, export.Options{Format: export.CSV, Input: c.in, Answers: []*export.Answers{open(t, c.answers...)}})
			require.ErrorContains(t, err, c.want)
			if c.other {
				require.ErrorIs(t, err, rows.ErrOtherFile)
			}
		})
	}
}

func TestFilesThatAreNotAnswers(t *testing.T) {
	t.Parallel()
	good := answer(t, 1, "a", stop("one"))
	for _, c := range []struct{ text, want string }{
		{good + "\n\nsome text\n", ":3: the line is not a result of ingot"},
		{`{"id":"batch_req_local-1-00000000"}` + "\n", ":1: the line is not a result of ingot"},
		{`{"id":"x","response":{},"error":null}` + "\n", ":1: the line is not a result of ingot"},
		{good + "\n" + good + "\n", " has two answers to row 1: remove one of them"},
	} {
		path := filepath.Join(t.TempDir(), "answers.jsonl")
		require.NoError(t, os.WriteFile(path, []byte(c.text), 0o644))
		_, err := export.OpenAnswers(path)
		require.ErrorContains(t, err, path+c.want)
	}
	path := filepath.Join(t.TempDir(), "answers.jsonl")
	require.NoError(t, os.WriteFile(path, []byte(good+"\n"+good[:20]), 0o644))
	a, err := export.OpenAnswers(path)
	require.NoError(t, err, "a run may be writing the last line")
	require.Equal(t, 1, a.Len())
	require.NoError(t, a.Close())
}

func TestOrder(t *testing.T) {
	t.Parallel()
	var lines []string
	for row := 1; row <= 3000; row++ {
		lines = append(lines, answer(t, row, fmt.Sprint("row-", row), stop(strings.Repeat("x", row%70))))
	}
	want := strings.Join(lines, "\n") + "\n"
	rand.New(rand.NewPCG(1, 1)).Shuffle(len(lines), func(i, j int) { lines[i], lines[j] = lines[j], lines[i] })
	path := filepath.Join(t.TempDir(), "answers.jsonl")
	require.NoError(t, os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o644))
	require.NoError(t, export.Order(t.Context(), path))
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, want, string(got))
	before, err := os.Stat(path)
	require.NoError(t, err)
	require.NoError(t, export.Order(t.Context(), path))
	after, err := os.Stat(path)
	require.NoError(t, err)
	require.True(t, os.SameFile(before, after), "a file that is in order is not rewritten")
}

// TestOpenWaitsForAReaderUntilStopped: a pipe without a reader does not take the answers.
func TestOpenWaitsForAReaderUntilStopped(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"fifo", "fifo.csv"} {
		path := filepath.Join(t.TempDir(), name)
		require.NoError(t, unix.Mkfifo(path, 0o600))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		o := export.Output{Path: path, Format: export.FormatOf(path)}
		if name == "fifo" {
			_, err := o.Open(ctx, "", "b")
			require.ErrorIs(t, err, context.Canceled)
			continue
		}
		answers := filepath.Join(t.TempDir(), "answers.jsonl")
		require.NoError(t, os.WriteFile(answers, []byte(answer(t, 1, "a", stop("one"))+"\n"), 0o600))
		require.ErrorIs(t, o.Write(ctx, []string{answers}, nil), context.Canceled)
	}
}
