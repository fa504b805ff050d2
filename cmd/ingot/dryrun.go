package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/ingot-run/ingot/config"
	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/enqueue"
	"github.com/ingot-run/ingot/files/rows"
	"github.com/ingot-run/ingot/openai"
)

// dryLine is a line that --dry-run prints: a request as a line of OpenAI's Batch API, with the number of its prompt tokens. The output can be
// used as input.
type dryLine struct {
	CustomID     string          `json:"custom_id"`
	Method       string          `json:"method,omitempty"`
	URL          openai.Endpoint `json:"url,omitempty"`
	Body         json.RawMessage `json:"body,omitempty"`
	Error        *openai.Error   `json:"error,omitempty"`
	PromptTokens int             `json:"prompt_tokens,omitempty"`
}

// dryRun prints the requests of an input as JSON Lines. With a model, it counts the tokens of their prompts.
func dryRun(cmd *cobra.Command, from *inputFlags, paths []string, unknown string) (err error) {
	ignore, err := ignoresUnknown(unknown)
	if err != nil {
		return err
	}
	in, err := from.open(cmd, paths)
	if err != nil {
		return err
	}
	defer in.Close() //nolint:errcheck // the file was only read
	count, closeModel, err := promptCounter(cmd)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeModel()) }()
	models, alias, err := dryModels(cmd, ignore)
	if err != nil {
		return err
	}
	out := json.NewEncoder(cmd.OutOrStdout())
	out.SetEscapeHTML(false)
	for row, err := range rows.NewReader(in, rows.Options{Format: in.format, IgnoreUnknown: ignore}).Rows(cmd.Context()) {
		if err != nil {
			return err
		}
		line := dryLine{CustomID: row.CustomID, Method: "POST", URL: row.Endpoint, Body: row.Body}
		if row.Err == nil && models != nil {
			_, row.Err = models.Of(row)
		}
		if row.Err == nil {
			line.PromptTokens, row.Err = count(cmd, row)
		}
		if row.Err != nil {
			line = dryLine{CustomID: row.CustomID, Error: row.Err}
			line.Error.Message = fmt.Sprintf("line %d: %s", row.Line, line.Error.Message)
		}
		if err := out.Encode(line); err != nil {
			return err
		}
	}
	if models != nil {
		printModels(cmd, alias, models.Rows())
	}
	return nil
}

// dryModels returns what a dry run needs to count rows by model name. models is the rule by which enqueue would choose the model name of
// each row, and alias is the name for rows that name no model. Both are empty for "ingot run", and if the models that rows name are
// ignored.
func dryModels(cmd *cobra.Command, ignore bool) (models *enqueue.Models, alias string, err error) {
	if ignore || cmd.Flags().Lookup(string(config.ModelName)) == nil {
		return nil, "", nil
	}
	cfg, err := settings(cmd)
	if err != nil {
		return nil, "", err
	}
	return enqueue.NewModels(cfg.ModelName), cfg.ModelName, nil
}

// promptCounter returns a function that counts the tokens of a row's prompts. Without a model, the function returns 0.
func promptCounter(cmd *cobra.Command) (count func(*cobra.Command, rows.Row) (int, *openai.Error), closeModel func() error, err error) {
	none := func(*cobra.Command, rows.Row) (int, *openai.Error) { return 0, nil }
	if cmd.Flags().Lookup(string(config.Model)) == nil { // enqueue has no flag --model
		return none, func() error { return nil }, nil
	}
	cfg, err := settings(cmd)
	if err != nil || cfg.Model == "" {
		return none, func() error { return nil }, err
	}
	models, err := runModels(cfg.Model)
	if err != nil {
		return nil, nil, err
	}
	l := newLaunch(cfg, io.Discard)
	eng, err := l.engine(models[0].file, engineOptions(cfg))
	if err != nil {
		return nil, nil, err
	}
	return func(cmd *cobra.Command, row rows.Row) (int, *openai.Error) { return promptTokens(cmd, eng, row) }, eng.Close, nil
}

func promptTokens(cmd *cobra.Command, eng *engine.Engine, row rows.Row) (int, *openai.Error) {
	request, err := openai.ParseRequest(row.Endpoint, row.Body)
	if err != nil {
		return 0, openai.AsError(err)
	}
	n := 0
	for i := range request.NumPrompts() {
		ids, err := eng.Prompt(cmd.Context(), request.Generation(i, 0, time.Now()))
		if err != nil {
			return 0, &openai.Error{Code: openai.CodeBadRequest, Message: err.Error()}
		}
		n += len(ids)
	}
	return n, nil
}
