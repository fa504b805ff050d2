package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/openai"
	"github.com/ingot-run/ingot/queue"
)

// answering is an Answerer with the model m and without an engine.
type answering func(ctx context.Context, c Call) (Answer, error)

func (answering) Models(context.Context) ([]Model, error)         { return []Model{{Alias: "m"}}, nil }
func (answering) Engine(string) *engine.Engine                    { return nil }
func (answering) Workers(context.Context) ([]queue.Worker, error) { return nil, nil }

func (a answering) Answer(ctx context.Context, c Call) (Answer, error) { return a(ctx, c) }

// serverOf returns a server that answers with a function. keys is the content of a file of keys;
// empty for none.
func serverOf(t *testing.T, keys string, answer answering) *Server {
	t.Helper()
	o := Options{Answerer: answer, Logger: slog.New(slog.DiscardHandler)}
	if keys != "" {
		path := filepath.Join(t.TempDir(), "keys")
		require.NoError(t, os.WriteFile(path, []byte(keys), 0o600))
		var err error
		o.Keys, err = ReadKeys(path)
		require.NoError(t, err)
	}
	return New(o)
}

func (s *Server) post(t *testing.T, path string, body io.Reader, key string) *httptest.ResponseRecorder {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, path, body)
	r.Host = "localhost"
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, r)
	return w
}

// The memory for large bodies is given back after each request, also if its body breaks off.
func TestLargeBodiesAreFreed(t *testing.T) {
	t.Parallel()
	s := serverOf(t, "", func(context.Context, Call) (Answer, error) { return Answer{Body: "ok"}, nil })
	broken := errors.New("the connection broke")
	large := `{"model":"m","prompt":"` + strings.Repeat("a", 3*smallBody) + `"}`
	for _, c := range []struct {
		body   io.Reader
		status int
	}{
		{io.MultiReader(strings.NewReader(large[:2*smallBody]), readerOf(broken)), http.StatusBadRequest},
		{strings.NewReader(large), http.StatusOK},
		{strings.NewReader(large[1:]), http.StatusBadRequest},
	} {
		require.Equal(t, c.status, s.post(t, "/v1/completions", c.body, "").Code)
		require.Equal(t, int64(maxBodies), s.bodies.free, "all memory is free")
		require.Nil(t, s.bodies.last)
	}

	// While other bodies hold all memory, a small body is read, and a large one waits.
	hog := s.bodies.share()
	require.NoError(t, hog.take(t.Context(), maxBodies))
	for size, waits := range map[int]bool{smallBody - 1: false, smallBody: true, smallBody + 1: true} {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		text := `{"model":"m","prompt":"` + strings.Repeat("a", size-len(`{"model":"m","prompt":""}`)) + `"}`
		require.Len(t, text, size)
		_, done, err := s.readBody(httptest.NewRequestWithContext(ctx, http.MethodPost, "/", strings.NewReader(text)))
		require.Equal(t, waits, errors.Is(err, context.Canceled), "%d bytes: %v", size, err)
		if err == nil {
			done()
		}
	}
	hog.giveBack()
	require.Equal(t, int64(maxBodies), s.bodies.free)
}

type failingReader struct{ err error }

func readerOf(err error) io.Reader               { return failingReader{err} }
func (f failingReader) Read([]byte) (int, error) { return 0, f.err }

