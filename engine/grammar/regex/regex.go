// Package regex has regular expressions over bytes that are closed under intersection and
// complement, and are matched by derivatives: the derivative of an expression by a byte is the
// expression of what may follow that byte (Brzozowski 1964; Owens, Reppy and Turon 2009).
//
// A [Builder] makes expressions. Equal expressions are one [Node], so that a set of expressions
// that is reached by different texts is one state of an automaton. All work is counted: after a
// limit is reached, constructors return [Nothing], and [Builder.Err] says which limit it was.
package regex

import (
	"encoding/binary"
	"errors"
	"hash/maphash"
	"slices"
)

// Node is an expression of one Builder.
type Node int32

// Expressions that every Builder has.
const (
	Nothing Node = iota // no text
	Empty               // the empty text
	All                 // any text, including bytes that are not UTF-8
)

// Unbounded is the maximum of a Repeat that has none.
const Unbounded = -1

// MaxRepeat is the largest bound of a Repeat.
const MaxRepeat = 1 << 24

// maxDepth bounds how deep expressions are in each other, and so the stack of what reads them. A
// concatenation of n parts is n deep.
const maxDepth = 20_000

// maxLiteral is the most bytes of one literal expression. Longer texts are concatenations, so that
// a derivative does not take time in proportion to the whole text.
const maxLiteral = 64

// Limits bound what a Builder may do.
type Limits struct {
	Nodes int // expressions, each about 100 bytes
	Work  int // steps of constructors and derivatives
}

// Errors of a Builder. They last.
var (
	ErrNodes  = errors.New("the regular expressions have too many parts")
	ErrWork   = errors.New("the regular expressions take too long to prepare")
	ErrRepeat = errors.New("a count of a regular expression is too large")
)

type op uint8

const (
	opNothing op = iota
	opEmpty
	opLiteral // text
	opBytes   // set
	opConcat  // kids[0], then kids[1]; kids[0] is no concatenation
	opRepeat  // kids[0] from min to max times
	opOr      // two or more kids, sorted by signature
	opAnd     // two or more kids, sorted by signature
	opNot     // kids[0]
	opDivide  // digits whose number has a remainder: see Divisible
)

// Signature identifies an expression across Builders of one process.
type Signature [2]uint64

type node struct {
	op       op
	nullable bool
	exact    bool // no And or Not inside: not Nothing means not empty
	life     life // whether any text matches, where it is known
	counts   bool // a repetition of more than farCount times is inside
	depth    int32
	min, max int32
	text     string // of opLiteral
	set      int32  // of opBytes, an index in Builder.sets
	kids     []Node
	sig      Signature
}

type life uint8

const (
	unknown life = iota
	alive
	dead
)

// Builder makes expressions. It is not safe for concurrent use.
type Builder struct {
	limits  Limits
	work    int
	err     error
	check   func() error
	nodes   []node
	sets    []ByteSet
	known   map[Signature]Node
	derived map[uint64]Node // node<<8 | byte
	first   map[Node]ByteSet
	classes classes
	scratch []byte
	runes   runeCache
	size    int // bytes, about
}

var seeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}

// NewBuilder returns a Builder with its three constant expressions.
func NewBuilder(limits Limits) *Builder {
	b := &Builder{limits: limits, known: map[Signature]Node{}, derived: map[uint64]Node{}, first: map[Node]ByteSet{}}
	b.classes.reset()
	b.intern(node{op: opNothing, exact: true, life: dead})
	b.intern(node{op: opEmpty, nullable: true, exact: true, life: alive})
	b.intern(node{op: opNot, nullable: true, life: alive, kids: []Node{Nothing}})
	return b
}

// OnWork makes the Builder call check now and then. An error of check becomes the Builder's.
func (b *Builder) OnWork(check func() error) { b.check = check }

// Err returns why the Builder stopped, or nil.
func (b *Builder) Err() error { return b.err }

// SetLimits replaces the limits. The work so far counts.
func (b *Builder) SetLimits(limits Limits) { b.limits = limits }

