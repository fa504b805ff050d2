package batch

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/files/rows"
	"github.com/ingot-run/ingot/openai"
	"github.com/ingot-run/ingot/queue"
)

// Every row of a batch that has ended is in one of its files, with the response that it would have
// got, or with why it was not run.
func TestFilesOfAnEndedBatch(t *testing.T) {
	t.Parallel()
	for status, notRunCode := range map[Status]string{Expired: "batch_expired", Cancelled: "batch_cancelled", Failed: "batch_failed", Completed: "result_lost"} {
		t.Run(string(status), func(t *testing.T) {
			t.Parallel()
			s := openStore(t)
			var input strings.Builder
			for i := range 6 {
				fmt.Fprintf(&input, `{"custom_id":"row-%d","method":"POST","url":"/v1/completions","body":{"model":"m","prompt":"a"}}`+"\n", i+1)
			}
			made, err := s.CreateBatch(Request{InputFileID: addInput(t, s, input.String()).ID, Endpoint: openai.Completions})
			require.NoError(t, err)
			b, err := s.find(made.ID)
			require.NoError(t, err)
			require.NoError(t, s.change(b, func(r *record) {
				r.Batch.RequestCounts.Total, r.Ending = 6, &ending{Status: status, OutputFile: s.newID(filePrefix), ErrorFile: s.newID(filePrefix)}
			}))
			out, err := rows.OpenOutput(s.resultsPath(made.ID), made.ID)
			require.NoError(t, err)
			answer := func(line, prompt, cached, completion, reasoning int) {
				j := &queue.Job{Batch: made.ID, Line: line, Sum: "00000000", CustomID: rows.DefaultID(line)}
				text := fmt.Sprintf(`{"id":%q,"custom_id":"row-%d","response":{"status_code":200,"body":{"usage":{"prompt_tokens":%d,"completion_tokens":%d,"prompt_tokens_details":{"cached_tokens":%d},`+
					`"completion_tokens_details":{"reasoning_tokens":%d}}}},"error":null}`, openai.ResultID(made.ID, line, j.Sum), line, prompt, completion, cached, reasoning)
				require.NoError(t, out.Write(line, []byte(text), false))
			}
			fail := func(line int, code string) {
				j := &queue.Job{Batch: made.ID, Line: line, Sum: "00000000", CustomID: fmt.Sprint("row-", line)}
				require.NoError(t, out.Write(line, queue.Failure(j, openai.Error{Code: code, Message: "x"}, queue.Stats{}).Text, true))
			}
			answer(1, 1, 20, 300, 4000)
			fail(3, openai.CodeTimeout)
			answer(2, 2, 30, 400, 5000)
			fail(4, openai.CodeExpired)
			fail(5, openai.CodeBadRequest)
			require.NoError(t, out.Close())

			f, err := s.newFiles(b.state())
			require.NoError(t, err)
			defer f.discard()
			require.NoError(t, f.write(t.Context()))
			require.Equal(t, []int{2, 4}, []int{f.output.lines, f.errors.lines})
			require.Equal(t, []int{3, 50, 700, 9000, 703}, []int{f.usage.InputTokens, f.usage.InputDetails.CachedTokens, f.usage.OutputTokens, f.usage.OutputDetails.ReasoningTokens, f.usage.TotalTokens})
			id, err := f.publish(&f.errors, b.state().Ending.ErrorFile, "error")
			require.NoError(t, err)
			file, err := s.File(*id)
			require.NoError(t, err)
			require.Equal(t, []string{made.ID + "_error.jsonl", PurposeOutput}, []string{file.Filename, file.Purpose})
			text, err := os.ReadFile(s.contentPath(*id))
			require.NoError(t, err)
			require.EqualValues(t, len(text), file.Bytes)
			type line struct {
				CustomID string `json:"custom_id"`
				Response *struct {
					Status    int    `json:"status_code"`
					RequestID string `json:"request_id"`
				} `json:"response"`
				Error *openai.Error              `json:"error"`
				Stats map[string]json.RawMessage `json:"stats"`
			}
			got := map[string]string{}
			for l := range strings.Lines(string(text)) {
				var one line
				require.NoError(t, json.Unmarshal([]byte(l), &one))
				require.Equal(t, one.CustomID != "row-6", one.Stats["attempts"] != nil, "the statistics of rows that ran")
				if one.Error != nil {
					require.Nil(t, one.Response)
					got[one.CustomID] = one.Error.Code
				} else {
					got[one.CustomID] = fmt.Sprint(one.Response.Status, " ", strings.TrimPrefix(one.Response.RequestID, made.ID))
				}
			}
			require.Equal(t, map[string]string{"row-3": "500 :3", "row-4": "batch_expired", "row-5": "400 :5", "row-6": notRunCode}, got)
		})
	}
	for code, status := range map[string]int{
		openai.CodeTimeout: 500, openai.CodeFailed: 500, openai.CodeTooLarge: 500, openai.CodeAbandoned: 500, openai.CodeBadRequest: 400, openai.CodeContext: 400, openai.CodeUnknownModel: 404,
	} {
		got, body := response(&openai.Error{Code: code, Message: "x"})
		require.Equal(t, status, got, code)
		kind := body.(openai.ErrorBody).Error.Type
		require.Equal(t, status == http.StatusInternalServerError, kind == openai.TypeServer, code)
	}
}

