package rows

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/openai"
)

func TestResultsAreChecked(t *testing.T) {
	t.Parallel()
	const sum = "00000002"
	for _, r := range []result{answer(2), failure(2)} {
		failed, err := CheckResult(r.text, "b", 2, sum)
		require.NoError(t, err)
		require.Equal(t, r.failed, failed)
	}
	good := string(answer(2).text)
	for name, c := range map[string]struct{ text, want string }{
		"empty":            {"", "not a JSON object"},
		"text":             {"hello", "not a JSON object"},
		"null":             {"null", "its id is"},
		"two lines":        {good + "\n" + good, "more than one line"},
		"a line's end":     {good + "\n", "more than one line"},
		"escapes":          {strings.Replace(good, `"x"`, "\"\x1b[31m\"", 1), "not a JSON object"},
		"not UTF-8":        {strings.Replace(good, `"x"`, "\"\xff\"", 1), "not UTF-8"},
		"another batch":    {strings.Replace(good, "req_b", "req_c", 1), `its id is "batch_req_c-2-00000002", not "batch_req_b-2-00000002"`},
		"another line":     {string(answer(3).text), "its id is"},
		"another checksum": {strings.Replace(good, sum, "00000003", 1), "its id is"},
		"no outcome":       {`{"id":"batch_req_b-2-00000002"}`, "must have either an answer or an error"},
		"both outcomes":    {`{"id":"batch_req_b-2-00000002","response":{},"error":{"code":"x"}}`, "must have either an answer or an error"},
		"too long":         {`{"id":"` + strings.Repeat("x", openai.MaxOutputLine), "bytes, which is more than"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			failed, err := CheckResult([]byte(c.text), "b", 2, sum)
			require.ErrorContains(t, err, c.want)
			require.False(t, failed)
		})
	}
}

// The longest result has one byte less than a line, which has a line end too.
func TestTheLongestResult(t *testing.T) {
	t.Parallel()
	text := make([]byte, openai.MaxOutputLine)
	text[0], text[1] = '\n', '\n'
	_, err := CheckResult(text, "b", 2, "00000002")
	require.ErrorContains(t, err, "it has 67108864 bytes, which is more than 67108863")
	_, err = CheckResult(text[1:], "b", 2, "00000002")
	require.ErrorContains(t, err, "it has more than one line")
}

// A line of text can be longer as JSON than a request body may be.
func TestALineOfTextThatIsTooLongAsJSON(t *testing.T) {
	t.Parallel()
	row := readAll(t, strings.NewReader(strings.Repeat("\x01", openai.MaxBody/6)), FormatText)[0]
	require.Equal(t, openai.CodeTooLong, row.Err.Code)
	row = readAll(t, strings.NewReader(strings.Repeat("\x01", openai.MaxBody/7)), FormatText)[0]
	require.Nil(t, row.Err)
}
