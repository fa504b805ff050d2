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

// newTask is a task that is not in Redis yet.
type newTask struct {
	index   int // of the job
	job     *queue.Job
	id      string
	message []byte
}

// Add implements queue.Queue. It queues many tasks with one script, because asynq's own call queues
// only one.
func (q *Queue) Add(ctx context.Context, alias string, p queue.Priority, jobs []*queue.Job) (added []bool, err error) {
	name := queueName(alias, p)
	added = make([]bool, len(jobs))
	var tasks []newTask // for the next call of the script
	bytes := 0          // size of their messages
	for i, j := range jobs {
		t := newTask{index: i, job: j, id: queue.TaskID(j.Batch, j.Line)}
		if t.message, err = message(name, t.id, j); err != nil {
			return added, fmt.Errorf("queue line %d of batch %s: %w", j.Line, j.Batch, err)
		}
		tasks = append(tasks, t)
		bytes += len(t.message)
		if len(tasks) == addedAtOnce || bytes >= addedBytes || i == len(jobs)-1 {
			if err := q.addTasks(ctx, name, tasks, added); err != nil {
				return added, err
			}
			tasks, bytes = tasks[:0], 0
		}
	}
	if p == queue.Interactive {
		q.rdb.Publish(ctx, arrivalChannel(alias), "") // a worker that does not receive it finds the job when it polls
	}
	return added, nil
}

// addTasks adds tasks to a queue, and sets added of each. It replaces tasks in Redis that have the
// same ids but are dead (see removeDead).
func (q *Queue) addTasks(ctx context.Context, name string, tasks []newTask, added []bool) error {
	for range maxAddTries {
		dead, err := q.tryToAdd(ctx, name, tasks, added)
		if err != nil {
			first := tasks[0].job
			return failure(err, "queue rows from line %d of batch %s", first.Line, first.Batch)
		}
		if len(dead) == 0 {
			return nil
		}
		tasks = dead
	}
	first := tasks[0].job
	return fmt.Errorf("queue line %d of batch %s: another producer queues the same line: try again when it has ended", first.Line, first.Batch)
}

// tryToAdd runs the script once. It does not add a task whose id exists in Redis. If the existing
// task is dead (see removeDead), it removes that task, and returns the new one so that the caller
// can add it with another call.
func (q *Queue) tryToAdd(ctx context.Context, name string, tasks []newTask, added []bool) (again []newTask, err error) {
	c := with(addScript, "queue", name, "now_ns", time.Now().UnixNano()).rows(len(tasks), "id", "message")
	for _, t := range tasks {
		c.add(t.id, t.message)
	}
	numbers, err := q.run(ctx, c).Int64Slice()
	if err != nil {
		return nil, err
	}
	if len(numbers) == 1 && numbers[0] <= 0 {
		return nil, refusalOf(numbers[0])
	}
	for _, t := range tasks {
		added[t.index] = true
	}
	var known []newTask
	for _, n := range numbers {
		t := tasks[n-1]
		added[t.index] = false
		known = append(known, t)
	}
	return q.removeDead(ctx, name, known)
}

// removeDead removes dead tasks from Redis. known has new tasks whose ids exist in Redis. A task in
// Redis is dead if it is archived, or if it is left over from an earlier batch with the same batch
// id. removeDead returns the tasks of known whose ids are free now.
func (q *Queue) removeDead(ctx context.Context, name string, known []newTask) (dead []newTask, err error) {
	pipe := q.rdb.Pipeline()
	found := make([]*redis.SliceCmd, len(known))
	for i, t := range known {
		found[i] = pipe.HMGet(ctx, taskKey(name, t.id), "state", "msg")
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
		case state != "archived" && fileOf(message) == t.job.File:
			continue
		case state == "active":
			return nil, queue.ErrRowRunning
		}
		if err := q.deleteTask(ctx, name, t.id); err != nil {
			return nil, err
		}
		dead = append(dead, t)
	}
	return dead, nil
}

// fileOf returns the FileID of the job in a message. If there is none, it returns a text that is
// not a FileID.
func fileOf(message string) string {
	m, err := parse(message)
	var j struct {
		File string `json:"file"`
	}
	if err != nil || json.Unmarshal(m.payload, &j) != nil {
		return "none"
	}
	return j.File
}
