package bench

import (
	"slices"
	"time"
)

// speed returns the number of tokens that count in a mode, and the time in which a run computed
// them.
func (r *run) speed(mode Mode) (tokens int, took time.Duration) {
	for i := range r.rounds {
		n, d := r.rounds[i].speed(mode)
		tokens, took = tokens+n, took+d
	}
	return tokens, took
}

func (r *round) speed(mode Mode) (tokens int, took time.Duration) {
	switch mode {
	case Prefill:
		last := r.start
		for _, a := range r.answers {
			tokens += a.stats.PromptTokens - a.stats.CachedTokens
			if first := a.times[0]; first.After(last) {
				last = first
			}
		}
		return tokens, last.Sub(r.start)
	case Decode:
		return r.steady()
	default:
		for _, a := range r.answers {
			tokens += len(a.times)
		}
		return tokens, r.end.Sub(r.start)
	}
}

// steady returns the number of tokens in the period in which all streams generate, and the length
// of the period. The period begins when the last stream generates its first token. It ends when one
// of the streams generates its last token.
func (r *round) steady() (tokens int, took time.Duration) {
	from, to := r.answers[0].times[0], r.answers[0].times[len(r.answers[0].times)-1]
	for _, a := range r.answers {
		if first := a.times[0]; first.After(from) {
			from = first
		}
		if last := a.times[len(a.times)-1]; last.Before(to) {
			to = last
		}
	}
	if !to.After(from) {
		return 0, 0
	}
	for _, a := range r.answers {
		for _, t := range a.times {
			if t.After(from) && !t.After(to) {
				tokens++
			}
		}
	}
	return tokens, to.Sub(from)
}

func (a *answer) firstToken() time.Duration { return a.times[0].Sub(a.start) }

// steps calls a function for every step after the first token.
func (a *answer) steps(each func(tokens int, took time.Duration)) {
	for i := 1; i < len(a.times); {
		n := i
		for n < len(a.times) && a.times[n].Equal(a.times[i]) {
			n++
		}
		each(n-i, a.times[i].Sub(a.times[i-1]))
		i = n
	}
}

// quantile returns the nearest-rank quantile of sorted durations in milliseconds; 0 if there are
// none.
func quantile(sorted []time.Duration, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	i := min(int(q*float64(len(sorted))), len(sorted)-1)
	return sorted[i].Seconds() * 1000
}

// median returns the median of the values. If their number is even, it returns the higher of the
// two middle values. It sorts the slice in place.
func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}
