package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/files/rows"
	"github.com/ingot-run/ingot/internal/openfiles"
	"github.com/ingot-run/ingot/openai"
)

// TestDefaultsOfClients: zero values stand for defaults, and connections are kept for all requests
// in flight.
func TestDefaultsOfClients(t *testing.T) {
	t.Parallel()
	for given, want := range map[Options]Options{
		{}: {Concurrency: 16, Attempts: 6, FirstWait: time.Second, Timeout: 10 * time.Minute},
		{Concurrency: 2, Attempts: 3, FirstWait: time.Minute, Timeout: time.Hour}: {Concurrency: 2, Attempts: 3, FirstWait: time.Minute, Timeout: time.Hour},
	} {
		given.URL, given.Model = "http://user:secret@localhost:1/v1", "m"
		want.URL, want.Model = given.URL, "m"
		c, err := New(t.Context(), given)
		require.NoError(t, err)
		require.Equal(t, want, c.options)
		require.Equal(t, want.Timeout, c.http.Timeout)
		require.Equal(t, want.Concurrency, c.http.Transport.(*http.Transport).MaxIdleConnsPerHost)
		require.Equal(t, "http://user:xxxxx@localhost:1/v1", c.address)
		waits := c.waits()
		require.Equal(t, []time.Duration{want.FirstWait, time.Minute}, []time.Duration{waits.InitialInterval, waits.MaxInterval})
		require.InDelta(t, 2, waits.Multiplier, 0)
	}
}

// TestRefusals: what a failure of each status means for its row and for the run.
func TestRefusals(t *testing.T) {
	t.Parallel()
	for status, c := range map[int]struct {
		fatal, key, mayPass bool
		code, hint          string
	}{
		0: {false, false, true, codeFailed, ""}, 400: {false, false, false, codeRefused, ""}, 401: {true, true, false, codeRefused, " (the API key is read from KEY)"},
		402: {true, true, false, codeRefused, ""}, 403: {true, true, false, codeRefused, " (the API key is read from KEY)"}, 404: {true, false, false, codeRefused, ""},
		405: {true, false, false, codeRefused, ""}, 408: {false, false, true, codeFailed, ""}, 409: {false, false, true, codeFailed, ""}, 425: {false, false, true, codeFailed, ""},
		429: {false, false, true, codeFailed, ""}, 499: {false, false, false, codeRefused, ""}, 500: {false, false, true, codeFailed, ""}, 501: {false, false, false, codeRefused, ""},
		503: {false, false, true, codeFailed, ""},
	} {
		e := &refusedError{status: status, message: "no", keyName: "KEY"}
		require.Equal(t, []bool{c.fatal, c.key, c.mayPass}, []bool{e.fatal(), e.key(), e.mayPass()}, status)
		text := fmt.Sprintf("the server answers %d: no%s", status, c.hint)
		if status == 0 {
			text = "no"
		}
		require.Equal(t, &openai.Error{Code: c.code, Message: text}, e.asError())
	}
	for text, want := range map[string]string{
		`{"error":{"message":"a"}}`: "a", `{"error":"b"}`: "b", `{"message":"c","error":"b"}`: "c", `{"detail":"d"}`: `"d"`, `{"detail":[{"loc":1}]}`: `[{"loc":1}]`,
		`{"error":{"message":""},"message":"e"}`: "e", `{"error":{"code":5}}`: `{"code":5}`, "\tplain\n": "plain", `{}`: "{}", "": "", strings.Repeat("x", 301): strings.Repeat("x", 300),
	} {
		require.Equal(t, want, messageOf([]byte(text)))
	}
}

// TestWaitsThatServersAskFor: a number of seconds or a date, ten minutes at most.
func TestWaitsThatServersAskFor(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]time.Duration{
		"": 0, "0": 0, "1": time.Second, "-5": 0, "600": 10 * time.Minute, "601": 10 * time.Minute, "soon": 0, "1.5": 0, "Wed, 21 Oct 2015 07:28:00 GMT": 0, "Fri, 21 Oct 2999 07:28:00 GMT": 10 * time.Minute,
	} {
		require.Equal(t, want, retryAfter(value), value)
	}
	in := retryAfter(time.Now().Add(5 * time.Minute).UTC().Format(http.TimeFormat))
	require.Greater(t, in, 3*time.Minute)
	require.LessOrEqual(t, in, 5*time.Minute)
}

