package redisqueue

import (
	"context"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/ingot-run/ingot/job"
)

// A delivery of a row that was taken from a silent worker gets a number, and its task an id of its own. asynq's heartbeat of the silent
// worker, and its last steps if it comes back, name the old id and change nothing.

// delivery identifies an asynq task of a row.
type delivery struct {
	batch  string
	line   int
	number int // how often the row was taken from a silent worker before
}

// id returns the asynq id of the task.
func (d delivery) id() string {
	id := job.TaskID(d.batch, d.line)
	if d.number > 0 {
		id += ":" + strconv.Itoa(d.number)
	}
	return id
}

// parseDelivery reads the id of a task. ok is false if it is not a row's.
func parseDelivery(id string) (d delivery, ok bool) {
	batch, rest, _ := strings.Cut(id, ":")
	line, number, numbered := strings.Cut(rest, ":")
	d.batch = batch
	var err error
	if d.line, err = strconv.Atoi(line); err == nil && numbered {
		d.number, err = strconv.Atoi(number)
	}
	return d, err == nil && d.id() == id && job.CheckBatch(batch) == nil && d.line > 0
}

// idField returns an id as a field of a message. Appended to a message it replaces the id: the last of several fields with one number counts.
func idField(id string) []byte {
	return protowire.AppendString(protowire.AppendTag(nil, fieldID, protowire.BytesType), id)
}

// numbers returns the numbers of the present deliveries of lines; 0 for most.
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

// numbersOf is numbers for jobs of any batches.
func (q *Queue) numbersOf(ctx context.Context, jobs []*job.Job) (numbers []int, err error) {
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

// hold makes a worker the owner of a delivery. held is false if the task was taken from it meanwhile.
func (q *Queue) hold(ctx context.Context, queue string, d delivery, worker string) (held bool, err error) {
	n, err := holdScript.Run(ctx, q.rdb, []string{taskKey(queue, d)}, worker).Int()
	return n == 1, failure(err, "own line %d of batch %s", d.line, d.batch)
}

// disown leaves a delivery without an owner, so that it is handed over if it stays in the list of running ones. asynq does not touch a
// delivery that has ended while its lease was over.
func (q *Queue) disown(ctx context.Context, queue string, d delivery, worker string) error {
	err := disownScript.Run(ctx, q.rdb, []string{taskKey(queue, d)}, worker).Err()
	return failure(err, "give up line %d of batch %s", d.line, d.batch)
}

// deaths returns the number of workers that died while they ran a row.
func (q *Queue) deaths(ctx context.Context, d delivery) (int, error) {
	n, err := q.rdb.HGet(ctx, key(d.batch, "deaths"), strconv.Itoa(d.line)).Int()
	if isNil(err) {
		return 0, nil
	}
	return n, failure(err, "read the deaths of workers with line %d of batch %s", d.line, d.batch)
}

// survived takes back a death that was counted for a worker which only slept.
func (q *Queue) survived(ctx context.Context, d delivery) error {
	return failure(surviveScript.Run(ctx, q.rdb, keys(d.batch, "deaths"), d.line).Err(), "count line %d of batch %s", d.line, d.batch)
}

// handOver takes a delivery from its owner, or from nobody if that is empty, and puts the row back at the head of its queue. moved is
// false if the delivery is over.
// Between its two steps the row's task still has its old id; whoever finds it repeats the steps.
func (q *Queue) handOver(ctx context.Context, queue string, d delivery, owner string) (moved bool, err error) {
	next := d
	next.number, err = revokeScript.Run(ctx, q.rdb, keys(d.batch, "meta", "done", "attempts", "deliveries", "deaths"), d.line, d.number, owner != "").Int()
	if err != nil {
		return false, failure(err, "take line %d of batch %s from its worker", d.line, d.batch)
	}
	n, err := handoverScript.Run(ctx, q.rdb,
		[]string{asynqKey(queue, "active"), asynqKey(queue, "lease"), pendingKey(queue), taskKey(queue, d), taskKey(queue, next)},
		d.id(), owner, next.id(), idField(next.id())).Int()
	return n == 1, failure(err, "return line %d of batch %s to its queue", d.line, d.batch)
}

// supersede makes sure that the present delivery of a row is queued, when an earlier one has arrived.
func (q *Queue) supersede(ctx context.Context, queue string, d delivery) error {
	numbers, err := q.numbers(ctx, d.batch, d.line)
	if err != nil {
		return err
	}
	next := delivery{d.batch, d.line, numbers[0]}
	err = continueScript.Run(ctx, q.rdb, []string{pendingKey(queue), taskKey(queue, d), taskKey(queue, next)},
		next.id(), idField(next.id())).Err()
	return failure(err, "return line %d of batch %s to its queue", d.line, d.batch)
}

func taskKey(queue string, d delivery) string { return taskPrefix(queue) + d.id() }
