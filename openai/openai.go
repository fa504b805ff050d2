// Package openai has OpenAI's wire format: requests, response bodies, and lines of Batch files. It
// checks every field of a request. It depends neither on the engine nor on the queue.
package openai

import (
	"bytes"
	"encoding/json"
)

// Endpoint is an endpoint of OpenAI's API, given as its path.
type Endpoint string

// The supported endpoints.
const (
	Chat        Endpoint = "/v1/chat/completions"
	Completions Endpoint = "/v1/completions"
)

// UserMessage returns the body of a chat that consists of one message of the user.
func UserMessage(text string) json.RawMessage {
	type message struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}
	body, _ := Marshal(struct {
		Messages []message `json:"messages"`
	}{[]message{{"user", text}}}) // encoding a string never fails
	return body
}

// Marshal encodes v as JSON without escaping the characters that are special in HTML.
func Marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
