package schedule

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Table is the history of slots in Redis. asynq runs the slots, but it knows only the tasks that
// exist now: the rules about missed, overlapping and paused times, and the outcomes, are kept here.
// These are its keys:
//
//	ingot:{:eval}:entries       hash: each entry, as a scheduler last read it
//	ingot:{:eval}:schedulers    sorted set: the schedulers by the time of their last heartbeat
//	ingot:{:eval}:paused        set: the entries that are paused
//	ingot:{:eval}:marks:ENTRY   hash: for each cron expression, the time up to which slots were added
//	ingot:{:eval}:order:ENTRY   sorted set: the names of the newest 1,000 slots, which begin with their times
//	ingot:{:eval}:open:ENTRY    sorted set: the slots that are not finished; asynq has a task for the first one
//	ingot:{:eval}:slot:ENTRY/SLOT  hash: a slot
type Table struct{ rdb redis.UniversalClient }

// NewTable returns the table on a Redis server.
func NewTable(rdb redis.UniversalClient) *Table { return &Table{rdb} }

func key(parts ...string) string { return "ingot:{:eval}:" + strings.Join(parts, ":") }

func slotKey(entry, slot string) string { return key("slot", entry+"/"+slot) }

// failure puts the failed operation in front of an error. It returns nil if err is nil.
func failure(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), err)
}

// fireScript adds slots. It is a script, not a transaction, since every look at an entry runs it,
// and the looks of several schedulers would make each other's transactions fail. asynq has no rule
// about missed, paused and overlapping times.
var (
	//go:embed lua/fire.lua
	fireSource string
	fireScript = redis.NewScript(fireSource)
)

// maxAhead is the maximum time that the mark of an entry may be in the future. A clock that was set
// back by a few seconds must not run a slot twice, but one that was wrong by years must not stop
// the entry for years.
const maxAhead = time.Hour

// fire adds the due slots of an entry to the table and returns them. It returns none if another
// scheduler added them first. The slots of a new entry, those of a new cron expression, and those
// of an entry whose mark is far in the future, begin now.
func (t *Table) fire(ctx context.Context, e *Entry, now time.Time) (due []slot, err error) {
	mark, err := t.rdb.HGet(ctx, key("marks", e.Name), e.spec()).Int64()
	if err != nil && !errors.Is(err, redis.Nil) {
		return nil, failure(err, "read the time of the last slot of %s", e.Name)
	}
	read, next := "", now.Unix()
	if err == nil {
		read = strconv.FormatInt(mark, 10)
		due = e.due(time.Unix(mark, 0), now)
		switch {
		case len(due) > 0:
			next = due[len(due)-1].at.Unix()
		case time.Unix(mark, 0).Sub(now) <= maxAhead:
			next = mark
		}
	}
	args := []any{slotKey(e.Name, ""), e.Name, e.spec(), read, next, now.UnixMilli()}
	for _, s := range due {
		args = append(args, s.name(), string(s.state))
	}
	keys := []string{key("marks", e.Name), key("order", e.Name), key("open", e.Name), key("paused")}
	if first, err := fireScript.Run(ctx, t.rdb, keys, args...).Bool(); err != nil || !first {
		return nil, failure(err, "add the due slots of %s", e.Name)
	}
	return due, nil
}

// next returns the name of an entry's oldest slot that is not finished; empty if there is none.
func (t *Table) next(ctx context.Context, entry string) (string, error) {
	names, err := t.rdb.ZRange(ctx, key("open", entry), 0, 0).Result()
	return strings.Join(names, ""), failure(err, "read the open slots of %s", entry)
}

// Now returns the time of the server, which all schedulers share.
func (t *Table) Now(ctx context.Context) (time.Time, error) {
	now, err := t.rdb.Time(ctx).Result()
	return now, failure(err, "read the time of the Redis server")
}

func timestamp() string { return time.Now().UTC().Format(time.RFC3339) }

func (t *Table) slot(ctx context.Context, entry, name string) (Slot, error) {
	return newSlot(entry, name, t.rdb.HGetAll(ctx, slotKey(entry, name)))
}

// watch runs a transaction. It runs it again if another client has changed one of the keys
// meanwhile.
func (t *Table) watch(ctx context.Context, transaction func(tx *redis.Tx) error, keys ...string) error {
	for {
		if err := t.rdb.Watch(ctx, transaction, keys...); !errors.Is(err, redis.TxFailedErr) {
			return err
		}
	}
}

func (t *Table) update(ctx context.Context, entry, name string, change func(s *Slot) error) error {
	k := slotKey(entry, name)
	err := t.watch(ctx, func(tx *redis.Tx) error {
		s, err := newSlot(entry, name, tx.HGetAll(ctx, k))
		if err == nil {
			err = change(&s)
		}
		if err != nil {
			return err
		}
		_, err = tx.TxPipelined(ctx, func(p redis.Pipeliner) error {
			p.HSet(ctx, k, "state", string(s.State), "owner", s.Owner, "attempt", s.Attempt, "started", s.Started, "ended", s.Ended,
				"verdict", string(s.Verdict), "message", s.Message)
			if s.State == Done {
				p.ZRem(ctx, key("open", entry), name)
			}
			return nil
		})
		return err
	}, k)
	return failure(err, "update slot %s of %s", name, entry)
}

