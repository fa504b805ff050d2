package grammar

import (
	"errors"
	"fmt"
	"slices"
)

// Matcher follows the tokens of one answer. It is not safe for concurrent use; matchers of one
// Grammar may be used at the same time.
type Matcher struct {
	grammar   *Grammar
	automaton *automaton
	tokens    []int32     // accepted
	positions []*position // after each number of tokens; one more than tokens
	used      int         // steps of all calls

	// rows has the steps that the rows after tokens cost to make, whoever made them, up to each
	// token. It depends on the tokens alone, not on other answers.
	rows []int
}

// NewMatcher returns a Matcher before the first token.
func (g *Grammar) NewMatcher() *Matcher {
	m := &Matcher{grammar: g}
	if !g.apart {
		m.automaton = g.current.Load()
	}
	return m
}

// Clone returns a Matcher with the same tokens, which goes on independently.
func (m *Matcher) Clone() *Matcher {
	c := *m
	c.tokens = slices.Clone(m.tokens)
	c.positions = slices.Clone(m.positions)
	c.rows = slices.Clone(m.rows)
	return &c
}

// maxAttempts is how often a call starts anew because other matchers filled the automaton.
const maxAttempts = 8

// maxOver is how often a call that took Limits.MaskWork goes on: with the states that it has made,
// it gets further.
const maxOver = 3

// attempt runs f at the position after the tokens. If the automaton is full, it runs f again in a
// new one. It counts the steps of the answer, without those of replay, which other answers cause.
func (m *Matcher) attempt(f func(a *automaton, p *position, w *work)) error {
	for attempt, own, over := 0, 0, 0; attempt < maxAttempts && own < 3; attempt++ {
		w := work{left: m.grammar.limits.MaskWork}
		if m.automaton == nil {
			m.automaton = m.grammar.own()
		}
		if len(m.positions) == 0 {
			m.replay(&w)
		}
		if w.err == nil {
			w.left, w.used = m.grammar.limits.MaskWork, 0
			f(m.automaton, m.positions[len(m.positions)-1], &w)
			m.used += w.used
		}
		if w.err == nil {
			return nil
		}
		if errors.Is(w.err, ErrBudget) && over < maxOver && !m.exhausted() {
			over++
			continue
		}
		if !errors.Is(w.err, errFull) {
			return w.err
		}
		var replaced bool
		m.automaton, replaced = m.grammar.renew(m.automaton)
		m.positions = m.positions[:0]
		if replaced {
			own++
		}
	}
	return ErrBudget
}

// exhausted reports whether the answer has taken all its steps.
func (m *Matcher) exhausted() bool {
	share := m.grammar.limits.AnswerWork / workShare
	return m.used > m.grammar.limits.AnswerWork+len(m.tokens)*share
}

// replay computes the positions of all tokens.
func (m *Matcher) replay(w *work) {
	m.positions = append(m.positions[:0], m.automaton.start(w))
	for _, id := range m.tokens {
		w.left = m.grammar.limits.MaskWork
		m.positions = append(m.positions, m.automaton.accept(m.positions[len(m.positions)-1], id, w))
	}
	if w.err != nil {
		m.positions = m.positions[:0]
	}
}

// accept returns the position after a token: noPosition if it is not allowed.
func (a *automaton) accept(p *position, id int32, w *work) *position {
	v := a.vocabulary
	switch {
	case id < 0 || int(id) >= v.size || p == noPosition:
		return noPosition
	case v.isEnd[id] && p.accepting():
		return endPosition
	case v.bytes[id] == nil:
		return a.after(p, id, w)
	}
	for _, c := range v.bytes[id] {
		p = a.step(p, c, w)
	}
	w.spend(len(v.bytes[id]))
	return p
}

// endPosition is the position after an end token.
var endPosition = &position{ended: true, next: transitions[position]{few: true}}

// Mask sets the bits of the tokens that may come next: bit id%32 of mask[id/32]. mask has at least
// as many bits as the vocabulary has tokens; the bits above them become 0. The error is ErrBudget.
func (m *Matcher) Mask(mask []uint32) error {
	if words := m.grammar.vocabulary.words(); len(mask) < words {
		return fmt.Errorf("compute a mask: it has %d words, and the vocabulary needs %d", len(mask), words)
	}
	if m.exhausted() {
		return ErrBudget
	}
	return m.attempt(func(a *automaton, p *position, w *work) {
		sets := a.tokens(p, w)
		if w.err != nil {
			return
		}
		write(mask, sets)
		for _, s := range m.grammar.vocabulary.same {
			if mask[s[0]>>5]>>(s[0]&31)&1 != 0 {
				mask[s[1]>>5] |= 1 << (s[1] & 31)
			}
		}
	})
}

// Accept appends a token. An error leaves the Matcher as it was.
func (m *Matcher) Accept(id int32) error {
	var next *position
	rows := 0
	err := m.attempt(func(a *automaton, p *position, w *work) {
		if next = a.accept(p, id, w); next != noPosition && next != endPosition && w.err == nil {
			rows = next.cost() + a.climb(p, a.vocabulary.bytes[id], w)
		}
	})
	switch {
	case err != nil:
		return err
	case next == noPosition:
		return fmt.Errorf("token %d is not allowed after %d tokens", id, len(m.tokens))
	}
	if n := len(m.rows); n > 0 {
		rows += m.rows[n-1]
	}
	if limit := m.grammar.limits.RowWork; rows > limit+len(m.tokens)*(limit/rowShare) {
		return ErrAmbiguous
	}
	m.tokens = append(m.tokens, id)
	m.positions = append(m.positions, next)
	m.rows = append(m.rows, rows)
	return nil
}

// Rollback takes back the last tokens: all of them if there are fewer.
func (m *Matcher) Rollback(tokens int) {
	n := max(len(m.tokens)-max(tokens, 0), 0)
	m.tokens, m.rows = m.tokens[:n], m.rows[:n]
	if len(m.positions) > 0 {
		m.positions = m.positions[:n+1]
	}
}

// Allowed returns how many of ids, from the first on, may come next. It does not change the state.
func (m *Matcher) Allowed(ids []int32) int {
	n := 0
	err := m.attempt(func(a *automaton, p *position, w *work) {
		n = 0
		for _, id := range ids {
			w.left = m.grammar.limits.MaskWork
			if p = a.accept(p, id, w); p == noPosition || w.err != nil {
				return
			}
			n++
		}
	})
	if err != nil && !errors.Is(err, ErrBudget) {
		return 0
	}
	return n
}

// Accepting reports whether the text may end here.
func (m *Matcher) Accepting() bool {
	var accepting bool
	err := m.attempt(func(_ *automaton, p *position, _ *work) { accepting = p.accepting() })
	return err == nil && accepting
}

// Done reports whether only end tokens may come next. The error is ErrBudget.
func (m *Matcher) Done() (done bool, err error) {
	err = m.attempt(func(a *automaton, p *position, w *work) { done = p.accepting() && a.last(p, w) })
	return err == nil && done, err
}

// last reports whether nothing may follow p.
func (a *automaton) last(p *position, w *work) bool {
	if p.ended {
		return true
	}
	if p.row != nil && len(p.row.tokens) > 0 {
		return false
	}
	for _, c := range a.classes {
		if a.step(p, c, w) != noPosition {
			return false
		}
	}
	return true
}
