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

// Options are the settings of a client. A zero value stands for the default that the field's
// comment names.
type Options struct {
	URL         string        // URL of the API, including /v1; required
	Key         string        // API key, sent as a bearer token; default none
	KeyName     string        // source of the key for error messages, such as the name of its environment variable
	Model       string        // name of the model on the server; default the only model that the server lists
	Concurrency int           // maximum number of requests in flight; default 16
	Attempts    int           // maximum attempts of a request whose failure may be temporary; default 6
	FirstWait   time.Duration // wait before the second attempt, doubled for each further attempt up to a minute; default 1 s
	Timeout     time.Duration // maximum time of an attempt; default 10 minutes
}

// Client sends requests to a server.
type Client struct {
	options Options
	base    *url.URL
	address string // URL without user and password, for messages
	http    *http.Client
}

// maxWait is the longest wait between two attempts. The Retry-After header of a response can set a
// longer wait, up to maxAskedWait.
const (
	maxWait      = time.Minute
	maxAskedWait = 10 * time.Minute
)

// New makes a client. If Options.Model is empty, New requests the list of models from the server,
// which must have exactly one.
func New(ctx context.Context, o Options) (*Client, error) {
	base, err := url.Parse(o.URL)
	if err != nil || base.Scheme != "http" && base.Scheme != "https" || base.Host == "" {
		return nil, fmt.Errorf("server address %q is not an http:// or https:// URL: give one such as http://localhost:8080/v1", withoutUser(o.URL))
	}
	o.Concurrency, o.Attempts = cmp.Or(o.Concurrency, 16), cmp.Or(o.Attempts, 6)
	o.FirstWait, o.Timeout = cmp.Or(o.FirstWait, time.Second), cmp.Or(o.Timeout, 10*time.Minute)
	transport := http.DefaultTransport.(*http.Transport).Clone() //nolint:forcetypeassert // the standard library sets this type
	transport.MaxIdleConnsPerHost = o.Concurrency
	c := &Client{options: o, base: base, address: base.Redacted(), http: &http.Client{Transport: transport, Timeout: o.Timeout}}
	if o.Model == "" {
		if c.options.Model, err = c.onlyModel(ctx); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// withoutUser returns an address that may be malformed without what may be a user and a password.
func withoutUser(address string) string {
	scheme, rest, ok := strings.Cut(address, "://")
	if !ok {
		scheme, rest = "", address
	}
	at := strings.LastIndexByte(rest, '@')
	if at < 0 {
		return address
	}
	return strings.TrimPrefix(scheme+"://…"+rest[at:], "://")
}

// Model returns the name of the model on the server.
func (c *Client) Model() string { return c.options.Model }

// onlyModel returns the name of the server's model. It returns an error if the server has none or
// several.
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
		return "", fmt.Errorf("list the models of %s: the answer is not a list of models: %w", c.address, err)
	}
	names := make([]string, len(list.Data))
	for i, m := range list.Data {
		names[i] = m.ID
	}
	if len(names) != 1 {
		return "", fmt.Errorf("%s has %d models, not one: name the model with --server-model (of a judge: --judge-model-name); the models are %.500q",
			c.address, len(names), names)
	}
	return names[0], nil
}

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

// refusedError is an HTTP error that the server returned, an answer that cannot be used, or an
// answer that took too long.
type refusedError struct {
	status  int // of the HTTP error; 0 for the other two
	message string
	keyName string // Options.KeyName
}

func (e *refusedError) Error() string {
	if e.status == 0 {
		return e.message
	}
	text := fmt.Sprintf("the server answers %d: %s", e.status, e.message)
	if e.status == http.StatusUnauthorized || e.status == http.StatusForbidden {
		text += fmt.Sprintf(" (the API key is read from %s)", e.keyName)
	}
	return text
}

func (e *refusedError) fatal() bool {
	return e.key() || e.status == http.StatusNotFound || e.status == http.StatusMethodNotAllowed
}

// key reports whether the server refused the request because of its key, or because of the account
// that the key belongs to.
func (e *refusedError) key() bool {
	switch e.status {
	case http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusForbidden:
		return true
	}
	return false
}

func (e *refusedError) mayPass() bool {
	switch e.status {
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	}
	return e.status == 0 || e.status >= 500 && e.status != http.StatusNotImplemented
}

// Codes of error lines.
const (
	codeRefused = "server_refused"
	codeFailed  = "server_failed" // every attempt failed
)