// TestBrokenConnections: the error of a connection leaves out the URL.
func TestBrokenConnections(t *testing.T) {
	t.Parallel()
	c := &Client{options: Options{Timeout: time.Minute}}
	reset := errors.New("connection reset")
	for _, err := range []error{io.EOF, io.ErrUnexpectedEOF, &url.Error{Op: "Post", URL: "http://a", Err: io.EOF}} {
		require.EqualError(t, c.broken(err), "the server closed the connection before the end of its answer")
	}
	require.Equal(t, reset, c.broken(&url.Error{Op: "Post", URL: "http://a", Err: reset}))
	require.Equal(t, reset, c.broken(reset))
	var refused *refusedError
	require.ErrorAs(t, c.broken(&url.Error{Op: "Post", URL: "http://a", Err: context.DeadlineExceeded}), &refused)
	require.EqualError(t, refused, "the server did not answer within 1m0s")
}

func serving(t *testing.T, answer http.HandlerFunc) *Client {
	t.Helper()
	s := httptest.NewServer(answer)
	t.Cleanup(s.Close)
	c, err := New(t.Context(), Options{URL: s.URL + "/v1", Model: "m", Attempts: 1, FirstWait: time.Millisecond, KeyName: "KEY"})
	require.NoError(t, err)
	t.Cleanup(c.http.CloseIdleConnections)
	return c
}

func reply(w http.ResponseWriter, text string) {
	io.WriteString(w, text) //nolint:errcheck // the client reports it
}

// TestAnswersOfServers: what a single attempt makes of an answer.
func TestAnswersOfServers(t *testing.T) {
	t.Parallel()
	const limit = openai.MaxOutputLine / 2
	body := `{"id":"x","choices":[{}],"usage":{"prompt_tokens":3,"completion_tokens":2}}`
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"an answer on several lines": {func(w http.ResponseWriter, _ *http.Request) { reply(w, strings.ReplaceAll(body, ",", ",\n ")) }, ""},
		"the largest answer":         {func(w http.ResponseWriter, _ *http.Request) { reply(w, body+strings.Repeat(" ", limit-len(body))) }, ""},
		"a larger answer": {func(w http.ResponseWriter, _ *http.Request) {
			reply(w, body+strings.Repeat(" ", limit+1-len(body)))
		},
			fmt.Sprintf("the server's answer is larger than %d MiB", limit>>20)},
		"busy, with a wait, in the last attempt": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "5")
			http.Error(w, "slow down", http.StatusTooManyRequests)
		}, "the server answers 429: slow down"},
		"half an answer": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			reply(w, body[:50])
		}, "the server closed the connection before the end of its answer"},
		"created": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) }, "the server answers 201: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := serving(t, func(w http.ResponseWriter, r *http.Request) {
				if r.Method != http.MethodPost || r.URL.Path != "/v1/completions" || r.Header.Get("Content-Type") != "application/json" || r.Header.Get("Authorization") != "" {
					http.Error(w, "wrong request", http.StatusBadRequest)
					return
				}
				c.answer(w, r)
			})
			a, err := client.ask(t.Context(), openai.Completions, []byte(`{"prompt":"a"}`))
			require.Equal(t, 1, a.attempts)
			require.Positive(t, a.took)
			if c.want != "" {
				require.ErrorContains(t, err, "send a request to "+client.address+": "+c.want)
				return
			}
			require.NoError(t, err)
			require.JSONEq(t, body, string(a.body))
			require.NotContains(t, string(a.body), "\n")
			require.Equal(t, []any{"x", usage{3, 2}}, []any{a.id, a.usage})
		})
	}
	c := serving(t, nil)
	_, err := c.ask(t.Context(), openai.Completions, []byte(`5`))
	require.Error(t, err)
	for given, want := range map[string]string{
		`{"prompt":"a","model":"x","max_tokens":0,"echo":true}`: `{"echo":true,"max_tokens":1,"model":"m","prompt":"a"}`,
		`{"prompt":"a","max_tokens":0}`:                         `{"max_tokens":0,"model":"m","prompt":"a"}`,
		`{"prompt":"a","max_tokens":5,"echo":true}`:             `{"echo":true,"max_tokens":5,"model":"m","prompt":"a"}`,
	} {
		got, err := c.body([]byte(given))
		require.NoError(t, err)
		require.JSONEq(t, want, string(got))
	}
}

