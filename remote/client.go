package remote

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/ingot-run/ingot/openai"
)

// Options are the settings of a client. Zero values mean the named defaults.
type Options struct {
	URL         string        // URL of the API, up to and with /v1
	Key         string        // is sent as a bearer token; none
	KeyName     string        // what the key is called in messages, such as the name of its variable
	Model       string        // the server's name of the model; the only one that it lists
	Concurrency int           // requests at once; 16
	Attempts    int           // maximum attempts of a request whose failure may be temporary; 6
	FirstWait   time.Duration // before the second attempt; doubles with every further one, up to a minute; 1 s
	Timeout     time.Duration // maximum time of an attempt; 10 minutes
}

// Client asks a server.
type Client struct {
	options Options
	base    *url.URL
	address string // without user and password
	http    *http.Client
}

// maxWait is the longest wait between two attempts, unless the server asks for a longer one, up to maxAskedWait.
const (
	maxWait      = time.Minute
	maxAskedWait = 10 * time.Minute
)

// New makes a client. Without Options.Model it asks the server for its models.
func New(ctx context.Context, o Options) (*Client, error) {
	base, err := url.Parse(o.URL)
	if err != nil || base.Scheme != "http" && base.Scheme != "https" || base.Host == "" {
		return nil, fmt.Errorf("server %q: an address such as http://localhost:8080/v1 is needed", o.URL)
	}
	o.Concurrency, o.Attempts = cmp.Or(o.Concurrency, 16), cmp.Or(o.Attempts, 6)
	o.FirstWait, o.Timeout = cmp.Or(o.FirstWait, time.Second), cmp.Or(o.Timeout, 10*time.Minute)
	transport := http.DefaultTransport.(*http.Transport).Clone() //nolint:forcetypeassert // the standard library's
	transport.MaxIdleConnsPerHost = o.Concurrency
	c := &Client{options: o, base: base, address: base.Redacted(), http: &http.Client{Transport: transport}}
	if o.Model == "" {
		if c.options.Model, err = c.onlyModel(ctx); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// Model is the server's name of the model.
func (c *Client) Model() string { return c.options.Model }

// onlyModel returns the name of the server's model if it has one.
func (c *Client) onlyModel(ctx context.Context) (string, error) {
	text, _, err := c.attempt(ctx, "/models", nil)
	if err != nil {
		return "", fmt.Errorf("list the models of %s: %w", c.address, err)
	}
	var list struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return "", fmt.Errorf("list the models of %s: %w", c.address, err)
	}
	names := make([]string, len(list.Data))
	for i, m := range list.Data {
		names[i] = m.ID
	}
	if len(names) != 1 {
		return "", fmt.Errorf("%s has %d models: choose one of %.500q", c.address, len(names), names)
	}
	return names[0], nil
}

// answer is a server's answer.
type answer struct {
	body     json.RawMessage
	id       string
	usage    usage
	attempts int
	took     time.Duration // time of the last attempt
}

type usage struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
}

// refusedError is an answer of the server that is an error.
type refusedError struct {
	status  int
	message string
	keyName string
}

func (e *refusedError) Error() string {
	text := fmt.Sprintf("the server answers %d: %s", e.status, e.message)
	if e.status == http.StatusUnauthorized || e.status == http.StatusForbidden {
		text += fmt.Sprintf(" (the key comes from %s)", e.keyName)
	}
	return text
}

// fatal reports whether all other requests would be refused as well.
func (e *refusedError) fatal() bool {
	switch e.status {
	case http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed:
		return true
	}
	return false
}

// mayPass reports whether the same request may succeed later.
func (e *refusedError) mayPass() bool {
	switch e.status {
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	}
	return e.status >= 500 && e.status != http.StatusNotImplemented
}

// Codes of error lines.
const (
	codeRefused = "server_refused" // the server refuses the row
	codeFailed  = "server_failed"  // the server failed at every attempt
)

func (e *refusedError) asError() *openai.Error {
	code := codeRefused
	if e.mayPass() {
		code = codeFailed
	}
	return &openai.Error{Code: code, Message: e.Error()}
}

