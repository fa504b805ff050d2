package serve_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/engine/cpu"
	"github.com/ingot-run/ingot/engine/enginetest"
	"github.com/ingot-run/ingot/serve"
)

// open loads a bundled model.
func open(name string) (*engine.Engine, error) {
	backend, err := cpu.New(2)
	if err != nil {
		return nil, err
	}
	return engine.Open(filepath.Join("..", "models", name), backend, engine.Options{Memory: 256 << 20, MaxSequences: 8})
}

// shared is the engine of most tests.
var shared = sync.OnceValues(func() (*engine.Engine, error) { return open("tiny-glm.q8_0.gguf") })

func TestMain(m *testing.M) {
	enginetest.GiveCosts()
	code := m.Run()
	if eng, err := shared(); err == nil {
		eng.Close()
	}
	os.Exit(code)
}

// bench is a server with a bundled model under the alias tiny.
type bench struct {
	*httptest.Server
	engine *engine.Engine
}

// setUp starts a server that uses the shared engine. change, if not nil, changes the server's
// options.
func setUp(t testing.TB, change func(*serve.Options)) *bench {
	t.Helper()
	eng, err := shared()
	require.NoError(t, err)
	return setUpOn(t, eng, change)
}

// setUpAlone starts a server with an engine that no other test uses.
func setUpAlone(t testing.TB) *bench {
	t.Helper()
	eng, err := open("tiny-llama.q4_0.gguf")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, eng.Close()) })
	return setUpOn(t, eng, nil)
}

func setUpOn(t testing.TB, eng *engine.Engine, change func(*serve.Options)) *bench {
	t.Helper()
	answerer, err := serve.NewAlone(map[string]*engine.Engine{"tiny": eng}, "test")
	require.NoError(t, err)
	o := serve.Options{Answerer: answerer, Version: "test", Logger: slog.New(slog.DiscardHandler)}
	if change != nil {
		change(&o)
	}
	s := serve.New(o)
	web := httptest.NewServer(s.Handler())
	t.Cleanup(web.Close)
	return &bench{web, eng}
}

// response is an HTTP response with its whole body.
type response struct {
	status int
	header http.Header
	text   string
}

func (b *bench) send(t testing.TB, method, path, body string, headers ...string) response {
	t.Helper()
	return b.sendWith(t, b.Client(), method, path, body, headers...)
}

func (b *bench) sendWith(t testing.TB, c *http.Client, method, path, body string, headers ...string) response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, b.URL+path, strings.NewReader(body))
	require.NoError(t, err)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	out, err := c.Do(r)
	require.NoError(t, err)
	defer out.Body.Close()
	text, err := io.ReadAll(out.Body)
	require.NoError(t, err)
	return response{out.StatusCode, out.Header, string(text)}
}

// post sends a JSON request and decodes the response into out. The request must succeed.
func (b *bench) post(t testing.TB, path, body string, out any) response {
	t.Helper()
	got := b.send(t, http.MethodPost, path, body)
	require.Equal(t, http.StatusOK, got.status, got.text)
	require.Equal(t, "application/json", got.header.Get("Content-Type"))
	require.NoError(t, json.Unmarshal([]byte(got.text), out), got.text)
	return got
}

// fails sends a request and returns OpenAI's error object. The request must fail with status.
func (b *bench) fails(t testing.TB, status int, method, path, body string, headers ...string) errorDetail {
	t.Helper()
	got := b.send(t, method, path, body, headers...)
	text := got.text
	require.Equal(t, status, got.status, text)
	require.Equal(t, "application/json", got.header.Get("Content-Type"))
	require.NotEmpty(t, got.header.Get("X-Request-Id"))
	var keys struct {
		Error map[string]json.RawMessage `json:"error"`
	}
	require.NoError(t, json.Unmarshal([]byte(text), &keys))
	require.Len(t, keys.Error, 4, text) // message, type, param and code
	var e struct {
		Error errorDetail `json:"error"`
	}
	require.NoError(t, json.Unmarshal([]byte(text), &e))
	require.NotEmpty(t, e.Error.Message)
	require.NotEmpty(t, e.Error.Type)
	return e.Error
}

type errorDetail struct {
	Message string `json:"message"`
	Type    string `json:"type"`
	Param   string `json:"param"`
	Code    string `json:"code"`
}