// TestWaitsBetweenAttempts: a server's wait comes before the next attempt, but not after the last.
// Each attempt is counted.
func TestWaitsBetweenAttempts(t *testing.T) {
	t.Parallel()
	var times []time.Time
	c := serving(t, func(w http.ResponseWriter, _ *http.Request) {
		times = append(times, time.Now())
		w.Header().Set("Retry-After", "1")
		http.Error(w, "busy", http.StatusServiceUnavailable)
	})
	c.options.Attempts = 2
	start := time.Now()
	a, err := c.ask(t.Context(), openai.Completions, []byte(`{"prompt":"a"}`))
	require.ErrorContains(t, err, "the server answers 503: busy")
	require.Equal(t, 2, a.attempts)
	require.Len(t, times, 2)
	require.GreaterOrEqual(t, times[1].Sub(times[0]), time.Second)
	require.Less(t, a.took, time.Since(start)/2, "the time of the last attempt")
}

// Without a wait that the server asks for, the waits begin with half of FirstWait or more, and
// double.
func TestWaitsThatTheClientChooses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var times []time.Time
		c := answering(t, func() *http.Response {
			times = append(times, time.Now())
			return &http.Response{StatusCode: http.StatusServiceUnavailable, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("busy"))}
		})
		c.options.Attempts, c.options.FirstWait = 3, time.Minute/4
		_, err := c.ask(t.Context(), openai.Completions, []byte(`{"prompt":"a"}`))
		require.ErrorContains(t, err, "the server answers 503: busy")
		require.Len(t, times, 3)
		require.GreaterOrEqual(t, times[1].Sub(times[0]), time.Minute/8)
		require.GreaterOrEqual(t, times[2].Sub(times[1]), time.Minute/4)
	})
}

// transport answers requests without a network.
type transport func(*http.Request) *http.Response

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r), nil }

func answering(t *testing.T, answer func() *http.Response) *Client {
	t.Helper()
	c, err := New(t.Context(), Options{URL: "https://example.org/v1", Model: "m", Attempts: 1})
	require.NoError(t, err)
	c.http.Transport = transport(func(*http.Request) *http.Response { return answer() })
	return c
}

// body notes that it was closed.
type body struct {
	io.Reader
	closed bool
}

func (b *body) Close() error {
	b.closed = true
	return nil
}

// The bodies of answers are closed, also of those that cannot be used.
func TestBodiesAreClosed(t *testing.T) {
	t.Parallel()
	for text, status := range map[string]int{`{"choices":[{}]}`: http.StatusOK, "no": http.StatusBadRequest, "": http.StatusOK} {
		answered := &body{Reader: strings.NewReader(text)}
		if text == "" {
			answered.Reader = iotest.ErrReader(errBroken)
		}
		c := answering(t, func() *http.Response {
			return &http.Response{StatusCode: status, Header: http.Header{}, Body: answered}
		})
		c.ask(t.Context(), openai.Completions, []byte(`{"prompt":"a"}`)) //nolint:errcheck // some answers are errors
		require.True(t, answered.closed)
	}
}

