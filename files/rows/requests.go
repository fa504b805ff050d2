package rows

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/ingot-run/ingot/openai"
)

// request is a request as a line of OpenAI's Batch API, with the number of its prompt tokens.
type request struct {
	CustomID     string          `json:"custom_id"`
	Method       string          `json:"method,omitempty"`
	URL          openai.Endpoint `json:"url,omitempty"`
	Body         json.RawMessage `json:"body,omitempty"`
	PromptTokens int             `json:"prompt_tokens,omitempty"`
}

// WriteRequests writes the requests of rows as JSON Lines, which can be the input of another
// command. check returns the number of a request's prompt tokens if it is known, or why the request
// cannot be answered. onRefused is called with the reason why a row is no request. failed counts
// these rows among the total.
func WriteRequests(ctx context.Context, w io.Writer, r *Reader, check func(Row) (int, *openai.Error), onRefused func(reason string)) (failed, total int, err error) {
	out := json.NewEncoder(w)
	out.SetEscapeHTML(false)
	for row, err := range r.Rows(ctx) {
		if err != nil {
			return failed, total, err
		}
		total++
		line := request{CustomID: row.CustomID, Method: "POST", URL: row.Endpoint, Body: row.Body}
		if row.Err == nil {
			line.PromptTokens, row.Err = check(row)
		}
		if row.Err != nil {
			failed++
			onRefused(fmt.Sprintf("line %d: %s: %s", row.Line, row.Err.Code, row.Err.Message))
			continue
		}
		if err := out.Encode(line); err != nil {
			return failed, total, err
		}
	}
	return failed, total, nil
}
