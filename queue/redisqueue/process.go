package redisqueue

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/ingot-run/ingot/queue"
)

// errNoJob is the error of a task that is not a job.
var errNoJob = errors.New("not a job of ingot")

// process handles a task. The handler's error determines what happens to the task.
func (s *server) process(h *held) {
	err := s.deliver(h)
	ctx := context.WithoutCancel(s.deliveries)
	if errors.Is(err, queue.ErrSuperseded) {
		err = s.queue.supersede(ctx, h.queue, h.delivery)
	}
	if errors.Is(err, queue.ErrHandedBack) {
		s.returning.Store(true)
	}
	ended := h.ctx.Err() != nil
	s.member.release(ctx, h, err)
	if h.recorded.Load() {
		return
	}
	switch {
	case err == nil:
		s.step(h, func(ctx context.Context) error { return s.queue.endTask(ctx, h, taskDone, "", time.Time{}, false) })
	case errors.Is(err, errNoJob):
		s.log.Error("archived a task", "task", h.task, "error", err)
		s.step(h, func(ctx context.Context) error {
			now := time.Now()
			return s.queue.endTask(ctx, h, taskArchived, failedMessage(h.message, now, err, false), now, true)
		})
	case errors.Is(err, queue.ErrHandedBack) || s.deliveries.Err() != nil:
		s.returnToHead(h)
	default:
		failed := isFailure(err) && !ended
		delay := time.Duration(0)
		if failed || errors.Is(err, queue.ErrOtherModel) {
			delay = retryDelay(retried(h.message), err)
		}
		now := time.Now()
		s.step(h, func(ctx context.Context) error {
			err := s.queue.endTask(ctx, h, taskRetry, failedMessage(h.message, now, err, failed), now.Add(delay), failed)
			if err != nil {
				return err
			}
			return s.queue.deleteTask(ctx, h.queue, h.task, unwanted)
		})
	}
}

// deliver passes a task's job to the handler. A panic becomes an error.
func (s *server) deliver(h *held) (err error) {
	defer func() {
		if p := recover(); p != nil {
			s.log.Error("panic in a handler", "task", h.task, "panic", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("internal error: %v", p)
		}
	}()
	j := h.job
	if j == nil {
		return h.unread
	}
	if h.number > 0 {
		if j.Deaths, err = s.queue.deaths(h.ctx, h.delivery); err != nil {
			return err
		}
	}
	return s.handle(h.ctx, j)
}

// read reads the job of a task.
func (h *held) read() (*queue.Job, error) {
	payload, err := payloadOf([]byte(h.message))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNoJob, err)
	}
	j, err := queue.Decode(payload)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNoJob, err)
	}
	if h.batch != j.Batch || h.line != j.Line {
		return nil, fmt.Errorf("%w: the task's id does not name line %d of batch %s", errNoJob, j.Line, j.Batch)
	}
	j.Delivery = h.number
	return j, nil
}

// admitAll admits the jobs that can begin without a wait. It leaves a job that was taken from a silent worker to its handler, which first reads
// how many workers died while they ran the row.
func (s *server) admitAll(tasks []*held) (all admitted) {
	if s.admit == nil {
		return all
	}
	for _, h := range tasks {
		if h.job == nil || h.number > 0 || h.ctx.Err() != nil {
			continue
		}
		if leave, ok := s.admit(h.job); ok {
			all.add(beginning{h.job, h}, leave)
		}
	}
	return all
}

// admitted has jobs that were admitted and are to begin.
type admitted struct {
	beginnings
	leaves []func()
}

func (a *admitted) add(b beginning, leave func()) {
	a.rows, a.leaves = append(a.rows, b), append(a.leaves, leave)
}

// begun takes the reply of begin.lua. If a job is refused, its handler calls Begin and gets the refusal.
func (a *admitted) begun(replies []any, err error) {
	for i, b := range a.results(replies, err) {
		if b.err != nil {
			a.leaves[i]()
			continue
		}
		a.rows[i].Begun = &queue.Begun{Start: b.start, Leave: a.leaves[i]}
	}
}

