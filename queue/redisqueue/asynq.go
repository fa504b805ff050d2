package redisqueue

// What this package keeps of asynq's layout in Redis, in the form of the version in go.mod, so that
// asynq's Inspector, its command line and asynqmon list, pause, run, archive and delete rows. No
// asynq server serves these queues: the scripts of this package take and end the tasks.
//
//	asynq:queues              set: the queues, ALIAS:PRIORITY
//	asynq:{QUEUE}:t:ID        hash: a task; msg, state and pending_since are asynq's fields
//	asynq:{QUEUE}:pending     list: the ids of tasks that workers may take; the last is the next
//	asynq:{QUEUE}:active      list: running tasks; the one that was taken last is the first
//	asynq:{QUEUE}:retry, :scheduled, :archived  sorted sets: tasks by the time at which they are due or were archived
//	asynq:{QUEUE}:paused      exists while the queue is paused
//	asynq:{QUEUE}:processed, :failed            counts, in total and for each day
//	asynq:cancel              channel: ids of running tasks to be cancelled
//
// Of a task's hash, the fields owner (the worker that runs the row), begun (the worker that has
// counted an attempt) and orphan (when the task was first seen running without an owner, in ms) are
// ours, and so is the state "waiting": see waiting.go.
//
// Invariants:
//   - A task is a protobuf message of asynq with a job as its payload. Its id is BATCH:LINE for its
//     whole life, so a row is queued once. (earlier.go has the ids of earlier versions.)
//   - A task is in exactly one list or set, the one that its field state names, or in the list of
//     its batch's waiting rows. Each script moves a task in one step, after any write that can
//     fail.
//   - asynq may archive or delete a task in any state but active, at any time. So scripts skip ids
//     without a task, archived jobs are queued again, and a deleted row is missing until its file is
//     queued again, which Missing reports.
//   - asynq counts failures and would archive a task after its last retry. So a message allows as
//     many retries as there can be, and a timeout that is longer than the worker's.
//   - asynq's leases, unique locks, groups, results and servers are not used. A row's lease is its
//     owner's heartbeat: see reaper.go. asynq's tools therefore list no servers, and show no
//     running task as orphaned.

import (
	"bytes"
	"math"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/ingot-run/ingot/queue"
)

const (
	asynqQueues = "asynq:queues"
	// cancelChannel is the channel on which asynq announces that a task is cancelled.
	cancelChannel = "asynq:cancel"
	// taskType is the type of the tasks that carry jobs.
	taskType = "ingot:job"
	// asynqStatsTTL is how long asynq keeps the counts of a day's tasks.
	asynqStatsTTL = 90 * 24 * time.Hour
)

func asynqKey(queue, name string) string { return "asynq:{" + queue + "}:" + name }

func taskKey(queue, id string) string { return asynqKey(queue, "t:"+id) }

// queueName returns the name of the asynq queue of a model alias and a priority.
func queueName(alias string, p queue.Priority) string { return alias + ":" + string(p) }

func queuesOf(alias string) (names []string) {
	for _, p := range queue.AllPriorities() {
		names = append(names, queueName(alias, p))
	}
	return names
}

// asynqKeys returns the keys of a name of all queues of a model alias.
func asynqKeys(alias, name string) (keys []string) {
	for _, queue := range queuesOf(alias) {
		keys = append(keys, asynqKey(queue, name))
	}
	return keys
}

// Numbers of fields of asynq's TaskMessage.
const (
	fieldType     protowire.Number = 1
	fieldPayload  protowire.Number = 2
	fieldID       protowire.Number = 3
	fieldQueue    protowire.Number = 4
	fieldRetry    protowire.Number = 5
	fieldRetried  protowire.Number = 6
	fieldError    protowire.Number = 7
	fieldTimeout  protowire.Number = 8
	fieldFailedAt protowire.Number = 11
)

// grace is added to the timeout that asynq's tools show, so that it is longer than the worker's.
const grace = 5 * time.Minute

// message returns the message of a job's task.
func message(queue, id string, j *queue.Job) ([]byte, error) {
	payload, err := j.Encode()
	if err != nil {
		return nil, err
	}
	m := make([]byte, 0, len(payload)+len(taskType)+len(id)+len(queue)+32)
	m = appendText(m, fieldType, taskType)
	m = protowire.AppendBytes(protowire.AppendTag(m, fieldPayload, protowire.BytesType), payload)
	m = appendText(m, fieldID, id)
	m = appendText(m, fieldQueue, queue)
	m = appendNumber(m, fieldRetry, math.MaxInt32)
	return appendNumber(m, fieldTimeout, uint64((j.Timeout()+grace)/time.Second)), nil
}

func appendText(m []byte, field protowire.Number, s string) []byte {
	return protowire.AppendString(protowire.AppendTag(m, field, protowire.BytesType), s)
}

func appendNumber(m []byte, field protowire.Number, n uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(m, field, protowire.VarintType), n)
}

// asynqMessage has the fields of a message of asynq that this package reads.
type asynqMessage struct {
	payload []byte
	retried int      // how often the task has failed
	others  [][]byte // the encoded fields that a failure does not change
}

func parse(message string) (m asynqMessage, err error) {
	for rest := []byte(message); len(rest) > 0; {
		number, kind, n := protowire.ConsumeField(rest)
		if n < 0 {
			return m, protowire.ParseError(n)
		}
		field := rest[:n]
		rest = rest[n:]
		_, _, tag := protowire.ConsumeTag(field)
		switch {
		case number == fieldRetried && kind == protowire.VarintType:
			retried, _ := protowire.ConsumeVarint(field[tag:])
			m.retried = int(min(retried, 1<<20))
		case number == fieldPayload && kind == protowire.BytesType && m.payload == nil:
			m.payload, _ = protowire.ConsumeBytes(field[tag:])
		}
		if number != fieldRetried && number != fieldError && number != fieldFailedAt {
			m.others = append(m.others, field)
		}
	}
	return m, nil
}

// failedMessage returns a task's message with the failure that ended its delivery. If counted is
// true, it also adds 1 to the number of failures.
func failedMessage(message string, at time.Time, failure error, counted bool) string {
	m, err := parse(message)
	if err != nil {
		return message // it is not a message of asynq
	}
	if counted {
		m.retried++
	}
	b := appendNumber(bytes.Join(m.others, nil), fieldRetried, uint64(m.retried))
	if failure != nil {
		b = appendText(b, fieldError, strings.ToValidUTF8(failure.Error(), "?"))
	}
	return string(appendNumber(b, fieldFailedAt, uint64(at.Unix())))
}

// today returns the day (UTC) in the form of asynq's daily counts, and statsEnd the Unix time, in
// seconds, until which they are kept.
func today(at time.Time) string   { return at.UTC().Format(time.DateOnly) }
func statsEnd(at time.Time) int64 { return at.Add(asynqStatsTTL).Unix() }
