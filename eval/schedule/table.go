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

// Table is the table of slots in Redis. These are its keys:
//
//	ingot:{:eval}:entries       hash: each entry, as a scheduler last read it
//	ingot:{:eval}:schedulers    sorted set: the schedulers by the time of their last heartbeat
//	ingot:{:eval}:paused        set: the entries that are paused
//	ingot:{:eval}:notices       sorted set: the slots whose notice is not delivered yet, by the time of the next attempt
//	ingot:{:eval}:marks:ENTRY   hash: for each cron expression, the time up to which slots were added
//	ingot:{:eval}:order:ENTRY   sorted set: the names of the newest 1,000 slots, which begin with their times
//	ingot:{:eval}:open:ENTRY    sorted set: the slots that are not finished
//	ingot:{:eval}:lease:ENTRY   the scheduler that runs a slot of the entry; expires unless that scheduler extends it
//	ingot:{:eval}:slot:ENTRY/SLOT  hash: a slot
type Table struct{ rdb redis.UniversalClient }

// NewTable returns the table on a Redis server.
func NewTable(rdb redis.UniversalClient) *Table { return &Table{rdb} }

func key(parts ...string) string { return "ingot:{:eval}:" + strings.Join(parts, ":") }

// slotPrefix returns the part of the key that is the same for all slots of an entry. The slot's name follows it.
func slotPrefix(entry string) string { return key("slot", entry+"/") }

var (
	//go:embed lua/fire.lua
	fireSource string
	//go:embed lua/add.lua
	addSource string
	//go:embed lua/take.lua
	takeSource string
	//go:embed lua/renew.lua
	renewSource string
	//go:embed lua/finish.lua
	finishSource string
	//go:embed lua/release.lua
	releaseSource string
	//go:embed lua/notice.lua
	noticeSource string

	fireScript    = redis.NewScript(fireSource)
	addScript     = redis.NewScript(addSource)
	takeScript    = redis.NewScript(takeSource)
	renewScript   = redis.NewScript(renewSource)
	finishScript  = redis.NewScript(finishSource)
	releaseScript = redis.NewScript(releaseSource)
	noticeScript  = redis.NewScript(noticeSource)
)

// failure puts the failed operation in front of an error. It returns nil if err is nil.
func failure(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), err)
}

// fire adds the due slots of an entry to the table and returns them. It returns none if another scheduler added them first. The slots of a
// new entry, and those of a new cron expression, begin now.
func (t *Table) fire(ctx context.Context, e *Entry, now time.Time) ([]slot, error) {
	mark, err := t.rdb.HGet(ctx, key("marks", e.Name), e.spec()).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return nil, failure(err, "read the time of the last slot of %s", e.Name)
	}
	next := strconv.FormatInt(now.Unix(), 10)
	var due []slot
	if mark != "" {
		last, err := strconv.ParseInt(mark, 10, 64)
		if err != nil {
			return nil, failure(err, "read the time of the last slot of %s", e.Name)
		}
		if due = e.due(time.Unix(last, 0), now); len(due) == 0 {
			next = mark
		} else {
			next = strconv.FormatInt(due[len(due)-1].at.Unix(), 10)
		}
	}
	args := []any{slotPrefix(e.Name), e.Name, e.spec(), mark, next, now.UnixMilli()}
	for _, s := range due {
		args = append(args, s.name(), string(s.state))
	}
	keys := []string{key("marks", e.Name), key("order", e.Name), key("open", e.Name), key("paused")}
	entered, err := fireScript.Run(ctx, t.rdb, keys, args...).Int()
	if err != nil {
		return nil, failure(err, "add the due slots of %s", e.Name)
	}
	if entered == 0 {
		return nil, nil
	}
	return due, nil
}

// Now returns the time of the server, which all schedulers share.
func (t *Table) Now(ctx context.Context) (time.Time, error) {
	now, err := t.rdb.Time(ctx).Result()
	return now, failure(err, "read the time of the Redis server")
}

// taken is a slot whose lease a scheduler holds.
type taken struct {
	slot    string
	attempt int
}

