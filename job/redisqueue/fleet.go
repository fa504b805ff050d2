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

	"github.com/ingot-run/ingot/job"
)

// Leases are the times by which workers watch each other.
type Leases struct {
	Beat    time.Duration // time between two beats of a worker, and between two checks of the other workers' beats
	Stop    time.Duration // time without an answer from Redis after which a stopping worker no longer waits for Redis
	Silence time.Duration // time without a beat after which other workers get a worker's rows
}

// DefaultLeases give the rows of a killed worker to others within 20 s: Silence, two checks, and the pause of a polling worker.
var DefaultLeases = Leases{Beat: 2 * time.Second, Silence: 12 * time.Second, Stop: 4 * time.Second}

// maxLostAge is the time for which lost workers are listed.
const maxLostAge = time.Hour

// fleetKeys returns the keys about workers:
//
//	records  hash: the record of each worker, by its id
//	beats    hash: the time of the last beat of each worker that is not lost, in ms
//	lost     hash: when each lost worker was declared lost and when it had last beaten, in ms
func fleetKeys() []string {
	const prefix = "ingot:{:fleet}:" // no batch id begins like this
	return []string{prefix + "records", prefix + "beats", prefix + "lost"}
}

// beat writes a worker's record. alive is false if the worker was declared lost.
func (q *Queue) beat(ctx context.Context, w job.Worker) (alive bool, err error) {
	record, err := json.Marshal(w)
	if err != nil {
		return false, failure(err, "register worker %s", w.Name)
	}
	ms, err := beatScript.Run(ctx, q.rdb, fleetKeys(), w.ID, record).Int64()
	return ms != 0, failure(err, "register worker %s", w.Name)
}

// leave removes a worker that has stopped.
func (q *Queue) leave(ctx context.Context, id string) error {
	return failure(leaveScript.Run(ctx, q.rdb, fleetKeys(), id).Err(), "remove the record of this worker")
}

// lose declares a worker lost, unless it has beaten since the given beat.
func (q *Queue) lose(ctx context.Context, id, beat string) (lost bool, err error) {
	n, err := loseScript.Run(ctx, q.rdb, fleetKeys(), id, beat, maxLostAge.Milliseconds()).Int()
	return n == 1, failure(err, "declare a worker lost")
}

// beats returns the last beat of each worker that is not lost.
func (q *Queue) beats(ctx context.Context) (map[string]string, error) {
	beats, err := q.rdb.HGetAll(ctx, fleetKeys()[1]).Result()
	return beats, failure(err, "read the beats of workers")
}

// Fleet implements job.Queue.
func (q *Queue) Fleet(ctx context.Context) ([]job.Worker, error) {
	keys := fleetKeys()
	pipe := q.rdb.Pipeline()
	records, beats, lost := pipe.HGetAll(ctx, keys[0]), pipe.HGetAll(ctx, keys[1]), pipe.HGetAll(ctx, keys[2])
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, failure(err, "list workers")
	}
	var all []job.Worker
	for id, record := range records.Val() {
		var w job.Worker
		if json.Unmarshal([]byte(record), &w) != nil {
			continue // written by another version
		}
		w.ID, w.Beat, w.Lost = id, parseMoment(beats.Val()[id]), time.Time{}
		if state := lost.Val()[id]; state != "" {
			at, beat, _ := strings.Cut(state, " ")
			w.Beat, w.Lost = parseMoment(beat), parseMoment(at)
		}
		all = append(all, w)
	}
	slices.SortFunc(all, func(a, b job.Worker) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), a.Started.Compare(b.Started))
	})
	return all, nil
}

// Silent reports whether a worker has not beaten for so long that another worker, if there is one, would have declared it lost.
func (q *Queue) Silent(w job.Worker) bool { return time.Since(w.Beat) >= 2*q.Leases.Silence }

// Workers implements job.Queue.
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

// parseMoment returns a time in ms; zero if it is not a number.
func parseMoment(ms string) time.Time {
	n, err := strconv.ParseInt(ms, 10, 64)
	if err != nil {
		return time.Time{}
	}
	return time.UnixMilli(n).UTC()
}

// newWorkerID returns the id of a worker until it stops or is lost.
func newWorkerID() string { return uuid.NewString() }

// watch finds silent workers. It does not compare clocks: a worker is silent if its beat has not changed for some time during which
// the watch could read beats. So a restart of Redis, or a pause of the watching process, does not make any worker silent.
type watch struct {
	Leases
	last time.Time // the last look
	seen map[string]sighting
}

// sighting is a worker's beat, with the time when the watch first saw it.
type sighting struct {
	beat  string
	since time.Time
}

// look takes the beats of all workers and returns the ids of silent ones.
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
