package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/ingot-run/ingot/config"
	"github.com/ingot-run/ingot/config/launch"
	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/internal/textfmt"
	"github.com/ingot-run/ingot/openai"
)

// The question that a model is asked: as a chat, or as a text to continue if the model has no chat
// template. Any model that was trained on text can answer it in a few tokens.
const (
	question  = "What is the capital of France?"
	beginning = "The capital of France is"
)

// maxAnswer is the maximum number of tokens of the answer.
const maxAnswer = 32

// Answer is a model's answer to one question, without randomness.
type Answer struct {
	Question        string  `json:"question"` // the message of a chat or, without a chat template, the beginning of a text
	Chat            bool    `json:"chat"`     // the model's file has a chat template
	Text            string  `json:"text"`     // on one line; the model's reasoning if it has not got any further
	Error           string  `json:"error,omitempty"`
	LoadSeconds     float64 `json:"load_seconds"`
	Seconds         float64 `json:"seconds"` // for the prompt and the answer
	Tokens          int     `json:"tokens"`  // of the answer
	TokensPerSecond float64 `json:"tokens_per_second"`
	Cut             bool    `json:"cut"` // the answer ended at the maximum number of tokens
}

// ask loads the model and lets it answer the question. It closes the chosen backend.
func (d *Diagnosis) ask(ctx context.Context, cfg *config.Config) (err error) {
	a := &Answer{}
	d.Answer = a
	defer func() {
		if err != nil {
			a.Error = textfmt.OneLine(err.Error())
		}
	}()
	opts := launch.EngineOptions(cfg)
	if opts.DraftModel != "" {
		if opts.DraftModel, err = launch.ModelFile(opts.DraftModel); err != nil {
			return err
		}
	}
	be := d.opened
	d.opened = nil // the engine closes it
	start := time.Now()
	eng, err := engine.Open(d.Model.Path, be, opts)
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := eng.Close(); err == nil {
			err = closeErr
		}
	}()
	a.LoadSeconds = time.Since(start).Seconds()
	if err := a.generate(ctx, eng); err != nil {
		return fmt.Errorf("answer a question with %s: %w", d.Model.Path, err)
	}
	return nil
}

func (a *Answer) generate(ctx context.Context, eng *engine.Engine) error {
	a.Question, a.Chat = beginning, eng.Info().Chat
	endpoint, body := openai.Completions, map[string]any{"prompt": beginning}
	if a.Chat {
		a.Question = question
		endpoint, body = openai.Chat, map[string]any{
			"messages": []map[string]string{{"role": "user", "content": question}}, "chat_template_kwargs": map[string]bool{"enable_thinking": false},
		}
	}
	body["temperature"], body["max_tokens"] = 0, maxAnswer
	raw, err := json.Marshal(body)
	if err != nil {
		return err
	}
	request, err := openai.ParseRequest(endpoint, raw)
	if err != nil {
		return err
	}
	done, err := eng.Generate(ctx, request.Generation(0, 0, time.Now()))
	if err != nil {
		return err
	}
	choice, stats := done.Choices[0], done.Stats
	a.Text = strings.TrimSpace(textfmt.OneLine(choice.Text))
	if a.Text == "" {
		a.Text = strings.TrimSpace(textfmt.OneLine(choice.Reasoning))
	}
	a.Cut = string(choice.FinishReason) == "length"
	a.Seconds, a.Tokens = stats.Total.Seconds(), stats.CompletionTokens
	if stats.Decode > 0 {
		a.TokensPerSecond = float64(stats.CompletionTokens-1) / stats.Decode.Seconds()
	}
	return nil
}