// The times to live of files have limits and one anchor.
func TestExpiryOfFiles(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		anchor, seconds string
		want            time.Duration
		param           string // of the error
	}{
		{"", "", 0, ""}, {"created_at", "3600", time.Hour, ""}, {"created_at", "2592000", 720 * time.Hour, ""}, {"created_at", "1", time.Second, ""},
		{"created_at", "2592001", 0, "p[seconds]"}, {"created_at", "0", 0, "p[seconds]"}, {"created_at", "", 0, "p[seconds]"}, {"created_at", "soon", 0, "p[seconds]"},
		{"", "3600", 0, "p[anchor]"}, {"now", "3600", 0, "p[anchor]"},
	} {
		d, err := ParseExpiry("p", c.anchor, c.seconds)
		require.Equal(t, c.want, d, "%+v", c)
		var refused *RequestError
		if c.param == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorAs(t, err, &refused)
		require.Equal(t, c.param, refused.Param)
	}
	for d, valid := range map[time.Duration]bool{0: true, time.Hour: true, time.Hour - 1: false, MaxExpiry: true, MaxExpiry + 1: false, -1: false} {
		require.Equal(t, valid, checkExpiry("p", d) == nil, d)
	}
	f := File{ExpiresAt: new(int64(100))}
	require.Equal(t, []bool{false, true, true}, []bool{f.expired(time.Unix(99, 0)), f.expired(time.Unix(100, 0)), f.expired(time.Unix(101, 0))})
	require.False(t, File{}.expired(time.Unix(1<<40, 0)))
}

// All lines name one model, which the server has and the key may use.
func TestModelsOfLines(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		v     validation
		names []string // of successive lines
		codes []string // of their faults; empty for none
	}{
		"one model":               {validation{models: []string{"m"}}, []string{"m", "", "m"}, []string{"", "", ""}},
		"another than the first":  {validation{models: []string{"m", "n"}}, []string{"m", "n", "m"}, []string{"", codeModelMismatch, ""}},
		"none of several":         {validation{models: []string{"m", "n"}}, []string{"", "m"}, []string{openai.CodeMissing, ""}},
		"not on the server":       {validation{models: []string{"m", "n"}}, []string{"x", "n"}, []string{openai.CodeUnknownModel, ""}},
		"not allowed":             {validation{models: []string{"m", "n"}, allowed: []string{"n"}}, []string{"m", "n"}, []string{openai.CodeUnknownModel, ""}},
		"nothing allowed":         {validation{models: []string{"m"}, allowed: []string{}}, []string{"m"}, []string{openai.CodeUnknownModel}},
		"any model":               {validation{}, []string{"x", "x"}, []string{"", ""}},
		"any model, but no alias": {validation{}, []string{"a:b"}, []string{openai.CodeUnknownModel}},
	} {
		for i, model := range c.names {
			code := ""
			if err := c.v.checkModel(model); err != nil {
				code = err.Code
				require.Equal(t, "body.model", err.Param)
				require.Contains(t, err.Message, `"body.model" is `)
			}
			require.Equal(t, c.codes[i], code, "%s: line %d", name, i+1)
		}
	}
	for text, want := range map[string]bool{"{}": true, "[]": false, "": false, "{": false, "5": false} {
		require.Equal(t, want, isObject([]byte(text)), text)
	}
}

// An upload becomes a file if its first line is an object, or too long to be read here.
func TestFirstLinesOfUploads(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, code string }{
		"an object": {"\n{}\nnonsense", ""}, "a very long line": {strings.Repeat("x", rows.MaxLine+1) + "\n", ""}, "no lines": {"\r\n", codeEmptyFile}, "an array": {"[1]\n", codeInvalidLine}, "text": {"a\n{}", codeInvalidLine},
	} {
		path := filepath.Join(t.TempDir(), "a")
		require.NoError(t, os.WriteFile(path, []byte(c.text), 0o600))
		f, err := os.Open(path)
		require.NoError(t, err)
		_, err = f.Seek(0, 2)
		require.NoError(t, err)
		err = checkFirstLine(f)
		require.NoError(t, f.Close())
		if c.code == "" {
			require.NoError(t, err, name)
			continue
		}
		var refused *RequestError
		require.ErrorAs(t, err, &refused, name)
		require.Equal(t, c.code, refused.Code, name)
	}
}
