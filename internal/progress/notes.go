package progress

import (
	"fmt"
	"io"
	"sync"

	"github.com/ingot-run/ingot/internal/textfmt"
)

// Notes writes notes about an input to a writer that can be replaced. It is safe for concurrent
// use: a read of the input that was abandoned may still write a note.
type Notes struct {
	mu sync.Mutex
	to io.Writer
}

// NewNotes returns Notes that write to w.
func NewNotes(w io.Writer) *Notes { return &Notes{to: w} }

// Print writes a note.
func (n *Notes) Print(text string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	fmt.Fprintln(n.to, textfmt.Printable(text)) //nolint:errcheck // a note is best effort
}

// Divert writes later notes to w, which shows the progress, until the returned function is called.
func (n *Notes) Divert(w io.Writer) (end func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	before := n.to
	n.to = w
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.to = before
	}
}
