package serve

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/openai"
	"github.com/ingot-run/ingot/queue"
	"github.com/ingot-run/ingot/serve/batch"
)

// ask sends a request to the server's handler.
func (s *Server) ask(t *testing.T, method, path, body string, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, "http://localhost"+path, strings.NewReader(body))
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, r)
	return w
}

func noAnswer(context.Context, Call) (Answer, error) { return Answer{}, errors.New("not answered") }

// Engines need names that requests can use.
func TestAloneRefuses(t *testing.T) {
	t.Parallel()
	_, err := NewAlone(map[string]*engine.Engine{"a:b": nil}, "")
	require.Error(t, err)
	a, err := NewAlone(nil, "")
	require.NoError(t, err)
	_, err = a.Answer(t.Context(), callOf(t, `{"prompt":"a"}`))
	require.EqualError(t, err, `there is no engine for the model "m"`)
}

// Bodies that are not what a request needs are errors of the client.
func TestBodiesThatCannotBeDecoded(t *testing.T) {
	t.Parallel()
	s := serverOf(t, "", noAnswer)
	for body, says := range map[string]string{
		`{"model":5}`:       `{"message":"the field \"model\" must not be a JSON number","type":"invalid_request_error","param":"model","code":"invalid_type"}`,
		`{"tokens":["a"]}`:  `{"message":"the field \"tokens\" must not be a JSON string","type":"invalid_request_error","param":"tokens","code":"invalid_type"}`,
		`[1]`:               `{"message":"the request's body cannot be decoded: json: cannot unmarshal array`,
		`{`:                 `{"message":"the request's body cannot be decoded: unexpected end of JSON input","type":"invalid_request_error","param":null,"code":"invalid_json"}`,
		`{"tokens":null}`:   `{"message":"\"tokens\" is missing","type":"invalid_request_error","param":"tokens","code":"missing_required_parameter"}`,
		`{"model":"other"}`: `"param":"tokens","code":"missing_required_parameter"`,
	} {
		w := s.ask(t, http.MethodPost, "/detokenize", body)
		require.Equal(t, http.StatusBadRequest, w.Code, body)
		require.Contains(t, w.Body.String(), says, body)
		if !strings.Contains(body, "tokens") {
			require.Equal(t, http.StatusBadRequest, s.ask(t, http.MethodPost, "/tokenize", body[:len(body)-1]+"x").Code)
		}
	}
}

// timed is a response that notes its connection's read deadlines.
type timed struct {
	http.ResponseWriter
	deadlines []time.Time
}

func (d *timed) SetReadDeadline(at time.Time) error {
	d.deadlines = append(d.deadlines, at)
	return nil
}

// Each part of a body has its time to arrive. When the whole body has arrived, there is no limit.
func TestTimeOfBodies(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serverOf(t, "", noAnswer)
		at := func(seconds int) time.Time { return time.Now().Add(time.Duration(seconds) * time.Second) }
		minute := int(defaultLimits.body / time.Second)
		start := []time.Time{at(minute), at(minute + 2), at(minute + 5), {}}
		read := func(body io.Reader, length int64) (*timed, int, error) {
			w, n := &timed{ResponseWriter: httptest.NewRecorder()}, 0
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", body)
			r.ContentLength = length
			err := s.limited(25, 10, func(_ http.ResponseWriter, r *http.Request) error {
				for {
					one := make([]byte, 5)
					m, err := r.Body.Read(one)
					n += m
					if err != nil {
						return errors.Join(err, r.Body.Close())
					}
					pass(time.Second)
				}
			})(w, r)
			return w, n, err
		}
		w, n, err := read(iotest.DataErrReader(strings.NewReader(strings.Repeat("a", 25))), -1)
		require.ErrorIs(t, err, io.EOF)
		require.Equal(t, 25, n)
		require.Equal(t, []time.Time{start[0], start[0].Add(time.Second), start[0].Add(3 * time.Second), {}}, w.deadlines, "the second part ends with the 20th byte")
		w, _, err = read(http.NoBody, 0)
		require.ErrorIs(t, err, io.EOF)
		require.Equal(t, []time.Time{{}}, w.deadlines)
		_, n, err = read(strings.NewReader(strings.Repeat("a", 26)), -1)
		var large *http.MaxBytesError
		require.ErrorAs(t, err, &large)
		require.Equal(t, 25, n)
		_, n, err = read(strings.NewReader(strings.Repeat("a", 25)), 25)
		require.ErrorIs(t, err, io.EOF)
		require.Equal(t, 25, n)
		w, n, err = read(iotest.ErrReader(errors.New("it was read")), 26)
		require.ErrorAs(t, err, &large)
		require.Zero(t, n)
		require.Empty(t, w.deadlines)
		broken := errors.New("broken")
		w, _, err = read(io.MultiReader(strings.NewReader("aaaaa"), iotest.ErrReader(broken)), -1)
		require.ErrorIs(t, err, broken)
		require.Len(t, w.deadlines, 1, "the limit stays")
	})
}

