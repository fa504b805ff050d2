package serve

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/ingot-run/ingot/openai"
	"github.com/ingot-run/ingot/serve/console"
)

// tryDefaults are the initial values of the prompt form.
var tryDefaults = console.TryValues{MaxTokens: "512", Temperature: "0.7"}

// showTry answers GET /console/try.
func (s *Server) showTry(w http.ResponseWriter, r *http.Request) error {
	s.showAnswer(w, r, http.StatusOK, console.Try{Values: tryDefaults}, nil)
	return nil
}

// showAnswer writes the page with the prompt form, and with the answer or failure.
func (s *Server) showAnswer(w http.ResponseWriter, r *http.Request, status int, page console.Try, failure error) {
	models, err := s.usable(r)
	if failure == nil {
		failure = err
	}
	page.Frame = s.frame(r, "Try a prompt", console.TrySection, failure)
	page.Models = consoleModels(models)
	s.show(w, r, status, page)
}

// try answers POST /console/try. The console's script gets the answer as a stream of events, other clients get a page.
func (s *Server) try(w http.ResponseWriter, r *http.Request) error {
	if err := r.ParseForm(); err != nil {
		return failf(http.StatusBadRequest, "", "invalid_form", "the form cannot be read: %v", err)
	}
	values := console.TryValues{
		Model: r.PostForm.Get("model"), System: r.PostForm.Get("system"), Prompt: r.PostForm.Get("prompt"),
		MaxTokens: r.PostForm.Get("max_tokens"), Temperature: r.PostForm.Get("temperature"),
	}
	body, err := tryBody(values, wantsEvents(r))
	if err != nil {
		return err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	if wantsEvents(r) {
		return s.generate(openai.Chat)(w, r)
	}
	page := console.Try{Values: values}
	if page.Answer, err = s.tryAnswer(r); err != nil {
		notesOf(r.Context()).err = err
		s.showAnswer(w, r, asHTTP(err).status, page, err)
		return nil
	}
	page.Asked = true
	s.showAnswer(w, r, http.StatusOK, page, nil)
	return nil
}

// tryBody returns the body of the chat request that a form describes.
func tryBody(v console.TryValues, stream bool) ([]byte, error) {
	type message struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}
	chat := map[string]any{"model": v.Model, "stream": stream}
	if stream {
		chat["stream_options"] = map[string]bool{"include_usage": true}
	}
	var messages []message
	if v.System != "" {
		messages = append(messages, message{"system", v.System})
	}
	chat["messages"] = append(messages, message{"user", v.Prompt})
	for name, text := range map[string]string{"max_tokens": v.MaxTokens, "temperature": v.Temperature} {
		if text == "" {
			continue
		}
		number := json.Number(text)
		if _, err := number.Float64(); err != nil {
			return nil, failf(http.StatusBadRequest, name, openai.CodeInvalidValue, "%q must be a number, not %.100q", name, text)
		}
		chat[name] = number
	}
	body, err := json.Marshal(chat)
	if err != nil { // a number that ParseFloat accepts but JSON does not, such as 0x10
		return nil, failf(http.StatusBadRequest, "", openai.CodeInvalidValue, "a number in the form is not decimal: write it like 0.7")
	}
	return body, nil
}

// tryAnswer returns the text of the answer to a chat.
func (s *Server) tryAnswer(r *http.Request) (string, error) {
	body, done, err := s.readBody(r)
	if err != nil {
		return "", err
	}
	defer done()
	c, err := s.call(r, openai.Chat, body)
	if err != nil {
		return "", err
	}
	answer, err := s.answer(r, c)
	if err != nil {
		return "", err
	}
	text, err := openai.Marshal(answer.Body)
	if err != nil {
		return "", fmt.Errorf("encode the answer: %w", err)
	}
	var chat struct {
		Choices []struct {
			Message struct{ Content string }
		}
	}
	if err := json.Unmarshal(text, &chat); err != nil {
		return "", fmt.Errorf("decode the answer: %w", err)
	}
	if len(chat.Choices) == 0 {
		return "", errors.New("the answer has no choice")
	}
	return chat.Choices[0].Message.Content, nil
}
