package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/openai"
	"github.com/ingot-run/ingot/queue"
)

// pass lets time pass in a bubble of synctest, where nothing really waits for it.
func pass(d time.Duration) { <-time.After(d) }

// callOf returns a call of the model m with a request for a completion.
func callOf(t *testing.T, body string) Call {
	t.Helper()
	r, err := openai.ParseLive(openai.Completions, []byte(body))
	require.NoError(t, err)
	return Call{ID: "x", Model: "m", Request: r, Body: []byte(body)}
}

// waitingBatch returns the id of the only call in progress.
func (f *Fleet) waitingBatch() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Collect(maps.Keys(f.calls))[0]
}

const answered = `{"response":{"body":{"choices":[{"text":"ab","finish_reason":"stop"}]}},"error":null,"stats":{"prompt_tokens":7}}`

// record records the result of a call.
func record(t *testing.T, f *Fleet, text string) {
	t.Helper()
	_, err := f.queue.Record(t.Context(), f.waitingBatch(), queue.Result{Line: 1, Sum: "00000000", Text: []byte(text)})
	require.NoError(t, err)
}

// What the queue and a worker do about a call decides when it ends, and how.
func TestEndsOfCalls(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	event := func(t *testing.T, f *Fleet, e queue.Event) {
		t.Helper()
		e.Batch = f.waitingBatch()
		message, err := json.Marshal(e)
		require.NoError(t, err)
		f.receive(message)
	}
	piece := queue.Event{Piece: generation.Piece{Text: "a", Tokens: []int32{1}}}
	for name, c := range map[string]struct {
		stream bool
		queue  func(q *faultyQueue)
		then   func(t *testing.T, f *Fleet, q *faultyQueue, leave func()) // half a second after the call began
		after  time.Duration
		fails  error
		says   string
		status int
		sent   string

		cancelled int // how often the job was cancelled meanwhile
	}{
		"no event": {then: func(t *testing.T, f *Fleet, _ *faultyQueue, _ func()) { record(t, f, answered) }, after: time.Second},
		"an event": {then: func(t *testing.T, f *Fleet, _ *faultyQueue, _ func()) {
			record(t, f, answered)
			event(t, f, queue.Event{Ended: true})
		}, after: time.Second / 2},
		"events of a call that is not streamed": {then: func(t *testing.T, f *Fleet, _ *faultyQueue, _ func()) {
			event(t, f, piece)
			record(t, f, answered)
		}, after: time.Second},
		"a stream": {stream: true, then: func(t *testing.T, f *Fleet, _ *faultyQueue, _ func()) {
			event(t, f, piece)
			event(t, f, piece)
			record(t, f, answered)
		}, after: time.Second, sent: "ab"},
		"a result that is no JSON": {then: func(t *testing.T, f *Fleet, _ *faultyQueue, _ func()) { record(t, f, "{") }, after: time.Second, says: "read the result of a worker: unexpected end", status: 500},
		"a result without a body":  {then: func(t *testing.T, f *Fleet, _ *faultyQueue, _ func()) { record(t, f, "{}") }, after: time.Second, says: "neither a response nor an error", status: 500},
		"a result that is an error": {then: func(t *testing.T, f *Fleet, _ *faultyQueue, _ func()) {
			record(t, f, `{"error":{"code":"timeout","message":"line 1: x"}}`)
		}, after: time.Second, says: "x", status: 500},
		"a stream of no answer": {stream: true, then: func(t *testing.T, f *Fleet, _ *faultyQueue, _ func()) { record(t, f, `{"response":{"body":5}}`) }, after: time.Second, says: "decode a response", status: 500},
		"the client leaves": {then: func(t *testing.T, f *Fleet, _ *faultyQueue, leave func()) {
			leave()
		}, after: time.Second / 2, fails: context.Canceled, status: 499},
		"the queue cannot be read": {queue: func(q *faultyQueue) { q.read = func() ([]queue.Recording, error) { return nil, broken } }, after: time.Second, fails: broken, status: 500},
		"the queue cannot be read for a while": {queue: func(q *faultyQueue) {
			end := time.Now().Add(4 * time.Second)
			q.read = func() ([]queue.Recording, error) {
				if time.Now().After(end) {
					return nil, nil
				}
				return nil, queue.ErrUnavailable
			}
			q.status = func() error { return queue.ErrNoBatch }
			q.fleet = func(context.Context) ([]queue.Worker, error) { return nil, nil }
		}, then: recordAfter(3), after: 5 * time.Second},
		"a recording that was freed": {queue: func(q *faultyQueue) {
			looks := 0
			q.read = func() ([]queue.Recording, error) {
				if looks++; looks > 1 {
					return nil, nil
				}
				return []queue.Recording{{Line: 1}}, nil
			}
		}, then: recordAfter(1), after: 2 * time.Second},
		"no worker": {queue: func(q *faultyQueue) { q.fleet = func(context.Context) ([]queue.Worker, error) { return nil, nil } }, after: time.Second, says: `no worker serves the model "m" now`, status: 503},
		"the job is lost": {queue: func(q *faultyQueue) { q.missing = func() (int, error) { return 1, nil } }, after: 3 * time.Second,
			says: "the queue has lost the request: send it again", status: 503},
		"the batch is lost":          {queue: func(q *faultyQueue) { q.status = func() error { return queue.ErrNoBatch } }, after: 3 * time.Second, says: "the queue has lost the request", status: 503},
		"the batch cannot be read":   {queue: func(q *faultyQueue) { q.status = func() error { return broken } }, then: recordAfter(5), after: 6 * time.Second},
		"the job cannot be searched": {queue: func(q *faultyQueue) { q.missing = func() (int, error) { return 1, broken } }, then: recordAfter(5), after: 6 * time.Second},
		"the job waits":              {queue: func(q *faultyQueue) { q.missing = func() (int, error) { return 0, nil } }, then: recordAfter(5), after: 6 * time.Second},
		"the batch is cancelled": {queue: func(q *faultyQueue) { q.missing = func() (int, error) { return 0, nil } }, then: func(t *testing.T, f *Fleet, _ *faultyQueue, _ func()) {
			_, err := f.queue.Cancel(t.Context(), f.waitingBatch())
			require.NoError(t, err)
		}, after: 3 * time.Second, says: "the queue has lost the request", status: 503, cancelled: 1},
		"no batch is made": {queue: func(q *faultyQueue) { q.create = func() error { return broken } }, fails: broken, status: 500},
		"no job is added":  {queue: func(q *faultyQueue) { q.add = func() error { return broken } }, fails: broken, status: 500},
		"no batch is sealed": {queue: func(q *faultyQueue) { q.seal = func() error { return broken } },
			fails: broken, status: 500},
		"the queue takes small jobs alone": {queue: func(q *faultyQueue) { q.maxBytes = 1000 }, says: "but the queue accepts at most", status: 413},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				q := newFaultyQueue()
				if c.queue != nil {
					c.queue(q)
				}
				ended := 0
				var over func() error
				var limit func() (time.Time, bool)
				q.cancel = func(ctx context.Context) error {
					ended++
					over, limit = ctx.Err, ctx.Deadline
					return nil
				}
				f := NewFleet(q, slog.New(slog.DiscardHandler))
				body := `{"prompt":"` + string(bytes.Repeat([]byte("a"), 2000)) + `"}`
				call := callOf(t, body)
				sent := ""
				if c.stream {
					call.Stream = func(_ int, p generation.Piece) error { sent += p.Text; return nil }
				}
				ctx, leave := context.WithCancel(t.Context())
				defer leave()
				var meanwhile sync.WaitGroup
				if c.then != nil {
					meanwhile.Go(func() {
						pass(time.Second / 2)
						c.then(t, f, q, leave)
					})
				}
				start := time.Now()
				got, err := f.Answer(ctx, call)
				require.Equal(t, c.after, time.Since(start))
				meanwhile.Wait()
				synctest.Wait()
				require.Equal(t, 1, ended-c.cancelled, "the job of a call is ended")
				require.ErrorIs(t, over(), context.Canceled)
				_, limited := limit()
				require.True(t, limited)
				require.Empty(t, f.calls)
				require.Equal(t, c.sent, sent)
				if c.status == 0 {
					require.NoError(t, err)
					require.Equal(t, 7, got.Stats.PromptTokens)
					require.Contains(t, string(got.Body.(json.RawMessage)), `"text":"ab"`)
					return
				}
				require.Error(t, err)
				if c.fails != nil {
					require.ErrorIs(t, err, c.fails)
				}
				require.ErrorContains(t, err, c.says)
				require.Equal(t, c.status, asHTTP(err).status)
			})
		})
	}
}

