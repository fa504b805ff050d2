package local

import (
	"context"
	"time"

	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/files/rows"
	"github.com/ingot-run/ingot/openai"
)

// PromptTokens returns the number of tokens of a row's prompts, or why the engine cannot answer the
// row.
func PromptTokens(ctx context.Context, eng *engine.Engine, row rows.Row) (int, *openai.Error) {
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
