package serve_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/enqueue"
	"github.com/ingot-run/ingot/files/rows"
	"github.com/ingot-run/ingot/queue"
	"github.com/ingot-run/ingot/queue/queuetest"
	"github.com/ingot-run/ingot/serve"
	"github.com/ingot-run/ingot/worker"
)

// setUpFleet starts a server in front of a worker that uses the shared engine.
func setUpFleet(t testing.TB, q queue.Queue) *bench {
	t.Helper()
	eng, err := shared()
	require.NoError(t, err)
	startWorker(t, q, eng)
	return setUpFront(t, q, eng)
}

// setUpFront starts a server in front of the workers of a queue.
func setUpFront(t testing.TB, q queue.Queue, eng *engine.Engine) *bench {
	t.Helper()
	fleet := serve.NewFleet(q, slog.New(slog.DiscardHandler))
	ctx, stop := context.WithCancel(context.Background()) //nolint:usetesting // the context must outlive the server
	var running sync.WaitGroup
	ready := make(chan struct{})
	running.Go(func() {
		if err := fleet.Run(ctx, func() { close(ready) }); err != nil {
			t.Errorf("the fleet's event loop ended: %v", err)
		}
	})
	<-ready
	t.Cleanup(func() {
		stop()
		running.Wait()
	})
	return setUpOn(t, eng, func(o *serve.Options) { o.Answerer, o.Queued = fleet, fleet.Batches })
}

// startWorker starts a worker until the test ends, or until stop is called.
func startWorker(t testing.TB, q queue.Queue, eng worker.Engine) (stop func()) {
	t.Helper()
	w, err := worker.New(eng, q, worker.Config{
		Alias: "tiny", Concurrency: 1, Interactive: 4, ShutdownTimeout: time.Millisecond,
		Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background()) //nolint:usetesting // the context must outlive the server in front
	var running sync.WaitGroup
	running.Go(func() {
		if err := w.Run(ctx); err != nil {
			t.Errorf("the worker ended: %v", err)
		}
	})
	stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
	})
	t.Cleanup(stop)
	require.Eventually(t, func() bool {
		n, err := q.Workers(t.Context(), "tiny")
		return err == nil && n > 0
	}, time.Minute, time.Millisecond)
	return stop
}

// A request to a fleet gets the same error as a request to a server with its own engine.
func TestFleetErrors(t *testing.T) {
	t.Parallel()
	queuetest.OnEach(t, func(t *testing.T, q queue.Queue) {
		b := setUpFleet(t, q)
		long := strings.Repeat("word ", 5000)
		for _, body := range []string{
			`{"model":"tiny","prompt":"` + long + `"}`,
			`{"model":"tiny","prompt":"` + long + `","stream":true}`,
			`{"model":"tiny","prompt":[100000000],"stream":true}`,
		} {
			require.Equal(t, "invalid_request_error", b.fails(t, 400, http.MethodPost, "/v1/completions", body).Type)
		}
		require.Equal(t, "model_not_found", b.fails(t, 404, http.MethodPost, "/v1/completions", `{"model":"other","prompt":"a"}`).Code)
	})
}

// A fleet's models are those that live workers serve.
func TestFleetModelsAreThoseOfWorkers(t *testing.T) {
	t.Parallel()
	queuetest.OnEach(t, func(t *testing.T, q queue.Queue) {
		eng, err := shared()
		require.NoError(t, err)
		b := setUpFront(t, q, eng)
		require.Equal(t, 503, b.send(t, http.MethodGet, "/readyz", "").status)
		stop := startWorker(t, q, eng)
		ready := func(want int) func() bool {
			return func() bool { return b.send(t, http.MethodGet, "/readyz", "").status == want }
		}
		require.Eventually(t, ready(200), time.Minute, 10*time.Millisecond)
		require.Contains(t, b.send(t, http.MethodGet, "/v1/models", "").text, `"id":"tiny"`)
		stop()
		require.Eventually(t, ready(503), time.Minute, 10*time.Millisecond)
	})
}

// requireAway requires that a request failed because no worker serves the model now, and that its
// client was told to try again.
func requireAway(t testing.TB, got response) {
	t.Helper()
	require.Equal(t, 503, got.status, got.text)
	require.Equal(t, "5", got.header.Get("Retry-After"))
	require.JSONEq(t, `{"error":{"message":"no worker serves the model \"tiny\" now: try again later, or start one",
		"type":"server_error","param":"model","code":"unavailable"}}`, got.text)
}

