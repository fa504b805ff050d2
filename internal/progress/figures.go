package progress

import (
	"fmt"
	"time"

	"github.com/ingot-run/ingot/internal/textfmt"
)

// Figures describes rows that are done: their tokens, the time that they took, and the speeds.
func Figures(rows, promptTokens, generatedTokens int, took time.Duration) string {
	return fmt.Sprintf("%s, %s in %s: %.1f rows/s, %.1f tokens/s", textfmt.Count(promptTokens, "prompt token"), textfmt.Count(generatedTokens, "generated token"),
		took.Round(time.Millisecond), perSecond(rows, took), perSecond(generatedTokens, took))
}

// perSecond returns a number divided by a time in seconds; 0 if no time has passed.
func perSecond(n int, d time.Duration) float64 {
	if d <= 0 {
		return 0
	}
	return float64(n) / d.Seconds()
}
