package enqueue_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/enqueue"
	"github.com/ingot-run/ingot/queue"
	"github.com/ingot-run/ingot/queue/queuetest"
)

// interrupted is a queue whose methods fail as if Redis restarted. Each method that a producer
// calls fails twice: once before it has any effect, and once after it has had its whole effect.
type interrupted struct {
	queue.Queue
	mu    sync.Mutex
	calls map[string]int
}

func (q *interrupted) call(method string, f func() error) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.calls[method]++
	n := q.calls[method]
	if n == 1 {
		return queue.ErrUnavailable
	}
	if err := f(); err != nil || n > 2 {
		return err
	}
	return queue.ErrUnavailable
}

func (q *interrupted) Create(ctx context.Context, b queue.Batch) (existing queue.Batch, created bool, err error) {
	err = q.call("Create", func() (err error) { existing, created, err = q.Queue.Create(ctx, b); return err })
	return existing, created, err
}

func (q *interrupted) Recorded(ctx context.Context, batch string) (lines queue.Lines, err error) {
	err = q.call("Recorded", func() (err error) { lines, err = q.Queue.Recorded(ctx, batch); return err })
	return lines, err
}

func (q *interrupted) Record(ctx context.Context, batch string, r queue.Result) (first bool, err error) {
	err = q.call("Record", func() (err error) { first, err = q.Queue.Record(ctx, batch, r); return err })
	return first, err
}

func (q *interrupted) Add(ctx context.Context, alias string, p queue.Priority, jobs []*queue.Job) (added []bool, err error) {
	err = q.call("Add", func() (err error) { added, err = q.Queue.Add(ctx, alias, p, jobs); return err })
	return added, err
}

func (q *interrupted) Seal(ctx context.Context, batch string, total int, fileSHA string) error {
	return q.call("Seal", func() error { return q.Queue.Seal(ctx, batch, total, fileSHA) })
}

// full is a queue whose Redis has no memory for more rows.
type full struct {
	queue.Queue
	calls atomic.Int32
}

func (q *full) Add(context.Context, string, queue.Priority, []*queue.Job) ([]bool, error) {
	q.calls.Add(1)
	return nil, fmt.Errorf("queue a row: %w", errors.Join(queue.ErrUnavailable, queue.ErrFull))
}

// Waiting would not help: Redis stays full until somebody frees memory.
func TestEnqueueDoesNotWaitForMemory(t *testing.T) {
	queuetest.OnEach(t, func(t *testing.T, q queue.Queue) {
		full := &full{Queue: q}
		sum, err := enqueue.Enqueue(t.Context(), full, strings.NewReader(prompts(1)), enqueue.Options{Batch: "b"})
		require.ErrorIs(t, err, queue.ErrFull)
		require.Equal(t, 1, sum.Rows)
		require.Zero(t, sum.Added)
		require.EqualValues(t, 1, full.calls.Load())
	})
}

func TestEnqueueOutlastsARestart(t *testing.T) {
	queuetest.OnEach(t, func(t *testing.T, q queue.Queue) {
		broken := &interrupted{Queue: q, calls: map[string]int{}}
		sum, err := enqueue.Enqueue(t.Context(), broken, strings.NewReader(prompts(300)+"nonsense\n"), enqueue.Options{Batch: "b"})
		require.NoError(t, err)
		require.Equal(t, 301, sum.Rows)
		require.Equal(t, 300, sum.Added+sum.Known)
		for _, method := range []string{"Create", "Recorded", "Record", "Add", "Seal"} {
			require.Greater(t, broken.calls[method], 2, method)
		}
		st, err := q.Status(t.Context(), "b")
		require.NoError(t, err)
		require.Equal(t, []int{301, 1, 300}, []int{st.Total, st.Failed, st.Waiting()})
		queuetest.Take(t, q, queue.DefaultAlias, queue.Default, 300)
	})
}
