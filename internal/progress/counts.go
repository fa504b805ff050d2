// Package progress shows the progress of a batch or a download: the counts, the speed over the last
// minute, and the time left. On a terminal, it draws a bar. Otherwise, it writes lines at
// intervals.
package progress

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
)

// Counts has a batch's counts at one moment.
type Counts struct {
	Total  int // rows of the batch; 0 if the number is not known
	Before int // rows that were done before the command started; the speed does not include them
	Done   int // answered rows; for a producer, rows in the queue
	Failed int // rows that became error lines
	Tokens int // generated tokens: those of the rows in Done, or also of rows that are not finished

	Running int // rows that are being answered; 0 if the number is not known
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

// part is a part of the text about the progress.
type part struct {
	text string
	rank int // parts with the highest rank are left out first if there is too little room; 0 for never
}

// parts describes the last counts, the speed and the time left. tokens reports whether rows
// generate tokens; the rows of a producer do not.
func (m *Meter) parts(tokens bool) []part {
	c := m.last.counts
	parts := []part{{text: fmt.Sprintf("%d rows", c.finished())}}
	if c.Total > 0 {
		parts[0].text = fmt.Sprintf("%d of %d rows", c.finished(), c.Total)
	}
	if c.Failed > 0 {
		parts = append(parts, part{fmt.Sprintf("%d failed", c.Failed), 1})
	}
	if c.Running > 0 {
		parts = append(parts, part{fmt.Sprintf("%d running", c.Running), 5})
	}
	rows, generated := m.Speed()
	parts = append(parts, part{Rate(rows) + " rows/s", 4})
	if tokens {
		parts = append(parts, part{Rate(generated) + " tokens/s", 3})
	}
	return append(parts, m.left(rows)...)
}

// bytesParts describes the last counts, the speed and the time left of a download, with counts in
// bytes.
func (m *Meter) bytesParts() []part {
	c := m.last.counts
	speed, _ := m.Speed()
	size := fmt.Sprintf("%s of %s", humanize.Bytes(uint64(max(0, c.finished()))), humanize.Bytes(uint64(c.Total)))
	return append([]part{{text: size}, {humanize.Bytes(uint64(speed)) + "/s", 3}}, m.left(speed)...)
}

// joined returns all parts as one text.
func joined(parts []part) string { return fit(parts, math.MaxInt) }

// fit joins as many parts as have room in the given number of columns, those with the lowest ranks
// first.
func fit(parts []part, room int) string {
	for {
		texts, last := make([]string, len(parts)), 0
		for i, p := range parts {
			texts[i] = p.text
			if p.rank > parts[last].rank {
				last = i
			}
		}
		text := strings.Join(texts, ", ")
		if len(text) <= room || parts[last].rank == 0 {
			return text
		}
		parts = slices.Delete(parts, last, last+1)
	}
}

// left returns the estimated time left for a speed in rows or bytes per second; nothing if it is
// unknown.
func (m *Meter) left(speed float64) []part {
	c := m.last.counts
	if c.Total == 0 || speed <= 0 {
		return nil
	}
	left := time.Duration(float64(max(0, c.Total-c.finished())) / speed * float64(time.Second))
	return []part{{left.Round(time.Second).String() + " left", 2}}
}

// Rate formats a number per second, with one decimal if it is below 10.
func Rate(v float64) string {
	if v < 10 {
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.0f", v)
}