// ask sends a request, again after a wait if it fails for a reason that may pass. The error is a *refusedError if the server answers with
// an error.
func (c *Client) ask(ctx context.Context, e openai.Endpoint, raw json.RawMessage) (answer, error) {
	var a answer
	body, err := c.body(raw)
	if err != nil {
		return a, err
	}
	waits := backoff.NewExponentialBackOff()
	waits.InitialInterval, waits.Multiplier, waits.MaxInterval = c.options.FirstWait, 2, maxWait
	text, err := backoff.Retry(ctx, func() ([]byte, error) {
		a.attempts++
		start := time.Now()
		text, wait, err := c.attempt(ctx, strings.TrimPrefix(string(e), "/v1"), body)
		a.took = time.Since(start)
		var refused *refusedError
		switch {
		case err == nil:
			err = a.read(text)
		case ctx.Err() != nil, errors.As(err, &refused) && !refused.mayPass():
			return nil, backoff.Permanent(err)
		case wait > 0 && a.attempts < c.options.Attempts:
			return nil, &backoff.RetryAfterError{Duration: wait}
		}
		return text, err
	}, backoff.WithBackOff(waits), backoff.WithMaxTries(uint(c.options.Attempts)), backoff.WithMaxElapsedTime(0)) //nolint:gosec // a small number
	if err != nil {
		if ctx.Err() != nil {
			return a, ctx.Err()
		}
		return a, fmt.Errorf("ask %s: %w", c.address, err)
	}
	a.body = text
	return a, nil
}

// read reads the parts of an answer that the client itself needs. An answer without a choice is an error of the server.
func (a *answer) read(text []byte) error {
	var body struct {
		ID      string            `json:"id"`
		Choices []json.RawMessage `json:"choices"`
		Usage   usage             `json:"usage"`
		Error   *struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	err := json.Unmarshal(text, &body)
	switch {
	case err != nil:
		return &refusedError{status: http.StatusBadGateway, message: fmt.Sprintf("the answer is not JSON: %.200q", text)}
	case body.Error != nil:
		return &refusedError{status: http.StatusBadGateway, message: body.Error.Message}
	case len(body.Choices) == 0:
		return &refusedError{status: http.StatusBadGateway, message: "the answer has no choice"}
	}
	a.id, a.usage = body.ID, body.Usage
	return nil
}

// attempt sends a request once: a POST with a body, otherwise a GET. wait is how long the server asks to wait before the next attempt; 0 if
// it does not.
func (c *Client) attempt(ctx context.Context, path string, body []byte) (text []byte, wait time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.options.Timeout)
	defer cancel()
	method, content := http.MethodGet, io.Reader(http.NoBody)
	if body != nil {
		method, content = http.MethodPost, bytes.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base.JoinPath(path).String(), content)
	if err != nil {
		return nil, 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	if c.options.Key != "" {
		req.Header.Set("Authorization", "Bearer "+c.options.Key)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, 0, c.late(ctx, err)
	}
	defer resp.Body.Close() //nolint:errcheck // the file was only read
	text, err = io.ReadAll(io.LimitReader(resp.Body, openai.MaxOutputLine/2))
	if err != nil {
		return nil, 0, c.late(ctx, err)
	}
	if resp.StatusCode != http.StatusOK {
		err := &refusedError{status: resp.StatusCode, message: messageOf(text), keyName: cmp.Or(c.options.KeyName, "the client's settings")}
		return nil, retryAfter(resp.Header.Get("Retry-After")), err
	}
	var flat bytes.Buffer // servers may send JSON of several lines
	if json.Compact(&flat, text) == nil {
		text = flat.Bytes()
	}
	return text, 0, nil
}

// late returns the error of an attempt. The error of an attempt that took too long has status 408.
func (c *Client) late(ctx context.Context, err error) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return &refusedError{status: http.StatusRequestTimeout, message: fmt.Sprintf("no answer within %s", c.options.Timeout)}
	}
	return err
}

// messageOf returns the message in the body of an error.
func messageOf(text []byte) string {
	var body struct {
		Error   json.RawMessage `json:"error"`
		Message string          `json:"message"`
		Detail  json.RawMessage `json:"detail"`
	}
	if json.Unmarshal(text, &body) == nil {
		var inner struct {
			Message string `json:"message"`
		}
		if json.Unmarshal(body.Error, &inner) == nil && inner.Message != "" {
			return inner.Message
		}
		if s := cmp.Or(body.Message, strings.Trim(string(body.Error), `"`), string(body.Detail)); s != "" {
			return s
		}
	}
	return fmt.Sprintf("%.300s", bytes.TrimSpace(text))
}

// retryAfter reads the header of this name: seconds, or a date.
func retryAfter(value string) time.Duration {
	var wait time.Duration
	if seconds, err := strconv.Atoi(value); err == nil {
		wait = time.Duration(seconds) * time.Second
	} else if at, err := http.ParseTime(value); err == nil {
		wait = time.Until(at)
	}
	return min(max(0, wait), maxAskedWait)
}