// recordAfter returns a function that records a result after some seconds.
func recordAfter(seconds int) func(*testing.T, *Fleet, *faultyQueue, func()) {
	return func(t *testing.T, f *Fleet, _ *faultyQueue, _ func()) {
		t.Helper()
		pass(time.Duration(seconds) * time.Second)
		record(t, f, answered)
	}
}

// The job of a call is looked for at intervals, not after every look for its result.
func TestLostJobsAreLookedForAtIntervals(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newFaultyQueue()
		start := time.Now()
		var at []int
		q.missing = func() (int, error) {
			at = append(at, int(time.Since(start).Seconds()))
			return len(at) / 3, nil
		}
		_, err := NewFleet(q, slog.New(slog.DiscardHandler)).Answer(t.Context(), callOf(t, `{"prompt":"a"}`))
		require.Error(t, err)
		require.Equal(t, []int{3, 6, 9}, at)
		synctest.Wait()
	})
}

// A client that cannot be written to ends its call.
func TestStreamOfACallFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := NewFleet(newFaultyQueue(), slog.New(slog.DiscardHandler))
		broken := errors.New("broken")
		call := callOf(t, `{"prompt":"a"}`)
		call.Stream = func(int, generation.Piece) error { return broken }
		go func() {
			pass(time.Second / 4)
			message, err := json.Marshal(queue.Event{Batch: f.waitingBatch(), Piece: generation.Piece{Text: "a"}})
			if err != nil {
				t.Error(err)
			}
			f.receive(message)
		}()
		start := time.Now()
		_, err := f.Answer(t.Context(), call)
		require.ErrorIs(t, err, broken)
		require.Equal(t, time.Second/4, time.Since(start))
		synctest.Wait()
	})
}

