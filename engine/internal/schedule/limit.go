package schedule

import (
	"time"

	"github.com/ingot-run/ingot/engine/internal/cost"
)

const (
	// Prompts may make a step of generating interactive sequences at most maxSlowdown times as long as it is without prompts.
	maxSlowdown = 2.5
	// Prompts of interactive sequences get at least fullShare of the best throughput if they run alone, and at least fairShare next to
	// sequences that generate.
	fullShare, fairShare = 0.95, 0.75
	// promptShare is the minimum share of a step's time for prompts next to generating batch sequences.
	promptShare = 0.2
	// While an interactive request may arrive, a step of batch sequences takes at most waitShare of the time that the prompt of such a
	// request takes alone.
	waitShare = 0.5
	// longest is the maximum duration of a step of batch sequences, in seconds, if no interactive request is expected. A longer step would
	// delay cancellation and the first interactive request.
	longest = 4.0
	// recently is the time after an interactive request during which another one is expected.
	recently = 30 * time.Second

	// A prompt gets at least fewestRows rows in a step that delays no interactive request, even if they take longer than the time limit.
	// Processors are efficient with that many rows. Late in a text, the time limit alone would allow fewer, because each row reads much of
	// the cache.
	fewestRows = 32
	// fewestTogether is the minimum number of rows of a prompt in a step next to interactive sequences. If there is no time for so
	// many, the prompt gets no row for restSteps steps and then fewestRows rows in one step. This keeps most gaps between tokens short,
	// and attention reads the cache once for many rows.
	fewestTogether, restSteps = 4, 24
)

// people records what is known about interactive requests.
type people struct {
	last   time.Time // when an interactive sequence last waited or ran; zero for never
	prompt float64   // mean seconds that the prompts of recent interactive sequences take alone
	rested int       // number of steps since the last step with prompt rows
}

// expected reports whether an interactive request may arrive at any moment.
func (p *people) expected(now time.Time) bool {
	return !p.last.IsZero() && now.Sub(p.last) < recently
}

// arrived includes an arriving interactive sequence in the mean p.prompt. seconds is the time that the sequence's prompt takes alone.
func (p *people) arrived(seconds float64) {
	const recent = 0.1 // weight of one prompt
	if p.prompt == 0 {
		p.prompt = seconds
	}
	p.prompt += recent * (seconds - p.prompt)
}

// limit bounds the prompts of a step.
type limit struct {
	seconds float64 // maximum duration of the step
	worth   int     // minimum rows of a prompt, unless fewer are left
	rows    int     // rows that the first prompt gets, however long they take, if there is no time for the minimum in worth
}

// urgentLimit returns the limit for prompts of interactive sequences. generating is the size of the rows of the sequences that generate. If
// none generates, a step has only as many rows as are needed for nearly the best throughput, so that arriving requests wait for a short
// step.
func (q *queue) urgentLimit(generating cost.Size) limit {
	switch {
	case q.StepTime > 0:
		return q.advancing(q.StepTime.Seconds())
	case generating.Rows == 0:
		return q.advancing(q.rowsTime(max(q.Steps.Efficient(fullShare), fewestRows)))
	}
	return q.paced(max(maxSlowdown*q.Steps.Seconds(generating), q.rowsTime(q.Steps.Efficient(fairShare))))
}

// batchLimit returns the limit for prompts of batch sequences. generating is the size of the rows of the sequences that generate, and chats
// is the number of interactive sequences among them. The limit bounds the delay of the generated tokens. It also bounds how long an
// arriving interactive request waits, relative to the time that the prompt of such a request takes. If no interactive request is expected,
// a step has as many rows as the options allow, unless it would take very long.
func (q *queue) batchLimit(generating cost.Size, chats int, now time.Time) limit {
	without := q.Steps.Seconds(generating)
	expected := max(waitShare*q.people.prompt, without/(1-promptShare))
	switch {
	case q.StepTime > 0:
		return q.advancing(q.StepTime.Seconds())
	case chats > 0:
		return q.paced(min(maxSlowdown*without, expected))
	case q.people.expected(now):
		return limit{expected, fewestTogether, fewestTogether}
	}
	return limit{max(longest, without/(1-promptShare)), fewestRows, fewestRows}
}

// advancing returns a limit of the given duration. It gives the first prompt at least one row, or fewestRows if no other sequence runs.
func (q *queue) advancing(seconds float64) limit {
	if len(q.running) > 1 {
		return limit{seconds, 1, 1}
	}
	return limit{seconds, fewestRows, fewestRows}
}

// paced returns a limit for prompts next to generating interactive sequences; see fewestTogether.
func (q *queue) paced(seconds float64) limit {
	l := limit{seconds: seconds, worth: fewestTogether}
	if q.people.rested >= restSteps {
		l.rows = fewestRows
	}
	return l
}

// rowsTime returns the expected seconds of a step with the first n rows of a prompt.
func (q *queue) rowsTime(n int) float64 { return q.Steps.Seconds(cost.Rows(0, n, 0)) }
