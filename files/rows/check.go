package rows

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/ingot-run/ingot/openai"
)

// CheckResult returns an error unless text is a valid result of a row: one line of JSON that has
// the id of the row's result, and either an answer or an error. sum is the row's checksum, as in
// Row. failed reports whether the result is an error. The error's text calls the result "it", so
// the caller must name the result before.
func CheckResult(text []byte, batch string, line int, sum string) (failed bool, err error) {
	if len(text) >= openai.MaxOutputLine {
		return false, fmt.Errorf("it has %d bytes, which is more than %d", len(text), openai.MaxOutputLine-1)
	}
	if bytes.ContainsAny(text, "\r\n") {
		return false, errors.New("it has more than one line")
	}
	if !utf8.Valid(text) {
		return false, errors.New("it is not UTF-8")
	}
	var l struct {
		ID       string           `json:"id"`
		Response *json.RawMessage `json:"response"`
		Error    *openai.Error    `json:"error"`
	}
	if err := json.Unmarshal(text, &l); err != nil {
		return false, fmt.Errorf("it is not a JSON object: %w", err)
	}
	if want := openai.ResultID(batch, line, sum); l.ID != want {
		return false, fmt.Errorf("its id is %.200q, not %q", l.ID, want)
	}
	if (l.Response == nil) == (l.Error == nil) {
		return false, errors.New("it must have either an answer or an error")
	}
	return l.Error != nil, nil
}