// What cannot be done about a call that has ended is logged.
func TestJobsThatCannotBeEnded(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	q := newFaultyQueue()
	f := NewFleet(q, slog.New(slog.NewTextHandler(&log, nil)))
	f.end(t.Context(), "none")
	f.receive([]byte(`{"batch":"none"}`))
	require.Empty(t, log.String())
	f.receive([]byte("{"))
	require.Contains(t, log.String(), `level=WARN msg="could not decode an event of a worker" error=`)
	require.NoError(t, f.add(t.Context(), "b", callOf(t, `{"prompt":"a"}`)))
	q.cancel = func(context.Context) error { return errors.New("broken 1") }
	f.end(t.Context(), "b")
	require.Contains(t, log.String(), `level=WARN msg="could not end the job of a request" batch=b error="broken 1"`)
	q.cancel, q.purge = nil, func() error { return errors.New("broken 2") }
	_, err := q.Record(t.Context(), "b", queue.Result{Line: 1, Sum: "00000000", Text: []byte("{}")})
	require.NoError(t, err)
	f.end(t.Context(), "b")
	require.Contains(t, log.String(), `batch=b error="broken 2"`)
}

// While the queue cannot be reached, a fleet tries to listen again every second. It ends with its
// context, or with an error that another attempt would get too.
func TestFleetListens(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		fails []error // of the attempts to listen; nil is one that works for a while
		err   error
		ready int
		took  time.Duration
	}{
		"it works":            {nil, nil, 1, 59 * time.Second},
		"it works at last":    {[]error{queue.ErrUnavailable, queue.ErrUnavailable}, nil, 1, 59 * time.Second},
		"it never works":      {[]error{broken}, broken, 0, 0},
		"it works no longer":  {[]error{queue.ErrUnavailable, broken}, broken, 0, time.Second},
		"it never works, too": {[]error{queue.ErrUnavailable, nil, broken}, broken, 1, 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				q := newFaultyQueue()
				attempts := 0
				q.listen = func(onReady func()) error {
					attempts++
					if attempts > len(c.fails) {
						return nil
					}
					if c.fails[attempts-1] == nil {
						onReady()
						onReady()
						return queue.ErrUnavailable
					}
					return c.fails[attempts-1]
				}
				listed, left := 0, false
				q.fleet = func(context.Context) ([]queue.Worker, error) { listed++; return nil, nil }
				q.watch = func(ctx context.Context) {
					<-ctx.Done()
					pass(time.Millisecond)
					left = true
				}
				ctx, cancel := context.WithTimeout(t.Context(), 59*time.Second)
				defer cancel()
				ready := 0
				start := time.Now()
				err := NewFleet(q, slog.New(slog.NewTextHandler(&log, nil))).Run(ctx, func() { ready++ })
				require.Equal(t, c.took+time.Millisecond, time.Since(start))
				require.True(t, left, "it has ended what it started")
				require.Equal(t, c.ready, ready)
				require.Equal(t, 1+int(c.took/(2*modelsAge)), listed, "how often workers were listed")
				require.Equal(t, len(c.fails) > 1 || errors.Is(errors.Join(c.fails...), queue.ErrUnavailable), bytes.Contains(log.Bytes(), []byte("cannot listen to events of workers")))
				if c.err == nil {
					require.NoError(t, err)
				} else {
					require.ErrorIs(t, err, c.err)
					require.ErrorContains(t, err, "listen to events of workers: ")
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		q := newFaultyQueue()
		attempts := 0
		q.listen = func(func()) error { attempts++; return queue.ErrUnavailable }
		ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		require.NoError(t, NewFleet(q, slog.New(slog.DiscardHandler)).Run(ctx, func() {}))
		require.Equal(t, 1, attempts, "it ended within the pause")
	})
}

