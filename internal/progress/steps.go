package progress

import (
	"fmt"
	"io"

	"github.com/ingot-run/ingot/internal/textfmt"
)

// Steps returns a function that shows how many steps of some work before the first row are done. On
// a Display, the phase next follows. Steps returns nil if w is neither a terminal nor a Display.
func Steps(w io.Writer, what, next string) func(done, total int) {
	if d, ok := w.(*Display); ok {
		return func(done, total int) {
			if done == total {
				d.Phase(next)
				return
			}
			d.Phase(fmt.Sprintf("%s, %d of %d", what, done, total))
		}
	}
	if !textfmt.IsTerminal(w) {
		return nil
	}
	return func(done, total int) {
		line := fmt.Sprintf("%s, %d of %d", what, done, total)
		if done == total {
			line = ""
		}
		fmt.Fprintf(w, "\r\x1b[2K%s", line) //nolint:errcheck // progress is best effort
	}
}

// Share returns a function that shows which share of some work before the first row is done, in
// percent. It must be called by one goroutine.
func (d *Display) Share(what string) func(done, total int64) {
	last := int64(-1)
	return func(done, total int64) {
		if share := 100 * done / max(total, 1); share > last {
			last = share
			d.Phase(fmt.Sprintf("%s, %d%%", what, share))
		}
	}
}
