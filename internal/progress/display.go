package progress

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/term"
)

const (
	redrawInterval = 100 * time.Millisecond
	// lineInterval is the time between two lines if there is no terminal.
	lineInterval = time.Minute
	// defaultWidth is the width of a terminal that does not report one.
	defaultWidth = 80
	// minBar and maxBar are the numbers of columns that a bar can have.
	minBar, maxBar = 8, 60
)

// Display shows the progress of one batch on one line of a terminal. Log lines that are written to
// it appear above this line. It is safe for concurrent use. Errors of writing to the output are
// ignored.
type Display struct {
	mu       sync.Mutex
	out      io.Writer
	terminal bool
	width    func() int // columns of the terminal
	parts    func(*Meter) []part
	meter    Meter
	shown    time.Time // time of the last drawing or line
	line     string    // what is shown on the terminal; empty for nothing
	phase    string    // what the command does before the first counts; empty afterwards
	waiting  *time.Timer
}

// Options are the settings of a display.
type Options struct {
	Terminal bool       // out is a terminal
	Width    func() int // columns of the terminal; nil to ask the terminal
	Tokens   bool       // rows generate tokens
	Bytes    bool       // the counts are bytes of a download, not rows
}

// New makes a display that writes to out.
func New(out io.Writer, o Options) *Display {
	d := &Display{out: out, terminal: o.Terminal, width: o.Width, parts: func(m *Meter) []part { return m.parts(o.Tokens) }}
	if o.Bytes {
		d.parts = (*Meter).bytesParts
	}
	if d.width == nil {
		d.width = func() int { return widthOf(out) }
	}
	return d
}

func widthOf(out io.Writer) int {
	if f, ok := out.(*os.File); ok {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil && width > 0 {
			return width
		}
	}
	return defaultWidth
}

// Phase shows what the command does before the first row: on a terminal at once, otherwise as a
// line if it takes longer than lineInterval.
func (d *Display) Phase(text string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.phase = text
	if d.terminal {
		d.draw(text)
		return
	}
	if d.waiting == nil {
		d.waiting = time.AfterFunc(lineInterval, d.writePhase)
	}
}

func (d *Display) writePhase() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.phase != "" {
		fmt.Fprintln(d.out, d.phase) //nolint:errcheck // see Display
		d.waiting.Reset(lineInterval)
	}
}

// Show shows the current counts. On a terminal, it shows them at once. Otherwise, it writes a line
// if lineInterval has passed since the last line. Call it at least every few seconds, even while no
// row finishes.
func (d *Display) Show(c Counts) { d.show(time.Now(), c) }

func (d *Display) show(now time.Time, c Counts) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.phase = ""
	d.meter.Add(now, c)
	if !d.terminal {
		d.writeLine(now)
		return
	}
	if now.Sub(d.shown) < redrawInterval && c.finished() != c.Total {
		return
	}
	d.shown = now
	text := fit(d.parts(&d.meter), d.width()-1)
	d.draw(text + bar(c, d.width()-1-utf8.RuneCountInString(text)))
}

// draw replaces the line on the terminal. If the terminal was made narrower, it has wrapped the old
// line to several ones, all of which are cleared.
func (d *Display) draw(line string) {
	width := d.width()
	if cut := []rune(line); len(cut) >= width { // a full line would wrap
		line = string(cut[:max(0, width-1)])
	}
	fmt.Fprint(d.out, d.clearing(width)+line) //nolint:errcheck // see Display
	d.line = line
}

// clearing returns the text that clears the line on a terminal with the given number of columns.
func (d *Display) clearing(width int) string {
	above := (utf8.RuneCountInString(d.line) - 1) / max(1, width)
	if d.line == "" || above <= 0 {
		return "\r\x1b[2K"
	}
	return fmt.Sprintf("\r\x1b[%dA\x1b[J", above)
}

func (d *Display) clear() {
	if d.terminal && d.line != "" {
		fmt.Fprint(d.out, d.clearing(d.width())) //nolint:errcheck // see Display
	}
}

// bar returns a bar with its percentage, of at most room columns. It is empty if the total is not
// known or there is too little room.
func bar(c Counts, room int) string {
	if c.Total <= 0 {
		return ""
	}
	share := min(1, max(0, float64(c.finished())/float64(c.Total)))
	percent := fmt.Sprintf(" %3.0f%%", 100*share)
	n := min(room-len(percent)-len(" ||"), maxBar)
	switch {
	case room < len(percent):
		return ""
	case n < minBar:
		return percent
	}
	full := int(share * float64(n))
	return percent + " |" + strings.Repeat("█", full) + strings.Repeat("·", n-full) + "|"
}

// writeLine writes a line. The first line is written one interval after the first counts, so that
// short runs write no line.
func (d *Display) writeLine(now time.Time) {
	if d.shown.IsZero() {
		d.shown = now
	}
	if now.Sub(d.shown) < lineInterval {
		return
	}
	d.shown = now
	fmt.Fprintln(d.out, joined(d.parts(&d.meter))) //nolint:errcheck // see Display
}

// Write implements io.Writer for a log. It writes a log line, above the progress if there is a
// terminal.
func (d *Display) Write(line []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	shown := d.line
	d.clear()
	d.line = ""
	n, err := d.out.Write(line)
	if err == nil && shown != "" {
		d.draw(shown)
	}
	return n, err
}

// Close removes the progress from a terminal.
func (d *Display) Close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.clear()
	d.line, d.phase = "", ""
	if d.waiting != nil {
		d.waiting.Stop()
	}
}
