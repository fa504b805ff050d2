package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/files/prompt"
	"github.com/ingot-run/ingot/files/rows"
	"github.com/ingot-run/ingot/internal/textfmt"
	"github.com/ingot-run/ingot/openai"
)

// dryLine is a line that --dry-run prints: a request as a line of OpenAI's Batch API, with the
// number of its prompt tokens. The output can be used as input.
type dryLine struct {
	CustomID     string          `json:"custom_id"`
	Method       string          `json:"method,omitempty"`
	URL          openai.Endpoint `json:"url,omitempty"`
	Body         json.RawMessage `json:"body,omitempty"`
	PromptTokens int             `json:"prompt_tokens,omitempty"`
}

// printRequests prints the requests of an input as JSON Lines to stdout, and to stderr why rows are
// none. It fails if most rows are none. check returns the number of a request's prompt tokens if it
// is known, or why the request cannot be answered.
func printRequests(cmd *cobra.Command, in *prompt.Input, ignoreUnknown bool, check func(rows.Row) (int, *openai.Error)) error {
	out := json.NewEncoder(cmd.OutOrStdout())
	out.SetEscapeHTML(false)
	total, failed := 0, 0
	for row, err := range rows.NewReader(in, rows.Options{Format: in.Format, IgnoreUnknown: ignoreUnknown}).Rows(cmd.Context()) {
		if err != nil {
			return err
		}
		total++
		line := dryLine{CustomID: row.CustomID, Method: "POST", URL: row.Endpoint, Body: row.Body}
		if row.Err == nil {
			line.PromptTokens, row.Err = check(row)
		}
		if row.Err != nil {
			failed++
			cmd.PrintErrln(textfmt.Printable(fmt.Sprintf("line %d: %s: %s", row.Line, row.Err.Code, row.Err.Message)))
			continue
		}
		if err := out.Encode(line); err != nil {
			return err
		}
	}
	return failLimit{}.check(failed, total)
}

func promptTokens(ctx context.Context, eng *engine.Engine, row rows.Row) (int, *openai.Error) {
	request, err := openai.ParseRequest(row.Endpoint, row.Body)
	if err != nil {
		return 0, openai.AsError(err)
	}
	n := 0
	for i := range request.NumPrompts() {
		ids, err := eng.Prompt(ctx, request.Generation(i, 0, time.Now()))
		if err != nil {
			return 0, &openai.Error{Code: openai.CodeBadRequest, Message: err.Error()}
		}
		n += len(ids)
	}
	return n, nil
}