// A key's tokens are counted for answers and for what was sent of streams that failed. Then it has
// to wait, as long as the header says.
func TestTokensOfKeys(t *testing.T) {
	t.Parallel()
	const chat = `{"model":"m","prompt":"a"}`
	const stream = `{"model":"m","prompt":"a","stream":true}`
	for name, c := range map[string]struct {
		body   string
		answer answering
		spent  int // of 100 tokens
	}{
		"an answer": {chat, func(context.Context, Call) (Answer, error) {
			return Answer{Body: "ok", Stats: queue.Stats{PromptTokens: 30, CompletionTokens: 12}}, nil
		}, 42},
		"an error": {chat, func(context.Context, Call) (Answer, error) { return Answer{}, errors.New("broken") }, 0},
		"a stream that fails": {stream, func(_ context.Context, c Call) (Answer, error) {
			for range 3 {
				if err := c.Stream(0, generation.Piece{Text: "a", Tokens: make([]int32, 9)}); err != nil {
					return Answer{}, err
				}
			}
			return Answer{}, errors.New("broken")
		}, 27},
		"a stream that ends": {stream, func(_ context.Context, c Call) (Answer, error) {
			err := c.Stream(0, generation.Piece{Text: "a", Tokens: make([]int32, 9), FinishReason: generation.FinishStop})
			return Answer{Body: map[string]any{}, Stats: queue.Stats{PromptTokens: 5, CompletionTokens: 9}}, err
		}, 14},
		"more than the limit": {chat, func(context.Context, Call) (Answer, error) {
			return Answer{Body: "ok", Stats: queue.Stats{PromptTokens: 250}}, nil
		}, 250},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serverOf(t, "long-key-1 tokens=100\nlong-key-2 name=free", c.answer)
			limited, err := s.options.Keys.find("long-key-1")
			require.NoError(t, err)
			free, err := s.options.Keys.find("long-key-2")
			require.NoError(t, err)
			s.post(t, "/v1/completions", strings.NewReader(c.body), "long-key-1")
			require.InDelta(t, 100-c.spent, limited.tokens.TokensAt(time.Now()), 10) // the limit gives 1.7 tokens a second
			s.post(t, "/v1/completions", strings.NewReader(c.body), "long-key-2")
			require.Nil(t, free.tokens)
			if c.spent > 100 {
				w := s.post(t, "/v1/completions", strings.NewReader(c.body), "long-key-1")
				require.Equal(t, http.StatusTooManyRequests, w.Code)
				require.Regexp(t, "^(8[0-9]|9[01])$", w.Header().Get("Retry-After")) // 151 tokens at 100 a minute
				require.Contains(t, w.Body.String(), "the API key is limited to 100 tokens per minute: try again in 1m")
			}
		})
	}
}

func TestLimitsOfKeys(t *testing.T) {
	t.Parallel()
	now := time.Now()
	parse := func(settings string) *key {
		k := &Keys{byHash: map[[32]byte]*key{}}
		require.NoError(t, k.add(strings.Fields("long-key "+settings)))
		found, err := k.find("long-key")
		require.NoError(t, err)
		return found
	}
	k := parse("rate=2 tokens=120 name=a models=x,y")
	require.Equal(t, "a", k.name)
	require.Equal(t, []bool{true, true, false}, []bool{k.mayUse("x"), k.mayUse("y"), k.mayUse("z")})
	require.NoError(t, k.begin(now))
	require.NoError(t, k.begin(now))
	require.EqualError(t, k.begin(now), "the API key is limited to 2 requests per minute: try again in 30s")
	require.NoError(t, k.begin(now.Add(31*time.Second)))

	k = parse("tokens=120")
	k.spend(now, 119)
	require.NoError(t, k.begin(now), "one token is left")
	k.spend(now, 1)
	require.EqualError(t, k.begin(now), "the API key is limited to 120 tokens per minute: try again in 1s")
	require.Equal(t, 500*time.Millisecond, retryOf(k.begin(now)).Round(time.Millisecond))
	k.spend(now, 600)
	require.Equal(t, 300*time.Second+500*time.Millisecond, retryOf(k.begin(now)).Round(time.Millisecond))
	require.Error(t, k.begin(now.Add(300*time.Second)))
	require.NoError(t, k.begin(now.Add(301*time.Second)))
	for range 200 {
		k.spend(now.Add(301*time.Second), 0)
	}
	require.NoError(t, k.begin(now.Add(301*time.Second)))
	var none *key
	none.spend(now, 5)
	require.NoError(t, none.begin(now))
	require.True(t, none.mayUse("x"))
	require.True(t, parse("").mayUse("x"))
	require.NoError(t, parse("").begin(now))
	require.Len(t, parse("").name, 8, "a key without a name has the beginning of its hash")
}

func retryOf(err error) time.Duration {
	var e *httpError
	if !errors.As(err, &e) {
		return 0
	}
	return e.retry
}

