package schedule

import (
	"time"

	"github.com/ingot-run/ingot/engine/cost"
)

const (
	// maxSlowdown is how many times as long a step of interactive sequences that generate may take because of prompts.
	maxSlowdown = 2.5
	// fullShare and fairShare are the shares of the best throughput that prompts of interactive sequences get at least: alone, and next to
	// sequences that generate.
	fullShare, fairShare = 0.95, 0.75
	// promptShare is the share of a step that prompts have at least next to sequences of a batch that generate.
	promptShare = 0.2
	// waitShare bounds steps of a batch while an interactive request may arrive, as a share of the time that its prompt takes alone.
	waitShare = 0.5
	// longest is how long a step of a batch may take, in seconds, if nobody waits. It delays cancellation and the first interactive request.
	longest = 4.0
	// recently is for how long a further interactive request is expected.
	recently = 30 * time.Second

	// fewestRows is the number of rows from which larger steps may be worth their time: processors are at their best with so many, and
	// far behind the beginning of a text each row reads much of the cache.
	fewestRows = 32
	// fewestTogether is the number of rows of a prompt that are worth a step with interactive sequences. If there is no time for them, the
	// prompt has no row for restSteps steps, and then fewestRows: most gaps between tokens are short then, and attention reads the cache
	// for many rows at once.
	fewestTogether, restSteps = 4, 24
)

// people is what is known about those who wait for interactive requests.
type people struct {
	last   time.Time // when an interactive sequence last waited or ran; zero for never
	prompt float64   // seconds that the prompts of recent ones take alone
	rested int       // steps since the last one with rows of prompts
}

// expected reports whether an interactive request may arrive at any moment.
func (p *people) expected(now time.Time) bool {
	return !p.last.IsZero() && now.Sub(p.last) < recently
}

// arrived takes note of the prompt of an interactive sequence, which would take the given seconds alone.
func (p *people) arrived(seconds float64) {
	const recent = 0.1 // the weight of one
	if p.prompt == 0 {
		p.prompt = seconds
	}
	p.prompt += recent * (seconds - p.prompt)
}

// limit bounds the prompts of a step.
type limit struct {
	seconds float64 // that the step may take
	worth   int     // rows of a prompt that are worth it, unless fewer are left
	rows    int     // that the first prompt in turn has if there is no time for those, however long they take
}

// urgentLimit is the limit of interactive sequences' prompts next to other such sequences that generate. If there are none, it is the time
// of as many rows as throughput needs, so that requests that arrive wait for little.
func (q *queue) urgentLimit(generating cost.Size) limit {
	switch {
	case q.StepTime > 0:
		return q.advancing(q.StepTime.Seconds())
	case generating.Rows == 0:
		return q.advancing(q.rowsTime(max(q.Steps.Efficient(fullShare), fewestRows)))
	}
	return q.paced(max(maxSlowdown*q.Steps.Seconds(generating), q.rowsTime(q.Steps.Efficient(fairShare))))
}

// batchLimit is the limit of other prompts next to sequences that generate, of which chats are interactive. It bounds how late their tokens
// are, and for how long an interactive request that arrives waits, by how long its own prompt takes. If none is expected, a step has the
// rows that the options allow, unless it takes very long.
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

// advancing is a limit in which a prompt has a row at least, and several if nothing else runs.
func (q *queue) advancing(seconds float64) limit {
	if len(q.running) > 1 {
		return limit{seconds, 1, 1}
	}
	return limit{seconds, fewestRows, fewestRows}
}

// paced is a limit next to interactive sequences that generate.
func (q *queue) paced(seconds float64) limit {
	l := limit{seconds: seconds, worth: fewestTogether}
	if q.people.rested >= restSteps {
		l.rows = fewestRows
	}
	return l
}

// rowsTime is the duration of a step of the first rows of a prompt.
func (q *queue) rowsTime(n int) float64 { return q.Steps.Seconds(cost.Rows(0, n, 0)) }
