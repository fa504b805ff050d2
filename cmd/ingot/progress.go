package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/ingot-run/ingot/worker/local"
)

// isTerminal tells whether w shows what is written to a person.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// display is the progress bar of a run. Log lines that are written to it go above the bar. It is safe for concurrent use.
type display struct {
	mu  sync.Mutex
	out io.Writer
	bar *progressbar.ProgressBar
}

func newDisplay(out io.Writer) *display {
	return &display{out: out, bar: progressbar.NewOptions(-1,
		progressbar.OptionSetWriter(out),
		progressbar.OptionShowCount(),
		progressbar.OptionSetPredictTime(false), // it would count the rows that an earlier run answered as done now
		progressbar.OptionSetElapsedTime(false),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionSetDescription("loading the model"),
		progressbar.OptionFullWidth(),
		progressbar.OptionUseANSICodes(true),
	)}
}

// Show brings the bar to how far a run is. What cannot be drawn is left out.
func (d *display) Show(p local.Progress) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if p.Total > 0 && d.bar.GetMax() != p.Total {
		d.bar.ChangeMax(p.Total)
	}
	d.bar.Describe(progressText(p))
	_ = d.bar.Set(p.Kept + p.Done + p.Failed)
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
