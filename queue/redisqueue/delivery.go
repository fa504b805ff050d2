package redisqueue

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/ingot-run/ingot/queue"
)

// held is a delivery of a row to this worker, from the time when the worker takes the row until its
// handler has returned.
//
// number is the fencing number of the delivery: how often the row was taken from silent workers
// before. Scripts refuse all writes of a delivery whose number is not the row's present one. The
// worker becomes the row's owner when the row begins, or with the next heartbeat if the row has not
// begun by then.
type held struct {
	queue.Delivery
	queue   string // name of the queue
	task    string // id of the task
	message string // asynq's message
	number  int
	notAJob error // why the task has no valid job; Job is then nil
	member  *member
	feed    *feed
	ctx     context.Context // ends when the delivery ends
	end     context.CancelCauseFunc

	release  func()      // ends the reservation of Admit; nil if the row is not admitted
	worker   string      // worker id under which the row begins
	begun    bool        // the attempt is counted
	refusal  error       // why a script refused to begin the row
	failure  error       // why the row could not be begun, if it was not refused
	recorded atomic.Bool // the row is recorded, and has left its queue

	since  time.Time // when the handler was called; guarded by the feed's mutex
	ending bool      // the handler has a result; guarded by the feed's mutex

	// The member's mutex guards these fields.
	taken time.Time // when the member took the row
	owner string    // worker id under which the member owns, or may own, the row; empty if it does not
	lost  bool      // the member was declared lost
}

// errNoJob is the error of a task that is not a job.
var errNoJob = errors.New("not a job of ingot")

// hold makes a delivery from an item of the reply of take.lua.
func (s *server) hold(f *feed, item any) *held {
	fields, _ := item.([]any)
	text := func(i int) string {
		if i < len(fields) {
			t, _ := fields[i].(string)
			return t
		}
		return ""
	}
	count := func(i int) int {
		if i < len(fields) {
			n, _ := fields[i].(int64)
			return int(n)
		}
		return 0
	}
	h := &held{queue: text(0), task: text(1), message: text(2), number: count(3), feed: f}
	h.Deaths, h.Recorder = count(4), h
	h.Job, h.notAJob = jobOf(h.task, h.message)
	s.member.hold(s.deliveries, h)
	return h
}

func jobOf(task, message string) (*queue.Job, error) {
	payload, err := payloadOf([]byte(message))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNoJob, err)
	}
	j, err := queue.Decode(payload)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNoJob, err)
	}
	if batch, line, ok := parseTaskID(task); !ok || batch != j.Batch || line != j.Line {
		return nil, fmt.Errorf("%w: the task's id does not name line %d of batch %s", errNoJob, j.Line, j.Batch)
	}
	return j, nil
}

// own makes the member the owner of the row and returns the worker id to write to Redis. ok is
// false if the member was declared lost.
func (h *held) own() (worker string, ok bool) {
	h.member.mu.Lock()
	defer h.member.mu.Unlock()
	if h.lost {
		return "", false
	}
	h.owner = h.member.id
	return h.owner, true
}

// admit admits the rows that can begin without a wait and returns them. The others are left to
// their handlers.
func (s *server) admit(tasks []*held) (admitted []*held) {
	for _, h := range tasks {
		if h.Job == nil || h.ctx.Err() != nil {
			continue
		}
		if release, ok := s.options.Admit(h.ctx, &h.Delivery, false); ok {
			h.release = release
			if s.prepare(h) {
				admitted = append(admitted, h)
			}
		}
	}
	return admitted
}

// prepare makes the member the owner of an admitted row. It returns false if the member was
// declared lost.
func (s *server) prepare(h *held) bool {
	var ok bool
	if h.worker, ok = h.own(); !ok {
		h.refuse(queue.ErrSuperseded)
		return false
	}
	return true
}

// beginCall returns the call of begin.lua for admitted rows.
func beginCall(rows []*held) *call {
	c := with(beginScript, "now", now()).rows(len(rows), "batch", "line", "file", "delivery", "alias", "pin", "task", "worker")
	for _, h := range rows {
		c.add(h.Batch, h.Line, h.File, h.number, h.Alias, h.member.options.Pin(), taskKey(h.queue, h.task), h.worker)
	}
	return c
}

// setBegun reads the reply of begin.lua. If it is an error of Redis, the row's handler begins the
// row again.
func setBegun(rows []*held, reply *redis.Cmd) {
	list, err := reply.Slice()
	for i, h := range rows {
		r, err := rowReply(list, i, err)
		if err == nil {
			err = h.setAttempt(r)
		}
		switch {
		case err == nil:
			h.begun = true
		case isRefusal(err):
			h.refuse(err)
		default:
			h.failure = failure(err, "begin line %d of batch %s", h.Line, h.Batch)
			h.unadmit()
		}
	}
}

// setAttempt reads the reply of begin.lua for a row.
func (h *held) setAttempt(reply any) error {
	fields, _ := reply.([]any)
	if len(fields) == 0 {
		return fmt.Errorf("the reply of redis is not an attempt: %v", reply)
	}
	n, _ := fields[0].(int64)
	if n <= 0 {
		return refusalOf(n)
	}
	h.Attempt = int(n)
	if len(fields) > 1 {
		text, _ := fields[1].(string)
		h.Checkpoint = []byte(text)
	}
	return nil
}

// unadmit ends the reservation of Admit.
func (h *held) unadmit() {
	if h.release != nil {
		h.release()
		h.release = nil
	}
}

func (h *held) refuse(reason error) {
	h.refusal = reason
	h.unadmit()
}

// Save implements queue.Recorder.
func (h *held) Save(ctx context.Context, checkpoint []byte) error {
	c := with(checkpointScript).rows(1, "batch", "line", "delivery", "checkpoint")
	c.add(h.Batch, h.Line, h.number, checkpoint)
	list, err := h.member.queue.run(ctx, c).Slice()
	reply, err := rowReply(list, 0, err)
	if n, ok := reply.(int64); ok {
		if err = refusalOf(n); errors.Is(err, queue.ErrRecorded) {
			err = nil
		}
	}
	return failure(err, "store the progress of line %d of batch %s", h.Line, h.Batch)
}

// Record implements queue.Recorder. Results of several rows are recorded together, unless they are
// large.
func (h *held) Record(ctx context.Context, r queue.Result) (first bool, err error) {
	row := h.toRecord(r)
	if row.size() <= maxGroupedResult {
		first, err = h.feed.record(ctx, h, r)
	} else {
		first, err = h.member.queue.recordOne(ctx, row)
	}
	if first {
		h.recorded.Store(true)
	}
	return first, err
}

func (h *held) toRecord(r queue.Result) toRecord {
	return toRecord{batch: h.Batch, delivery: h.number, queue: h.queue, task: h.task, result: r}
}