// take takes an entry's lease and the entry's oldest open slot, for a scheduler that will run the slot. owner is the id of this scheduler.
// take returns nil without an error if no slot is open, or if another scheduler holds the lease.
func (t *Table) take(ctx context.Context, entry, owner string, lease time.Duration) (*taken, error) {
	v, err := takeScript.Run(ctx, t.rdb, []string{key("lease", entry), key("open", entry)},
		slotPrefix(entry), owner, lease.Milliseconds(), timestamp()).Slice()
	if errors.Is(err, redis.Nil) {
		return nil, nil
	}
	if err != nil {
		return nil, failure(err, "take a slot of %s", entry)
	}
	return &taken{v[0].(string), int(v[1].(int64))}, nil
}

func timestamp() string { return time.Now().UTC().Format(time.RFC3339) }

// errLost means that this scheduler has lost the lease.
var errLost = errors.New("the lease is lost: another scheduler may run the slot")

func (t *Table) renew(ctx context.Context, entry, owner string, lease time.Duration) error {
	ok, err := renewScript.Run(ctx, t.rdb, []string{key("lease", entry)}, owner, lease.Milliseconds()).Bool()
	if err == nil && !ok {
		err = errLost
	}
	return failure(err, "extend the lease of %s", entry)
}

// finish ends a slot and records its outcome.
func (t *Table) finish(ctx context.Context, e *Entry, s *taken, owner string, o Outcome) error {
	notice := ""
	if e.Notify.wants(o.Verdict) {
		notice = e.Name + "/" + s.slot
	}
	keys := []string{key("lease", e.Name), key("open", e.Name), slotPrefix(e.Name) + s.slot, key("notices")}
	ok, err := finishScript.Run(ctx, t.rdb, keys, owner, s.slot, notice, timestamp(), "verdict", string(o.Verdict), "message", o.Message).Bool()
	if err == nil && !ok {
		err = errLost
	}
	return failure(err, "end slot %s of %s", s.slot, e.Name)
}

// release gives up the lease of an unfinished slot. No scheduler takes the slot for the duration wait. If wait is 0, the attempt is not
// counted.
func (t *Table) release(ctx context.Context, entry string, s *taken, owner string, wait time.Duration, message string) error {
	err := releaseScript.Run(ctx, t.rdb, []string{key("lease", entry), slotPrefix(entry) + s.slot}, owner, wait.Milliseconds(), message).Err()
	return failure(err, "return slot %s of %s to the table", s.slot, entry)
}

// beat records a scheduler's heartbeat and its entries.
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

// lostAfter is the maximum age of a scheduler's last heartbeat. If the heartbeat is older, the scheduler and its entries are no longer
// listed.
const lostAfter = time.Minute

// forgottenAfter is the time after which an entry that no scheduler has is deleted, with its slots.
const forgottenAfter = 30 * 24 * time.Hour

// forget deletes entries that no scheduler has had for forgottenAfter.
func (t *Table) forget(ctx context.Context, now time.Time) error {
	entries, err := t.rdb.HGetAll(ctx, key("entries")).Result()
	if err != nil {
		return failure(err, "read the entries of the schedule")
	}
	for name, text := range entries {
		var k storedEntry
		if json.Unmarshal([]byte(text), &k) == nil && now.Sub(k.Seen) < forgottenAfter {
			continue
		}
		slots, err := t.rdb.ZRange(ctx, key("order", name), 0, -1).Result()
		if err != nil {
			return failure(err, "list slots of %s", name)
		}
		pipe := t.rdb.TxPipeline()
		for _, slot := range slots {
			pipe.Del(ctx, slotPrefix(name)+slot)
		}
		pipe.Del(ctx, key("marks", name), key("order", name), key("open", name), key("lease", name))
		pipe.SRem(ctx, key("paused"), name)
		pipe.HDel(ctx, key("entries"), name)
		if _, err := pipe.Exec(ctx); err != nil {
			return failure(err, "delete entry %s", name)
		}
	}
	return nil
}

// storedEntry is an entry in Redis.
type storedEntry struct {
	Entry
	Seen time.Time `json:"seen"` // time of the latest heartbeat of a scheduler that had the entry
}
