package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"

	"github.com/ingot-run/ingot/enqueue"
	"github.com/ingot-run/ingot/internal/progress"
	"github.com/ingot-run/ingot/queue"
	"github.com/ingot-run/ingot/worker/local"
)

// isTerminal reports whether w is a terminal.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// newDisplay makes the display of a command whose rows generate tokens.
func newDisplay(w io.Writer) *progress.Display {
	return progress.New(w, progress.Options{Terminal: isTerminal(w), Tokens: true})
}

// runCounts returns the counts of a run on this machine.
func runCounts(p local.Progress) progress.Counts {
	return progress.Counts{Total: p.Total, Before: p.Kept, Done: p.Done, Failed: p.Failed, Tokens: p.CompletionTokens}
}

// batchCounts returns the counts of a batch on the queue.
func batchCounts(s queue.Status) progress.Counts {
	return progress.Counts{Total: s.Total, Done: s.Done, Failed: s.Failed, Tokens: s.CompletionTokens}
}

// queuedCounts returns the counts of a producer.
func queuedCounts(s enqueue.Summary) progress.Counts {
	return progress.Counts{Total: s.Total, Before: s.Known, Done: s.Added, Failed: s.Rejected}
}

// tokenFigures formats the token counts and the speeds of a run. rows is the number of answered rows, and took the duration of the run.
func tokenFigures(rows, prompt, completion int, took time.Duration) string {
	return fmt.Sprintf("%s, %s in %s: %.1f rows/s, %.1f tokens/s", count(prompt, "prompt token"), count(completion, "generated token"),
		took.Round(time.Millisecond), perSecond(rows, took), perSecond(completion, took))
}

func perSecond(n int, d time.Duration) float64 {
	if d <= 0 {
		return 0
	}
	return float64(n) / d.Seconds()
}
