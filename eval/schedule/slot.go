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
	Done       State = "done"       // with a verdict
	Missed     State = "missed"     // no scheduler ran at its time, and the entry does not catch it up
	Overlapped State = "overlapped" // one run of the entry was going on and another waited
	Paused     State = "paused"     // the entry was paused
)

// slot is a time of an entry to enter.
type slot struct {
	at    time.Time
	state State
}

// slotForm is the form of a slot's name: sorted by name, slots are sorted by time. A slot that a person asked for ends with manual.
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
	Notified string  `json:"notified,omitempty"` // when, or why not
}

func newSlot(entry, name string, f map[string]string) Slot {
	attempt, _ := strconv.Atoi(f["attempt"]) // 0 for a slot that was not run
	return Slot{
		Name: name, Run: entry + "-" + name, State: State(f["state"]), Attempt: attempt, Owner: f["owner"],
		Started: f["started"], Ended: f["ended"], Verdict: Verdict(f["verdict"]), Message: f["message"], Notified: f["notified"],
	}
}
