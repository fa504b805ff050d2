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

// isTerminal reports whether w is a terminal.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// redrawInterval is the minimum time between two drawings of the bar.
const redrawInterval = 100 * time.Millisecond

// display is the progress bar of a run. Lines written to it appear above the bar. It is safe for concurrent use.
type display struct {
	mu    sync.Mutex
	out   io.Writer
	bar   *progressbar.ProgressBar
	total int // of the bar; 0 if it is not known
	drawn time.Time
}

func newDisplay(out io.Writer) *display {
	d := &display{out: out, bar: newBar(out, -1)}
	d.bar.Describe("loading the model")
	return d
}

// newBar makes a bar of total rows, or one without an end for -1. It draws only when it is called: a timer of its own would
// draw over the log.
func newBar(out io.Writer, total int) *progressbar.ProgressBar {
	return progressbar.NewOptions(total,
		progressbar.OptionSetWriter(out),
		progressbar.OptionUseANSICodes(true),
		progressbar.OptionFullWidth(),
		progressbar.OptionShowCount(),
		progressbar.OptionSetElapsedTime(false),
		progressbar.OptionSetPredictTime(false), // it would count the rows of earlier runs
		progressbar.OptionSetSpinnerChangeInterval(0),
	)
}

// Compiling shows the progress of compiling the GPU's kernels.
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

// Show shows the progress of a run. Drawing errors are ignored.
func (d *display) Show(p local.Progress) {
	d.mu.Lock()
	defer d.mu.Unlock()
	finished := p.Kept + p.Done + p.Failed
	if time.Since(d.drawn) < redrawInterval && finished != p.Total {
		return
	}
	d.drawn = time.Now()
	if p.Total != d.total {
		d.bar, d.total = newBar(d.out, p.Total), p.Total
	}
	d.bar.Describe(progressText(p))
	_ = d.bar.Set(finished)
}

// Write writes a line above the bar.
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

// Close removes the bar.
func (d *display) Close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	_ = d.bar.Clear()
}

// progressText is the description next to the bar, which shows the number of rows itself: speed, failures and time left.
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