func TestFilesOfKeys(t *testing.T) {
	t.Parallel()
	for text, says := range map[string]string{
		"":                                   "has no key, so nobody could use the server: add one",
		"# a comment\n\n":                    "has no key",
		"1234567":                            ":1: the key has fewer than 8 bytes: use a longer one",
		"12345678":                           "",
		"\n12345678 rate=0":                  `:2: a limit must be a whole number of at least 1, not "0"`,
		"12345678 rate=1":                    "",
		"12345678 tokens=a":                  `a limit must be a whole number of at least 1, not "a"`,
		"12345678 name=":                     `"name=" is not a setting: give name=NAME, rate=N, tokens=N or models=A,B`,
		"12345678 name":                      `"name" is not a setting`,
		"12345678 limit=5":                   `"limit=5" is not a setting`,
		"12345678\n12345678":                 ":2: the file has this key twice: remove one",
		"sha256:12":                          `"sha256:" must be followed by 64 hexadecimal digits`,
		"sha256:" + strings.Repeat("xy", 32): `"sha256:" must be followed by 64 hexadecimal digits`,
		"sha256:" + strings.Repeat("0", 64):  "",
		"sha256:ef797c8118f02dfb649607dd5d3f8c7623048c9c063d532cc95c5ed7a898a64f\n12345678": "twice",
		"1234567\xff":               "the key is not UTF-8",
		strings.Repeat("x", 70_000): "token too long",
	} {
		path := filepath.Join(t.TempDir(), "keys")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		_, err := ReadKeys(path)
		if says == "" {
			require.NoError(t, err, text)
			continue
		}
		require.ErrorContains(t, err, says, text)
		require.ErrorContains(t, err, "read API keys: "+path)
	}
	_, err := ReadKeys(filepath.Join(t.TempDir(), "none"))
	require.ErrorContains(t, err, "read API keys: open ")

	keys := &Keys{byHash: map[[32]byte]*key{}}
	require.NoError(t, keys.add([]string{"long-key"}))
	for header, code := range map[string]string{
		"Bearer long-key": "", "bearer  long-key ": "", "Bearer long": "invalid_api_key", "Bearer ": "missing_api_key", "": "missing_api_key",
		"Basic long-key": "missing_api_key", "long-key": "missing_api_key",
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
		r.Header.Set("Authorization", header)
		k, err := keys.ofRequest(r)
		require.Equal(t, code == "", k != nil, header)
		if err != nil {
			e := asHTTP(err)
			require.Equal(t, http.StatusUnauthorized, e.status)
			require.Equal(t, code, *e.body.Error.Code)
		}
	}
}

// Errors become responses with OpenAI's types, and say when to try again.
func TestErrorsBecomeResponses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err        error
		status     int
		kind, code string
		says       string
	}{
		"a field":               {&openai.Error{Code: openai.CodeMissing, Message: "x"}, 400, "invalid_request_error", "missing_required_parameter", "x"},
		"a large body":          {&http.MaxBytesError{Limit: 7}, 413, "invalid_request_error", "request_too_large", "the request's body is larger than 7 bytes"},
		"a request":             {generation.BadRequest("too long"), 400, "invalid_request_error", "invalid_value", "too long"},
		"the client has left":   {fmt.Errorf("x: %w", context.Canceled), 499, "invalid_request_error", "", "the client has left"},
		"a closed engine":       {generation.ErrClosed, 503, "server_error", "unavailable", "try again later"},
		"a failed engine":       {generation.ErrEngineFailed, 503, "server_error", "unavailable", "try again later"},
		"the queue":             {queue.ErrUnavailable, 503, "server_error", "unavailable", "try again later"},
		"the time is over":      {context.DeadlineExceeded, 503, "server_error", "unavailable", "try again later"},
		"a slow client":         {os.ErrDeadlineExceeded, 408, "invalid_request_error", "timeout", "the request's body did not arrive in time"},
		"the network is slow":   {&slowError{}, 408, "invalid_request_error", "timeout", "did not arrive in time"},
		"another error":         {errors.New("oops"), 500, "server_error", "internal_error", "oops"},
		"too many":              {failf(429, "", "c", "x"), 429, "rate_limit_error", "c", "x"},
		"the server's fault":    {failf(500, "", "", "x"), 500, "server_error", "", "x"},
		"the request's fault":   {failf(499, "p", "", "x"), 499, "invalid_request_error", "", "x"},
		"a missing parameter":   {missing("p"), 400, "invalid_request_error", "missing_required_parameter", `"p" is missing`},
		"a row's unknown model": {&openai.Error{Code: openai.CodeUnknownModel, Message: "x"}, 404, "invalid_request_error", "model_not_found", "x"},
	} {
		e := asHTTP(fmt.Errorf("wrapped: %w", c.err))
		require.Equal(t, c.status, e.status, name)
		require.Equal(t, c.kind, e.body.Error.Type, name)
		require.Contains(t, e.Error(), c.says, name)
		if c.code == "" {
			require.Nil(t, e.body.Error.Code, name)
		} else {
			require.Equal(t, c.code, *e.body.Error.Code, name)
		}
	}
	for retry, header := range map[time.Duration]string{0: "", 1: "1", time.Second: "1", time.Second + 1: "2", 2 * time.Second: "2"} {
		w := httptest.NewRecorder()
		writeError(w, &httpError{status: 429, retry: retry})
		require.Equal(t, header, w.Header().Get("Retry-After"), retry)
		require.Equal(t, 429, w.Code)
	}
	w := httptest.NewRecorder()
	writeJSON(w, 200, make(chan int))
	require.Equal(t, 500, w.Code)
	require.JSONEq(t, `{"error":{"message":"the response cannot be written as JSON","type":"server_error","param":null,"code":null}}`, w.Body.String())
}