// Work returns the steps so far.
func (b *Builder) Work() int { return b.work }

// Size returns about how many bytes the Builder's expressions take.
func (b *Builder) Size() int { return b.size }

// Reset forgets that a limit was reached, and allows another work steps.
func (b *Builder) Reset(work int) {
	b.err = nil
	b.limits.Work = b.work + work
}

func (b *Builder) spend(n int) bool {
	if b.err != nil {
		return false
	}
	before := b.work
	b.work += n
	switch {
	case b.work > b.limits.Work:
		b.err = ErrWork
	case b.check != nil && before>>12 != b.work>>12:
		b.err = b.check()
	}
	return b.err == nil
}

// Fail makes err the Builder's error, unless it has one.
func (b *Builder) Fail(err error) Node {
	if b.err == nil {
		b.err = err
	}
	return Nothing
}

// Signature returns what identifies n in any Builder of this process.
func (b *Builder) Signature(n Node) Signature { return b.nodes[n].sig }

// farCount is so many that an expression that remembers a byte for as long can have many states.
const farCount = 30

// Counts reports whether n has a repetition of more than 30 times with a bound.
func (b *Builder) Counts(n Node) bool { return b.nodes[n].counts }

// Nullable reports whether n matches the empty text.
func (b *Builder) Nullable(n Node) bool { return b.nodes[n].nullable }

func (b *Builder) intern(n node) Node {
	n.sig = b.signature(&n)
	if id, ok := b.known[n.sig]; ok {
		return id
	}
	if !b.spend(1) {
		return Nothing
	}
	n.counts = n.op == opRepeat && max(n.min, n.max) > farCount
	for _, k := range n.kids {
		n.depth = max(n.depth, b.nodes[k].depth+1)
		n.counts = n.counts || b.nodes[k].counts
	}
	if n.depth > maxDepth {
		return b.Fail(ErrNodes)
	}
	if len(b.nodes) >= max(b.limits.Nodes, 3) {
		return b.Fail(ErrNodes)
	}
	id := Node(len(b.nodes))
	b.nodes = append(b.nodes, n)
	b.known[n.sig] = id
	b.size += 160 + 4*len(n.kids)
	return id
}

func (b *Builder) signature(n *node) Signature {
	buf := b.scratch[:0]
	buf = append(buf, byte(n.op))
	switch n.op {
	case opLiteral:
		buf = append(buf, n.text...)
	case opBytes:
		for _, w := range b.sets[n.set] {
			buf = binary.LittleEndian.AppendUint64(buf, w)
		}
	case opRepeat, opDivide:
		buf = binary.LittleEndian.AppendUint32(buf, uint32(n.min))
		buf = binary.LittleEndian.AppendUint32(buf, uint32(n.max))
	}
	for _, k := range n.kids {
		s := b.nodes[min(int(k), len(b.nodes)-1)].sig
		buf = binary.LittleEndian.AppendUint64(buf, s[0])
		buf = binary.LittleEndian.AppendUint64(buf, s[1])
	}
	b.scratch = buf
	return Signature{maphash.Bytes(seeds[0], buf), maphash.Bytes(seeds[1], buf)}
}

// Nodes returns how many expressions there are.
func (b *Builder) Nodes() int { return len(b.nodes) }

// Fork returns a Builder with the first n expressions of b, which keep their Nodes, and with
// limits. Its work starts at 0.
func (b *Builder) Fork(n int, limits Limits) *Builder {
	f := &Builder{
		limits: limits, nodes: slices.Clone(b.nodes[:n]), sets: slices.Clone(b.sets),
		known: make(map[Signature]Node, n), derived: map[uint64]Node{}, first: map[Node]ByteSet{}, classes: b.classes,
	}
	f.classes.bytes = slices.Clone(b.classes.bytes)
	for i := range f.nodes {
		f.known[f.nodes[i].sig] = Node(i)
		f.size += 160 + 4*len(f.nodes[i].kids) + len(f.nodes[i].text)
	}
	return f
}