// After its last worker has stopped, a model is not listed any more. Requests to it get an error
// that clients repeat, until a worker serves it again.
func TestModelWithoutWorkers(t *testing.T) {
	t.Parallel()
	queuetest.OnEach(t, func(t *testing.T, q queue.Queue) {
		eng, err := shared()
		require.NoError(t, err)
		stop := startWorker(t, q, eng)
		b := setUpFront(t, q, eng)
		models := func() string { return b.send(t, http.MethodGet, "/v1/models", "").text }
		require.Eventually(t, func() bool { return strings.Contains(models(), `"id":"tiny"`) }, time.Minute, time.Millisecond)
		stop()
		require.Eventually(t, func() bool { return !strings.Contains(models(), `"id":"tiny"`) }, time.Minute, time.Millisecond)
		body := `{` + hello + `,"max_tokens":1`
		for _, got := range []response{
			b.send(t, http.MethodPost, "/v1/chat/completions", body+`}`),
			b.send(t, http.MethodPost, "/v1/chat/completions", body+`,"stream":true}`),
			b.send(t, http.MethodGet, "/v1/models/tiny", ""),
		} {
			requireAway(t, got)
		}
		require.Equal(t, "model_not_found", b.fails(t, 404, http.MethodGet, "/v1/models/other", "").Code, "a model that was never served")
		require.Contains(t, b.send(t, http.MethodGet, "/", "").text, "no worker now", "the console")
		startWorker(t, q, eng)
		require.Eventually(t, func() bool { return strings.Contains(models(), `"id":"tiny"`) }, time.Minute, time.Millisecond)
		var chat chatResponse
		b.post(t, "/v1/chat/completions", body+`}`, &chat)
	})
}

// held is an engine that generates one token of each answer and then waits.
type held struct {
	*engine.Engine
	began chan struct{} // receives a value when an answer has begun
}

func (h *held) Generate(ctx context.Context, req generation.Request) (generation.Completion, error) {
	if req.Stream != nil {
		if err := req.Stream(generation.Piece{Text: "Once", Tokens: []int32{300}}); err != nil {
			return generation.Completion{}, err
		}
	}
	h.began <- struct{}{}
	<-ctx.Done()
	return generation.Completion{}, ctx.Err()
}

// Requests that wait for their answer get the same error when the last worker has gone, in the
// response or in the stream.
func TestLastWorkerLeavesRequests(t *testing.T) {
	t.Parallel()
	queuetest.OnEach(t, func(t *testing.T, q queue.Queue) {
		eng, err := shared()
		require.NoError(t, err)
		h := &held{eng, make(chan struct{}, 2)}
		stop := startWorker(t, q, h)
		b := setUpFront(t, q, eng)
		const body = `{"model":"tiny","prompt":"Once","max_tokens":300`
		answers := make([]response, 2)
		var asking sync.WaitGroup
		for i, more := range []string{`}`, `,"stream":true}`} {
			asking.Go(func() { answers[i] = b.send(t, http.MethodPost, "/v1/completions", body+more) })
		}
		for range answers {
			<-h.began
		}
		stop()
		asking.Wait()
		requireAway(t, answers[0])
		require.Contains(t, answers[1].text, `"text":"Once"`)
		require.Contains(t, answers[1].text, `"code":"unavailable"`)
	})
}

// A request whose job the queue has lost, or that an operator has cancelled there, gets an error
// instead of waiting for ever.
func TestLostRequests(t *testing.T) {
	t.Parallel()
	queuetest.OnEach(t, func(t *testing.T, q queue.Queue) {
		eng, err := shared()
		require.NoError(t, err)
		h := &held{eng, make(chan struct{}, 2)}
		startWorker(t, q, h)
		b := setUpFront(t, q, eng)
		answers := make([]response, 2)
		var asking sync.WaitGroup
		for i := range answers {
			asking.Go(func() {
				answers[i] = b.send(t, http.MethodPost, "/v1/completions", `{"model":"tiny","prompt":"Once","max_tokens":300}`)
			})
			<-h.began
		}
		all, err := q.Batches(t.Context())
		require.NoError(t, err)
		require.Len(t, all, 2)
		for i, s := range all {
			_, err := q.Cancel(t.Context(), s.Batch)
			require.NoError(t, err)
			if i == 0 {
				require.NoError(t, q.Purge(t.Context(), s.Batch))
			}
		}
		asking.Wait()
		for _, a := range answers {
			require.Equal(t, 503, a.status, a.text)
			require.Equal(t, "5", a.header.Get("Retry-After"))
			require.Contains(t, a.text, "the queue has lost the request: send it again")
		}
	})
}

// forgetful is a queue that loses each batch before its end is recorded.
type forgetful struct{ queue.Queue }

func (q forgetful) Seal(ctx context.Context, id string, total int, fileSHA string) error {
	if _, err := q.Cancel(ctx, id); err != nil {
		return err
	}
	if err := q.Purge(ctx, id); err != nil {
		return err
	}
	return q.Queue.Seal(ctx, id, total, fileSHA)
}

// A request that the queue loses while it is queued can be sent again as well.
func TestRequestLostWhileItIsQueued(t *testing.T) {
	t.Parallel()
	queuetest.OnEach(t, func(t *testing.T, q queue.Queue) {
		eng, err := shared()
		require.NoError(t, err)
		startWorker(t, q, &held{eng, make(chan struct{}, 1)})
		a := setUpFront(t, forgetful{q}, eng).send(t, http.MethodPost, "/v1/completions", `{"model":"tiny","prompt":"Once","max_tokens":300}`)
		require.Equal(t, 503, a.status, a.text)
		require.Contains(t, a.text, "the queue has lost the request: send it again")
	})
}

