package serve

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/openai"
	"github.com/ingot-run/ingot/queue"
	"github.com/ingot-run/ingot/queue/memqueue"
)

// Requests are counted by path and status, and tokens by model, only of answered requests.
func TestWhatMetricsCount(t *testing.T) {
	t.Parallel()
	answers := 0
	s := serverOf(t, "", func(context.Context, Call) (Answer, error) {
		if answers++; answers > 2 {
			return Answer{}, generation.BadRequest("too long")
		}
		return Answer{Body: "ok", Stats: queue.Stats{PromptTokens: 3, CachedTokens: 20, CompletionTokens: 100, QueueWaitMS: 500, TTFTMS: 250}}, nil
	})
	for _, status := range []int{200, 200, 400} {
		require.Equal(t, status, s.post(t, "/v1/completions", strings.NewReader(`{"model":"m","prompt":"a"}`), "").Code)
	}
	require.Equal(t, 404, s.post(t, "/v1/none/7", strings.NewReader("{}"), "").Code)
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", http.NoBody)
	r.Host = "localhost"
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, r)
	for _, line := range []string{
		`ingot_http_requests_total{path="POST /v1/completions",status="200"} 2`,
		`ingot_http_requests_total{path="POST /v1/completions",status="400"} 1`,
		`ingot_http_requests_total{path="/",status="404"} 1`,
		`ingot_http_request_seconds_count{path="POST /v1/completions"} 3`,
		`ingot_http_requests_running 1`,
		`ingot_http_prompt_tokens_total{model="m"} 6`,
		`ingot_http_cached_tokens_total{model="m"} 40`,
		`ingot_http_completion_tokens_total{model="m"} 200`,
		`ingot_http_ttft_seconds_sum{model="m"} 1.5`,
		`ingot_http_ttft_seconds_count{model="m"} 2`,
	} {
		require.Contains(t, w.Body.String(), line+"\n")
	}
}

// Each request has a line in the log, with what it was about; a panic becomes a response.
func TestLinesOfTheLog(t *testing.T) {
	t.Parallel()
	var text bytes.Buffer
	s := serverOf(t, "long-key-1 name=ann", func(_ context.Context, c Call) (Answer, error) {
		switch {
		case c.Stream != nil:
			if err := c.Stream(0, generation.Piece{Text: "a", Tokens: []int32{1}}); err != nil {
				return Answer{}, err
			}
			panic("late")
		case c.Seed == 1:
			panic("oops")
		case c.Seed == 2:
			return Answer{}, errors.New("broken")
		}
		return Answer{Body: c.ID}, nil
	})
	s.log = slog.New(slog.NewTextHandler(&text, nil))
	send := func(body, id string) *httptest.ResponseRecorder {
		text.Reset()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/completions", strings.NewReader(body))
		r.Host = "localhost"
		r.Header.Set("Authorization", "Bearer long-key-1")
		r.Header.Set("X-Request-Id", id)
		w := httptest.NewRecorder()
		defer func() {
			if p := recover(); p != nil {
				require.Equal(t, http.ErrAbortHandler, p)
			}
		}()
		s.Handler().ServeHTTP(w, r)
		return w
	}
	w := send(`{"model":"m","prompt":"a"}`, "mine-1")
	require.Equal(t, "mine-1", w.Header().Get("X-Request-Id"))
	require.Equal(t, "\"mine-1\"\n", w.Body.String())
	for _, part := range []string{"msg=request", "method=POST", "path=/v1/completions", "status=200", "bytes=9", "request=mine-1", "key=ann", "model=m"} {
		require.Contains(t, text.String(), part)
	}
	require.NotContains(t, text.String(), "error=")
	for _, id := range []string{"", "a b", strings.Repeat("x", 129)} {
		require.Regexp(t, "^req_[0-9A-Z]{26}$", send(`{"model":"m","prompt":"a"}`, id).Header().Get("X-Request-Id"))
	}
	require.Equal(t, strings.Repeat("x", 128), send(`{"model":"m","prompt":"a"}`, strings.Repeat("x", 128)).Header().Get("X-Request-Id"))
	require.Equal(t, 500, send(`{"model":"m","prompt":"a","seed":2}`, "i").Code)
	require.Contains(t, text.String(), "error=broken")
	w = send(`{"model":"m","prompt":"a","seed":1}`, "i")
	require.Equal(t, 500, w.Code)
	require.Contains(t, w.Body.String(), `"code":"internal_error"`)
	require.NotContains(t, w.Body.String(), "oops")
	require.Contains(t, text.String(), "panic=oops")
	require.Nil(t, send(`{"model":"m","prompt":"a","stream":true}`, "i"), "the connection is closed within the stream")
	require.Contains(t, text.String(), "panic=late")
	require.Contains(t, text.String(), "status=200")
}

// Errors that workers record become errors of requests.
func TestErrorsOfWorkers(t *testing.T) {
	t.Parallel()
	for code, status := range map[string]int{
		openai.CodeBadRequest: 400, openai.CodeContext: 400, openai.CodeTimeout: 500, openai.CodeFailed: 500, openai.CodeTooLarge: 500, openai.CodeAbandoned: 500, openai.CodeExpired: 500, openai.CodeInvalidValue: 400,
	} {
		e := asHTTP(workerError(&openai.Error{Code: code, Message: "line 1: too long"}))
		require.Equal(t, status, e.status, code)
		require.NotContains(t, e.Error(), "line 1")
		require.Contains(t, e.Error(), "too long")
	}
	require.Equal(t, 500, asHTTP(workerError(nil)).status)
}

// A job that has ended leaves nothing in the queue; one that runs is cancelled.
func TestJobsOfRequestsAreDeleted(t *testing.T) {
	t.Parallel()
	q := memqueue.New()
	f := &Fleet{queue: q, channel: "c", log: slog.New(slog.DiscardHandler)}
	request, err := openai.ParseLive(openai.Completions, []byte(`{"prompt":"a"}`))
	require.NoError(t, err)
	call := Call{ID: "x", Model: "m", Request: request, Body: []byte(`{"prompt":"a"}`), Seed: 77}
	for _, ended := range []bool{true, false} {
		require.NoError(t, f.add(t.Context(), "b", call))
		s, err := q.Status(t.Context(), "b")
		require.NoError(t, err)
		require.Equal(t, []any{1, queue.Interactive, queue.InProgress}, []any{s.Total, s.Priority, s.State})
		if ended {
			_, err := q.Record(t.Context(), "b", queue.Result{Line: 1, Sum: "00000000", Text: []byte("{}")})
			require.NoError(t, err)
		}
		f.end(t.Context(), "b")
		s, err = q.Status(t.Context(), "b")
		if ended {
			require.ErrorIs(t, err, queue.ErrNoBatch)
		} else {
			require.NoError(t, err)
			require.Equal(t, queue.Cancelled, s.State)
		}
	}
	f.end(t.Context(), "none")
}

// The log names the key with which a person has signed in to the console.
func TestLinesOfPagesInTheLog(t *testing.T) {
	t.Parallel()
	var text bytes.Buffer
	s := serverOf(t, "long-key-1 name=ann", nil)
	s.log = slog.New(slog.NewTextHandler(&text, nil))
	k, err := s.options.Keys.find("long-key-1")
	require.NoError(t, err)
	cookie := s.sessions.begin(k, false, time.Now())
	require.Equal(t, http.StatusOK, s.ask(t, http.MethodGet, "/", "", "Cookie", cookie.Name+"="+cookie.Value).Code)
	require.Contains(t, text.String(), "path=/ status=200")
	require.Contains(t, text.String(), " key=ann")
}