// The list of a fleet's batches is read at most every 3 seconds, and has neither requests nor
// damaged batches.
func TestBatchesOfAFleet(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newFaultyQueue()
		reads := 0
		q.batches = func() ([]queue.Status, error) {
			if reads++; reads == 1 {
				return nil, queue.ErrUnavailable
			}
			return []queue.Status{
				{Batch: queue.Batch{ID: "a"}.ID, Priority: queue.Bulk}, {Batch: "b", Damage: "x"}, {Batch: "c", Priority: queue.Interactive}, {Batch: "d", Damage: "x", Priority: queue.Interactive},
			}, nil
		}
		f := NewFleet(q, slog.New(slog.DiscardHandler))
		_, err := f.Batches(t.Context())
		require.ErrorIs(t, err, queue.ErrUnavailable)
		for range 8 {
			list, err := f.Batches(t.Context())
			require.NoError(t, err)
			require.Equal(t, []queue.Status{{Batch: "a", Priority: queue.Bulk}}, list)
			pass(time.Second)
		}
		require.Equal(t, 1+3, reads)
	})
}

// A fleet's models are those of the workers that are alive or were lost within an hour. Of several
// workers, the first one describes the model.
func TestModelsOfWorkers(t *testing.T) {
	t.Parallel()
	now := time.Now()
	var over func() error
	var limit func() (time.Time, bool)
	q := newFaultyQueue()
	q.fleet = func(ctx context.Context) ([]queue.Worker, error) {
		over, limit = ctx.Err, ctx.Deadline
		return []queue.Worker{
			{Aliases: []string{"z"}, Model: "one", Started: now, Context: 5, Chat: true},
			{Aliases: []string{"z"}, Model: "two", Started: now.Add(-time.Minute), Context: 6},
			{Aliases: []string{"z"}, Model: "three", Started: now.Add(-2 * time.Minute), Lost: now, Context: 7},
			{Aliases: []string{"y"}, Model: "lost", Started: now, Lost: now.Add(-modelMemory + time.Minute)},
			{Aliases: []string{"x"}, Model: "long lost", Started: now, Lost: now.Add(-modelMemory - time.Minute)},
			{Aliases: []string{"w", "v"}, Model: "several", Started: now},
		}, nil
	}
	m := &fleetModels{queue: q, byAlias: map[string]*fleetModel{}}
	left, leave := context.WithCancel(t.Context())
	leave()
	list, err := m.list(left)
	require.NoError(t, err, "the list is not only for the client that has left")
	require.Equal(t, []Model{
		{Alias: "v", Name: "several", Since: now}, {Alias: "w", Name: "several", Since: now},
		{Alias: "y", Name: "lost", Since: now, Away: true}, {Alias: "z", Name: "two", Since: now.Add(-time.Minute), Context: 6},
	}, list)
	require.ErrorIs(t, over(), context.Canceled)
	deadline, ok := limit()
	require.True(t, ok)
	require.WithinDuration(t, now.Add(listTime), deadline, 2*time.Second)
	require.False(t, m.abandoned(t.Context(), "y"), "it is waited for")
	require.True(t, m.abandoned(t.Context(), "x"))
}

