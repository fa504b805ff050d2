package redisqueue

import "time"

// Leases are the intervals of workers: those of their requests, and those with which they watch
// each other's heartbeats.
type Leases struct {
	Beat    time.Duration // time between two heartbeats of a worker, and between two checks of the other workers' heartbeats
	Stop    time.Duration // a stopping worker no longer waits for Redis after this time without an answer
	Poll    time.Duration // time between two requests of a worker for rows while its queues are empty
	Silence time.Duration // a worker's rows go to other workers after this time without a heartbeat
}

// DefaultLeases let other workers take the rows of a killed worker within 20 s. Usually it takes
// less: Silence, at most two checks (Beat each), and one poll interval.
var DefaultLeases = Leases{Beat: 2 * time.Second, Poll: 250 * time.Millisecond, Silence: 12 * time.Second, Stop: 4 * time.Second}

// watch finds silent workers: those whose last heartbeat has not changed for some time. It does not
// compare clocks of different machines, and it counts only time in which it could read heartbeats.
// So neither a restart of Redis nor a pause of the watching process makes a worker silent, nor does
// a clock that is set back: the watch then starts anew.
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

// look compares the heartbeats of all workers with those of the last call, and returns the ids of
// silent workers.
func (w *watch) look(now time.Time, beats map[string]string) (silent []string) {
	passed := now.Sub(w.last)
	rested := passed > 3*w.Beat || passed < 0
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