type chatResponse struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	Model   string `json:"model"`
	Seed    int64  `json:"seed"`
	Choices []struct {
		Index   int `json:"index"`
		Message struct {
			Role    string `json:"role"`
			Content string `json:"content"`
		} `json:"message"`
		FinishReason string `json:"finish_reason"`
	} `json:"choices"`
	Usage struct {
		Prompt     int `json:"prompt_tokens"`
		Completion int `json:"completion_tokens"`
		Total      int `json:"total_tokens"`
	} `json:"usage"`
}

const hello = `"model":"tiny","messages":[{"role":"user","content":"Tell a story."}]`

func TestChat(t *testing.T) {
	t.Parallel()
	b := setUp(t, nil)
	var got chatResponse
	response := b.post(t, "/v1/chat/completions", `{`+hello+`,"max_tokens":8,"temperature":0,"ignore_eos":true}`, &got)
	require.NotEmpty(t, response.header.Get("X-Ingot-Ttft-Ms"))
	require.True(t, strings.HasPrefix(got.ID, "chatcmpl-"), got.ID)
	require.Equal(t, "chat.completion", got.Object)
	require.Equal(t, "tiny", got.Model)
	require.Len(t, got.Choices, 1)
	require.Equal(t, "assistant", got.Choices[0].Message.Role)
	require.NotEmpty(t, got.Choices[0].Message.Content)
	require.Equal(t, "length", got.Choices[0].FinishReason)
	require.Equal(t, 8, got.Usage.Completion)
	require.Equal(t, got.Usage.Prompt+8, got.Usage.Total)
}

// Two equal requests without a seed get different answers. Sending the seed of a response repeats
// the answer.
func TestSeedsAreDrawnPerRequest(t *testing.T) {
	t.Parallel()
	b := setUp(t, nil)
	var first, second, again chatResponse
	body := `{` + hello + `,"max_tokens":24,"ignore_eos":true,"temperature":2`
	b.post(t, "/v1/chat/completions", body+`}`, &first)
	b.post(t, "/v1/chat/completions", body+`}`, &second)
	require.NotEqual(t, first.Seed, second.Seed)
	require.NotEqual(t, first.Choices, second.Choices)
	seed, err := json.Marshal(first.Seed)
	require.NoError(t, err)
	b.post(t, "/v1/chat/completions", body+`,"seed":`+string(seed)+`}`, &again)
	require.Equal(t, first.Choices, again.Choices)
}