type slowError struct{}

func (*slowError) Error() string   { return "slow" }
func (*slowError) Timeout() bool   { return true }
func (*slowError) Temporary() bool { return true }

// slowLine is a connection that counts the bytes after each write deadline.
type slowLine struct {
	http.ResponseWriter
	parts []int
}

func (l *slowLine) SetWriteDeadline(time.Time) error {
	l.parts = append(l.parts, 0)
	return nil
}

func (l *slowLine) Write(p []byte) (int, error) {
	l.parts[len(l.parts)-1] += len(p)
	return l.ResponseWriter.Write(p)
}

// A client on a slow line has time for each part of a large response, not only for all of it.
func TestLargeResponsesHaveTimeForEachPart(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 1, writePart, writePart + 1, 5 << 20} {
		line := &slowLine{ResponseWriter: httptest.NewRecorder()}
		out := &recorder{ResponseWriter: line, conn: http.NewResponseController(line)}
		n, err := out.Write(make([]byte, size))
		require.NoError(t, err)
		require.Equal(t, size, n)
		require.Equal(t, int64(size), out.bytes)
		require.Len(t, line.parts, max(1, (size+writePart-1)/writePart))
		require.LessOrEqual(t, slices.Max(line.parts), writePart)
	}
}

// Few requests for many answers do not fill the server for others.
func TestFewRequestsDoNotFillTheServer(t *testing.T) {
	t.Parallel()
	w := waiting{limit: 2}
	_, ok := w.enter(2*maxFurther + 1)
	require.True(t, ok)
	_, ok = w.enter(2)
	require.False(t, ok, "the limit of further answers is reached")
	_, ok = w.enter(1)
	require.True(t, ok)
	_, ok = w.enter(1)
	require.False(t, ok, "the limit of requests is reached")

	w = waiting{limit: defaultLimits.waiting}
	for many := true; many; {
		_, many = w.enter(128)
	}
	_, several := w.enter(2)
	require.False(t, several)
	for range 1000 {
		_, ok := w.enter(1)
		require.True(t, ok)
	}
	w.leave(128)
	_, several = w.enter(2)
	require.True(t, several)
}

// The forms of the console take no more memory than other bodies: anyone may send the one to sign
// in, so it must be small, and a large prompt shares the memory of large bodies.
func TestFormsOfTheConsoleAreLimited(t *testing.T) {
	t.Parallel()
	send := func(s *Server, path, form string) int {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost"+path, strings.NewReader(form))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, r)
		return w.Code
	}
	s := serverOf(t, "secret-of-one\n", nil)
	require.Equal(t, http.StatusSeeOther, send(s, "/console/signin", "key=secret-of-one"))
	require.Equal(t, http.StatusUnauthorized, send(s, "/console/signin", "key=secret-of-two"))
	require.Equal(t, http.StatusRequestEntityTooLarge, send(s, "/console/signin", "key="+strings.Repeat("a", formBytes)))

	const size = 1 << 20
	var held int64
	s = serverOf(t, "", func(context.Context, Call) (Answer, error) {
		held = maxBodies - s.bodies.free
		return Answer{}, errors.New("not answered")
	})
	require.Equal(t, http.StatusInternalServerError, send(s, "/console/try", "model=m&prompt="+strings.Repeat("a", size)))
	require.Greater(t, held, int64(2*size), "the form and the request that is made from it")
	require.Equal(t, int64(maxBodies), s.bodies.free)
}
