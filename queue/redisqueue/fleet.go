package redisqueue

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ingot-run/ingot/queue"
)

// maxLostAge is how long a lost worker stays in the list of workers.
const maxLostAge = time.Hour

// fleetKey returns a key with the state of workers:
//
//	records  hash: the record of each worker, by its id
//	beats    hash: the time of the last heartbeat of each worker that is not lost, in ms
//	lost     hash: for each lost worker, the time when it was declared lost and the time of its last heartbeat, in ms
func fleetKey(name string) string { return key(":fleet", name) } // no batch id begins like this

// lose declares a worker lost, unless it has sent a heartbeat after the given one.
func (q *Queue) lose(ctx context.Context, id, beat string) (lost bool, err error) {
	n, err := q.run(ctx, with(loseScript, "worker", id, "beat", beat, "max_age", maxLostAge.Milliseconds())).Int()
	return n == 1, failure(err, "declare a worker lost")
}

// beats returns the time of the last heartbeat of each worker that is not lost, in ms, by worker
// id.
func (q *Queue) beats(ctx context.Context) (map[string]string, error) {
	beats, err := q.rdb.HGetAll(ctx, fleetKey("beats")).Result()
	return beats, failure(err, "read the heartbeats of workers")
}

// Fleet implements queue.Queue.
func (q *Queue) Fleet(ctx context.Context) ([]queue.Worker, error) {
	pipe := q.rdb.Pipeline()
	records, beats, lost := pipe.HGetAll(ctx, fleetKey("records")), pipe.HGetAll(ctx, fleetKey("beats")), pipe.HGetAll(ctx, fleetKey("lost"))
	clock := pipe.Time(ctx)
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, failure(err, "list workers")
	}
	ahead := time.Since(clock.Val()) // what to add to times of the server's clock
	var all []queue.Worker
	for id, record := range records.Val() {
		var w queue.Worker
		if json.Unmarshal([]byte(record), &w) != nil {
			continue // another version of ingot wrote the record
		}
		w.ID, w.Beat, w.Lost = id, parseMoment(beats.Val()[id], ahead), time.Time{}
		if state := lost.Val()[id]; state != "" {
			at, beat, _ := strings.Cut(state, " ")
			w.Beat, w.Lost = parseMoment(beat, ahead), parseMoment(at, ahead)
		}
		all = append(all, w)
	}
	slices.SortFunc(all, func(a, b queue.Worker) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), a.Started.Compare(b.Started))
	})
	return all, nil
}

// nameOf returns the name of the worker with an id; the id if the name is not known.
func (q *Queue) nameOf(ctx context.Context, id string) string {
	all, err := q.Fleet(ctx)
	if i := slices.IndexFunc(all, func(w queue.Worker) bool { return w.ID == id }); err == nil && i >= 0 {
		return cmp.Or(all[i].Name, id)
	}
	return id
}

// Silent reports whether a worker's last heartbeat is so old that any live worker would have
// declared this worker lost.
func (q *Queue) Silent(w queue.Worker) bool { return time.Since(w.Beat) >= 2*q.Leases.Silence }

// Workers implements queue.Queue.
func (q *Queue) Workers(ctx context.Context, alias string) (int, error) {
	all, err := q.Fleet(ctx)
	n := 0
	for _, w := range all {
		if w.Live() && w.Serves(alias) && !q.Silent(w) {
			n++
		}
	}
	return n, err
}

// parseMoment reads a Unix time in ms of the server's clock, and returns the time by the clock of
// this machine, which is ahead by the given time. The time is not in the future, even if the
// server's clock was set back since. It is zero if the text is not a number.
func parseMoment(ms string, ahead time.Duration) time.Time {
	n, err := strconv.ParseInt(ms, 10, 64)
	if err != nil {
		return time.Time{}
	}
	t, now := time.UnixMilli(n).Add(ahead).UTC(), time.Now().UTC()
	if t.After(now) {
		return now
	}
	return t
}
