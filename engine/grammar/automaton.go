package grammar

import (
	"encoding/binary"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/ingot-run/ingot/engine/grammar/regex"
)

// automaton is the parser of a grammar as an automaton over bytes, whose states are made when they
// are first reached. All matchers of a grammar share it.
//
// States do not change after they are made, except for their transitions, which are filled in under
// mu and read without it. Equal states are one. A state is reached by its pointer alone, so that a
// matcher needs no stack: it remembers the state after each token.
//
// When the automaton has used its bytes, the grammar starts a new one, and each matcher reads its
// tokens again in that (see Matcher.retry).
type automaton struct {
	*table
	vocabulary *Vocabulary
	limits     Limits
	classOf    [256]uint8
	classes    []byte // one byte of each class
	base       int    // bytes of the lexemes' expressions, which the grammar counts
	size       atomic.Int64
	grown      func(bytes int64) // told of each growth of size
	apart      bool              // of one answer: what it computes does not come from elsewhere

	mu        sync.Mutex
	lexers    map[string]*lexer
	rows      map[string]*row
	positions map[string]*position
	builder   builder // scratch of rows
	// containment has answers about expressions and plain characters.
	containment map[[2]int32]bool
	key         []byte // scratch
	serial      uint32
	starting    *position
}

// Values of transitions to nowhere.
var (
	noLexer    = &lexer{next: transitions[lexer]{few: true}}
	noPosition = &position{next: transitions[position]{few: true}}
)

var (
	errFull = errors.New("the grammar's automaton is full")
	// ErrBudget means that a mask or a token takes more steps than Limits allow.
	ErrBudget = errors.New("the constraint takes too long to check at this place of the text; make it simpler")
	// ErrAmbiguous means that the answer so far can be read in too many ways (see Limits.RowWork).
	ErrAmbiguous = errors.New("the constraint is too ambiguous: the text so far can be read in so many ways that checking it would delay other requests; write the rules so that a text has one reading")
)

// Costs in steps. A step takes about 5 ns.
const (
	nodeCost       = 1  // a node of a trie
	threadCost     = 8  // a lexer that reads a byte
	itemCost       = 16 // an item that is put into a row
	expressionCost = 32 // a step of regex.Builder
	fillCost       = 40 // a transition
)

// work counts the steps of one call, and keeps the first error.
type work struct {
	left int
	used int // by all parts of the call
	err  error
}

func (w *work) spend(n int) {
	w.used += n
	if w.left -= n; w.left < 0 {
		w.fail(ErrBudget)
	}
}

func (w *work) fail(err error) {
	if w.err == nil {
		w.err = err
	}
}

func newAutomaton(t *table, v *Vocabulary, limits Limits, grown func(int64)) *automaton {
	a := &automaton{
		base: t.re.Size(), table: t, vocabulary: v, limits: limits, grown: grown,
		lexers: map[string]*lexer{}, rows: map[string]*row{}, positions: map[string]*position{},
		containment: map[[2]int32]bool{},
	}
	a.classOf, a.classes = t.re.Classes()
	return a
}

// renewed returns an empty automaton of the same grammar.
func (a *automaton) renewed(expressions int) *automaton {
	a.mu.Lock()
	defer a.mu.Unlock()
	t := *a.table
	t.re = a.re.Fork(expressions, regex.Limits{Nodes: expressions + int(a.limits.StateBytes>>8)})
	return newAutomaton(&t, a.vocabulary, a.limits, a.grown)
}

// take reserves bytes, and fails with errFull if there are none left.
func (a *automaton) take(bytes int, w *work) bool {
	a.note(w)
	if w.err == nil && a.size.Load()+int64(bytes)+int64(a.re.Size()-a.base) > a.limits.StateBytes {
		w.fail(errFull)
	}
	if w.err != nil {
		return false
	}
	a.size.Add(int64(bytes))
	a.grown(int64(bytes))
	return true
}

// fill runs compute with the lock held, and counts the expressions' work.
func (a *automaton) fill(w *work, compute func()) {
	if w.err != nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	before, size := a.re.Work(), a.re.Size()
	a.re.Reset(max(w.left, 0) / expressionCost)
	compute()
	w.spend((a.re.Work()-before)*expressionCost + fillCost)
	a.grown(int64(a.re.Size() - size))
	a.note(w)
	a.re.Reset(0) // the error is this call's alone
}

// note makes an error of the expressions one of w.
func (a *automaton) note(w *work) {
	switch err := a.re.Err(); {
	case errors.Is(err, regex.ErrNodes):
		w.fail(errFull)
	case errors.Is(err, regex.ErrWork):
		w.fail(ErrBudget)
	case err != nil:
		w.fail(err)
	}
}

