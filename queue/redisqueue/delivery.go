package redisqueue

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/ingot-run/ingot/queue"
)

// A worker is silent if its heartbeats have stopped. Each time a row is taken from a silent worker, its delivery number grows by 1, and the
// row gets a task with a new id. asynq in the silent worker still uses the old id, so its heartbeats and its last scripts have no effect on
// the new task.

// delivery identifies an asynq task of a row.
type delivery struct {
	batch  string
	line   int
	number int // how often the row was taken from a silent worker before
}

// id returns the asynq id of the task.
func (d delivery) id() string {
	id := queue.TaskID(d.batch, d.line)
	if d.number > 0 {
		id += ":" + strconv.Itoa(d.number)
	}
	return id
}

// parseDelivery reads the id of a task. ok is false if it is not the id of a row's task.
func parseDelivery(id string) (d delivery, ok bool) {
	batch, rest, _ := strings.Cut(id, ":")
	line, number, numbered := strings.Cut(rest, ":")
	d.batch = batch
	var err error
	if d.line, err = strconv.Atoi(line); err == nil && numbered {
		d.number, err = strconv.Atoi(number)
	}
	return d, err == nil && d.id() == id && queue.CheckBatch(batch) == nil && d.line > 0
}

// idField returns an encoded field of asynq's TaskMessage that holds an id. Appended to a message, it replaces the message's id, because
// the last of several fields with the same number counts.
func idField(id string) []byte {
	return protowire.AppendString(protowire.AppendTag(nil, fieldID, protowire.BytesType), id)
}

// numbers returns the current delivery number of each line. Most are 0.
func (q *Queue) numbers(ctx context.Context, batch string, lines ...int) (numbers []int, err error) {
	fields := make([]string, len(lines))
	for i, line := range lines {
		fields[i] = strconv.Itoa(line)
	}
	values, err := q.rdb.HMGet(ctx, key(batch, "deliveries"), fields...).Result()
	if err != nil {
		return nil, failure(err, "read the deliveries of batch %s", batch)
	}
	numbers = make([]int, len(lines))
	for i, v := range values {
		text, _ := v.(string)
		numbers[i], _ = strconv.Atoi(text) // 0 if there is none
	}
	return numbers, nil
}

// numbersOf returns the current delivery number of each job. The jobs may be of several batches.
func (q *Queue) numbersOf(ctx context.Context, jobs []*queue.Job) (numbers []int, err error) {
	for len(jobs) > 0 {
		n := 1
		for n < len(jobs) && n < addedAtOnce && jobs[n].Batch == jobs[0].Batch {
			n++
		}
		lines := make([]int, n)
		for i, j := range jobs[:n] {
			lines[i] = j.Line
		}
		some, err := q.numbers(ctx, jobs[0].Batch, lines...)
		if err != nil {
			return nil, err
		}
		numbers, jobs = append(numbers, some...), jobs[n:]
	}
	return numbers, nil
}

// own records in Redis that a worker runs a delivery: the worker becomes the owner. owned is false if another worker has the row by now.
func (q *Queue) own(ctx context.Context, queue string, d delivery, worker string) (owned bool, err error) {
	n, err := ownScript.Run(ctx, q.rdb, []string{taskKey(queue, d)}, worker).Int()
	return n == 1, failure(err, "record this worker as the owner of line %d of batch %s", d.line, d.batch)
}

// disown removes the owner of a delivery that has ended. If the delivery ended after its lease, its task is still in the list of running
// tasks. A reaper then returns the task to its queue, because the task has no owner.
func (q *Queue) disown(ctx context.Context, queue string, d delivery, worker string) error {
	err := disownScript.Run(ctx, q.rdb, []string{taskKey(queue, d)}, worker).Err()
	return failure(err, "remove the owner of line %d of batch %s", d.line, d.batch)
}

// ownedTask is a delivery in asynq's list of running tasks.
type ownedTask struct {
	delivery
	owner    string        // empty if nobody owns it
	orphaned time.Duration // time since it was first seen without an owner
}

// owners returns the running rows of a queue with their owners. The row that was taken last comes first.
func (q *Queue) owners(ctx context.Context, queue string) ([]ownedTask, error) {
	list, err := ownersScript.Run(ctx, q.rdb, nil, queue).Slice()
	return ownedTasks(list), failure(err, "list the owners of queue %s", queue)
}

