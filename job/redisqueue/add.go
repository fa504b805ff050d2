package redisqueue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/hibiken/asynq"

	"github.com/ingot-run/ingot/job"
)

// grace is added to asynq's timeout of an attempt, so that the worker's own timeout ends it first. asynq would only retry; the
// worker can record the error.
const grace = 5 * time.Minute

// maxAddTries is the maximum number of attempts to queue a job while other tasks have its id.
const maxAddTries = 3

// Add implements job.Queue.
func (q *Queue) Add(ctx context.Context, alias string, p job.Priority, jobs []*job.Job) (added []bool, err error) {
	added = make([]bool, len(jobs))
	for i, j := range jobs {
		if added[i], err = q.add(ctx, queueName(alias, p), j); err != nil {
			return added, err
		}
	}
	return added, nil
}

// add queues a job, unless it is queued. A task with its id that will not answer it is replaced.
func (q *Queue) add(ctx context.Context, queue string, j *job.Job) (added bool, err error) {
	payload, err := j.Encode()
	for try := 0; err == nil && try < maxAddTries; try++ {
		_, err = q.client.EnqueueContext(ctx, asynq.NewTask(taskType, payload),
			asynq.Queue(queue),
			asynq.TaskID(job.TaskID(j.Batch, j.Line)),
			asynq.Timeout(j.Timeout()+grace),
			// asynq archives a task, and so loses it, if the worker dies during the last attempt that asynq allows. The worker
			// therefore counts attempts itself and records the error of the last one.
			asynq.MaxRetry(math.MaxInt32))
		if err == nil {
			return true, nil
		}
		if !errors.Is(err, asynq.ErrTaskIDConflict) {
			break
		}
		var removed bool
		if removed, err = q.removeDead(queue, j); err == nil && !removed {
			return false, nil
		}
	}
	return false, failure(cmp.Or(err, asynq.ErrTaskIDConflict), "queue line %d of batch %s", j.Line, j.Batch)
}

// removeDead removes the task with a job's id from the queue if it will not answer the job, because it is archived or is left
// from an earlier batch with the same id.
func (q *Queue) removeDead(queue string, j *job.Job) (removed bool, err error) {
	id := job.TaskID(j.Batch, j.Line)
	info, err := q.inspector.GetTaskInfo(queue, id)
	if errors.Is(err, asynq.ErrTaskNotFound) {
		return false, nil // it has just been answered
	}
	if err != nil {
		return false, err
	}
	queued, err := job.Decode(info.Payload)
	if err == nil && queued.File == j.File && info.State != asynq.TaskStateArchived {
		return false, nil
	}
	if info.State == asynq.TaskStateActive {
		return false, job.ErrRowRunning
	}
	return true, q.inspector.DeleteTask(queue, id)
}

// Workers implements job.Queue.
func (q *Queue) Workers(_ context.Context, alias string) (int, error) {
	servers, err := q.inspector.Servers()
	if err != nil {
		return 0, fmt.Errorf("list workers: %w", err)
	}
	n := 0
	for _, s := range servers {
		if _, ok := s.Queues[queueName(alias, job.Default)]; ok {
			n++
		}
	}
	return n, nil
}
