package schedule

import (
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"

	"github.com/ingot-run/ingot/engine/generation"
)

// maxPanics is the number of successive steps with a panic after which the loop ends. The requests
// in the step may have caused the first panic. The second one shows that the state of the engine is
// damaged.
const maxPanics = 2

// recovered calls a function. If it panics, recovered logs the stack and returns an error.
func recovered(do func()) (err error) {
	defer func() {
		if p := recover(); p != nil {
			slog.Error("panic in a step of the engine", "panic", p, "stack", string(stackOf(p)))
			err = fmt.Errorf("internal error: panic in a step: %v", p)
		}
	}()
	do()
	return nil
}

// stackOf returns the stack of a panic. If the panic came from a thread of the backend, p has the
// stack of that thread.
func stackOf(p any) []byte {
	if p, ok := p.(interface{ Stack() []byte }); ok {
		return p.Stack()
	}
	return debug.Stack()
}

// recover fails the requests of a step that panicked. After too many successive panics, it ends the
// loop and returns false.
func (l *loop) recover(err error) bool {
	l.panics++
	l.guides.finish()
	if l.panics < maxPanics {
		again := recovered(func() { l.abandonStep(err) })
		if again == nil {
			return true
		}
		err = again
	}
	l.err = fmt.Errorf("%w: %w (the second panic in a row): restart the process", generation.ErrEngineFailed, err)
	l.inbox.close(l.err)
	l.inbox.take(func([]*sequence) {})
	l.meter.update(func(s *Snapshot) { s.Running, s.Waiting = 0, 0 })
	close(l.failed)
	return false
}

// abandonStep fails the requests with rows in the step and discards their pages; if none has rows,
// all running requests.
func (l *loop) abandonStep(err error) {
	running := l.planner.running
	noRows := !slices.ContainsFunc(running, func(s *sequence) bool { return s.rows > 0 })
	for _, s := range running {
		if s.rows > 0 || noRows {
			s.request.fail(err)
			if s.table != nil {
				l.planner.discard(s)
			}
		}
	}
}
