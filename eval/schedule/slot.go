package schedule

import (
	"time"

	"github.com/redis/go-redis/v9"
)

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
