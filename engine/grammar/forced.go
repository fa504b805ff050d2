package grammar

import (
	"slices"
	"unicode/utf8"

	"github.com/ingot-run/ingot/engine/grammar/regex"
)

const (
	maxForcedBytes = 2048
	// lookBack is how many accepted tokens are encoded again with the forced text. With four,
	// llguidance found no tokenisation that differs from the one of the whole text
	// (docs/fast_forward.md there).
	lookBack = 4
)

// Forced returns tokens that must come next, because the grammar allows no other text. They are the
// tokens that encode makes of the text, as far as no text that may follow could change them. encode
// returns the tokens of a text that goes on after other text: without a beginning-of-text token or
// an added space, and with no special tokens. It does not change the state. The error is ErrBudget:
// whether tokens are forced must not depend on the states that other answers have left, so nothing
// is returned instead.
func (m *Matcher) Forced(encode func(text string) []int32) (tokens []int32, err error) {
	err = m.attempt(func(a *automaton, p *position, w *work) {
		tokens = nil
		text, positions := a.forcedText(p, w)
		if len(text) == 0 || w.err != nil {
			return
		}
		back := m.backward()
		var before []byte
		for _, id := range back {
			before = append(before, a.vocabulary.bytes[id]...)
		}
		ids := encode(string(before) + string(text))
		if len(ids) <= len(back) || !slices.Equal(ids[:len(back)], back) {
			return
		}
		tokens = a.settled(ids[len(back):], text, positions, w)
		for _, id := range tokens {
			if p = a.accept(p, id, w); p == noPosition {
				tokens = nil
				return
			}
		}
	})
	if err != nil {
		return nil, err
	}
	return tokens, nil
}

// backward returns the last accepted tokens whose text is encoded again. It begins with a whole
// character and has no special tokens.
func (m *Matcher) backward() []int32 {
	bytes := m.grammar.vocabulary.bytes
	n := len(m.tokens)
	for n > 0 && bytes[m.tokens[n-1]] != nil {
		n--
		if len(m.tokens)-n >= lookBack && utf8.RuneStart(bytes[m.tokens[n]][0]) {
			break
		}
	}
	return m.tokens[n:]
}

// forcedText returns the text that must follow p, of whole characters, and the positions before and
// after each of its bytes.
func (a *automaton) forcedText(p *position, w *work) (text []byte, positions []*position) {
	positions = append(positions, p)
	for len(text) < maxForcedBytes && w.err == nil {
		c, ok := a.only(p, w)
		if !ok {
			break
		}
		if p = a.step(p, c, w); p == noPosition {
			return nil, nil
		}
		w.spend(1)
		text = append(text, c)
		positions = append(positions, p)
	}
	for n := len(text) - 1; n >= max(0, len(text)-utf8.UTFMax); n-- {
		if utf8.RuneStart(text[n]) {
			if !utf8.FullRune(text[n:]) {
				text = text[:n]
			}
			break
		}
	}
	return text, positions[:len(text)+1]
}

// only returns the one byte that may follow p, if it must.
func (a *automaton) only(p *position, w *work) (c byte, ok bool) {
	if p.accepting() || p.row != nil && len(p.row.tokens) > 0 {
		return 0, false
	}
	check := func(l *lexer) bool {
		if l == noLexer {
			return true
		}
		next := l.forced.Load()
		if next == 0 {
			next = a.fillForced(l, w)
		}
		if next == 1 || ok && byte(next-2) != c {
			return false
		}
		c, ok = byte(next-2), true
		return true
	}
	if p.row != nil && !check(p.row.initial) {
		return 0, false
	}
	for _, t := range p.threads {
		if !check(t.lexer) {
			return 0, false
		}
	}
	return c, ok
}

func (a *automaton) fillForced(l *lexer, w *work) int32 {
	next := int32(1)
	a.fill(w, func() {
		for i, p := range l.pairs {
			if p.node == regex.Empty { // the lexeme cannot go on
				continue
			}
			c, ok := a.re.First(p.node).Only()
			switch {
			case !ok, i > 0 && next > 1 && next != int32(c)+2:
				next = 1
				return
			}
			next = int32(c) + 2
		}
	})
	if w.err == nil {
		l.forced.Store(next)
	}
	return next
}

// settled returns the first of ids whose text no token changes that begins inside the forced text,
// goes on after it, and may follow. positions has the position before each byte of text, and the
// one after it.
func (a *automaton) settled(ids []int32, text []byte, positions []*position, w *work) []int32 {
	last := positions[len(text)]
	cut := len(text)
	if !a.last(last, w) {
		for from := len(text) - 1; from >= max(0, len(text)-a.vocabulary.longest); from-- {
			if a.continues(text[from:], last, w) {
				cut = from
			}
		}
	}
	at := 0
	for n, id := range ids {
		if id < 0 || int(id) >= a.vocabulary.size || a.vocabulary.bytes[id] == nil {
			return nil
		}
		if at += len(a.vocabulary.bytes[id]); at > cut {
			return ids[:n]
		}
	}
	return ids
}

// continues reports whether some token begins with text and goes on with bytes that may follow p.
func (a *automaton) continues(text []byte, p *position, w *work) bool {
	for _, t := range [...]trie{a.vocabulary.plain, a.vocabulary.rest} {
		if n := t.find(text); n >= 0 && len(a.walk(nil, t, n, p, w)) > 0 {
			return true
		}
	}
	return false
}
