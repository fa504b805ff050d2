package redisqueue

import (
	"errors"
	"math"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/ingot-run/ingot/queue"
)

// Keys and messages of asynq, in the form of the version in go.mod. Tests compare them with the keys and messages that
// asynq writes and reads.

// asynqQueues is the key of the set of queues.
const asynqQueues = "asynq:queues"

func asynqKey(queue, name string) string { return "asynq:{" + queue + "}:" + name }

func pendingKey(queue string) string { return asynqKey(queue, "pending") }

// taskPrefix returns the beginning of a task's key. The task's id follows.
func taskPrefix(queue string) string { return asynqKey(queue, "t:") }

// asynqStatsTTL is how long asynq keeps the counts of a day's tasks.
const asynqStatsTTL = 90 * 24 * time.Hour

// Numbers of fields of asynq's TaskMessage.
const (
	fieldType    protowire.Number = 1
	fieldPayload protowire.Number = 2
	fieldID      protowire.Number = 3
	fieldQueue   protowire.Number = 4
	fieldRetry   protowire.Number = 5
	fieldTimeout protowire.Number = 8

	fieldRetried  protowire.Number = 6
	fieldError    protowire.Number = 7
	fieldFailedAt protowire.Number = 11
)

// grace is added to the timeout that asynq gets, so that the worker's own timeout ends an attempt first. The worker can then record the
// error; asynq could only retry.
const grace = 5 * time.Minute

// message returns the message of a job's task with the given id.
func message(queue, id string, j *queue.Job) ([]byte, error) {
	payload, err := j.Encode()
	if err != nil {
		return nil, err
	}
	m := make([]byte, 0, len(payload)+len(taskType)+len(id)+len(queue)+32)
	text := func(field protowire.Number, s string) {
		m = protowire.AppendString(protowire.AppendTag(m, field, protowire.BytesType), s)
	}
	number := func(field protowire.Number, n uint64) {
		m = protowire.AppendVarint(protowire.AppendTag(m, field, protowire.VarintType), n)
	}
	text(fieldType, taskType)
	m = protowire.AppendBytes(protowire.AppendTag(m, fieldPayload, protowire.BytesType), payload)
	text(fieldID, id)
	text(fieldQueue, queue)
	// asynq would archive a task, and so lose it, if the worker died during the last attempt that asynq allows. So asynq gets no limit: the
	// worker counts attempts itself and records the error of the last one.
	number(fieldRetry, math.MaxInt32)
	number(fieldTimeout, uint64((j.Timeout()+grace)/time.Second))
	return m, nil
}

var errNoPayload = errors.New("asynq's message has no payload")

// payloadOf returns the payload in a task's message.
func payloadOf(message []byte) ([]byte, error) {
	var payload []byte
	err := eachField(message, func(field protowire.Number, kind protowire.Type, value []byte) {
		if field == fieldPayload && kind == protowire.BytesType && payload == nil {
			payload, _ = protowire.ConsumeBytes(value)
		}
	})
	if err == nil && payload == nil {
		err = errNoPayload
	}
	return payload, err
}

// eachField passes the fields of a message to a function, with their encoded values.
func eachField(message []byte, do func(field protowire.Number, kind protowire.Type, value []byte)) error {
	for len(message) > 0 {
		field, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return protowire.ParseError(n)
		}
		message = message[n:]
		if n = protowire.ConsumeFieldValue(field, kind, message); n < 0 {
			return protowire.ParseError(n)
		}
		do(field, kind, message[:n])
		message = message[n:]
	}
	return nil
}
