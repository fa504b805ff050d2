package serve_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/serve"
)

// listen runs a server with Serve until the test ends or stop is called.
func listen(t testing.TB, change func(*serve.Options)) (address string, stop func()) {
	t.Helper()
	var server *serve.Server
	setUp(t, func(o *serve.Options) {
		change(o)
		server = serve.New(*o)
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // listening does not block
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := server.Serve(ctx, listener, nil); err != nil {
			t.Errorf("the server ended: %v", err)
		}
	})
	stop = func() {
		cancel()
		running.Wait()
	}
	t.Cleanup(stop)
	return listener.Addr().String(), stop
}

// dialAndSend opens a connection and sends a text, such as the beginning of a request.
func dialAndSend(t testing.TB, address, text string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", address) //nolint:noctx // a connection to this machine does not block
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	_, err = io.WriteString(c, text)
	require.NoError(t, err)
	return c
}

// Clients that do not finish their requests, or send too much, are refused or cut off. Other
// clients are answered meanwhile.
func TestHostileClients(t *testing.T) {
	t.Parallel()
	address, _ := listen(t, func(o *serve.Options) {
		o.SetReadLimits(50 * time.Millisecond)
	})
	const head = "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
	for name, c := range map[string]struct {
		send   string
		status int // status of the response; 0 if the server closes the connection without one
	}{
		"a connection without a request":   {"", 0},
		"headers that never end":           {"GET /v1/models HTTP/1.1\r\nHost: localhost\r\nX-", 0},
		"a body that never comes":          {head + "Content-Length: 100\r\n\r\n", 408},
		"a body that stops":                {head + "Content-Length: 100\r\n\r\n{\"model\":", 408},
		"a chunked body that stops":        {head + "Transfer-Encoding: chunked\r\n\r\n5\r\n{\"mod\r\n", 408},
		"a file that stops":                {"POST /v1/batches HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{", 404},
		"headers that are too large":       {"GET /v1/models HTTP/1.1\r\nHost: localhost\r\nX-A: " + strings.Repeat("a", 100_000) + "\r\n\r\n", 431},
		"nested arrays":                    {request(strings.Repeat("[", 200_000)), 400},
		"a request after which it is idle": {request(`{` + hello + `,"max_tokens":1}`), 200},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := dialAndSend(t, address, c.send)
			answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
			// A slow machine may need longer than the limit to send a whole request.
			for c.status != http.StatusRequestTimeout && err == nil && answer.StatusCode == http.StatusRequestTimeout {
				require.NoError(t, answer.Body.Close())
				conn = dialAndSend(t, address, c.send)
				answer, err = http.ReadResponse(bufio.NewReader(conn), nil)
			}
			if c.status == 0 {
				if err == nil {
					defer answer.Body.Close()
					require.GreaterOrEqual(t, answer.StatusCode, 400)
				}
				return
			}
			require.NoError(t, err)
			defer answer.Body.Close()
			require.Equal(t, c.status, answer.StatusCode)
			_, err = io.Copy(io.Discard, answer.Body)
			require.NoError(t, err)
			_, err = conn.Read(make([]byte, 1)) // blocks until the server closes the connection
			require.Error(t, err)
		})
	}
	t.Run("many connections that are left open", func(t *testing.T) {
		t.Parallel()
		for range 200 {
			dialAndSend(t, address, "")
		}
		conn := dialAndSend(t, address, request(`{`+hello+`,"max_tokens":1}`))
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		for try := 1; err != nil && try < 100; try++ { // on a slow machine, the request may come after the time for its headers
			conn = dialAndSend(t, address, request(`{`+hello+`,"max_tokens":1}`))
			answer, err = http.ReadResponse(bufio.NewReader(conn), nil)
		}
		require.NoError(t, err)
		defer answer.Body.Close()
		require.Equal(t, 200, answer.StatusCode)
	})
}

// request returns the text of an HTTP request for a chat with the given body.
func request(body string) string {
	return fmt.Sprintf("POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}

// A body that is too large is refused before it is read to its end.
func TestLargeBodies(t *testing.T) {
	t.Parallel()
	b := setUp(t, nil)
	endless := `{"model":"tiny","prompt":"` + strings.Repeat("a", 17<<20) + `"}`
	require.Equal(t, "request_too_large", b.fails(t, 413, http.MethodPost, "/v1/completions", endless).Code)
}

// A compressed body is refused with an error that names its encoding.
func TestCompressedBodies(t *testing.T) {
	t.Parallel()
	b := setUpStore(t)
	for path, encodings := range map[string]map[string]int{
		"/v1/completions": {"gzip": 415, "br": 415, "identity": 400, "": 400}, "/v1/files": {"gzip": 415},
	} {
		for encoding, want := range encodings {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.URL+path, strings.NewReader("\x1f\x8b"))
			require.NoError(t, err)
			r.Header.Set("Content-Encoding", encoding)
			got, err := b.Client().Do(r)
			require.NoError(t, err)
			text, err := io.ReadAll(got.Body)
			require.NoError(t, err)
			require.NoError(t, got.Body.Close())
			require.Equal(t, want, got.StatusCode, "%s %s: %s", path, encoding, text)
			require.Equal(t, want == 415, strings.Contains(string(text), `send it uncompressed`), "%s", text)
		}
	}
}

// When the server stops, running requests may finish within the drain time. Later they are cut off.
func TestDrain(t *testing.T) {
	t.Parallel()
	for name, finish := range map[string]bool{"streams finish": true, "a stream is cut off": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			release := make(chan struct{})
			address, stop := listen(t, func(o *serve.Options) {
				o.SetDrainTime(time.Minute)
				if !finish {
					o.SetDrainTime(time.Millisecond)
				}
				o.Answerer = slow{o.Answerer, func(ctx context.Context, c serve.Call) (serve.Answer, error) {
					if err := c.Stream(0, generation.Piece{Text: "first", Tokens: []int32{1}}); err != nil {
						return serve.Answer{}, err
					}
					select {
					case <-release:
						return serve.Answer{}, c.Stream(0, generation.Piece{Text: "last", Tokens: []int32{2}, FinishReason: generation.FinishStop})
					case <-ctx.Done():
						return serve.Answer{}, ctx.Err()
					}
				}}
			})
			conn := dialAndSend(t, address, request(`{`+hello+`,"stream":true}`))
			answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
			require.NoError(t, err)
			defer answer.Body.Close()
			stopped := make(chan struct{})
			go func() {
				defer close(stopped)
				stop()
			}()
			require.Eventually(t, func() bool { // the server accepts no more connections
				c, err := net.Dial("tcp", address) //nolint:noctx // a connection to this machine does not block
				if err == nil {
					c.Close()
				}
				return err != nil
			}, time.Minute, time.Millisecond)
			if finish {
				close(release)
			}
			text, _ := io.ReadAll(answer.Body)
			<-stopped
			if finish {
				require.Contains(t, string(text), `"last"`)
				require.Contains(t, string(text), "data: [DONE]")
			} else {
				require.Contains(t, string(text), "the server is stopping")
			}
		})
	}
}
