package redisqueue

import (
	"cmp"
	"context"
	"errors"
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
	for i := 0; i < len(jobs); {
		batch := jobs[i].Batch
		n := 1
		for i+n < len(jobs) && jobs[i+n].Batch == batch {
			n++
		}
		lines := make([]int, n)
		for k, j := range jobs[i : i+n] {
			lines[k] = j.Line
		}
		numbers, err := q.numbers(ctx, batch, lines...)
		if err != nil {
			return added, err
		}
		for k, number := range numbers {
			if added[i+k], err = q.add(ctx, queueName(alias, p), jobs[i+k], delivery{batch, lines[k], number}); err != nil {
				return added, err
			}
		}
		i += n
	}
	return added, nil
}

// add queues a job as its present delivery, unless it is queued. A task with its id that will not answer it is replaced.
func (q *Queue) add(ctx context.Context, queue string, j *job.Job, d delivery) (added bool, err error) {
	payload, err := j.Encode()
	for try := 0; err == nil && try < maxAddTries; try++ {
		_, err = q.client.EnqueueContext(ctx, asynq.NewTask(taskType, payload),
			asynq.Queue(queue),
			asynq.TaskID(d.id()),
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
		if removed, err = q.removeDead(queue, j, d.id()); err == nil && !removed {
			return false, nil
		}
	}
	return false, failure(cmp.Or(err, asynq.ErrTaskIDConflict), "queue line %d of batch %s", j.Line, j.Batch)
}

// removeDead removes the task with an id, that of a job, from the queue if it will not answer the job, because it is archived or is left
// from an earlier batch with the same id.
func (q *Queue) removeDead(queue string, j *job.Job, id string) (removed bool, err error) {
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
