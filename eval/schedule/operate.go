package schedule

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/ingot-run/ingot/queue/chores"
)

// EntryStatus is an entry with its state and its newest slots.
type EntryStatus struct {
	Entry
	Paused bool      `json:"paused"`
	Next   time.Time `json:"next"`  // the entry's next scheduled time
	Slots  []Slot    `json:"slots"` // the newest slots, the newest first
}

// Status is the state of a schedule.
type Status struct {
	Schedulers []string      `json:"schedulers"` // ids of the schedulers that are alive
	Entries    []EntryStatus `json:"entries"`
}

// List returns the live schedulers and their entries. Each entry has at most the given number of
// its newest slots.
func (t *Table) List(ctx context.Context, slots int) (*Status, error) {
	entries, now, err := t.stored(ctx)
	if err != nil {
		return nil, err
	}
	s := new(Status)
	alive := &redis.ZRangeBy{Min: strconv.FormatInt(now.Add(-lostAfter).Unix(), 10), Max: "+inf"}
	if s.Schedulers, err = t.rdb.ZRangeByScore(ctx, key("schedulers"), alive).Result(); err != nil {
		return nil, failure(err, "list schedulers")
	}
	slices.Sort(s.Schedulers)
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		e := EntryStatus{Entry: entries[name].Entry}
		if now.Sub(entries[name].Seen) > lostAfter {
			continue
		}
		if e.times, err = parse(e.Cron, e.TimeZone); err != nil {
			continue // another version of ingot wrote the entry
		}
		e.Next = e.Entry.Next(now)
		if e.Paused, err = t.rdb.SIsMember(ctx, key("paused"), name).Result(); err != nil {
			return nil, failure(err, "list paused entries")
		}
		if e.Slots, err = t.Slots(ctx, name, slots); err != nil {
			return nil, err
		}
		s.Entries = append(s.Entries, e)
	}
	return s, nil
}

// Slots returns at most limit slots of an entry, the newest first.
func (t *Table) Slots(ctx context.Context, entry string, limit int) ([]Slot, error) {
	names, err := t.rdb.ZRevRange(ctx, key("order", entry), 0, int64(limit)-1).Result()
	if err != nil {
		return nil, failure(err, "list slots of %s", entry)
	}
	if len(names) == 0 {
		return []Slot{}, t.check(ctx, entry)
	}
	pipe := t.rdb.Pipeline()
	fields := make([]*redis.MapStringStringCmd, len(names))
	for i, name := range names {
		fields[i] = pipe.HGetAll(ctx, slotKey(entry, name))
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, failure(err, "read slots of %s", entry)
	}
	list := make([]Slot, len(names))
	for i, name := range names {
		if list[i], err = newSlot(entry, name, fields[i]); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// ErrWaiting means that RunNow cannot add a slot, because one of the entry's slots is already
// waiting.
var ErrWaiting = errors.New("a run of this entry is already waiting")

// ErrNoEntry means that no scheduler has an entry with this name.
var ErrNoEntry = errors.New("no scheduler has this entry")

// RunNow adds a slot for the present time to the entry's slots, and returns the name of the run
// that the slot will have. A scheduler runs this slot like any other. The error wraps ErrWaiting or
// ErrNoEntry if the run cannot be added.
func (t *Table) RunNow(ctx context.Context, entry string) (run string, err error) {
	if err := t.check(ctx, entry); err != nil {
		return "", err
	}
	now, err := t.Now(ctx)
	if err != nil {
		return "", err
	}
	name, open := slot{at: now}.name()+manual, key("open", entry)
	err = t.watch(ctx, func(tx *redis.Tx) error {
		waiting, err := tx.ZCard(ctx, open).Result()
		if err != nil {
			return err
		}
		exists, err := tx.Exists(ctx, slotKey(entry, name)).Result()
		if err != nil || waiting > 1 || exists > 0 {
			return cmp.Or(err, ErrWaiting)
		}
		_, err = tx.TxPipelined(ctx, func(p redis.Pipeliner) error {
			p.HSet(ctx, slotKey(entry, name), "state", string(Waiting))
			p.ZAdd(ctx, key("order", entry), redis.Z{Member: name})
			p.ZAdd(ctx, open, redis.Z{Member: name})
			return nil
		})
		return err
	}, open, slotKey(entry, name))
	if err == nil {
		// The tick wakes a scheduler. If it is lost, the run begins when a scheduler next looks at
		// the table.
		chores.Enqueue(ctx, t.rdb, ticks, tickOf(entry)) //nolint:errcheck // see above
	}
	return entry + "-" + name, failure(err, "run %s now", entry)
}

// Pause pauses an entry: slots whose time comes during the pause are not run, not even later. Pause
// returns false if the entry was paused already.
func (t *Table) Pause(ctx context.Context, entry string) (bool, error) {
	if err := t.check(ctx, entry); err != nil {
		return false, err
	}
	n, err := t.rdb.SAdd(ctx, key("paused"), entry).Result()
	return n > 0, failure(err, "pause %s", entry)
}

// Resume ends the pause of an entry: slots from now on are run. Resume returns false if the entry
// was not paused.
func (t *Table) Resume(ctx context.Context, entry string) (bool, error) {
	n, err := t.rdb.SRem(ctx, key("paused"), entry).Result()
	return n > 0, failure(err, "resume %s", entry)
}

func (t *Table) check(ctx context.Context, entry string) error {
	entries, _, err := t.stored(ctx)
	if _, ok := entries[entry]; ok || err != nil {
		return err
	}
	if len(entries) == 0 {
		return fmt.Errorf("entry %q: %w; start a scheduler with \"ingot eval schedule\"", entry, ErrNoEntry)
	}
	return fmt.Errorf("entry %q: %w; the known entries are: %s", entry, ErrNoEntry, strings.Join(slices.Sorted(maps.Keys(entries)), ", "))
}

// ticks is the name of the asynq queue of schedules, and the type of its ticks. A tick is a task
// that wakes a scheduler at a time of an entry. It is not repeated, since schedulers also look at
// the table at intervals.
const ticks = "ingot-evaluations"

func tickOf(entry string) chores.Task {
	return chores.Task{Kind: ticks, Payload: entry, Timeout: time.Minute}
}
