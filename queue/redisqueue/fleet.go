package redisqueue

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/ingot-run/ingot/queue"
)

// Leases are the intervals with which workers watch each other's heartbeats.
type Leases struct {
	Beat    time.Duration // time between two heartbeats of a worker, and between two checks of the other workers' heartbeats
	Stop    time.Duration // a stopping worker no longer waits for Redis after this time without an answer
	Silence time.Duration // a worker's rows go to other workers after this time without a heartbeat
}

// DefaultLeases let other workers take the rows of a killed worker within 20 s: Silence, two checks, and one poll interval.
var DefaultLeases = Leases{Beat: 2 * time.Second, Silence: 12 * time.Second, Stop: 4 * time.Second}

// maxLostAge is how long a lost worker stays in the list of workers.
const maxLostAge = time.Hour

// fleetKeys returns the keys with the state of workers:
//
//	records  hash: the record of each worker, by its id
//	beats    hash: the time of the last heartbeat of each worker that is not lost, in ms
//	lost     hash: for each lost worker, the time when it was declared lost and the time of its last heartbeat, in ms
func fleetKeys() []string {
	const prefix = "ingot:{:fleet}:" // no batch id begins like this
	return []string{prefix + "records", prefix + "beats", prefix + "lost"}
}

// beat sends a worker's heartbeat: it writes the worker's record. alive is false if the worker was declared lost.
func (q *Queue) beat(ctx context.Context, w queue.Worker) (alive bool, err error) {
	record, err := json.Marshal(w)
	if err != nil {
		return false, failure(err, "encode the record of worker %s", w.Name)
	}
	ms, err := beatScript.Run(ctx, q.rdb, fleetKeys(), w.ID, record).Int64()
	return ms != 0, failure(err, "write the record of worker %s", w.Name)
}

// leave removes a worker that has stopped.
func (q *Queue) leave(ctx context.Context, id string) error {
	return failure(leaveScript.Run(ctx, q.rdb, fleetKeys(), id).Err(), "remove the record of this worker")
}

// lose declares a worker lost, unless it has sent a heartbeat after the given one.
func (q *Queue) lose(ctx context.Context, id, beat string) (lost bool, err error) {
	n, err := loseScript.Run(ctx, q.rdb, fleetKeys(), id, beat, maxLostAge.Milliseconds()).Int()
	return n == 1, failure(err, "declare a worker lost")
}

// beats returns the time of the last heartbeat of each worker that is not lost, in ms, by worker id.
func (q *Queue) beats(ctx context.Context) (map[string]string, error) {
	beats, err := q.rdb.HGetAll(ctx, fleetKeys()[1]).Result()
	return beats, failure(err, "read the heartbeats of workers")
}

// Fleet implements queue.Queue.
func (q *Queue) Fleet(ctx context.Context) ([]queue.Worker, error) {
	keys := fleetKeys()
	pipe := q.rdb.Pipeline()
	records, beats, lost := pipe.HGetAll(ctx, keys[0]), pipe.HGetAll(ctx, keys[1]), pipe.HGetAll(ctx, keys[2])
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, failure(err, "list workers")
	}
	var all []queue.Worker
	for id, record := range records.Val() {
		var w queue.Worker
		if json.Unmarshal([]byte(record), &w) != nil {
			continue // another version of ingot wrote the record
		}
		w.ID, w.Beat, w.Lost = id, parseMoment(beats.Val()[id]), time.Time{}
		if state := lost.Val()[id]; state != "" {
			at, beat, _ := strings.Cut(state, " ")
			w.Beat, w.Lost = parseMoment(beat), parseMoment(at)
		}
		all = append(all, w)
	}
	slices.SortFunc(all, func(a, b queue.Worker) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), a.Started.Compare(b.Started))
	})
	return all, nil
}

// Silent reports whether a worker's last heartbeat is so old that any live worker would have declared this worker lost.
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

// parseMoment reads a Unix time in ms. It returns the zero time if the text is not a number.
func parseMoment(ms string) time.Time {
	n, err := strconv.ParseInt(ms, 10, 64)
	if err != nil {
		return time.Time{}
	}
	return time.UnixMilli(n).UTC()
}

// newWorkerID returns a random id. A worker keeps its id until it stops or is declared lost.
func newWorkerID() string { return uuid.NewString() }

// watch finds silent workers: those whose last heartbeat has not changed for some time. It does not compare clocks of different machines,
// and it counts only time in which it could read heartbeats. So neither a restart of Redis nor a pause of the watching process makes a
// worker silent.
type watch struct {
	Leases
	last time.Time // time of the last call of look
	seen map[string]sighting
}

// sighting is a worker's last heartbeat, and the time when the watch first saw it.
type sighting struct {
	beat  string
	since time.Time
}

// look compares the heartbeats of all workers with those of the last call, and returns the ids of silent workers.
func (w *watch) look(now time.Time, beats map[string]string) (silent []string) {
	rested := now.Sub(w.last) > 3*w.Beat
	w.last = now
	seen := make(map[string]sighting, len(beats))
	for id, beat := range beats {
		s, ok := w.seen[id]
		if !ok || rested || s.beat != beat {
			s = sighting{beat, now}
		}
		seen[id] = s
		if now.Sub(s.since) >= w.Silence {
			silent = append(silent, id)
		}
	}
	w.seen = seen
	return silent
}