// Without a model, a request that names none is about a model that is not there.
func TestServerWithoutModels(t *testing.T) {
	t.Parallel()
	q := newFaultyQueue()
	q.fleet = func(context.Context) ([]queue.Worker, error) { return nil, nil }
	s := New(Options{Answerer: NewFleet(q, slog.New(slog.DiscardHandler)), Logger: slog.New(slog.DiscardHandler)})
	for _, path := range []string{"/tokenize", "/detokenize"} {
		w := s.ask(t, http.MethodPost, path, `{"prompt":"a","tokens":[1]}`)
		require.Equal(t, http.StatusNotFound, w.Code, w.Body.String())
		require.Contains(t, w.Body.String(), `"code":"model_not_found"`)
	}
}

// Errors of a fleet's list of models are those of all requests for models.
func TestServerWithoutItsQueue(t *testing.T) {
	t.Parallel()
	q := newFaultyQueue()
	q.fleet = func(context.Context) ([]queue.Worker, error) { return nil, queue.ErrUnavailable }
	s := New(Options{Answerer: NewFleet(q, slog.New(slog.DiscardHandler)), Logger: slog.New(slog.DiscardHandler)})
	for _, c := range [][3]string{
		{http.MethodGet, "/v1/models", ""}, {http.MethodGet, "/v1/models/m", ""}, {http.MethodPost, "/tokenize", `{"prompt":"a"}`},
		{http.MethodPost, "/detokenize", `{"tokens":[1]}`}, {http.MethodGet, "/tokenizer_info", ""}, {http.MethodPost, "/v1/completions", `{"model":"m","prompt":"a"}`},
	} {
		w := s.ask(t, c[0], c[1], c[2])
		require.Equal(t, http.StatusServiceUnavailable, w.Code, c[1])
		require.Contains(t, w.Body.String(), "the server cannot answer now; try again later", c[1])
		require.Contains(t, w.Body.String(), `"code":"unavailable"`, c[1])
		require.Equal(t, "5", w.Header().Get("Retry-After"), c[1])
	}
	w := s.ask(t, http.MethodGet, "/readyz", "")
	require.Equal(t, http.StatusServiceUnavailable, w.Code)
	require.Contains(t, w.Body.String(), queue.ErrUnavailable.Error())
}