// beginAll begins the jobs that can be admitted without a wait.
func (s *server) beginAll(ctx context.Context, tasks []*held) {
	if all := s.admitAll(tasks); len(all.rows) > 0 {
		all.begun(beginScript.Run(ctx, s.queue.rdb, nil, all.args()...).Slice())
	}
}

// giveBack returns a task that no handler has received to the head of its queue.
func (s *server) giveBack(h *held) {
	ctx := context.WithoutCancel(s.deliveries)
	s.member.release(ctx, h, nil)
	if h.job != nil && h.job.Begun != nil {
		h.job.Begun.Leave()
		s.member.pay(ctx, func(ctx context.Context) error { return s.queue.Release(ctx, h.job) })
	}
	s.returnToHead(h)
}

// returnToHead returns a task to the head of its queue, as if it had not been taken.
func (s *server) returnToHead(h *held) {
	s.step(h, func(ctx context.Context) error {
		if err := giveBackScript.Run(ctx, s.queue.rdb, nil, h.task, h.queue).Err(); err != nil {
			return failure(err, "return a job to queue %s", h.queue)
		}
		return s.queue.deleteTask(ctx, h.queue, h.task, unwanted)
	})
}

// step makes the change with which a task leaves this worker. If Redis fails, the change is repeated until it succeeds. After the end of
// asynq's lease, another worker may have the task, so step does not change it.
func (s *server) step(h *held, change func(ctx context.Context) error) {
	s.member.pay(context.WithoutCancel(s.deliveries), func(ctx context.Context) error {
		if !h.hasLease() {
			return nil
		}
		return change(ctx)
	})
}

// The states in which endTask leaves a task. A task that is done is deleted.
const (
	taskDone     = "done"
	taskRetry    = "retry"
	taskArchived = "archived"
)

// endTask ends a task as asynq does. For a task that is not done, message is its new message, and at is the time when it was archived or is
// to be delivered again. If the task is no longer running, endTask does nothing: another worker may have it.
func (q *Queue) endTask(ctx context.Context, h *held, state, message string, at time.Time, failed bool) error {
	now := time.Now()
	err := endScript.Run(ctx, q.rdb, nil, h.task, h.queue, state, today(now), statsEnd(now), failed, message, at.Unix()).Err()
	return failure(err, "end task %s", h.task)
}

// failedMessage returns a task's message with a failure and the time of the failure. If failed is true, it also adds 1 to the number of
// failures.
func failedMessage(message string, at time.Time, failure error, failed bool) string {
	m := make([]byte, 0, len(message)+64)
	err := eachField([]byte(message), func(field protowire.Number, kind protowire.Type, value []byte) {
		if field != fieldRetried && field != fieldError && field != fieldFailedAt {
			m = append(protowire.AppendTag(m, field, kind), value...)
		}
	})
	if err != nil {
		return message // it is not a message of asynq
	}
	n := retried(message)
	if failed {
		n++
	}
	m = protowire.AppendVarint(protowire.AppendTag(m, fieldRetried, protowire.VarintType), uint64(n))
	m = protowire.AppendString(protowire.AppendTag(m, fieldError, protowire.BytesType), strings.ToValidUTF8(failure.Error(), "?"))
	m = protowire.AppendVarint(protowire.AppendTag(m, fieldFailedAt, protowire.VarintType), uint64(at.Unix()))
	return string(m)
}

// retried returns how often a task has failed, according to its message.
func retried(message string) int {
	n := uint64(0)
	_ = eachField([]byte(message), func(field protowire.Number, kind protowire.Type, value []byte) {
		if field == fieldRetried && kind == protowire.VarintType {
			n, _ = protowire.ConsumeVarint(value)
		}
	})
	return int(min(n, 1<<20))
}