func TestErrors(t *testing.T) {
	t.Parallel()
	b := setUp(t, nil)
	require.Equal(t, `there is no model "gpt-4": use "tiny"`, b.fails(t, 404, http.MethodPost, "/v1/completions", `{"prompt":"a","model":"gpt-4"}`).Message)
	for _, c := range []struct {
		name        string
		status      int
		path, body  string
		param, code string
	}{
		{"not JSON", 400, "/v1/chat/completions", `{`, "", "invalid_json"},
		{"not an object", 400, "/v1/chat/completions", `[1]`, "", "invalid_json"},
		{"not UTF-8", 400, "/v1/completions", "{\"model\":\"tiny\",\"prompt\":\"caf\xe9\"}", "", "invalid_text"},
		{"not UTF-8, of a tokenizer", 400, "/tokenize", "{\"prompt\":\"caf\xe9\"}", "", "invalid_text"},
		{"no messages", 400, "/v1/chat/completions", `{"model":"tiny"}`, "messages", "missing_required_parameter"},
		{"no prompt", 400, "/v1/completions", `{"model":"tiny"}`, "prompt", "missing_required_parameter"},
		{"no model", 400, "/v1/completions", `{"prompt":"a"}`, "model", "missing_required_parameter"},
		{"a null model", 400, "/v1/completions", `{"prompt":"a","model":null}`, "model", "missing_required_parameter"},
		{"another model", 404, "/v1/completions", `{"prompt":"a","model":"gpt-4"}`, "model", "model_not_found"},
		{"a wrong type", 400, "/v1/chat/completions", `{` + hello + `,"temperature":"hot"}`, "temperature", "invalid_type"},
		{"out of range", 400, "/v1/chat/completions", `{` + hello + `,"temperature":3}`, "temperature", "invalid_value"},
		{"a field of a message", 400, "/v1/chat/completions", `{"model":"tiny","messages":[{"role":"bot","content":"a"}]}`, "messages[0].role", "invalid_value"},
		{"an unknown field", 400, "/v1/chat/completions", `{` + hello + `,"familly":1}`, "familly", "unknown_parameter"},
		{"an unknown field of a function", 400, "/v1/chat/completions", `{` + hello + `,"tools":[{"type":"function","function":{"name":"f","stric":true}}]}`, "tools[0].function.stric", "unknown_parameter"},
		{"a misspelt field", 400, "/v1/chat/completions", `{` + hello + `,"max_token":1}`, "max_token", "invalid_value"},
		{"a field that is not supported", 400, "/v1/chat/completions", `{` + hello + `,"functions":[{"name":"f"}]}`, "functions", "unsupported_parameter"},
		{"a prompt that is too long", 400, "/v1/completions", `{"model":"tiny","prompt":"` + strings.Repeat("cat ", 10_000) + `"}`, "prompt", "context_length_exceeded"},
		{"a chat that is too long", 400, "/v1/chat/completions", `{"model":"tiny","messages":[{"role":"user","content":"` + strings.Repeat("cat ", 10_000) + `"}]}`, "messages", "context_length_exceeded"},
		{"a streamed chat that is too long", 400, "/v1/chat/completions", `{"model":"tiny","stream":true,"messages":[{"role":"user","content":"` + strings.Repeat("cat ", 10_000) + `"}]}`, "messages", "context_length_exceeded"},
		{"an empty prompt", 400, "/v1/completions", `{"model":"tiny","prompt":""}`, "prompt", "invalid_value"},
		{"a token id that is not one", 400, "/v1/completions", `{"model":"tiny","prompt":[1,99999999]}`, "prompt", "invalid_value"},
		{"a path without /v1", 400, "/chat/completions", `{"model":"tiny"}`, "messages", "missing_required_parameter"},
		{"no such path", 404, "/v1/embeddings", `{}`, "", "unknown_url"},
		{"another method", 405, "/v1/models", `{}`, "", "method_not_allowed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			e := b.fails(t, c.status, http.MethodPost, c.path, c.body)
			require.Equal(t, c.param, e.Param)
			require.Equal(t, c.code, e.Code)
			require.Equal(t, "invalid_request_error", e.Type)
		})
	}
}

// TestPathsOfOtherServers: clients that leave out /v1, and programs that look at a server's health
// and version as with other servers, get an answer.
func TestPathsOfOtherServers(t *testing.T) {
	t.Parallel()
	b := setUp(t, nil)
	require.Equal(t, http.StatusOK, b.send(t, http.MethodGet, "/health", "").status)
	require.JSONEq(t, `{"version":"test"}`, b.send(t, http.MethodGet, "/version", "").text)
	require.Contains(t, b.send(t, http.MethodGet, "/models", "").text, `"id":"tiny"`)
	require.Contains(t, b.send(t, http.MethodGet, "/models/tiny", "").text, `"id":"tiny"`)
	var got chatResponse
	b.post(t, "/chat/completions", `{`+hello+`,"max_tokens":1}`, &got)
	require.Equal(t, 1, got.Usage.Completion)
	b.post(t, "/completions", `{"model":"tiny","prompt":"a","max_tokens":1}`, &got)
}

// TestABrokenBodyIsTheClientsFault: a body that ends early is no error of the server.
func TestABrokenBodyIsTheClientsFault(t *testing.T) {
	t.Parallel()
	b := setUp(t, nil)
	conn := dialAndSend(t, b.Listener.Addr().String(),
		"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nno number\r\n")
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	defer answer.Body.Close()
	require.Equal(t, http.StatusBadRequest, answer.StatusCode)
}

func TestModels(t *testing.T) {
	t.Parallel()
	b := setUp(t, nil)
	got := b.send(t, http.MethodGet, "/v1/models", "")
	require.Equal(t, 200, got.status)
	require.Contains(t, got.text, `{"object":"list","data":[{"id":"tiny","object":"model","created":`)
	got = b.send(t, http.MethodGet, "/v1/models/tiny", "")
	require.Equal(t, 200, got.status)
	require.Contains(t, got.text, `"owned_by":"ingot"`)
	require.Equal(t, "model_not_found", b.fails(t, 404, http.MethodGet, "/v1/models/org%2Fname", "").Code)
}

