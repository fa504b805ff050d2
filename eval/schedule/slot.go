package schedule

import (
	"strconv"
	"time"
)

// State is the state of a slot.
type State string

// The states. Waiting and Running slots are open.
const (
	Waiting    State = "waiting"
	Running    State = "running"
	Done       State = "done"       // the run ended with a verdict
	Missed     State = "missed"     // not run: no scheduler ran at its time
	Overlapped State = "overlapped" // not run: one slot of the entry was running and another was waiting
	Paused     State = "paused"     // not run: the entry was paused
)

// slot is a slot that is not in the table yet.
type slot struct {
	at    time.Time
	state State
}

// slotForm is the time layout of slot names. Slots that are sorted by name are sorted by time. The name of a slot of RunNow ends with
// -now.
const (
	slotForm = "20060102T150405Z"
	manual   = "-now"
)

func (s slot) name() string { return s.at.UTC().Format(slotForm) }

// Slot is a time of an entry, with its state and outcome.
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