// The check of echoes sends these requests, and accepts an answer of three tokens.
func TestRequestsForAnEcho(t *testing.T) {
	t.Parallel()
	for tokens, want := range map[int]error{2: ErrNoEcho, 3: nil} {
		var sent []byte
		c := serving(t, func(w http.ResponseWriter, r *http.Request) {
			sent, _ = io.ReadAll(r.Body)
			list := func(first, other string) string { return "[" + first + strings.Repeat(","+other, tokens-1) + "]" }
			reply(w, fmt.Sprintf(`{"choices":[{"text":%q,"logprobs":{"tokens":%s,"token_logprobs":%s,"top_logprobs":%s}}]}`,
				probe+"!", list(`"T"`, `"?"`), list("null", "-1"), list("null", `{"?":-1}`)))
		})
		require.ErrorIs(t, c.CheckEcho(t.Context()), want)
		require.JSONEq(t, fmt.Sprintf(`{"model":"m","prompt":%q,"max_tokens":1,"temperature":0,"echo":true,"logprobs":1}`, probe), string(sent))
	}
}

// An address that cannot be used is shown without its user and password.
func TestAddressesWithoutUsers(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"": "", "a": "a", "@a": "…@a", "me:secret@a": "…@a", "ftp://a": "ftp://a", "ftp://me:se@cret@a": "ftp://…@a", "x://@": "x://…@",
	} {
		require.Equal(t, want, withoutUser(address), address)
	}
}

// TestEverySecond: progress is shown every second while a server answers.
func TestEverySecond(t *testing.T) {
	t.Parallel()
	shown := make(chan Progress, 100)
	c := serving(t, func(w http.ResponseWriter, _ *http.Request) {
		<-shown
		reply(w, `{"choices":[{}]}`)
	})
	folder := t.TempDir()
	out, err := rows.OpenOutput(filepath.Join(folder, "answers.jsonl"), Batch)
	require.NoError(t, err)
	p, err := c.Run(t.Context(), strings.NewReader(`{"prompt":"a"}`), out, func(p Progress) { shown <- p })
	require.NoError(t, err)
	require.NoError(t, out.Close())
	require.Equal(t, 1, p.Done)
}

// The elapsed time is known while a run goes on, and at its end, also of a run without rows.
func TestElapsedTime(t *testing.T) {
	t.Parallel()
	c := serving(t, func(w http.ResponseWriter, _ *http.Request) { reply(w, `{"choices":[{}]}`) })
	for _, text := range []string{"", `{"prompt":"a"}`} {
		out, err := rows.OpenOutput(filepath.Join(t.TempDir(), "answers.jsonl"), Batch)
		require.NoError(t, err)
		shown := 0
		p, err := c.Run(t.Context(), strings.NewReader(text), out, func(p Progress) {
			shown++
			require.Positive(t, p.Elapsed)
		})
		require.NoError(t, err)
		require.NoError(t, out.Close())
		require.Positive(t, p.Elapsed)
		require.Equal(t, text != "", shown > 0)
	}
}

// A result that cannot be written ends the run, be it an answer or a refusal.
func TestResultsThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusOK, http.StatusBadRequest} {
		c := serving(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			reply(w, `{"choices":[{}],"error":{"message":"no"}}`)
		})
		out, err := rows.OpenOutput(filepath.Join(t.TempDir(), "answers.jsonl"), Batch)
		require.NoError(t, err)
		require.NoError(t, out.Close())
		p, err := c.Run(t.Context(), strings.NewReader(`{"prompt":"a"}`), out, nil)
		require.Error(t, err, status)
		require.Zero(t, p.Done+p.Failed)
	}
}

// TestModelsThatCannotBeListed: without a name, the server must list one model.
func TestModelsThatCannotBeListed(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"<html>": "the answer is not a list of models", `{"data":[]}`: "has 0 models, not one", `{"data":[{"id":"a"},{"id":"b"}]}`: "has 2 models, not one",
	} {
		c := serving(t, func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet && r.URL.Path == "/v1/models" {
				reply(w, text)
			}
		})
		_, err := c.onlyModel(t.Context())
		require.ErrorContains(t, err, want)
	}
	c := serving(t, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusForbidden) })
	_, err := New(t.Context(), Options{URL: c.options.URL})
	require.ErrorContains(t, err, "list the models of "+c.address+": the server answers 403: no (the API key is read from the client's settings)")
}

