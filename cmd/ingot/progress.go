package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/ingot-run/ingot/local"
)

// isTerminal tells whether w shows what is written to a person.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// redraw is the least time between two pictures of the bar.
const redraw = 100 * time.Millisecond

// display is the progress bar of a run. Log lines that are written to it go above the bar. It is safe for concurrent use.
type display struct {
	mu    sync.Mutex
	out   io.Writer
	bar   *progressbar.ProgressBar
	total int // that the bar was made for; 0 where it is not known
	drawn time.Time
}

func newDisplay(out io.Writer) *display {
	d := &display{out: out, bar: newBar(out, -1)}
	d.bar.Describe("loading the model")
	return d
}

// newBar makes a bar of so many rows, or one without an end for -1. It draws only when it is told something new: its own
// clock would go on drawing over the log.
func newBar(out io.Writer, total int) *progressbar.ProgressBar {
	return progressbar.NewOptions(total,
		progressbar.OptionSetWriter(out),
		progressbar.OptionUseANSICodes(true),
		progressbar.OptionFullWidth(),
		progressbar.OptionShowCount(),
		progressbar.OptionSetElapsedTime(false),
		progressbar.OptionSetPredictTime(false), // it would count the rows that an earlier run answered as done now
		progressbar.OptionSetSpinnerChangeInterval(0),
	)
}

// Compiling shows how far the GPU's kernels are compiled.
func (d *display) Compiling(done, total int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	text := fmt.Sprintf("compiling kernels, %d of %d", done, total)
	if done == total {
		text = "loading the model"
	}
	d.bar.Describe(text)
	_ = d.bar.RenderBlank()
}

// Show brings the bar to how far a run is. What cannot be drawn is left out.
func (d *display) Show(p local.Progress) {
	d.mu.Lock()
	defer d.mu.Unlock()
	finished := p.Kept + p.Done + p.Failed
	if time.Since(d.drawn) < redraw && finished != p.Total {
		return
	}
	d.drawn = time.Now()
	if p.Total != d.total {
		d.bar, d.total = newBar(d.out, p.Total), p.Total
	}
	d.bar.Describe(progressText(p))
	_ = d.bar.Set(finished)
}

// Write puts a line above the bar.
func (d *display) Write(line []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	_ = d.bar.Clear()
	n, err := d.out.Write(line)
	if err == nil {
		_ = d.bar.RenderBlank()
	}
	return n, err
}

// Close takes the bar away.
func (d *display) Close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	_ = d.bar.Clear()
}

// progressText is rows, speed and time left, of a bar that shows the count itself.
func progressText(p local.Progress) string {
	text := fmt.Sprintf("%.0f tokens/s", perSecond(p.CompletionTokens, p.Elapsed))
	if p.Failed > 0 {
		text += fmt.Sprintf(", %d failed", p.Failed)
	}
	finished := p.Done + p.Failed
	if left := p.Total - p.Kept - finished; p.Total > 0 && finished > 0 && left >= 0 {
		each := p.Elapsed / time.Duration(finished)
		text += fmt.Sprintf(", %s left", (time.Duration(left) * each).Round(time.Second))
	}
	return text + ", rows"
}

func perSecond(n int, d time.Duration) float64 {
	if d <= 0 {
		return 0
	}
	return float64(n) / d.Seconds()
}
