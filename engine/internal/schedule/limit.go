package schedule

import (
	"time"

	"github.com/ingot-run/ingot/engine/internal/cost"
)

const (
	// Prompts may make a step of generating interactive sequences at most maxSlowdown times as long
	// as it is without prompts.
	maxSlowdown = 2.5
	// Prompts of interactive sequences get at least fullShare of the best throughput if they run
	// alone, and at least fairShare next to sequences that generate.
	fullShare, fairShare = 0.95, 0.75
	// promptShare is the minimum share of a step's time for prompts next to generating batch
	// sequences.
	promptShare = 0.2
	// While an interactive request may arrive, a step of batch sequences takes at most waitShare of
	// the time that the prompt of such a request takes alone.
	waitShare = 0.5
	// maxBatchStep is the maximum duration of a step of batch sequences, in seconds, if no
	// interactive request is expected. A longer step would delay cancellation and the first
	// interactive request.
	maxBatchStep  = 4.0
	arrivalWindow = 30 * time.Second

	// A prompt gets at least minChunk rows in a step that delays no interactive request, even if
	// they take longer than the time limit. Processors are efficient with that many rows. Late in a
	// text, the time limit alone would allow fewer, because each row reads much of the cache.
	minChunk = 32
	// minRows is the minimum number of rows of a prompt in a step next to interactive sequences. If
	// there is no time for so many, the prompt gets no row for chunkInterval steps and then
	// minChunk rows in one step. This keeps most gaps between tokens short, and attention reads the
	// cache once for many rows.
	minRows, chunkInterval = 4, 24
)

type arrivals struct {
	last   time.Time // when an interactive sequence last waited or ran; zero for never
	prompt float64   // mean seconds that the prompts of recent interactive sequences take alone
}

func (a *arrivals) expected(now time.Time) bool {
	return !a.last.IsZero() && now.Sub(a.last) < arrivalWindow
}

// add includes an arriving interactive sequence in the mean a.prompt. seconds is the time that the
// sequence's prompt takes alone.
func (a *arrivals) add(seconds float64) {
	const recent = 0.1 // weight of one prompt
	if a.prompt == 0 {
		a.prompt = seconds
	}
	a.prompt += recent * (seconds - a.prompt)
}

type limit struct {
	seconds   float64 // maximum duration of the step
	minRows   int     // minimum rows of a prompt, unless fewer are left
	firstRows int     // rows that the first prompt gets, however long they take, if there is no time for minRows
}

// interactiveLimit returns the limit for prompts of interactive sequences. generating is the size
// of the rows of the sequences that generate. If none generates, a step has only as many rows as
// are needed for nearly the best throughput, so that arriving requests wait for a short step.
func (p *planner) interactiveLimit(generating cost.Size) limit {
	switch {
	case p.stepTime > 0:
		return p.advancing(p.stepTime.Seconds())
	case generating.Rows == 0:
		return p.advancing(p.rowsTime(max(p.costs.Efficient(fullShare), minChunk)))
	}
	return p.paced(max(maxSlowdown*p.costs.Seconds(generating), p.rowsTime(p.costs.Efficient(fairShare))))
}

// batchLimit returns the limit for prompts of batch sequences. generating is the size of the rows
// of the sequences that generate, and streams is the number of interactive sequences among them.
// The limit bounds the delay of the generated tokens. It also bounds how long an arriving
// interactive request waits, relative to the time that the prompt of such a request takes. If no
// interactive request is expected, a step has as many rows as the options allow, unless it would
// take very long.
func (p *planner) batchLimit(generating cost.Size, streams int, now time.Time) limit {
	without := p.costs.Seconds(generating)
	expected := max(waitShare*p.arrivals.prompt, without/(1-promptShare))
	switch {
	case p.stepTime > 0:
		return p.advancing(p.stepTime.Seconds())
	case streams > 0:
		return p.paced(min(maxSlowdown*without, expected))
	case p.arrivals.expected(now):
		return limit{expected, minRows, minRows}
	}
	return limit{max(maxBatchStep, without/(1-promptShare)), minChunk, minChunk}
}

// advancing returns a limit of the given duration. It gives the first prompt at least one row, or
// minChunk if no other sequence runs.
func (p *planner) advancing(seconds float64) limit {
	if len(p.running) > 1 {
		return limit{seconds, 1, 1}
	}
	return limit{seconds, minChunk, minChunk}
}

func (p *planner) paced(seconds float64) limit {
	l := limit{seconds: seconds, minRows: minRows}
	if p.stepsSinceChunk >= chunkInterval {
		l.firstRows = minChunk
	}
	return l
}

func (p *planner) rowsTime(n int) float64 { return p.costs.Seconds(cost.Rows(0, n, 0)) }
