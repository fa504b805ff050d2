package schedule

import (
	"strconv"
	"time"
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

// slot is a scheduled time of an entry that is to be added to the table in Redis, with the state that it gets there.
type slot struct {
	at    time.Time
	state State
}

const (
	slotForm = "20060102T150405Z" // layout of the time in a slot's name, so that slots sorted by name are sorted by time
	manual   = "-now"             // end of the name of a slot that RunNow added
)

func (s slot) name() string { return s.at.UTC().Format(slotForm) }

// Slot is a scheduled time of an entry, with the state and outcome of the run at this time, as read from the table. Times are in the format
// of RFC 3339.
type Slot struct {
	Name     string  `json:"slot"`
	State    State   `json:"state"`
	Run      string  `json:"run"`
	Attempt  int     `json:"attempt,omitempty"`
	Owner    string  `json:"scheduler,omitempty"`
	Started  string  `json:"started,omitempty"`
	Ended    string  `json:"ended,omitempty"`
	Verdict  Verdict `json:"verdict,omitempty"`
	Message  string  `json:"message,omitempty"`
	Notified string  `json:"notified,omitempty"` // time of the notice, or why there was none
}

func newSlot(entry, name string, f map[string]string) Slot {
	attempt, _ := strconv.Atoi(f["attempt"]) // 0 for a slot that was not run
	return Slot{
		Name: name, Run: entry + "-" + name, State: State(f["state"]), Attempt: attempt, Owner: f["owner"],
		Started: f["started"], Ended: f["ended"], Verdict: Verdict(f["verdict"]), Message: f["message"], Notified: f["notified"],
	}
}
