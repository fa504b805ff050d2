package main

import (
	"math/rand/v2"
	"time"
)

type kind string

const (
	killWorker  kind = "kill worker"  // SIGKILL; the worker starts again later
	stopWorker  kind = "stop worker"  // SIGSTOP, later SIGCONT, like a machine that sleeps
	drainWorker kind = "drain worker" // SIGTERM; the worker must exit without an error, and starts again later
	killRedis   kind = "kill redis"   // SIGKILL; Redis starts again later with its append-only file
	stopRedis   kind = "stop redis"   // SIGSTOP, later SIGCONT
	dropClient  kind = "drop"         // all connections of a client are reset
	refuse      kind = "refuse"       // all connections of a client are reset, and new ones are refused for a while
	stall       kind = "stall"        // no data passes in either direction for a while
	loseReplies kind = "lose replies" // commands reach Redis, but the first reply is lost and its connection closed
	killCommand kind = "kill command" // SIGKILL to a producer or collector, which starts again later
)

// deck lists the kinds of disturbances. cards is the number of times that a kind occurs per shuffle
// in schedule. lasts is its maximum duration in units (see stopUnits).
var deck = []struct {
	kind  kind
	cards int
	lasts int
}{
	{killWorker, 4, 5},
	{stopWorker, 3, stopUnits},
	{drainWorker, 2, 5},
	{killRedis, 2, 5},
	{stopRedis, 1, 5},
	{dropClient, 3, 0},
	{refuse, 2, 20},
	{stall, 2, 20},
	{loseReplies, 2, 5},
	{killCommand, 3, 5},
}

// stopUnits is the number of time units for which a worker is stopped. A unit is therefore
// 1/stopUnits of the value of the flag -stop.
const stopUnits = 40

type event struct {
	at     time.Duration // time since the start of the storm
	kind   kind
	target int // index of the worker, proxy or command, modulo their number
	lasts  time.Duration
}

// schedule draws the disturbances of a run from seed. storm is the time in which they begin.
// schedule shuffles the deck, uses its disturbances one after another, and then shuffles it again.
// The time between two disturbances is one to five units. A stopped worker always stays stopped for
// the time stop. Other disturbances last a random time up to their maximum duration.
func schedule(seed uint64, storm, stop time.Duration) []event {
	r := rand.New(rand.NewPCG(seed, 0))
	unit := stop / stopUnits
	draw := func(longest time.Duration) time.Duration { return time.Duration(r.Int64N(int64(longest) + 1)) }
	var events []event
	var hand []event
	for at := unit; at < storm; at += unit + draw(4*unit) {
		if len(hand) == 0 {
			for _, d := range deck {
				for range d.cards {
					lasts := time.Duration(d.lasts) * unit
					if d.kind != stopWorker {
						lasts = draw(lasts)
					}
					hand = append(hand, event{kind: d.kind, target: r.IntN(1 << 16), lasts: lasts})
				}
			}
			r.Shuffle(len(hand), func(i, j int) { hand[i], hand[j] = hand[j], hand[i] })
		}
		e := hand[0]
		e.at = at
		events, hand = append(events, e), hand[1:]
	}
	return events
}
