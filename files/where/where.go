// Package where computes conditions over records: expressions in the language of
// https://expr-lang.org/docs/language-definition. It is an interpreter of its own, since the
// module of that language calls methods by their names with package reflect. The linker then keeps
// every exported method in the program, a quarter of its size. Tests compare both.
//
// Values are those of JSON: nil, bool, int, float64, string, []any and map[string]any. Functions
// also return []byte, map[any]any, time.Time, time.Duration, *time.Location, time.Month and
// time.Weekday.
package where

import (
	"fmt"
	"slices"

	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/parser/lexer"
)

// Condition is a compiled condition. It is safe for concurrent use.
type Condition struct {
	names  []string // columns that the expression names
	whole  bool     // the expression uses the whole record
	source file.Source
	root   expr
	vars   int // number of variables
}

const (
	maxNodes  = 10_000    // of an expression
	maxMemory = 1_000_000 // elements of lists that an expression may make for one record

	textsPerUnit = 256 // bytes of a text that count as one element
)

// Compile compiles a condition over columns. If columns is nil, it may name any column. Errors give
// the line and the column of the place.
func Compile(source string, columns []string) (c *Condition, err error) {
	c = &Condition{source: file.NewSource(source)}
	p := &parser{Condition: c, columns: columns, lexer: lexer.New()}
	defer func() {
		switch fault := recover().(type) {
		case nil:
		case *syntaxError:
			c, err = nil, c.located(fault.at, fault.message)
		default:
			panic(fault)
		}
	}()
	p.lexer.Reset(c.source)
	p.next()
	c.root = p.sequence()
	if !p.is(lexer.EOF) {
		p.unexpected()
	}
	switch {
	case p.refused != nil:
		return nil, c.located(p.refused.at, p.refused.message)
	case c.root.kind != boolean && c.root.kind != unknown:
		return nil, fmt.Errorf("expected bool, but got %s", c.root.static)
	}
	return c, nil
}

// Names reports whether the condition may depend on a column.
func (c *Condition) Names(column string) bool {
	return c.whole || slices.Contains(c.names, column)
}

// Match computes the condition for the values of a record. A column without a value is nil.
func (c *Condition) Match(record map[string]any) (match bool, err error) {
	f := &frame{record: record, vars: make([]any, c.vars), left: maxMemory}
	defer func() {
		switch fault := recover().(type) {
		case nil:
		case message:
			match, err = false, c.located(f.at, string(fault))
		default:
			panic(fault)
		}
	}()
	switch v := c.root.run(f).(type) {
	case nil:
		return false, nil
	case bool:
		return v, nil
	default:
		return false, c.located(0, fmt.Sprintf("invalid operation: bool(%T)", v))
	}
}

// located adds the line and the column of a place to a message.
func (c *Condition) located(at int, text string) error {
	line, column := 1, 1
	for i, r := range []rune(c.source.String()) {
		if i == at {
			break
		}
		column++
		if r == '\n' {
			line, column = line+1, 1
		}
	}
	return fmt.Errorf("%s (%d:%d)", text, line, column)
}

// message is the panic of an operation that cannot be computed. Match returns it as an error.
type message string

func fail(format string, args ...any) { panic(message(fmt.Sprintf(format, args...))) }

// frame is the state of one computation.
type frame struct {
	record map[string]any
	vars   []any
	loops  []loop // of the predicates around the operation, the innermost last
	at     int    // place of the last operation that may fail
	left   int    // see maxMemory
}

// loop is the state of a predicate.
type loop struct {
	item  any
	index int
	total any // #acc
}

func (f *frame) inner() *loop { return &f.loops[len(f.loops)-1] }

// use counts made elements.
func (f *frame) use(n int) {
	if f.left -= n; n < 0 || f.left <= 0 {
		fail("memory budget exceeded")
	}
}
