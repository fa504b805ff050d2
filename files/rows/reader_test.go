package rows

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ingot-run/ingot/openai"
)

func readAll(t testing.TB, r io.Reader, f Format) []Row {
	t.Helper()
	rows, err := readRows(r, f)
	require.NoError(t, err)
	return rows
}

func readRows(r io.Reader, f Format) ([]Row, error) {
	return readWith(r, Options{Format: f})
}

func readWith(r io.Reader, o Options) ([]Row, error) {
	reader := NewReader(r, o)
	var rows []Row
	for {
		row, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return rows, nil
		}
		if err != nil {
			return rows, err
		}
		rows = append(rows, row)
	}
}

func TestReaderAcceptsLines(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, line string
		id         string
		endpoint   openai.Endpoint
		body       string
	}{
		{"batch chat", `{"custom_id":"a","method":"POST","url":"/v1/chat/completions","body":{"messages":[{"role":"user","content":"hi"}]}}`,
			"a", openai.Chat, `{"messages":[{"role":"user","content":"hi"}]}`},
		{"batch completion", `{"custom_id":"a","method":"POST","url":"/v1/completions","body":{"prompt":"hi"}}`, "a", openai.Completions, `{"prompt":"hi"}`},
		{"batch without url", `{"custom_id":"a","body":{"prompt":"hi"}}`, "a", openai.Completions, `{"prompt":"hi"}`},
		{"batch without url, chat", `{"custom_id":"a","body":{"messages":[{"role":"user","content":"hi"}]}}`, "a", openai.Chat, `{"messages":[{"role":"user","content":"hi"}]}`},
		{"batch without id", `{"body":{"prompt":"hi"}}`, "line-1", openai.Completions, `{"prompt":"hi"}`},
		{"batch has no other id", `{"id":7,"body":{"prompt":"hi"}}`, "line-1", openai.Completions, `{"prompt":"hi"}`},
		{"null is absent", `{"custom_id":null,"method":null,"url":null,"body":{"prompt":"hi","temperature":null}}`, "line-1", openai.Completions, `{"prompt":"hi","temperature":null}`},
		{"bare chat", `{"messages":[{"role":"user","content":"hi"}]}`, "line-1", openai.Chat, `{"messages":[{"role":"user","content":"hi"}]}`},
		{"bare completion", `{"prompt":"hi"}`, "line-1", openai.Completions, `{"prompt":"hi"}`},
		{"bare with custom_id", `{"custom_id":"x","prompt":"hi"}`, "x", openai.Completions, `{"custom_id":"x","prompt":"hi"}`},
		{"bare with id", `{"id":"x","prompt":"hi"}`, "x", openai.Completions, `{"id":"x","prompt":"hi"}`},
		{"bare with a number as id", `{"id":17,"prompt":"hi"}`, "17", openai.Completions, `{"id":17,"prompt":"hi"}`},
		{"custom_id goes before id", `{"id":17,"custom_id":"x","prompt":"hi"}`, "x", openai.Completions, `{"id":17,"custom_id":"x","prompt":"hi"}`},
		{"a null body is none", `{"body":null,"id":"x","prompt":"hi"}`, "x", openai.Completions, `{"body":null,"id":"x","prompt":"hi"}`},
		{"null messages are none", `{"messages":null,"prompt":"hi"}`, "line-1", openai.Completions, `{"messages":null,"prompt":"hi"}`},
		{"fields of the row's own", `{"prompt":"hi","answer":"ho","metadata":{"family":"greeting"}}`, "line-1", openai.Completions, `{"prompt":"hi","answer":"ho","metadata":{"family":"greeting"}}`},
		{"data next to a body", `{"family":"greeting","model":"x","body":{"prompt":"hi"}}`, "line-1", openai.Completions, `{"prompt":"hi"}`},
		{"white space around", "  {\"prompt\": \"hi\"}\t", "line-1", openai.Completions, "  {\"prompt\": \"hi\"}\t"},
		{"Windows line end", "{\"prompt\":\"hi\"}\r", "line-1", openai.Completions, `{"prompt":"hi"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			rows := readAll(t, strings.NewReader(c.line+"\n"), FormatAuto)
			require.Len(t, rows, 1)
			require.Nil(t, rows[0].Err)
			require.Equal(t, c.id, rows[0].CustomID)
			require.Equal(t, c.endpoint, rows[0].Endpoint)
			require.Equal(t, c.body, string(rows[0].Body))
		})
	}
}

func TestReaderErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, line, code, message string }{
		{"cut short", `{"prompt":"hi"`, openai.CodeInvalidJSON, `is not valid JSON at byte 15: the text ends where a comma or a closing brace is expected`},
		{"two objects", `{"prompt":"hi"} {}`, openai.CodeInvalidJSON, `is not valid JSON at byte 17: found '{' where the end is expected`},
		{"an array", `["hi"]`, openai.CodeInvalidType, `must be an object, not an array`},
		{"a string", `"hi"`, openai.CodeInvalidType, `must be an object, not a string`},
		{"a number", `12`, openai.CodeInvalidType, `must be an object, not a number`},
		{"null", `null`, openai.CodeInvalidType, `must be an object, not null`},
		{"not JSON", `hello`, openai.CodeInvalidJSON, `is not valid JSON at byte 1: found 'h' where a value is expected`},
		{"not UTF-8 at its start", "\xff{\"prompt\":\"hi\"}", openai.CodeInvalidText, `the row is not UTF-8 at byte 1`},
		{"not UTF-8", "{\"prompt\":\"h\xffi\"}", openai.CodeInvalidText, `the row is not UTF-8 at byte 13`},
		{"nothing to do", `{"custom_id":"a"}`, openai.CodeMissing, `has neither "messages" nor "prompt" nor a "body"`},
		{"an empty body", `{"custom_id":"a","body":{}}`, openai.CodeMissing, `has neither "messages" nor "prompt" in its body`},
		{"both", `{"prompt":"hi","messages":[]}`, openai.CodeInvalidValue, `has both "messages" and "prompt"`},
		{"body's type", `{"custom_id":"a","body":"hi"}`, openai.CodeInvalidType, `"body" must be an object, not a string`},
		{"method", `{"method":"GET","body":{"prompt":"hi"}}`, openai.CodeInvalidValue, `"method" must be "POST", not "GET"`},
		{"method's type", `{"method":1,"body":{"prompt":"hi"}}`, openai.CodeInvalidType, `"method" must be a string, not a number`},
		{"url", `{"url":"/v1/embeddings","body":{"input":"hi"}}`, openai.CodeInvalidValue, `"url" must be "/v1/chat/completions" or "/v1/completions", not "/v1/embeddings"`},
		{"url's type", `{"url":[],"body":{"prompt":"hi"}}`, openai.CodeInvalidType, `"url" must be a string, not an array`},
		{"custom_id's type", `{"custom_id":7,"prompt":"hi"}`, openai.CodeInvalidType, `"custom_id" must be a string, not a number`},
		{"empty custom_id", `{"custom_id":"","prompt":"hi"}`, openai.CodeInvalidValue, `"custom_id" is empty`},
		{"id's type", `{"id":{},"prompt":"hi"}`, openai.CodeInvalidType, `"id" must be a string or a number, not an object`},
		{"id that is no whole number", `{"id":1.5,"prompt":"hi"}`, openai.CodeInvalidType, `"id" must be a string or a whole number, not 1.5`},
		{"body that does not fit its url", `{"url":"/v1/chat/completions","body":{"prompt":"hi"}}`, openai.CodeMissing, `"messages" is missing`},
		{"a field of the body", `{"custom_id":"a","body":{"prompt":"hi","temperature":"0"}}`, openai.CodeInvalidType, `"temperature" must be a number, not a string`},
		{"an unknown field", `{"prompt":"hi","family":"greeting"}`, openai.CodeUnknown, `"family" is unknown: remove it (--unknown-fields ignore accepts unknown fields)`},
		{"an unknown field of the body", `{"body":{"prompt":"hi","family":"greeting"}}`, openai.CodeUnknown, `"family" is unknown: remove it (--unknown-fields ignore accepts unknown fields)`},
		{"a field next to the body", `{"temperature":0,"body":{"prompt":"hi"}}`, openai.CodeUnknown, `"temperature" stands next to "body", where it has no effect: move it into "body"`},
		{"an alias next to the body", `{"n_predict":5,"body":{"prompt":"hi"}}`, openai.CodeUnknown, `"n_predict" stands next to "body", where it has no effect: move it into "body"`},
		{"deep nesting", strings.Repeat(`{"a":`, 20000) + "1" + strings.Repeat("}", 20000), openai.CodeInvalidJSON, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			rows := readAll(t, strings.NewReader(c.line+"\n"), FormatJSONL)
			require.Len(t, rows, 1)
			require.NotNil(t, rows[0].Err)
			require.Equal(t, c.code, rows[0].Err.Code)
			if c.message != "" {
				require.Equal(t, c.message, rows[0].Err.Message)
			}
			require.Empty(t, rows[0].Body)
		})
	}
}

func TestUnknownFieldsCanBeIgnored(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		`{"prompt":"hi","family":"greeting","images":["x"]}`,
		`{"temperature":0,"body":{"prompt":"hi","model":"other"}}`,
	} {
		for ignore, wantErr := range map[bool]bool{true: false, false: true} {
			read, err := readWith(strings.NewReader(line), Options{IgnoreUnknown: ignore, Models: []string{"m"}})
			require.NoError(t, err)
			require.Len(t, read, 1)
			require.Equal(t, wantErr, read[0].Err != nil, line)
		}
	}
	read, err := readWith(strings.NewReader(`{"prompt":"hi","stream":true}`), Options{IgnoreUnknown: true})
	require.NoError(t, err)
	require.Equal(t, openai.CodeUnsupported, read[0].Err.Code, "a known field that is not supported stays an error")
}

func TestRowsNameTheModel(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		model   string
		served  []string
		refused bool
	}{
		{`"glm"`, []string{"glm"}, false},
		{`"glm"`, []string{"glm.gguf", "glm"}, false},
		{`null`, []string{"glm"}, false},
		{`"gpt-4"`, nil, false},
		{`"gpt-4"`, []string{"glm"}, true},
		{`"GLM"`, []string{"glm"}, true},
	} {
		line := `{"prompt":"hi","model":` + c.model + `}`
		read, err := readWith(strings.NewReader(line), Options{Models: c.served})
		require.NoError(t, err)
		if !c.refused {
			require.Nil(t, read[0].Err, line)
			continue
		}
		require.Equal(t, openai.CodeUnknownModel, read[0].Err.Code)
		require.Contains(t, read[0].Err.Message, `use "glm"`)
	}
}

// Rows ends when the context is done, even while a read blocks.
func TestRowsEndWithTheContext(t *testing.T) {
	t.Parallel()
	in, w := io.Pipe()
	defer w.Close()
	go fmt.Fprintln(w, "a") //nolint:errcheck // the test waits for the row
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var got []error
	for row, err := range NewReader(in, Options{Format: FormatText}).Rows(ctx) {
		if err == nil {
			require.Equal(t, 1, row.Line)
			cancel()
		}
		got = append(got, err)
	}
	require.Equal(t, []error{nil, context.Canceled}, got)
}

// counting is a file of a thousand small rows, and counts its reads. The first row can be large.
type counting struct {
	first string
	reads atomic.Int64
}

func (c *counting) Read(p []byte) (n int, err error) {
	if c.reads.Add(1) > 1000 {
		return 0, io.EOF
	}
	if c.first == "" {
		return copy(p, "a\n"), nil
	}
	n = copy(p, c.first)
	c.first = c.first[n:]
	return n, nil
}

// A file is not read any further after its reader has stopped.
func TestRowsThatAreNotReadToTheEnd(t *testing.T) {
	t.Parallel()
	for _, first := range []string{"", strings.Repeat("a", 2*largeLine) + "\n"} {
		synctest.Test(t, func(t *testing.T) {
			in := &counting{first: first}
			for _, err := range NewReader(in, Options{Format: FormatText}).Rows(t.Context()) {
				require.NoError(t, err)
				synctest.Wait() // the next row is read already, unless this one is large
				break
			}
			before := in.reads.Load()
			synctest.Wait()
			require.Equal(t, before, in.reads.Load())
		})
	}
}

func TestReaderCountsEmptyLines(t *testing.T) {
	t.Parallel()
	rows := readAll(t, strings.NewReader("\na\n\n  \nb\n"), FormatText)
	require.Len(t, rows, 2)
	require.Equal(t, 2, rows[0].Line)
	require.Equal(t, "line-5", rows[1].CustomID)
}

func TestReaderAcceptsAnIDOnce(t *testing.T) {
	t.Parallel()
	input := `{"custom_id":"a","prompt":"1"}
{"custom_id":"b","prompt":"2"}
{"id":"a","prompt":"3"}
{"custom_id":"b","prompt":4}
{"prompt":"5"}
{"prompt":"6"}
`
	var codes []string
	for _, row := range readAll(t, strings.NewReader(input), FormatAuto) {
		if row.Err == nil {
			codes = append(codes, "")
			continue
		}
		codes = append(codes, row.Err.Code)
	}
	require.Equal(t, []string{"", "", openai.CodeDuplicateID, openai.CodeDuplicateID, "", ""}, codes)
}

// endless is a reader of n equal bytes.
type endless struct {
	b byte
	n int
}

func (e *endless) Read(p []byte) (int, error) {
	if e.n == 0 {
		return 0, io.EOF
	}
	n := min(len(p), e.n)
	for i := range n {
		p[i] = e.b
	}
	e.n -= n
	return n, nil
}

func TestReaderDoesNotHoldALineThatIsTooLong(t *testing.T) {
	t.Parallel()
	for _, b := range []byte{'a', ' ', '{'} {
		input := io.MultiReader(&endless{b, 5 * MaxLine}, strings.NewReader("\n{\"prompt\":\"a\"}\n"))
		reader := NewReader(input, Options{})
		row, err := reader.Next()
		require.NoError(t, err)
		require.Equal(t, &openai.Error{Code: openai.CodeTooLong, Message: "the row is longer than 16 MiB"}, row.Err)
		require.LessOrEqual(t, cap(reader.buf), 2*MaxLine)
		row, err = reader.Next()
		require.NoError(t, err)
		require.Equal(t, 2, row.Line)
	}
}

func TestReaderReturnsReadErrors(t *testing.T) {
	t.Parallel()
	broken := errors.New("disk on fire")
	rows, err := readRows(io.MultiReader(strings.NewReader("a\nb"), iotest.ErrReader(broken)), FormatText)
	require.Len(t, rows, 1, "an incomplete line is not a row")
	require.ErrorIs(t, err, broken)
	require.ErrorContains(t, err, "line 2")
}

// Rows and their checksums do not depend on how many bytes each read returns.
func TestRowsDoNotDependOnHowTheyAreRead(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		lines := rapid.SliceOfN(rapid.SampledFrom([]string{"", "a", "b\r", "{\"prompt\":\"c\"}", strings.Repeat("x", 64<<10) + "\r", "\r\r"}), 0, 6).Draw(t, "lines")
		input := strings.Join(lines, "\n")
		want, wantErr := readRows(strings.NewReader(input), FormatAuto)
		got, gotErr := readRows(iotest.HalfReader(strings.NewReader(input)), FormatAuto)
		require.Equal(t, wantErr, gotErr)
		require.Equal(t, want, got)
		n, err := Count(strings.NewReader(input), FormatAuto)
		require.NoError(t, err)
		require.Len(t, want, n)
	})
}

// failingReader returns a row, and an error at each later call.
type failingReader struct {
	reads int
	err   error
}

func (r *failingReader) Read(p []byte) (int, error) {
	if r.reads++; r.reads == 1 {
		return copy(p, "{\"prompt\":\"a\"}\n"), nil
	}
	return 0, r.err
}

// After an error, nothing more is read.
func TestRowsEndAtAnError(t *testing.T) {
	t.Parallel()
	for _, fault := range []error{io.EOF, io.ErrNoProgress} {
		synctest.Test(t, func(t *testing.T) {
			in := &failingReader{err: fault}
			var failed error
			n := 0
			for _, err := range NewReader(in, Options{}).Rows(t.Context()) {
				n, failed = n+1, err
			}
			synctest.Wait()
			require.Equal(t, 2, in.reads)
			if errors.Is(fault, io.EOF) {
				require.NoError(t, failed)
				require.Equal(t, 1, n)
			} else {
				require.ErrorIs(t, failed, fault)
				require.Equal(t, 2, n)
			}
		})
	}
}