// lexer is a state of the lexemes that may match the text since some position.
type lexer struct {
	serial  uint32
	pairs   []pair  // sorted by lexeme
	accepts []int32 // indexes of pairs whose lexeme may end here, if text led here
	more    bool    // whether a lexeme may go on
	inner   bool    // no lexeme may end here, one may go on, and nothing is known of what follows
	live    []byte  // classes of bytes that may follow
	next    transitions[lexer]
	literal string                // the text that must follow, if that is known; then there is one pair
	after   atomic.Pointer[lexer] // the state after literal
	plain   plainness
	summary atomic.Pointer[summary]
	forced  atomic.Int32 // the byte that must follow, plus 2; 1 if there is none; 0 if unknown
}

// pair is a lexeme and the expression of what may follow in it.
type pair struct {
	lexeme symbol
	node   regex.Node
}

// internLexer returns the state of pairs, which it copies. Pairs that match no text are left out.
func (a *automaton) internLexer(pairs []pair, w *work) *lexer {
	key := a.key[:0]
	live := pairs[:0]
	for _, p := range pairs {
		empty, err := a.re.IsEmpty(p.node, max(w.left, 0)/expressionCost)
		if err != nil {
			if errors.Is(err, regex.ErrEmptiness) {
				err = ErrBudget
			}
			if a.re.Err() == nil {
				w.fail(err)
			}
			return noLexer
		}
		if !empty {
			key = binary.LittleEndian.AppendUint32(key, uint32(p.lexeme))
			key = binary.LittleEndian.AppendUint32(key, uint32(p.node))
			live = append(live, p)
		}
	}
	a.key = key
	if len(live) == 0 {
		return noLexer
	}
	if s, ok := a.lexers[string(key)]; ok {
		return s
	}
	a.serial++
	s := &lexer{serial: a.serial, pairs: slices.Clone(live)}
	var first regex.ByteSet
	for i, p := range live {
		if a.re.Nullable(p.node) {
			s.accepts = append(s.accepts, int32(i))
		}
		s.more = s.more || p.node != regex.Empty
		first = first.Union(a.re.First(p.node))
	}
	var classes []byte
	for class, c := range a.classes {
		if first.Has(c) {
			classes = append(classes, byte(class))
		}
	}
	s.next = newTransitions[lexer](classes, len(a.classes))
	s.live = classes
	s.plain = a.plainnessOf(live)
	if len(live) == 1 {
		s.literal, _ = a.re.Prefix(live[0].node)
	}
	s.inner = len(s.accepts) == 0 && s.more && s.literal == "" && s.plain.runes != regex.Unbounded
	if !a.take(250+2*len(key)+4*len(live)+len(classes)+s.next.bytes(), w) {
		return noLexer
	}
	a.lexers[string(key)] = s
	return s
}

// advance returns the state after c.
func (a *automaton) advance(s *lexer, c byte, w *work) *lexer {
	class := a.classOf[c]
	at := s.next.at(class)
	if at == nil {
		return noLexer
	}
	if n := at.Load(); n != nil {
		return n
	}
	return a.fillLexer(s, class, w)
}

func (a *automaton) fillLexer(s *lexer, class uint8, w *work) *lexer {
	n := noLexer
	a.fill(w, func() {
		at := s.next.at(class)
		if n = at.Load(); n != nil {
			return
		}
		var pairs []pair
		for _, p := range s.pairs {
			if d := a.re.Derivative(p.node, a.classes[class]); d != regex.Nothing {
				pairs = append(pairs, pair{p.lexeme, d})
			}
		}
		w.spend(threadCost * len(s.pairs))
		if n = a.internLexer(pairs, w); w.err == nil && a.re.Err() == nil {
			at.Store(n)
		}
	})
	if w.err != nil {
		return noLexer
	}
	return n
}

// pass returns the state after the literal of s, without the states within it.
func (a *automaton) pass(s *lexer, w *work) *lexer {
	if n := s.after.Load(); n != nil {
		return n
	}
	n := noLexer
	a.fill(w, func() {
		_, rest := a.re.Prefix(s.pairs[0].node)
		if n = a.internLexer([]pair{{s.pairs[0].lexeme, rest}}, w); w.err == nil && a.re.Err() == nil {
			s.after.Store(n)
		}
	})
	if w.err != nil {
		return noLexer
	}
	return n
}

// retire ends the counting of the automaton's bytes, and returns them.
func (a *automaton) retire() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := a.size.Load() + int64(a.re.Size()-a.base)
	a.grown = func(int64) {}
	return n
}

// bytes returns about how many bytes the automaton has grown by.
func (a *automaton) bytes() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.size.Load() + int64(a.re.Size()-a.base)
}
