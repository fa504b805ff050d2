package redisqueue

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/ingot-run/ingot/queue"
)

const (
	// maxAddTries is the maximum number of attempts to queue a job while a dead task (see
	// removeDead) has its id.
	maxAddTries = 3
	// One call of the script adds at most addedAtOnce tasks, and stops after addedBytes bytes of
	// messages, so that Redis can answer other clients between two calls.
	addedAtOnce = 256
	addedBytes  = 512 << 10
)

// Add implements queue.Queue. It queues many tasks with one script, because asynq's own call queues
// only one.
func (q *Queue) Add(ctx context.Context, alias string, p queue.Priority, jobs []*queue.Job) (added []bool, err error) {
	added = make([]bool, len(jobs))
	a := adding{Queue: q, queue: queueName(alias, p), added: added}
	for i, j := range jobs {
		if err := a.append(i, j, queue.TaskID(j.Batch, j.Line)); err != nil {
			return added, err
		}
		if len(a.tasks) == addedAtOnce || a.bytes >= addedBytes || i == len(jobs)-1 {
			if err := a.flush(ctx); err != nil {
				return added, err
			}
		}
	}
	if p == queue.Interactive {
		q.rdb.Publish(ctx, arrivalChannel(alias), "") // a worker that does not receive it finds the job when it polls
	}
	return added, nil
}

// adding is the state of one call of Add.
type adding struct {
	*Queue
	queue string
	added []bool // by the index of the job

	tasks []newTask // tasks for the next flush
	bytes int       // size of the messages of these tasks
}

// newTask is a task that is not in Redis yet.
type newTask struct {
	index   int
	job     *queue.Job
	id      string
	message []byte
}

func (a *adding) append(index int, j *queue.Job, id string) error {
	message, err := message(a.queue, id, j)
	if err != nil {
		return fmt.Errorf("queue line %d of batch %s: %w", j.Line, j.Batch, err)
	}
	a.tasks = append(a.tasks, newTask{index, j, id, message})
	a.bytes += len(message)
	return nil
}

// flush adds a.tasks to Redis. It replaces tasks in Redis that have the same ids but are dead (see
// removeDead).
func (a *adding) flush(ctx context.Context) error {
	for range maxAddTries {
		dead, err := a.try(ctx)
		if err != nil {
			first := a.tasks[0].job
			return failure(err, "queue rows from line %d of batch %s", first.Line, first.Batch)
		}
		if len(dead) == 0 {
			a.tasks, a.bytes = a.tasks[:0], 0
			return nil
		}
		a.tasks = dead
	}
	first := a.tasks[0].job
	return fmt.Errorf("queue line %d of batch %s: another producer queues the same line: try again when it has ended", first.Line, first.Batch)
}

// try runs the script once. It does not add a task whose id exists in Redis. If the existing task
// is dead (see removeDead), try removes it, and returns the new task so that the caller can add it
// with another call.
func (a *adding) try(ctx context.Context) (again []newTask, err error) {
	c := with(addScript, "queue", a.queue, "now_ns", time.Now().UnixNano()).rows(len(a.tasks), "id", "message")
	for _, t := range a.tasks {
		c.add(t.id, t.message)
	}
	numbers, err := a.run(ctx, c).Int64Slice()
	if err != nil {
		return nil, err
	}
	if len(numbers) == 1 && numbers[0] <= 0 {
		return nil, refusalOf(numbers[0])
	}
	for _, t := range a.tasks {
		a.added[t.index] = true
	}
	var known []newTask
	for _, n := range numbers {
		t := a.tasks[n-1]
		a.added[t.index] = false
		known = append(known, t)
	}
	return a.removeDead(ctx, known)
}

// removeDead removes dead tasks from Redis. known has new tasks whose ids exist in Redis. A task in
// Redis is dead if it is archived, or if it is left over from an earlier batch with the same batch
// id. removeDead returns the tasks of known whose ids are free now.
func (a *adding) removeDead(ctx context.Context, known []newTask) (dead []newTask, err error) {
	if len(known) == 0 {
		return nil, nil
	}
	pipe := a.rdb.Pipeline()
	found := make([]*redis.SliceCmd, len(known))
	for i, t := range known {
		found[i] = pipe.HMGet(ctx, taskKey(a.queue, t.id), "state", "msg")
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, err
	}
	for i, t := range known {
		state, _ := found[i].Val()[0].(string)
		message, _ := found[i].Val()[1].(string)
		switch {
		case state == "": // the row has just been answered
			continue
		case state != "archived" && fileOf([]byte(message)) == t.job.File:
			continue
		case state == "active":
			return nil, queue.ErrRowRunning
		}
		if err := a.deleteTask(ctx, a.queue, t.id); err != nil {
			return nil, err
		}
		dead = append(dead, t)
	}
	return dead, nil
}

// fileOf returns the FileID of the job in a message. If there is none, it returns a text that is
// not a FileID.
func fileOf(message []byte) string {
	payload, err := payloadOf(message)
	var j struct {
		File string `json:"file"`
	}
	if err != nil || json.Unmarshal(payload, &j) != nil {
		return "none"
	}
	return j.File
}