func (t *Table) beat(ctx context.Context, owner string, entries []Entry) error {
	now, err := t.Now(ctx)
	if err != nil {
		return err
	}
	pipe := t.rdb.Pipeline()
	pipe.ZAdd(ctx, key("schedulers"), redis.Z{Score: float64(now.Unix()), Member: owner})
	pipe.ZRemRangeByScore(ctx, key("schedulers"), "-inf", strconv.FormatInt(now.Add(-lostAfter).Unix(), 10))
	for i := range entries {
		text, err := json.Marshal(storedEntry{entries[i], now})
		if err != nil {
			return failure(err, "record entry %s", entries[i].Name)
		}
		pipe.HSet(ctx, key("entries"), entries[i].Name, text)
	}
	_, err = pipe.Exec(ctx)
	return failure(err, "record the scheduler's heartbeat")
}

// stored returns the entries of the table and the server's time. An unreadable entry is empty.
func (t *Table) stored(ctx context.Context) (entries map[string]storedEntry, now time.Time, err error) {
	if now, err = t.Now(ctx); err != nil {
		return nil, now, err
	}
	texts, err := t.rdb.HGetAll(ctx, key("entries")).Result()
	entries = map[string]storedEntry{}
	for name, text := range texts {
		var e storedEntry
		if json.Unmarshal([]byte(text), &e) != nil {
			e = storedEntry{}
		}
		entries[name] = e
	}
	return entries, now, failure(err, "read the entries of the schedule")
}

func (t *Table) served(ctx context.Context, entry string) (bool, error) {
	entries, now, err := t.stored(ctx)
	return err == nil && now.Sub(entries[entry].Seen) <= lostAfter, err
}

// lostAfter is the maximum age of the last heartbeat of a scheduler that is listed.
const lostAfter = time.Minute

// forgottenAfter is the time after which an entry that no scheduler has is deleted, with its slots.
const forgottenAfter = 30 * 24 * time.Hour

func (t *Table) forget(ctx context.Context) error {
	entries, now, err := t.stored(ctx)
	if err != nil {
		return err
	}
	for name, e := range entries {
		if now.Sub(e.Seen) < forgottenAfter {
			continue
		}
		slots, err := t.rdb.ZRange(ctx, key("order", name), 0, -1).Result()
		if err != nil {
			return failure(err, "list slots of %s", name)
		}
		pipe := t.rdb.TxPipeline()
		for _, slot := range slots {
			pipe.Del(ctx, slotKey(name, slot))
		}
		pipe.Del(ctx, key("marks", name), key("order", name), key("open", name))
		pipe.SRem(ctx, key("paused"), name)
		pipe.HDel(ctx, key("entries"), name)
		if _, err := pipe.Exec(ctx); err != nil {
			return failure(err, "delete entry %s", name)
		}
	}
	return nil
}

type storedEntry struct {
	Entry
	Seen time.Time `json:"seen"` // time of the latest heartbeat of a scheduler that had the entry
}

// State is the state of a slot.
type State string

// The states. A slot is open while it is Waiting or Running.
const (
	Waiting    State = "waiting"
	Running    State = "running"
	Done       State = "done"       // the run ended with a verdict
	Missed     State = "missed"     // not run: no scheduler ran at its time
	Overlapped State = "overlapped" // not run: one slot of the entry was running and another was waiting
	Paused     State = "paused"     // not run: the entry was paused
)

// slot is a scheduled time of an entry that is to be added to the table in Redis, with the state
// that it gets there.
type slot struct {
	at    time.Time
	state State
}

const (
	slotForm = "20060102T150405Z" // layout of the time in a slot's name, so that slots sorted by name are sorted by time
	manual   = "-now"             // end of the name of a slot that RunNow added
)

func (s slot) name() string { return s.at.UTC().Format(slotForm) }

// Slot is a scheduled time of an entry, with the state and outcome of the run at this time, as read
// from the table. Times are in the format of RFC 3339.
type Slot struct {
	Name     string  `json:"slot" redis:"-"`
	State    State   `json:"state" redis:"state"`
	Run      string  `json:"run" redis:"-"`
	Attempt  int     `json:"attempt,omitempty" redis:"attempt"`
	Owner    string  `json:"scheduler,omitempty" redis:"owner"`
	Started  string  `json:"started,omitempty" redis:"started"`
	Ended    string  `json:"ended,omitempty" redis:"ended"`
	Verdict  Verdict `json:"verdict,omitempty" redis:"verdict"`
	Message  string  `json:"message,omitempty" redis:"message"`
	Notified string  `json:"notified,omitempty" redis:"notified"` // time of the notice, or why there was none
}

// newSlot returns a slot with the fields that Redis has of it. The state of a slot that was deleted
// is empty.
func newSlot(entry, name string, fields *redis.MapStringStringCmd) (Slot, error) {
	s := Slot{Name: name, Run: entry + "-" + name}
	err := fields.Scan(&s)
	return s, failure(err, "read slot %s of %s", name, entry)
}