// If the client leaves, the worker stops the generation.
func TestClientLeavesFleet(t *testing.T) {
	t.Parallel()
	queuetest.OnEach(t, func(t *testing.T, q queue.Queue) {
		eng, err := open("tiny-llama.q4_0.gguf")
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, eng.Close()) })
		startWorker(t, q, eng)
		setUpFront(t, q, eng).leaveStream(t)
	})
}

// The console shows the batches that other programs have queued, and leaves out requests of
// clients.
func TestConsoleShowsQueuedBatches(t *testing.T) {
	t.Parallel()
	queuetest.OnEach(t, func(t *testing.T, q queue.Queue) {
		eng, err := shared()
		require.NoError(t, err)
		h := &held{eng, make(chan struct{}, 1)}
		startWorker(t, q, h)
		b := setUpFront(t, q, eng)
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.URL+"/v1/completions", strings.NewReader(`{"model":"tiny","prompt":"Once"}`))
		require.NoError(t, err)
		go b.Client().Do(r) //nolint:errcheck // the test ends before the response
		<-h.began
		for id, state := range map[string]queue.State{"nightly": queue.InProgress, "weekly": queue.Cancelled} {
			in := strings.NewReader("{\"prompt\":\"a\"}\n{\"prompt\":\"b\"}\nno JSON\n")
			_, err := enqueue.Enqueue(t.Context(), q, in, enqueue.Options{Batch: id, Alias: "other", Format: rows.FormatJSONL})
			require.NoError(t, err)
			if state == queue.Cancelled {
				_, err = q.Cancel(t.Context(), id)
				require.NoError(t, err)
			}
		}
		row := func(page, id string) string {
			_, after, _ := strings.Cut(page, `<th scope="row">`+id+`</th>`)
			text, _, _ := strings.Cut(after, "</tr>")
			return text
		}
		list, overview := b.send(t, http.MethodGet, "/console/batches", "").text, b.send(t, http.MethodGet, "/", "").text
		for _, page := range []string{list, overview} {
			require.Contains(t, row(page, "nightly"), "<td data-label=\"Model\">other</td>")
			require.Contains(t, row(page, "nightly"), "in_progress")
			require.Contains(t, row(page, "nightly"), "1 of 3, 1 failed")
			require.NotContains(t, page, "live-")
			require.Contains(t, page, `<a href="/console/batches"`)
		}
		require.Contains(t, row(list, "weekly"), "cancelled")
		require.Empty(t, row(overview, "weekly"), "it has ended")
	})
}

// stuck is an engine that stops after some pieces of an answer, like a worker that hangs.
type stuck struct {
	*engine.Engine
	pieces int
	stuck  chan struct{} // closed when the engine has stopped
}

func (s *stuck) Generate(ctx context.Context, req generation.Request) (generation.Completion, error) {
	to, n := req.Stream, 0
	if to == nil {
		return s.Engine.Generate(ctx, req)
	}
	req.Stream = func(p generation.Piece) error {
		if n++; n > s.pieces {
			close(s.stuck)
			<-ctx.Done()
			return ctx.Err()
		}
		return to(p)
	}
	return s.Engine.Generate(ctx, req)
}

// A stream continues without a gap or repetition when another worker takes over its request.
func TestStreamOutlivesItsWorker(t *testing.T) {
	t.Parallel()
	queuetest.OnEach(t, func(t *testing.T, q queue.Queue) {
		eng, err := shared()
		require.NoError(t, err)
		first := &stuck{Engine: eng, pieces: 1, stuck: make(chan struct{})}
		stop := startWorker(t, q, first)
		b := setUpFront(t, q, eng)
		body := `{"model":"tiny","prompt":"Once","max_tokens":300,"ignore_eos":true,"seed":7,"temperature":1,"logprobs":1`
		handedOver := make(chan struct{})
		go func() {
			defer close(handedOver)
			<-first.stuck
			stop()
			startWorker(t, q, eng) //nolint:testifylint // if the worker does not start, the stream reports an error
		}()
		var streamed choice
		for _, c := range b.stream(t, "/v1/completions", body+`,"stream":true}`) {
			streamed.text += c.Choices[0].Text
			streamed.addLogprobs(t, c.Choices[0].Logprobs)
		}
		<-handedOver
		var whole struct {
			Choices []struct {
				Text     string          `json:"text"`
				Logprobs json.RawMessage `json:"logprobs"`
			} `json:"choices"`
		}
		b.post(t, "/v1/completions", body+`}`, &whole)
		want := choice{text: whole.Choices[0].Text}
		want.addLogprobs(t, whole.Choices[0].Logprobs)
		require.Equal(t, want, streamed)
	})
}
