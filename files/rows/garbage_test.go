package rows

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ingot-run/ingot/openai"
	"github.com/ingot-run/ingot/queue"
)

// checkRows reads a file of arbitrary bytes and checks that each line becomes a usable row, or an
// error that names the line.
func checkRows(t require.TestingT, input []byte, f Format) {
	rows, err := readRows(bytes.NewReader(input), f)
	if err != nil {
		require.Empty(t, rows, "a refused file has no rows")
		return
	}
	last := 0
	for _, row := range rows {
		require.Greater(t, row.Line, last)
		last = row.Line
		require.NotEmpty(t, row.CustomID)
		if row.Err == nil {
			_, err := openai.ParseRequest(row.Endpoint, row.Body)
			require.NoError(t, err)
			require.True(t, json.Valid(row.Body))
			continue
		}
		require.NotEmpty(t, row.Err.Code)
		result := queue.Failure(&queue.Job{Batch: "b", Line: row.Line, Sum: row.Sum, CustomID: row.CustomID}, *row.Err, queue.Stats{})
		var line queue.Line
		require.NoError(t, json.Unmarshal(result.Text, &line))
		require.True(t, strings.HasPrefix(line.Error.Message, fmt.Sprintf("line %d: ", row.Line)), line.Error.Message)
		require.Equal(t, row.Err.Code, line.Error.Code)
		require.NotContains(t, string(result.Text), "\n")
	}
}

func TestGarbageBecomesErrorsThatNameTheLine(t *testing.T) {
	t.Parallel()
	words := []string{
		"{", "}", "[", "]", ":", ",", `"`, "\n", " ", "null", "true", "1", "-1.5e9", "\xff", "\u2028", `\u0000`, `\ud800`,
		`"prompt"`, `"messages"`, `"body"`, `"custom_id"`, `"id"`, `"url"`, `"/v1/completions"`, `"role"`, `"content"`,
		`"user"`, `"logit_bias"`, `"stop"`, `"n"`, `"tools"`, `{"prompt":"a"`, `{"messages":[{"role":"user","content":`,
	}
	rapid.Check(t, func(t *rapid.T) {
		input := strings.Join(rapid.SliceOf(rapid.SampledFrom(words)).Draw(t, "words"), "")
		format := rapid.SampledFrom([]Format{FormatJSONL, FormatText, FormatAuto}).Draw(t, "format")
		checkRows(t, []byte(input), format)
	})
}

func FuzzRow(f *testing.F) {
	f.Add([]byte(`{"custom_id":"a","method":"POST","url":"/v1/chat/completions","body":{"messages":[{"role":"user","content":"hi"}],"temperature":0.5,"stop":["a","b"]}}`))
	f.Add([]byte(`{"custom_id":"a","body":{"prompt":[[1,2],[3]],"logprobs":5,"echo":true,"max_tokens":0,"logit_bias":{"5":-100}}}`))
	f.Add([]byte(`{"id":7,"messages":[{"role":"assistant","content":null,"tool_calls":[{"function":{"name":"f","arguments":"{\"a\":1}"}}]}],"tools":[{}],"tool_choice":"none"}`))
	f.Add([]byte(`{"messages":[{"role":"user","content":[{"type":"text","text":"a"}]}],"chat_template_kwargs":{"enable_thinking":false},"seed":-1,"n":3}`))
	f.Add([]byte("plain text\nand more\n"))
	f.Fuzz(func(t *testing.T, input []byte) {
		checkRows(t, input, FormatAuto)
		for _, format := range []Format{FormatJSONL, FormatText} {
			checkRows(t, input, format)
		}
	})
}
