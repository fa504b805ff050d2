package eval

import (
	"cmp"
	"encoding/json"
	"fmt"
)

type answer struct {
	texts     []string // texts of the choices
	truncated bool     // a choice reached max_tokens
	logprobs  scored
	failed    string // the row's error; empty if the row has an answer
	tokens    int
	latency   float64 // from the request to the last token, in milliseconds
	model     string  // SHA-256 of the model file that answered
}

// readAnswers reads the output file with the given path. The result maps custom ids to answers.
func readAnswers(path string) (map[string]*answer, error) {
	all := map[string]*answer{}
	err := readLines(path, func(line []byte) error {
		id, a, err := readAnswer(line)
		all[id] = a
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read answers: %w", err)
	}
	return all, nil
}

func readAnswer(line []byte) (id string, a *answer, err error) {
	var l struct {
		CustomID string `json:"custom_id"`
		Response *struct {
			Body struct {
				Choices []struct {
					Text    string `json:"text"`
					Message struct {
						Content string `json:"content"`
					} `json:"message"`
					Finish   string `json:"finish_reason"`
					Logprobs scored `json:"logprobs"`
				} `json:"choices"`
				Usage struct {
					Completion int `json:"completion_tokens"`
				} `json:"usage"`
			} `json:"body"`
		} `json:"response"`
		Error *struct {
			Code    string `json:"code"`
			Message string `json:"message"`
		} `json:"error"`
		Stats struct {
			Model string  `json:"model_sha256"`
			Total float64 `json:"total_ms"`
		} `json:"stats"`
	}
	if err := json.Unmarshal(line, &l); err != nil {
		return "", nil, err
	}
	a = &answer{model: l.Stats.Model}
	switch {
	case l.Error != nil:
		a.failed = l.Error.Code + ": " + l.Error.Message
	case l.Response == nil || len(l.Response.Body.Choices) == 0:
		a.failed = "the response is missing or has no choices"
	default:
		for _, c := range l.Response.Body.Choices {
			a.texts = append(a.texts, cmp.Or(c.Text, c.Message.Content))
			a.truncated = a.truncated || c.Finish == "length"
		}
		a.tokens, a.latency = l.Response.Body.Usage.Completion, l.Stats.Total
		a.logprobs = l.Response.Body.Choices[0].Logprobs
	}
	return l.CustomID, a, nil
}