// Forms whose bodies break off are errors of the client, also on pages.
func TestBrokenForms(t *testing.T) {
	t.Parallel()
	s := serverOf(t, "", noAnswer)
	for _, path := range []string{"/console/try", "/console/signin"} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost"+path, io.MultiReader(strings.NewReader("key=a"), iotest.ErrReader(errors.New("broken"))))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, r)
		require.Equal(t, http.StatusBadRequest, w.Code, path)
		require.Contains(t, w.Body.String(), "read the request&#39;s body: ", path)
		require.Contains(t, w.Body.String(), "broken: send it again", path)
	}
	_, err := s.answerForm(httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", iotest.ErrReader(errors.New("broken"))), openai.Chat)
	require.ErrorIs(t, err, errBody)
}

// The pages of a server with a store show the batches that it does not have itself.
func TestBatchesOfOtherPrograms(t *testing.T) {
	t.Parallel()
	store, err := batch.Open(t.TempDir(), batch.Options{Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	defer store.Close()
	u, err := store.NewUpload()
	require.NoError(t, err)
	_, err = io.WriteString(u, "{}\n")
	require.NoError(t, err)
	f, err := store.AddFile(u, "a", batch.PurposeInput, 0)
	require.NoError(t, err)
	own, err := store.CreateBatch(batch.Request{InputFileID: f.ID, Endpoint: openai.Chat})
	require.NoError(t, err)
	all := []queue.Status{{Batch: own.ID}, {Batch: "other"}}
	broken := errors.New("broken")
	o := Options{Answerer: answering(noAnswer), Logger: slog.New(slog.DiscardHandler), Queued: func(context.Context) ([]queue.Status, error) { return all, broken }}
	found, err := New(o).foreignBatches(t.Context())
	require.ErrorIs(t, err, broken)
	require.Equal(t, all, found)
	o.Store = store
	found, err = New(o).foreignBatches(t.Context())
	require.ErrorIs(t, err, broken)
	require.Equal(t, []queue.Status{{Batch: "other"}}, found)
	require.Len(t, all, 2)
	require.Equal(t, own.ID, all[0].Batch, "the fleet's list is not changed")

	// A batch may use the models of its key, and lists have pages.
	path := filepath.Join(t.TempDir(), "keys")
	require.NoError(t, os.WriteFile(path, []byte("long-key-1 models=x,y\n"), 0o600))
	o.Keys, err = ReadKeys(path)
	require.NoError(t, err)
	s := New(o)
	key := []string{"Authorization", "Bearer long-key-1"}
	w := s.ask(t, http.MethodPost, "/v1/batches", `{"input_file_id":"`+f.ID+`","endpoint":"/v1/chat/completions","completion_window":"24h"}`, key...)
	require.Equal(t, http.StatusOK, w.Code, w.Body.String())
	same, err := store.CreateBatch(batch.Request{InputFileID: f.ID, Endpoint: openai.Chat, CompletionWindow: "24h", Models: []string{"x", "y"}, Repeated: true})
	require.NoError(t, err)
	require.Contains(t, w.Body.String(), same.ID)
	require.Equal(t, http.StatusBadRequest, s.ask(t, http.MethodGet, "/v1/batches?limit=101", "", key...).Code)
	require.Equal(t, http.StatusOK, s.ask(t, http.MethodGet, "/v1/batches?limit=100", "", key...).Code)
}

// certificate is that of httptest's servers.
func certificate(t *testing.T) (*tls.Config, *http.Client) {
	t.Helper()
	web := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(web.Close)
	return &tls.Config{Certificates: web.TLS.Certificates, MinVersion: tls.VersionTLS12}, web.Client()
}

// counting is an Answerer that counts how often its workers are listed.
type counting struct {
	answering
	listed atomic.Int64
}

func (c *counting) Workers(context.Context) ([]queue.Worker, error) {
	c.listed.Add(1)
	return nil, nil
}

// A server speaks HTTP, or HTTPS with a certificate, and stops when it is told to.
func TestServeOnAListener(t *testing.T) {
	t.Parallel()
	for name, encrypted := range map[string]bool{"HTTP": false, "HTTPS": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			scheme, client := "http", http.DefaultClient
			var config *tls.Config
			if encrypted {
				scheme = "https"
				config, client = certificate(t)
			}
			var log bytes.Buffer
			s := New(Options{Answerer: &counting{answering: noAnswer}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
			l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // listening does not block
			require.NoError(t, err)
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			ended := make(chan error, 1)
			go func() { ended <- s.Serve(ctx, l, config) }()
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, scheme+"://"+l.Addr().String()+"/readyz", http.NoBody)
			require.NoError(t, err)
			response, err := client.Do(r)
			require.NoError(t, err)
			require.NoError(t, response.Body.Close())
			require.Equal(t, http.StatusOK, response.StatusCode)
			client.CloseIdleConnections()
			stop()
			require.NoError(t, <-ended)
			require.Contains(t, log.String(), `msg="stopping: waiting for running requests" timeout=20s`)
			require.Contains(t, log.String(), "msg=stopped")
			require.NotContains(t, log.String(), "cut off")
			w := s.ask(t, http.MethodGet, "/readyz", "")
			require.Equal(t, http.StatusServiceUnavailable, w.Code)
			require.Contains(t, w.Body.String(), "the server is stopping")
		})
	}
	s := serverOf(t, "", noAnswer)
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // listening does not block
	require.NoError(t, err)
	require.NoError(t, l.Close())
	require.ErrorContains(t, s.Serve(t.Context(), l, nil), "accept connections: ")
}

// pipeListener is a listener of connections within the process.
type pipeListener struct{ closed chan struct{} }

func (l pipeListener) Accept() (net.Conn, error) {
	<-l.closed
	return nil, net.ErrClosed
}

func (l pipeListener) Close() error {
	select {
	case <-l.closed:
	default:
		close(l.closed)
	}
	return nil
}

func (pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

// The speed of the workers is recorded for the console while the server runs, and not longer.
func TestSpeedIsRecorded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &counting{answering: noAnswer}
		s := New(Options{Answerer: c, Logger: slog.New(slog.DiscardHandler)})
		ctx, stop := context.WithTimeout(t.Context(), time.Minute+time.Second)
		defer stop()
		require.NoError(t, s.Serve(ctx, pipeListener{make(chan struct{})}, nil))
		require.EqualValues(t, 12, c.listed.Load())

		c.listed.Store(0)
		failing := pipeListener{make(chan struct{})}
		require.NoError(t, failing.Close())
		require.Error(t, s.Serve(t.Context(), failing, nil))
		pass(time.Minute)
		require.Zero(t, c.listed.Load(), "a server that has failed records nothing")
	})
}

