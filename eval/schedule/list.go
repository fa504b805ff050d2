package schedule

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
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
	now, err := t.Now(ctx)
	if err != nil {
		return nil, err
	}
	s := new(Status)
	alive := &redis.ZRangeBy{Min: strconv.FormatInt(now.Add(-lostAfter).Unix(), 10), Max: "+inf"}
	if s.Schedulers, err = t.rdb.ZRangeByScore(ctx, key("schedulers"), alive).Result(); err != nil {
		return nil, failure(err, "list schedulers")
	}
	slices.Sort(s.Schedulers)
	entries, err := t.rdb.HGetAll(ctx, key("entries")).Result()
	if err != nil {
		return nil, failure(err, "list the entries of the schedule")
	}
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		var k storedEntry
		if err := json.Unmarshal([]byte(entries[name]), &k); err != nil || now.Sub(k.Seen) > lostAfter {
			continue
		}
		if k.times, err = parse(k.Cron, k.TimeZone); err != nil {
			continue // another version of ingot wrote the entry
		}
		e := EntryStatus{Entry: k.Entry, Next: k.Next(now)}
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
