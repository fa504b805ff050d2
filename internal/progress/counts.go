// Package progress shows the progress of a batch or a download: the counts, the speed over the last
// minute, and the time left. On a terminal, it draws a bar. Otherwise, it writes lines at
// intervals.
package progress

import (
	"fmt"
	"time"

	"github.com/dustin/go-humanize"
)

// Counts has a batch's counts at one moment.
type Counts struct {
	Total  int // rows of the batch; 0 if the number is not known
	Before int // rows that were done before the command started; the speed does not include them
	Done   int // answered rows; for a producer, rows in the queue
	Failed int // rows that became error lines
	Tokens int // generated tokens of the rows in Done
}

// finished returns the number of rows that need no more work.
func (c Counts) finished() int { return c.Before + c.Done + c.Failed }

// window is the time over which the speed is measured.
const window = time.Minute

const sampleInterval = time.Second

// Meter measures the speed of a batch over the last minute.
type Meter struct {
	samples []sample // in order of time; at least sampleInterval apart
	last    sample
}

type sample struct {
	at     time.Time
	counts Counts
}

// Add adds a sample: the counts c at a given time.
func (m *Meter) Add(at time.Time, c Counts) {
	m.last = sample{at, c}
	if n := len(m.samples); n == 0 || at.Sub(m.samples[n-1].at) >= sampleInterval {
		m.samples = append(m.samples, m.last)
	}
	old := 0 // number of samples that are no longer needed, since they are older than the window
	for old+1 < len(m.samples) && at.Sub(m.samples[old+1].at) >= window {
		old++
	}
	m.samples = append(m.samples[:0], m.samples[old:]...)
}

// Speed returns the rows and tokens per second over the last minute. They are 0 until Add was
// called with two different times.
func (m *Meter) Speed() (rows, tokens float64) {
	if len(m.samples) == 0 {
		return 0, 0
	}
	first := m.samples[0]
	seconds := m.last.at.Sub(first.at).Seconds()
	if seconds <= 0 {
		return 0, 0
	}
	finished := m.last.counts.Done + m.last.counts.Failed - first.counts.Done - first.counts.Failed
	return max(0, float64(finished)/seconds), max(0, float64(m.last.counts.Tokens-first.counts.Tokens)/seconds)
}

// text describes the last counts, the speed and the time left. tokens reports whether rows generate
// tokens; the rows of a producer do not.
func (m *Meter) text(tokens bool) string {
	c := m.last.counts
	text := fmt.Sprintf("%d rows", c.finished())
	if c.Total > 0 {
		text = fmt.Sprintf("%d of %d rows", c.finished(), c.Total)
	}
	if c.Failed > 0 {
		text += fmt.Sprintf(", %d failed", c.Failed)
	}
	rows, generated := m.Speed()
	text += fmt.Sprintf(", %s rows/s", Rate(rows))
	if tokens {
		text += fmt.Sprintf(", %s tokens/s", Rate(generated))
	}
	return text + m.left(rows)
}

// bytesText describes the last counts, the speed and the time left of a download, with counts in
// bytes.
func (m *Meter) bytesText() string {
	c := m.last.counts
	speed, _ := m.Speed()
	return fmt.Sprintf("%s of %s, %s/s", humanize.Bytes(uint64(max(0, c.finished()))), humanize.Bytes(uint64(c.Total)), humanize.Bytes(uint64(speed))) + m.left(speed)
}

// left returns the estimated time left as text, for a speed in rows or bytes per second; empty if
// it is unknown.
func (m *Meter) left(speed float64) string {
	c := m.last.counts
	if c.Total == 0 || speed <= 0 {
		return ""
	}
	left := time.Duration(float64(max(0, c.Total-c.finished())) / speed * float64(time.Second))
	return fmt.Sprintf(", %s left", left.Round(time.Second))
}

// Rate formats a number per second, with one decimal if it is below 10.
func Rate(v float64) string {
	if v < 10 {
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.0f", v)
}
