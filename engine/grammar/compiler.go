package grammar

import (
	"container/list"
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/engine/grammar/regex"
)

// Grammar is a compiled constraint. It is safe for concurrent use.
type Grammar struct {
	vocabulary  *Vocabulary
	limits      Limits
	expressions int // of the lexemes; the automaton adds others
	size        int64
	apart       bool // each answer has an automaton of its own: see table.manyStates
	current     atomic.Pointer[automaton]
	mu          sync.Mutex // for renewing
}

// Check returns an error if no grammar can keep c in full. It needs no vocabulary, so special
// tokens are not looked up.
func Check(c *generation.Constraint) error {
	r := newRules(context.Background(), Limits{}.withDefaults())
	start, err := r.constraint(c)
	if err != nil {
		return err
	}
	_, err = newTable(r, start, nil)
	return explain(err)
}

// newGrammar compiles the rules below start. r is not used afterwards.
func newGrammar(r *rules, start symbol, v *Vocabulary, limits Limits, grown func(int64)) (*Grammar, error) {
	t, err := newTable(r, start, v)
	if err != nil {
		return nil, explain(err)
	}
	g := &Grammar{vocabulary: v, limits: limits, expressions: t.re.Nodes()}
	t.re.OnWork(nil)
	t.re.SetLimits(regex.Limits{Nodes: g.expressions + int(limits.StateBytes>>8)})
	g.apart = t.manyStates()
	g.size = int64(t.re.Size() + 64*len(t.symbols) + 8*len(t.dots) + 1000)
	g.current.Store(newAutomaton(t, v, limits, grown))
	grown(g.size)
	return g, nil
}

// own returns an empty automaton for one answer.
func (g *Grammar) own() *automaton {
	a := g.current.Load().renewed(g.expressions)
	a.limits.StateBytes /= ownShare
	a.grown, a.apart = func(int64) {}, true
	return a
}

// renew returns a new automaton in the place of full, and whether it replaced it: another call may
// have done so.
func (g *Grammar) renew(full *automaton) (a *automaton, replaced bool) {
	if g.apart {
		return g.own(), true
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if a := g.current.Load(); a != full {
		return a, false
	}
	a = full.renewed(g.expressions)
	a.grown(-full.retire())
	g.current.Store(a)
	return a, true
}

// Compiler compiles constraints for one vocabulary. It keeps the grammars of the constraints that
// were used last, up to a number of bytes. It is safe for concurrent use.
type Compiler struct {
	vocabulary *Vocabulary
	limits     Limits

	mu      sync.Mutex
	entries map[string]*list.Element // of entry
	used    *list.List               // the last used first
	bytes   int64
}

type entry struct {
	key     string
	ready   chan struct{} // closed when grammar or err is set
	grammar *Grammar
	err     error
	bytes   int64 // counted in Compiler.bytes
	evicted bool
}

// NewCompiler returns a Compiler with an empty cache.
func NewCompiler(v *Vocabulary, limits Limits) *Compiler {
	return &Compiler{
		vocabulary: v, limits: limits.withDefaults(),
		entries: map[string]*list.Element{}, used: list.New(),
	}
}

// Compile returns the grammar of c, from the cache if it is there. An error that is an *Error, or
// that generation.IsBadRequest reports, is the fault of c.
func (c *Compiler) Compile(ctx context.Context, con *generation.Constraint) (*Grammar, error) {
	key := keyOf(con)
	for {
		c.mu.Lock()
		element, ok := c.entries[key]
		if !ok {
			e := &entry{key: key, ready: make(chan struct{}), bytes: int64(len(key))}
			c.bytes += e.bytes
			element = c.used.PushFront(e)
			c.entries[key] = element
			c.mu.Unlock()
			return c.compile(ctx, e, con)
		}
		c.used.MoveToFront(element)
		c.mu.Unlock()
		e := element.Value.(*entry)
		select {
		case <-e.ready:
		case <-ctx.Done():
			return nil, fmt.Errorf("compile the constraint: %w", ctx.Err())
		}
		if e.err == nil || ctx.Err() != nil || !isContext(e.err) {
			return e.grammar, e.err
		}
		// The caller that compiled it went away: the entry is gone, and this caller compiles.
	}
}

func (c *Compiler) compile(ctx context.Context, e *entry, con *generation.Constraint) (*Grammar, error) {
	defer close(e.ready)
	r := newRules(ctx, c.limits)
	start, err := r.constraint(con)
	if err == nil {
		e.grammar, err = newGrammar(r, start, c.vocabulary, c.limits, func(n int64) { c.grow(e, n) })
	}
	if err != nil {
		e.err = err
		c.mu.Lock()
		c.remove(e)
		c.mu.Unlock()
	}
	return e.grammar, e.err
}

// grow counts n more bytes of e, and removes the grammars that were not used for longest if there
// are too many. A grammar that is removed stays usable for those who have it.
func (c *Compiler) grow(e *entry, n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e.evicted {
		return
	}
	e.bytes += n
	c.bytes += n
	for c.bytes > c.limits.CacheBytes && c.used.Len() > 0 {
		c.remove(c.used.Back().Value.(*entry))
	}
}

// remove takes e out of the cache.
func (c *Compiler) remove(e *entry) {
	if e.evicted {
		return
	}
	e.evicted = true
	c.bytes -= e.bytes
	c.used.Remove(c.entries[e.key])
	delete(c.entries, e.key)
}

// keyOf returns a text that only equal constraints share.
func keyOf(c *generation.Constraint) string {
	var b strings.Builder
	for _, s := range append([]string{c.Schema, c.Regex, c.Grammar}, c.Choices...) {
		b.WriteString(strconv.Itoa(len(s)))
		b.WriteByte(':')
		b.WriteString(s)
	}
	return b.String()
}