// A body that waits for memory gets it after several attempts.
func TestRoomIsTriedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRoom(10, 4, time.Minute)
		first, second, third := r.share(), r.share(), r.share()
		require.NoError(t, first.take(t.Context(), 6))
		require.NoError(t, second.take(t.Context(), 3))
		go func() {
			pass(time.Second)
			second.shrink(2) // not enough
			pass(time.Second)
			second.shrink(1) // not enough
			pass(time.Second)
			first.shrink(1)
		}()
		start := time.Now()
		require.NoError(t, third.take(t.Context(), 5))
		require.Equal(t, 3*time.Second, time.Since(start))
		require.Equal(t, []int64{1, 1, 5, 3}, []int64{first.held, second.held, third.held, r.free})
		require.Same(t, third, r.last)
		freed := r.freed
		third.shrink(5)
		require.Equal(t, freed, r.freed, "nothing was freed")

		start = time.Now()
		err := first.take(t.Context(), 4)
		require.ErrorContains(t, err, "the server is busy: other large requests take all the memory for them; try again later")
		require.Equal(t, time.Minute, time.Since(start))
	})
}

// A request that did not pass through the server's handler has notes, too.
func TestNotesOfNoRequest(t *testing.T) {
	t.Parallel()
	require.Equal(t, &notes{}, notesOf(t.Context()))
}

// A preflight request of a browser is answered by itself: no handler sees it.
func TestPreflightsReachNoHandler(t *testing.T) {
	t.Parallel()
	s := &Server{options: Options{Origin: "https://a.example"}}
	for origin, want := range map[string]bool{"https://a.example": false, "https://b.example": true, "": true} {
		called := false
		h := s.crossOrigin(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { called = true }))
		r := httptest.NewRequestWithContext(t.Context(), http.MethodOptions, "/v1/completions", http.NoBody)
		r.Header.Set("Access-Control-Request-Method", "POST")
		r.Header.Set("Origin", origin)
		h.ServeHTTP(httptest.NewRecorder(), r)
		require.Equal(t, want, called, origin)
	}
}
