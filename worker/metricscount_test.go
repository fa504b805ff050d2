package worker

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/enqueue"
	"github.com/ingot-run/ingot/openai"
	"github.com/ingot-run/ingot/queue"
	"github.com/ingot-run/ingot/queue/memqueue"
	"github.com/ingot-run/ingot/queue/redisqueue"
	"github.com/ingot-run/ingot/queue/redistest"
)

// losing returns the address of a proxy to a server. Every second request that contains a text
// runs, but the proxy loses the reply and closes the connection. It calls onLost before. lost is
// the number of lost replies.
func losing(t *testing.T, server, text string, onLost func()) (addr string, lost *atomic.Int64) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	var requests atomic.Int64
	lost = new(atomic.Int64)
	pass := func(to, from net.Conn, use func(part []byte) bool) {
		defer to.Close()
		defer from.Close()
		part := make([]byte, 1<<20)
		for {
			n, err := from.Read(part)
			if err != nil || !use(part[:n]) {
				return
			}
			if _, err := to.Write(part[:n]); err != nil {
				return
			}
		}
	}
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			backend, err := new(net.Dialer).DialContext(t.Context(), "tcp", server)
			if err != nil {
				client.Close()
				continue
			}
			var lose atomic.Bool
			go pass(backend, client, func(part []byte) bool {
				if bytes.Contains(part, []byte(text)) && requests.Add(1)%2 == 0 {
					lose.Store(true)
				}
				return true
			})
			go pass(client, backend, func([]byte) bool {
				if lose.Load() {
					lost.Add(1)
					onLost()
				}
				return !lose.Load()
			})
		}
	}()
	return l.Addr().String(), lost
}

// A row whose result is recorded counts once in the metrics, although the reply of Redis is lost
// and the client sends the result again, and although a collector has freed the result meanwhile.
func TestMetricsCountRowsWhoseReplyIsLost(t *testing.T) {
	t.Parallel()
	const n = 12
	for name, freed := range map[string]bool{"the result is stored": false, "the result was freed": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := redistest.Start(t)
			addr, lost := losing(t, r.Client.Options().Addr, "line text failed sum", func() {
				if freed {
					r.Client.Del(t.Context(), "ingot:{b}:results")
				}
			})
			q, _, err := redisqueue.Dial(t.Context(), "redis://"+addr+"/0", n, nil)
			require.NoError(t, err)
			t.Cleanup(func() { q.Close() })
			q.Leases = redisqueue.Leases{Beat: 50 * time.Millisecond, Poll: 5 * time.Millisecond, Silence: 3 * time.Second, Stop: time.Minute}
			b := setUp(t, q, nil, Config{Concurrency: 2})
			b.enqueue(t, prompts(n), enqueue.Options{})
			stop := b.start(t)
			require.Eventually(t, func() bool {
				s, err := redisqueue.New(r.Client).Status(t.Context(), "b")
				return err == nil && s.Done == n
			}, time.Minute, 10*time.Millisecond)
			stop()
			require.Positive(t, lost.Load())

			server := httptest.NewServer(b.handler())
			defer server.Close()
			_, text := get(t, server.URL+"/metrics")
			for _, line := range []string{
				`ingot_jobs_total{outcome="done"} 12`, "ingot_prompt_tokens_total 36", "ingot_completion_tokens_total 60", "ingot_ttft_seconds_count 12",
			} {
				require.Contains(t, text, line+"\n")
			}
		})
	}
}

// recordings replies to Record with an error.
type recordings struct {
	first bool
	err   error
}

func (r recordings) Record(context.Context, queue.Result) (bool, error) { return r.first, r.err }
func (recordings) Save(context.Context, []byte) error                   { return nil }

// Every delivery counts in the metrics under one outcome. Those whose row is delivered again count
// even if their result could not be recorded.
func TestMetricsCountEveryDelivery(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		recorder recordings
		generate error
		outcome  string
	}{
		"recorded":                        {recordings{first: true}, nil, "done"},
		"failed for good":                 {recordings{first: true}, generation.ErrBadRequest, "failed"},
		"failed at the first attempt":     {recordings{first: true}, errors.New("no"), "retried"},
		"redis could not be used":         {recordings{err: queue.ErrUnavailable}, nil, "retried"},
		"another worker has recorded it":  {recordings{}, nil, "lease_lost"},
		"another worker has it":           {recordings{err: queue.ErrSuperseded}, nil, "lease_lost"},
		"another model has answered":      {recordings{err: queue.ErrOtherModel}, nil, "handed_back"},
		"the engine was closed meanwhile": {recordings{first: true}, generation.ErrClosed, "handed_back"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setUp(t, memqueue.New(), func(context.Context, generation.Request) (generation.Completion, error) {
				return generation.Completion{Choices: []generation.Choice{{Text: "ok"}}}, c.generate
			}, Config{})
			b.worker.drain.giveUp() // recording is not repeated
			b.worker.refusals.pause = 0
			b.worker.handle(t.Context(), &queue.Delivery{
				Job:     &queue.Job{Batch: "b", Line: 1, Endpoint: openai.Completions, Body: []byte(`{"prompt":[300]}`), TimeoutMS: 60_000, MaxAttempts: 2},
				Attempt: 1, Recorder: c.recorder,
			})
			server := httptest.NewServer(b.handler())
			defer server.Close()
			_, text := get(t, server.URL+"/metrics")
			for line := range strings.Lines(text) {
				if strings.HasPrefix(line, "ingot_jobs_total") {
					require.Equal(t, strings.Contains(line, c.outcome), strings.HasSuffix(line, " 1\n"), line)
				}
			}
		})
	}
}
