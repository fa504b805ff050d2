package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/ingot-run/ingot/openai"
)

// ErrNoEcho means that a server does not return the log-probabilities of a prompt's tokens for
// completions with echo and logprobs.
var ErrNoEcho = errors.New("the server does not return the log-probabilities of a prompt (completions with echo and logprobs)")

// ErrWrongEcho means that the log-probabilities that a server returns for a prompt are not those of
// its model.
var ErrWrongEcho = errors.New("the server's log-probabilities of a prompt are wrong")

const probe = "The capital of Finland is Helsinki, and the capital of France is"

// maxEchoGap is the largest accepted difference between a token's log-probability when the token is
// generated and when it is part of a prompt. Servers compute the two in different batches and in 16
// bits.
const maxEchoGap = 0.25

type completion struct {
	Text     string `json:"text"`
	Logprobs *struct {
		Tokens   []string             `json:"tokens"`
		Logprobs []*float64           `json:"token_logprobs"`
		Top      []map[string]float64 `json:"top_logprobs"`
	} `json:"logprobs"`
}

// CheckEcho checks that the server returns the log-probabilities of a prompt's tokens, and that
// they are right: a generated token must have the same log-probability when it is sent as the end
// of the prompt. With wrong values, scores of texts would be meaningless. The error is ErrNoEcho,
// ErrWrongEcho, or an error of the request.
func (c *Client) CheckEcho(ctx context.Context) error {
	first, err := c.echo(ctx, probe)
	if err != nil {
		return err
	}
	n := len(first.Logprobs.Tokens) - 1
	token, generated := first.Logprobs.Tokens[n], *first.Logprobs.Logprobs[n]
	if token == "" || !strings.HasSuffix(first.Text, token) {
		return nil // nothing to compare: the model ended the text, or the token is a part of a character
	}
	second, err := c.echo(ctx, probe+token)
	if err != nil {
		return err
	}
	if len(second.Logprobs.Tokens) != n+2 || second.Logprobs.Tokens[n] != token {
		return nil // nothing to compare: as part of the prompt, the text is split into other tokens
	}
	if scored := *second.Logprobs.Logprobs[n]; math.Abs(scored-generated) > maxEchoGap {
		return fmt.Errorf("%w: the token %q has the log-probability %.3f in a prompt, but %.3f when it is generated", ErrWrongEcho, token, scored, generated)
	}
	return nil
}

// echo requests the log-probabilities of a prompt and of one generated token. The error is
// ErrNoEcho if the answer lacks them.
func (c *Client) echo(ctx context.Context, prompt string) (*completion, error) {
	body, _ := openai.Marshal(map[string]any{"prompt": prompt, "max_tokens": 1, "temperature": 0, "echo": true, "logprobs": 1}) // it has JSON
	a, err := c.ask(ctx, openai.Completions, body)
	var refused *refusedError
	if errors.As(err, &refused) && !refused.mayPass() && !refused.key() {
		return nil, fmt.Errorf("%w: %w", ErrNoEcho, err)
	}
	if err != nil {
		return nil, err
	}
	var answered struct {
		Choices []completion `json:"choices"`
	}
	if err := json.Unmarshal(a.body, &answered); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoEcho, err)
	}
	choice := &answered.Choices[0]
	l := choice.Logprobs
	if l == nil || !strings.HasPrefix(choice.Text, prompt) || len(l.Tokens) < 3 || len(l.Tokens) != len(l.Logprobs) || len(l.Tokens) != len(l.Top) {
		return nil, ErrNoEcho
	}
	for i, p := range l.Logprobs {
		if i > 0 && (p == nil || len(l.Top[i]) == 0) { // nothing precedes the first token
			return nil, ErrNoEcho
		}
	}
	return choice, nil
}
