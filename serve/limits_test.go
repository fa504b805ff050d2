package serve_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/serve"
)

// The number of requests that wait is limited, and the number of their answers. Requests above a
// limit are told when to try again, and are answered when others have ended. A request for very
// many answers keeps only its like waiting.
func TestWaitingRequestsAreLimited(t *testing.T) {
	t.Parallel()
	begun := make(chan struct{}, 8)
	b := setUp(t, func(o *serve.Options) {
		o.SetMaxWaiting(8)
		o.Answerer = slow{o.Answerer, func(ctx context.Context, _ serve.Call) (serve.Answer, error) {
			select {
			case begun <- struct{}{}:
				<-ctx.Done()
				return serve.Answer{}, ctx.Err()
			default: // 8 requests are waiting
				return serve.Answer{}, errors.New("not refused")
			}
		}}
	})
	var waiting sync.WaitGroup
	defer waiting.Wait()
	all, leaveAll := context.WithCancel(t.Context())
	defer leaveAll()
	ask := func(body string) (leave context.CancelFunc) {
		ctx, leave := context.WithCancel(all)
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, b.URL+"/v1/completions", strings.NewReader(body))
		require.NoError(t, err)
		n := len(begun)
		waiting.Go(func() { b.Client().Do(r) }) //nolint:bodyclose,errcheck // the client leaves before there is a response
		require.Eventually(t, func() bool { return len(begun) > n }, time.Minute, time.Millisecond)
		return leave
	}
	refused := func(path, body string, answers int) {
		t.Helper()
		got := b.send(t, http.MethodPost, path, body)
		require.Equal(t, 429, got.status, got.text)
		require.Equal(t, "5", got.header.Get("Retry-After"))
		require.JSONEq(t, fmt.Sprintf(`{"error":{"message":"the server is busy: clients wait for %d answers; try again later",
			"type":"rate_limit_error","param":null,"code":"server_busy"}}`, answers), got.text)
	}
	const one, large = `{"model":"tiny","prompt":"a"}`, `{"model":"tiny","prompt":["a","b"],"n":128}`
	leaveLarge := ask(large) // no request is too large for the limit
	refused("/v1/completions", `{"model":"tiny","prompt":"a","n":3}`, 256)
	leave := ask(one)
	for range 6 {
		ask(one)
	}
	refused("/v1/completions", one, 263)
	refused("/v1/completions", `{"model":"tiny","prompt":"a","stream":true}`, 263)
	refused("/v1/chat/completions", `{`+hello+`}`, 263)
	form := url.Values{"model": {"tiny"}, "prompt": {"a"}}
	require.Equal(t, 429, b.page(t, b.browser(t), "/console/try", form).status)
	require.Equal(t, 200, b.send(t, http.MethodGet, "/v1/models", "").status)
	accepted := func(body string) func() bool {
		return func() bool { return b.send(t, http.MethodPost, "/v1/completions", body).status == 500 }
	}
	leave()
	require.Eventually(t, accepted(one), time.Minute, time.Millisecond)
	require.False(t, accepted(large)())
	leaveLarge()
	require.Eventually(t, accepted(large), time.Minute, time.Millisecond)
}

// A request whose body is declared larger than allowed is refused before its body is sent.
func TestDeclaredBodiesAreRefusedAtOnce(t *testing.T) {
	t.Parallel()
	b := setUpStore(t)
	at, err := url.Parse(b.URL)
	require.NoError(t, err)
	for path, code := range map[string]string{
		"/v1/chat/completions": "request_too_large", "/v1/batches": "request_too_large", "/tokenize": "request_too_large", "/v1/files": "file_too_large",
	} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			conn := dialAndSend(t, at.Host, fmt.Sprintf(
				"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; boundary=x\r\nContent-Length: %d\r\n\r\n", path, 5<<30))
			require.NoError(t, conn.SetReadDeadline(time.Now().Add(20*time.Second)))
			got, err := http.ReadResponse(bufio.NewReader(conn), nil)
			require.NoError(t, err)
			defer got.Body.Close()
			text, err := io.ReadAll(got.Body)
			require.NoError(t, err)
			require.Equal(t, 413, got.StatusCode, "%s", text)
			require.Contains(t, string(text), `"code":"`+code+`"`)
			_, err = conn.Read(make([]byte, 1))
			require.ErrorIs(t, err, io.EOF, "the connection is closed, since the body is not read")
		})
	}
}

// Clients that send large bodies slowly do not keep other large bodies waiting.
func TestSlowBodiesLeaveRoom(t *testing.T) {
	t.Parallel()
	b := setUp(t, nil)
	at, err := url.Parse(b.URL)
	require.NoError(t, err)
	begin := fmt.Sprintf("POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n", 16<<20) + strings.Repeat(" ", 400<<10)
	for range 20 {
		dialAndSend(t, at.Host, begin)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for range 3 { // the slow bodies may arrive after the first of these
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, b.URL+"/v1/chat/completions",
			strings.NewReader(`{`+hello+`,"max_tokens":1,"user":"`+strings.Repeat("a", 1<<20)+`"}`))
		require.NoError(t, err)
		got, err := b.Client().Do(r)
		require.NoError(t, err)
		require.NoError(t, got.Body.Close())
		require.Equal(t, 200, got.StatusCode)
	}
}
