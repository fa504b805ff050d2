package queue

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/ingot-run/ingot/openai"
)

// RowError is the error of a failed row, read from the row's output line.
type RowError struct {
	Line     int    `json:"line"` // line number in the input
	CustomID string `json:"custom_id"`
	Code     string `json:"code"`
	Message  string `json:"message"` // without the line number

	ID  string `json:"-"` // id of the row's entry in the batch's stream
	Sum string `json:"-"` // checksum of the input line
}

const (
	// scannedAtOnce is the maximum number of recordings that Errors reads at a time.
	scannedAtOnce = 1000
	// maxErrorBytes is the maximum total size, in bytes, of the error lines that one Read returns.
	maxErrorBytes = 4 << 20
)

// Errors passes every error line of a batch to the function each, in the order of recording. It
// leaves out error lines that Store.Discard has deleted. If the function returns an error, Errors
// stops and returns this error.
func Errors(ctx context.Context, s Store, batch string, each func(RowError) error) error {
	isFailed := func(r Recording) bool { return r.Failed }
	for after := ""; ; {
		page, err := s.Read(ctx, batch, Page{After: after, Count: scannedAtOnce, MaxBytes: maxErrorBytes, Want: isFailed})
		if err != nil || len(page) == 0 {
			return err
		}
		for _, r := range page {
			if !r.Failed || r.Text == nil {
				continue
			}
			e, err := rowError(r)
			if err != nil {
				return fmt.Errorf("read results of batch %s: %w", batch, err)
			}
			if err := each(e); err != nil {
				return err
			}
		}
		after = page[len(page)-1].ID
	}
}

func rowError(r Recording) (RowError, error) {
	var l struct {
		CustomID string        `json:"custom_id"`
		Error    *openai.Error `json:"error"`
	}
	if err := json.Unmarshal(r.Text, &l); err != nil || l.Error == nil {
		return RowError{}, fmt.Errorf("line %d is recorded as failed, but its result is not an error line", r.Line)
	}
	return RowError{
		Line: r.Line, CustomID: l.CustomID, Code: l.Error.Code, ID: r.ID, Sum: r.Sum,
		Message: strings.TrimPrefix(l.Error.Message, fmt.Sprintf("line %d: ", r.Line)),
	}, nil
}
