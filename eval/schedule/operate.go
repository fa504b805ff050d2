package schedule

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/ingot-run/ingot/queue/chores"
)

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
	known, err := t.rdb.HKeys(ctx, key("entries")).Result()
	if err != nil {
		return failure(err, "read the entries of the schedule")
	}
	if slices.Contains(known, entry) {
		return nil
	}
	if len(known) == 0 {
		return fmt.Errorf("entry %q: %w; start a scheduler with \"ingot eval schedule\"", entry, ErrNoEntry)
	}
	slices.Sort(known)
	return fmt.Errorf("entry %q: %w; the known entries are: %s", entry, ErrNoEntry, strings.Join(known, ", "))
}

// ticks is the name of the asynq queue of schedules, and the type of its ticks. A tick is a task
// that wakes a scheduler at a time of an entry. It is not repeated, since schedulers also look at
// the table at intervals.
const ticks = "ingot-evaluations"

func tickOf(entry string) chores.Task {
	return chores.Task{Kind: ticks, Payload: entry, Timeout: time.Minute}
}
