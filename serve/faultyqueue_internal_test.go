package serve

import (
	"context"
	"log/slog"

	"github.com/ingot-run/ingot/queue"
	"github.com/ingot-run/ingot/queue/memqueue"
)

// faultyQueue is a queue in memory whose methods a test replaces. Its worker serves the model m.
type faultyQueue struct {
	queue.Queue
	fleet    func(context.Context) ([]queue.Worker, error)
	batches  func() ([]queue.Status, error)
	listen   func(onReady func()) error
	watch    func(context.Context)
	create   func() error
	add      func() error
	seal     func() error
	maxBytes int
	read     func() ([]queue.Recording, error)
	status   func() error
	missing  func() (int, error)
	cancel   func(context.Context) error
	purge    func() error
}

func newFaultyQueue() *faultyQueue { return &faultyQueue{Queue: memqueue.New()} }

func (q *faultyQueue) Fleet(ctx context.Context) ([]queue.Worker, error) {
	if q.fleet == nil {
		return []queue.Worker{{Aliases: []string{"m"}}}, nil
	}
	return q.fleet(ctx)
}

func (q *faultyQueue) Batches(ctx context.Context) ([]queue.Status, error) {
	if q.batches == nil {
		return q.Queue.Batches(ctx)
	}
	return q.batches()
}

func (q *faultyQueue) Listen(ctx context.Context, channel string, onReady func(), onMessage func([]byte)) error {
	if q.listen != nil {
		if err := q.listen(onReady); err != nil {
			return err
		}
	}
	return q.Queue.Listen(ctx, channel, onReady, onMessage)
}

func (q *faultyQueue) WatchWorkers(ctx context.Context, log *slog.Logger) {
	if q.watch == nil {
		q.Queue.WatchWorkers(ctx, log)
		return
	}
	q.watch(ctx)
}

func failed(f func() error) error {
	if f == nil {
		return nil
	}
	return f()
}

func (q *faultyQueue) Create(ctx context.Context, b queue.Batch) (queue.Batch, bool, error) {
	if err := failed(q.create); err != nil {
		return queue.Batch{}, false, err
	}
	return q.Queue.Create(ctx, b)
}

func (q *faultyQueue) Add(ctx context.Context, alias string, p queue.Priority, jobs []*queue.Job) ([]bool, error) {
	if err := failed(q.add); err != nil {
		return nil, err
	}
	return q.Queue.Add(ctx, alias, p, jobs)
}

func (q *faultyQueue) Seal(ctx context.Context, batch string, total int, fileSHA string) error {
	if err := failed(q.seal); err != nil {
		return err
	}
	return q.Queue.Seal(ctx, batch, total, fileSHA)
}

func (q *faultyQueue) MaxBytes(ctx context.Context) (int, error) {
	if q.maxBytes == 0 {
		return q.Queue.MaxBytes(ctx)
	}
	return q.maxBytes, nil
}

func (q *faultyQueue) Read(ctx context.Context, batch string, p queue.Page) ([]queue.Recording, error) {
	if q.read != nil {
		if found, err := q.read(); found != nil || err != nil {
			return found, err
		}
	}
	return q.Queue.Read(ctx, batch, p)
}

func (q *faultyQueue) Status(ctx context.Context, batch string) (queue.Status, error) {
	if err := failed(q.status); err != nil {
		return queue.Status{}, err
	}
	return q.Queue.Status(ctx, batch)
}

func (q *faultyQueue) Missing(ctx context.Context, s queue.Status) (int, error) {
	if q.missing == nil {
		return q.Queue.Missing(ctx, s)
	}
	return q.missing()
}

func (q *faultyQueue) Cancel(ctx context.Context, batch string) (bool, error) {
	if q.cancel != nil {
		if err := q.cancel(ctx); err != nil {
			return false, err
		}
	}
	return q.Queue.Cancel(ctx, batch)
}

func (q *faultyQueue) Purge(ctx context.Context, batch string) error {
	if err := failed(q.purge); err != nil {
		return err
	}
	return q.Queue.Purge(ctx, batch)
}
