package batch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/enqueue"
	"github.com/ingot-run/ingot/files/rows"
	"github.com/ingot-run/ingot/openai"
	"github.com/ingot-run/ingot/queue"
	"github.com/ingot-run/ingot/queue/memqueue"
)

// faultyQueue is a queue whose methods a test replaces.
type faultyQueue struct {
	queue.Queue
	fleet   func() ([]queue.Worker, error)
	create  func(context.Context) error
	cancel  func() error
	missing func() (int, error)
}

func (q *faultyQueue) Fleet(ctx context.Context) ([]queue.Worker, error) {
	if q.fleet != nil {
		return q.fleet()
	}
	return q.Queue.Fleet(ctx)
}

func (q *faultyQueue) Create(ctx context.Context, b queue.Batch) (queue.Batch, bool, error) {
	if q.create != nil {
		if err := q.create(ctx); err != nil {
			return queue.Batch{}, false, err
		}
	}
	return q.Queue.Create(ctx, b)
}

func (q *faultyQueue) Cancel(ctx context.Context, batch string) (bool, error) {
	if q.cancel != nil {
		if err := q.cancel(); err != nil {
			return false, err
		}
	}
	return q.Queue.Cancel(ctx, batch)
}

func (q *faultyQueue) Missing(ctx context.Context, s queue.Status) (int, error) {
	if q.missing != nil {
		return q.missing()
	}
	return q.Queue.Missing(ctx, s)
}

// fleetTask returns a task of one row whose results go to a buffer.
func fleetTask(t *testing.T) Task {
	t.Helper()
	input := filepath.Join(t.TempDir(), "input")
	require.NoError(t, os.WriteFile(input, []byte(oneRow), 0o600))
	return Task{
		Batch: "b", Model: "m", Input: input, Continued: 1, Report: func(Tokens) {}, Warn: func(string) {},
		Results: sync.OnceValues(func() (*rows.Output, error) { return rows.NewOutput(&bytes.Buffer{}, "b"), nil }),
	}
}

// A fleet's batch accepts the models of all workers, each once.
func TestModelsOfAFleet(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	q := &faultyQueue{fleet: func() ([]queue.Worker, error) {
		return []queue.Worker{{Aliases: []string{"b", "a"}}, {Aliases: []string{"b"}}, {}}, nil
	}}
	names, err := NewFleet(q, "").Models(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b"}, names)
	q.fleet = func() ([]queue.Worker, error) { return nil, broken }
	_, err = NewFleet(q, "").Models(t.Context())
	require.ErrorIs(t, err, broken)
}

// Only a worker that is alive, serves the model and has one for chats makes texts to continue odd.
func TestFleetWarnsOfChats(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		w     queue.Worker
		warns bool
	}{
		"all of it":     {queue.Worker{Aliases: []string{"m"}, Chat: true}, true},
		"no chats":      {queue.Worker{Aliases: []string{"m"}}, false},
		"another model": {queue.Worker{Aliases: []string{"n"}, Chat: true}, false},
		"lost":          {queue.Worker{Aliases: []string{"m"}, Chat: true, Lost: time.Now()}, false},
	} {
		warned := false
		task := fleetTask(t)
		task.Warn = func(string) { warned = true }
		q := &faultyQueue{fleet: func() ([]queue.Worker, error) { return []queue.Worker{c.w}, nil }}
		NewFleet(q, "").warnOfContinued(t.Context(), task)
		require.Equal(t, c.warns, warned, name)
	}
}

// Fleet returns the errors of a batch that it cannot run, and another batch has its turn.
func TestFleetCannotRun(t *testing.T) {
	t.Parallel()
	never, broken := t.Context(), errors.New("broken")
	q := &faultyQueue{Queue: memqueue.New()}
	f := NewFleet(q, "")
	task := fleetTask(t)
	opened := 0
	task.Results = func() (*rows.Output, error) { opened++; return nil, broken }
	var ended func() error
	q.create = func(ctx context.Context) error { ended = ctx.Err; return errors.New("no memory") }
	require.ErrorContains(t, f.Run(t.Context(), never, task), "no memory")
	require.Error(t, ended(), "the context of an attempt ends with it")
	missing := task
	missing.Input += "none"
	require.ErrorIs(t, f.Run(t.Context(), never, missing), fs.ErrNotExist)
	require.Zero(t, opened)
	q.create = nil
	require.ErrorIs(t, f.Run(t.Context(), never, task), broken)
	require.Equal(t, 1, opened)
	require.Equal(t, maxQueued, f.turns["m"].free)
	require.NoError(t, f.Forget(t.Context(), "none"))
	require.ErrorIs(t, f.Forget(t.Context(), "b"), queue.ErrUnfinished)
}

