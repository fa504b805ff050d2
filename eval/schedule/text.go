package schedule

import (
	"io"
	"time"

	"github.com/ingot-run/ingot/internal/textfmt"
)

// WriteEntries prints a table of entries.
func WriteEntries(w io.Writer, list []EntryStatus) error {
	t := textfmt.NewTable(w, "entry", "cron", "time zone", "model name", "next", "last slot", "state", "verdict")
	for i := range list {
		e := &list[i]
		next := e.Next.Local().Format(time.DateTime)
		if e.Paused {
			next = "paused"
		}
		var last Slot
		if len(e.Slots) > 0 {
			last = e.Slots[0]
		}
		t.Line(e.Name, e.Cron, e.TimeZone, e.Model, next, last.Name, last.State, last.Verdict)
	}
	return t.Flush()
}

// WriteSlots prints a table of slots.
func WriteSlots(w io.Writer, list []Slot) error {
	t := textfmt.NewTable(w, "slot", "state", "attempts", "started", "ended", "verdict", "notified", "message")
	for i := range list {
		s := &list[i]
		t.Line(s.Name, s.State, s.Attempt, s.Started, s.Ended, s.Verdict, textfmt.OneLine(s.Notified), textfmt.OneLine(s.Message))
	}
	return t.Flush()
}
