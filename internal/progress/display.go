package progress

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
)

const (
	redrawInterval = 100 * time.Millisecond
	// lineInterval is the time between two lines if there is no terminal.
	lineInterval = 30 * time.Second
)

// Display shows the progress of one batch. Log lines that are written to it appear above the bar.
// It is safe for concurrent use. Errors of writing to the output are ignored.
type Display struct {
	mu    sync.Mutex
	out   io.Writer
	text  func(*Meter) string
	meter Meter
	shown time.Time                // time of the last drawing or line
	bar   *progressbar.ProgressBar // nil if out is not a terminal
	total int
}

// Options are the settings of a display.
type Options struct {
	Terminal bool // out is a terminal
	Tokens   bool // rows generate tokens
	Bytes    bool // the counts are bytes of a download, not rows
}

// New makes a display that writes to out.
func New(out io.Writer, o Options) *Display {
	d := &Display{out: out, text: func(m *Meter) string { return m.text(o.Tokens) }}
	if o.Bytes {
		d.text = (*Meter).bytesText
	}
	if o.Terminal {
		d.bar = newBar(out, 0)
	}
	return d
}

// newBar makes a bar for total rows; 0 means that the number is not known. The bar draws nothing
// until it is given counts.
func newBar(out io.Writer, total int) *progressbar.ProgressBar {
	if total == 0 {
		total = -1
	}
	return progressbar.NewOptions(total,
		progressbar.OptionSetWriter(out),
		progressbar.OptionUseANSICodes(true),
		progressbar.OptionFullWidth(),
		progressbar.OptionSetElapsedTime(false),
		progressbar.OptionSetPredictTime(false), // the bar's prediction would include the rows done before the start
		progressbar.OptionSetSpinnerChangeInterval(0),
	)
}

// Phase shows, on a terminal only, what the command does before the first row.
func (d *Display) Phase(text string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.bar != nil {
		d.bar.Describe(text)
		_ = d.bar.RenderBlank()
	}
}

// Show shows the current counts. On a terminal, it shows them at once. Otherwise, it writes a line
// if lineInterval has passed since the last line. Call it at least every few seconds, even while no
// row finishes.
func (d *Display) Show(c Counts) { d.show(time.Now(), c) }

func (d *Display) show(now time.Time, c Counts) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.meter.Add(now, c)
	if d.bar == nil {
		d.writeLine(now)
		return
	}
	if now.Sub(d.shown) < redrawInterval && c.finished() != c.Total {
		return
	}
	d.shown = now
	if c.Total != d.total {
		d.bar, d.total = newBar(d.out, c.Total), c.Total
	}
	d.bar.Describe(d.text(&d.meter))
	_ = d.bar.Set(c.finished())
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
	fmt.Fprintln(d.out, d.text(&d.meter)) //nolint:errcheck // see Display
}

// Write implements io.Writer for a log. It writes a log line, above the bar if there is one.
func (d *Display) Write(line []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.bar == nil {
		return d.out.Write(line)
	}
	_ = d.bar.Clear()
	n, err := d.out.Write(line)
	if err == nil {
		_ = d.bar.RenderBlank()
	}
	return n, err
}

// Close removes the bar.
func (d *Display) Close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.bar != nil {
		_ = d.bar.Clear()
	}
}