func TestKeys(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "keys")
	require.NoError(t, os.WriteFile(path, []byte("\ufeffkey-of-windows\n"+`
# team A
key-of-everyone
sha256:9f735e0df9a1ddc702bf0a1a7b83033f9f7153a00c29de82cedadc9957289b05 name=hashed
key-of-others models=other
key-of-few rate=2 tokens=1000
`), 0o600))
	keys, err := serve.ReadKeys(path)
	require.NoError(t, err)
	b := setUp(t, func(o *serve.Options) { o.Keys = keys })
	get := func(key string) int {
		return b.send(t, http.MethodGet, "/v1/models/tiny", "", "Authorization", "Bearer "+key).status
	}
	require.Equal(t, 200, get("key-of-everyone"))
	require.Equal(t, 200, get("key-of-windows"), "the file begins with a byte order mark")
	require.Equal(t, 200, get("testpassword"))
	require.Equal(t, 404, get("key-of-others"))
	require.Equal(t, 401, get("key-of-nobody"))
	require.Equal(t, "missing_api_key", b.fails(t, 401, http.MethodGet, "/v1/models", "").Code)
	require.Equal(t, 200, b.send(t, http.MethodGet, "/healthz", "").status)

	body := `{` + hello + `,"max_tokens":1}`
	few := []string{"Authorization", "Bearer key-of-few"}
	for range 2 {
		got := b.send(t, http.MethodPost, "/v1/chat/completions", body, few...)
		require.Equal(t, 200, got.status, got.text)
	}
	require.Equal(t, "rate_limit_exceeded", b.fails(t, 429, http.MethodPost, "/v1/chat/completions", body, few...).Code)
	require.NotEmpty(t, b.send(t, http.MethodPost, "/v1/chat/completions", body, few...).header.Get("Retry-After"))
}

// If the client leaves, its generation ends.
func TestClientGoneStopsGeneration(t *testing.T) {
	t.Parallel()
	b := setUpAlone(t)
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, b.URL+"/v1/completions",
		strings.NewReader(`{"model":"tiny","prompt":"Once","max_tokens":100000,"ignore_eos":true,"n":100}`))
	require.NoError(t, err)
	go func() {
		for b.engine.Snapshot().Running == 0 && t.Context().Err() == nil { //nolint:revive // polls until the request runs
		}
		cancel()
	}()
	_, err = b.Client().Do(r) //nolint:bodyclose // there is no response
	require.Error(t, err)
	require.Eventually(t, func() bool { return b.engine.Snapshot().Running == 0 }, time.Minute, time.Millisecond)
}

// With continue_final_message, the assistant's last message is the beginning of the answer.
func TestContinuedMessage(t *testing.T) {
	t.Parallel()
	b := setUp(t, nil)
	of := b.engine.Tokenizer()
	prompt := func(messages, more string) []int32 {
		var got tokens
		b.post(t, "/tokenize", `{"messages":[{"role":"user","content":"Tell a story."}`+messages+`]`+more+`}`, &got)
		return got.Tokens
	}
	const last = `,{"role":"assistant","content":"Once there was "}`
	whole := of.Decode(prompt(last, `,"continue_final_message":true`))
	require.True(t, strings.HasSuffix(whole, "Once there was "), "%q", whole)
	require.Equal(t, of.Decode(prompt("", `,"add_generation_prompt":false`)), strings.TrimSuffix(whole, "</think>Once there was "))

	body := func(messages, more string) string {
		return `{"model":"tiny","max_tokens":8,"temperature":0,"messages":[{"role":"user","content":"Tell a story."}` + messages + `]` + more + `}`
	}
	var chat chatResponse
	b.post(t, "/v1/chat/completions", body(last, `,"continue_final_message":true`), &chat)
	require.Equal(t, len(prompt(last, `,"continue_final_message":true`)), chat.Usage.Prompt)
	for _, bad := range []string{body("", `,"continue_final_message":true`), body(last, `,"continue_final_message":true,"add_generation_prompt":true`)} {
		require.Equal(t, "continue_final_message", b.fails(t, 400, http.MethodPost, "/v1/chat/completions", bad).Param)
	}
}