// A fleet's batch that is stopped is cancelled in the queue. If it cannot be, the next attempt does
// so.
func TestFleetStopsABatch(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for name, c := range map[string]struct{ fails, want error }{
		"cancelled": {nil, nil}, "unknown there": {queue.ErrNoBatch, nil}, "not cancelled": {broken, broken},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := &faultyQueue{Queue: memqueue.New()}
			f := NewFleet(q, "")
			stopped, stop := context.WithCancel(t.Context())
			task := fleetTask(t)
			task.Report = func(Tokens) { stop() }
			q.cancel = func() error {
				if errors.Is(c.fails, queue.ErrNoBatch) {
					_, err := q.Queue.Cancel(t.Context(), "b")
					require.NoError(t, err)
				}
				return c.fails
			}
			err := f.Run(t.Context(), stopped, task)
			if c.want == nil {
				require.NoError(t, err)
				s, err := q.Status(t.Context(), "b")
				require.NoError(t, err)
				require.Equal(t, queue.Cancelled, s.State)
			} else {
				require.ErrorIs(t, err, c.want)
			}
			require.Equal(t, maxQueued, f.turns["m"].free)

			// An attempt after the batch was stopped does not queue it again.
			q.cancel, q.create = nil, func(context.Context) error { return broken }
			require.NoError(t, f.Run(t.Context(), stopped, task))
		})
	}
	q := &faultyQueue{Queue: memqueue.New()}
	stopped, stop := context.WithCancel(t.Context())
	task := fleetTask(t)
	q.missing = func() (int, error) { return 1, nil }
	cancelled := 0
	q.cancel = func() error { cancelled++; return nil }
	require.ErrorContains(t, NewFleet(q, "").WithInterval(time.Millisecond).Run(t.Context(), stopped, task), "the queue has lost 1 rows, which are queued again")
	stop()
	require.Zero(t, cancelled, "an attempt that has ended cancels nothing")
}

// A batch is hopeless if the queue or its results have rows of another input.
func TestFleetHasAnotherInput(t *testing.T) {
	t.Parallel()
	enqueued := func(t *testing.T, q queue.Queue, text string) {
		t.Helper()
		_, err := enqueue.Enqueue(t.Context(), q, strings.NewReader(text), enqueue.Options{Batch: "b", Alias: "m", Priority: queue.Bulk, Format: rows.FormatJSONL})
		require.NoError(t, err)
	}
	recorded := func(t *testing.T, q queue.Queue, sum string) {
		t.Helper()
		_, err := q.Record(t.Context(), "b", queue.Result{Line: 1, Sum: sum, Text: []byte("{}")})
		require.NoError(t, err)
	}
	const result = `{"id":"%s","custom_id":"a","response":null,"error":null}` + "\n"
	for name, c := range map[string]struct {
		prepare func(t *testing.T, q queue.Queue)
		results string
		says    string
	}{
		"another batch in the queue": {func(t *testing.T, q queue.Queue) { enqueued(t, q, oneRow+oneRow) }, "", "different input"},
		"another row in the queue": {func(t *testing.T, q queue.Queue) {
			enqueued(t, q, oneRow)
			recorded(t, q, "00000001")
		}, fmt.Sprintf(result, openai.ResultID("b", 1, "00000002")), "line 1 differs"},
		"a row that the queue lacks": {func(t *testing.T, q queue.Queue) {
			enqueued(t, q, oneRow)
			recorded(t, q, "00000001")
		}, fmt.Sprintf(result, openai.ResultID("b", 2, "00000002")), "its results file has 1 rows that the queue does not have"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := memqueue.New()
			c.prepare(t, q)
			path := filepath.Join(t.TempDir(), "results")
			require.NoError(t, os.WriteFile(path, []byte(c.results), 0o600))
			task := fleetTask(t)
			task.Results = func() (*rows.Output, error) {
				out, err := rows.OpenOutput(path, "b")
				if err == nil {
					t.Cleanup(func() { require.NoError(t, out.Close()) })
				}
				return out, err
			}
			err := NewFleet(q, "").Run(t.Context(), t.Context(), task)
			require.ErrorIs(t, err, ErrHopeless)
			require.ErrorContains(t, err, c.says)
		})
	}
}

// A search for lost rows that fails, or finds none, does not interrupt a batch.
func TestFleetLooksForLostRows(t *testing.T) {
	t.Parallel()
	q := &faultyQueue{Queue: memqueue.New()}
	searches := 0
	q.missing = func() (int, error) {
		searches++
		switch searches {
		case 5:
			_, err := q.Record(t.Context(), "b", queue.Result{Line: 1, Sum: "00000000", Text: []byte("{}")})
			return 0, err
		case 2, 4:
			return 7, errors.New("broken")
		}
		return 0, nil
	}
	var tokens []Tokens
	task := fleetTask(t)
	task.Report = func(n Tokens) { tokens = append(tokens, n) }
	require.NoError(t, NewFleet(q, "").WithInterval(time.Millisecond).Run(t.Context(), t.Context(), task))
	require.GreaterOrEqual(t, searches, 5)
	require.NotEmpty(t, tokens)
	require.NoError(t, NewFleet(q, "").Forget(t.Context(), "b"))
}