// TestFiles: a file of requests is answered into another, with figures of all rows.
func TestFiles(t *testing.T) {
	t.Parallel()
	c := serving(t, func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		if strings.Contains(string(text), "bad") {
			http.Error(w, "no", http.StatusBadRequest)
			return
		}
		reply(w, `{"id":"x","choices":[{}],"usage":{"prompt_tokens":3,"completion_tokens":2}}`)
	})
	folder := t.TempDir()
	requests, answers := filepath.Join(folder, "requests.jsonl"), filepath.Join(folder, "answers.jsonl")
	require.NoError(t, os.WriteFile(requests, []byte(`{"prompt":"a"}`+"\n"+`{"prompt":"bad"}`+"\n\nno JSON\n"+`{"prompt":"b"}`+"\n"), 0o600))
	last := Progress{}
	p, codes, err := c.RunFile(t.Context(), requests, answers, func(total int, p Progress) {
		require.Equal(t, 4, total)
		require.GreaterOrEqual(t, p.Elapsed, last.Elapsed)
		last = p
	})
	require.NoError(t, err)
	require.Positive(t, p.Elapsed)
	last.Elapsed, p.Elapsed = 0, 0
	require.Equal(t, Progress{Done: 2, Failed: 2, PromptTokens: 6, CompletionTokens: 4}, p)
	require.Equal(t, p, last)
	require.Equal(t, 1, codes[codeRefused].Rows)
	require.Equal(t, "the server answers 400: no", codes[codeRefused].Example)
	require.Len(t, codes, 2)
	text, err := os.ReadFile(answers)
	require.NoError(t, err)
	require.Contains(t, string(text), `"prompt_tokens":3,"completion_tokens":2,"attempts":1,"server":"`+c.address+`","model":"m"}}`)
	require.Contains(t, string(text), `"status_code":200,"request_id":"x","body":{"id":"x"`)
	require.NotContains(t, string(text), `"total_ms":0,"prompt_tokens":3`)
	p, _, err = c.RunFile(t.Context(), requests, answers, func(int, Progress) {})
	require.NoError(t, err)
	require.Equal(t, []int{4, 0, 0}, []int{p.Kept, p.Done, p.Failed})

	openfiles.Require(t, 0, requests)
	openfiles.Require(t, 0, answers)

	_, _, err = c.RunFile(t.Context(), filepath.Join(folder, "none"), answers, nil)
	require.ErrorContains(t, err, "read requests: open ")
	_, _, err = c.RunFile(t.Context(), requests, filepath.Join(folder, "none", "answers.jsonl"), nil)
	require.ErrorContains(t, err, "none for the output does not exist: make it")
	require.NoError(t, os.WriteFile(requests, []byte("[{}]"), 0o600))
	_, _, err = c.RunFile(t.Context(), requests, answers, nil)
	require.ErrorContains(t, err, "read requests: ")
	require.ErrorIs(t, err, rows.ErrFormat)

	full := rows.NewOutput(failing{}, Batch)
	_, err = c.Run(t.Context(), strings.NewReader(`{"prompt":"a"}`), full, nil)
	require.ErrorIs(t, err, errBroken)
	_, err = c.Run(t.Context(), strings.NewReader("no JSON"), rows.NewOutput(failing{}, Batch), nil)
	require.ErrorIs(t, err, errBroken)
}

var errBroken = errors.New("broken")

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errBroken }

func TestProgress(t *testing.T) {
	t.Parallel()
	for want, p := range map[string]Progress{
		"0 rows done":                       {},
		"1 row done":                        {Done: 1},
		"3 rows done (1 failed)":            {Done: 2, Failed: 1},
		"1 row done, 1 kept":                {Done: 1, Kept: 1},
		"0 rows done, 1 request sent again": {Retries: 1},
		"2 rows done (2 failed), 5 kept, 3 requests sent again": {Failed: 2, Kept: 5, Retries: 3},
	} {
		require.Equal(t, want, p.String())
	}
}