// ownedTasks reads the reply of owners.lua.
func ownedTasks(list []any) (all []ownedTask) {
	for row := range slices.Chunk(list, 3) {
		id, _ := row[0].(string)
		owner, _ := row[1].(string)
		orphaned, _ := row[2].(int64)
		if d, ok := parseDelivery(id); ok {
			all = append(all, ownedTask{d, owner, time.Duration(orphaned) * time.Millisecond})
		}
	}
	return all
}

// inspect moves waiting rows of several queues to their pending lists. It returns the running rows of each queue that has some, as owners
// does. Queues that a worker has inspected within the interval are left out; an interval of 0 inspects all. The scripts that add and take
// rows move waiting rows too, but take.lua does not fill a list that it finds empty, for example after its tasks were deleted.
func (q *Queue) inspect(ctx context.Context, queues []string, interval time.Duration) (map[string][]ownedTask, error) {
	args := []any{interval.Milliseconds()}
	for _, queue := range queues {
		args = append(args, queue)
	}
	list, err := inspectScript.Run(ctx, q.rdb, nil, args...).Slice()
	if err != nil {
		return nil, failure(err, "inspect the queues %s", strings.Join(queues, ", "))
	}
	running := map[string][]ownedTask{}
	for _, reply := range list {
		if pair, _ := reply.([]any); len(pair) == 2 {
			queue, _ := pair[0].(string)
			owners, _ := pair[1].([]any)
			if tasks := ownedTasks(owners); len(tasks) > 0 {
				running[queue] = tasks
			}
		}
	}
	return running, nil
}

// deaths returns the number of workers that died while they ran a row.
func (q *Queue) deaths(ctx context.Context, d delivery) (int, error) {
	n, err := q.rdb.HGet(ctx, key(d.batch, "deaths"), strconv.Itoa(d.line)).Int()
	if isNil(err) {
		return 0, nil
	}
	return n, failure(err, "read how many workers died while they ran line %d of batch %s", d.line, d.batch)
}

// survived subtracts a death that was counted wrongly, because the worker was only suspended and runs again.
func (q *Queue) survived(ctx context.Context, d delivery) error {
	return failure(surviveScript.Run(ctx, q.rdb, keys(d.batch, "deaths"), d.line).Err(), "subtract a death from line %d of batch %s", d.line, d.batch)
}

// handOver takes a delivery from its owner and returns the row to the head of its queue. An empty owner means that nobody owns the
// delivery. moved is false if the delivery is over. handOver runs two scripts: revoke.lua raises the delivery number, handover.lua queues
// the new delivery's task. If only revoke.lua ran, the row's task keeps the old id until a reaper calls handOver again, or until a worker
// takes the task and calls supersede.
func (q *Queue) handOver(ctx context.Context, queue string, d delivery, owner string) (moved bool, err error) {
	next := d
	next.number, err = revokeScript.Run(ctx, q.rdb, keys(d.batch, "meta", "done", "attempts", "deliveries", "deaths"), d.line, d.number, owner != "").Int()
	if err != nil {
		return false, failure(err, "take line %d of batch %s from its worker", d.line, d.batch)
	}
	n, err := handoverScript.Run(ctx, q.rdb,
		[]string{asynqKey(queue, "active"), asynqKey(queue, "lease"), pendingKey(queue), taskKey(queue, d), taskKey(queue, next)},
		d.id(), owner, next.id(), idField(next.id())).Int()
	if err != nil || n == 0 {
		return false, failure(err, "return line %d of batch %s to its queue", d.line, d.batch)
	}
	return true, q.deleteTask(ctx, queue, next.id(), unwanted)
}

// supersede queues the current delivery of a row if it is not queued yet. It is called when a worker receives an earlier delivery.
func (q *Queue) supersede(ctx context.Context, queue string, d delivery) error {
	numbers, err := q.numbers(ctx, d.batch, d.line)
	if err != nil {
		return err
	}
	next := delivery{d.batch, d.line, numbers[0]}
	err = continueScript.Run(ctx, q.rdb, []string{pendingKey(queue), taskKey(queue, d), taskKey(queue, next)},
		next.id(), idField(next.id())).Err()
	if err != nil {
		return failure(err, "return line %d of batch %s to its queue", d.line, d.batch)
	}
	return q.deleteTask(ctx, queue, next.id(), unwanted)
}

func taskKey(queue string, d delivery) string { return taskPrefix(queue) + d.id() }