func (e *refusedError) asError() *openai.Error {
	code := codeRefused
	if e.mayPass() {
		code = codeFailed
	}
	return &openai.Error{Code: code, Message: e.Error()}
}

// ask sends a request and returns the answer. If an attempt fails for a reason that may be
// temporary, ask waits and sends the request again. The error wraps a *refusedError, unless the
// connection failed or ctx ended.
func (c *Client) ask(ctx context.Context, e openai.Endpoint, raw json.RawMessage) (answer, error) {
	var a answer
	body, err := c.body(raw)
	if err != nil {
		return a, err
	}
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
	}, backoff.WithBackOff(c.waits()), backoff.WithMaxTries(uint(c.options.Attempts)), backoff.WithMaxElapsedTime(0)) //nolint:gosec // Attempts is small
	if err != nil {
		if ctx.Err() != nil {
			return a, ctx.Err()
		}
		return a, fmt.Errorf("send a request to %s: %w", c.address, err)
	}
	a.body = text
	return a, nil
}

// waits returns the waits between the attempts of a request.
func (c *Client) waits() *backoff.ExponentialBackOff {
	waits := backoff.NewExponentialBackOff()
	waits.InitialInterval, waits.Multiplier, waits.MaxInterval = c.options.FirstWait, 2, maxWait
	return waits
}

// read reads the fields of an answer that the client needs. An answer without a choice is an error.
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
		return &refusedError{message: fmt.Sprintf("the server's answer cannot be used: it is not the JSON of a completion: %.200q", text)}
	case body.Error != nil:
		return &refusedError{message: "the server's answer is an error: " + body.Error.Message}
	case len(body.Choices) == 0:
		return &refusedError{message: "the server's answer cannot be used: it has no choice"}
	}
	a.id, a.usage = body.ID, body.Usage
	return nil
}

// attempt sends a request once: a POST if there is a body, else a GET. wait is the minimum time
// before the next attempt according to the server's Retry-After header; 0 if there is none.
func (c *Client) attempt(ctx context.Context, path string, body []byte) (text []byte, wait time.Duration, err error) {
	method, content := http.MethodGet, io.Reader(http.NoBody)
	if body != nil {
		method, content = http.MethodPost, bytes.NewReader(body)
	}
	req, _ := http.NewRequestWithContext(ctx, method, c.base.JoinPath(path).String(), content) // both are valid
	req.Header.Set("Content-Type", "application/json")
	if c.options.Key != "" {
		req.Header.Set("Authorization", "Bearer "+c.options.Key)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, 0, c.broken(err)
	}
	defer resp.Body.Close() //nolint:errcheck // the body was only read
	const limit = openai.MaxOutputLine / 2
	text, err = io.ReadAll(io.LimitReader(resp.Body, limit+1))
	switch {
	case err != nil:
		return nil, 0, c.broken(err)
	case len(text) > limit:
		return nil, 0, &refusedError{message: fmt.Sprintf("the server's answer is larger than %d MiB", limit>>20)}
	}
	if resp.StatusCode != http.StatusOK {
		err := &refusedError{status: resp.StatusCode, message: messageOf(text), keyName: cmp.Or(c.options.KeyName, "the client's settings")}
		return nil, retryAfter(resp.Header.Get("Retry-After")), err
	}
	var flat bytes.Buffer // servers may send JSON with line breaks
	if json.Compact(&flat, text) == nil {
		text = flat.Bytes()
	}
	return text, 0, nil
}

// broken returns the error of an attempt without an answer. If the attempt took longer than
// Timeout, the error is a *refusedError. The error leaves out the URL, which callers add.
func (c *Client) broken(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return &refusedError{message: fmt.Sprintf("the server did not answer within %s", c.options.Timeout)}
	}
	var sent *url.Error
	if errors.As(err, &sent) {
		err = sent.Err
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the server closed the connection before the end of its answer")
	}
	return err
}

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

// retryAfter parses the value of a Retry-After header: a number of seconds, or a date. It returns 0
// for an empty or invalid value, and at most maxAskedWait.
func retryAfter(value string) time.Duration {
	var wait time.Duration
	if seconds, err := strconv.Atoi(value); err == nil {
		wait = time.Duration(seconds) * time.Second
	} else if at, err := http.ParseTime(value); err == nil {
		wait = time.Until(at)
	}
	return min(max(0, wait), maxAskedWait)
}
