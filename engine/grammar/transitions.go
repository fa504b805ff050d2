package grammar

import (
	"bytes"
	"slices"
	"sync/atomic"
)

// transitions are a state's next states by the class of the byte. In most states of long texts, few
// classes lead anywhere, and then only these have a place.
type transitions[T any] struct {
	few  bool
	live []byte              // classes that may lead somewhere, sorted, if they are few
	to   []atomic.Pointer[T] // by live, or by class; nil is not known
}

// maxFew is the most classes that are searched.
const maxFew = 6

// newTransitions returns the transitions of a state from which only live classes lead somewhere.
func newTransitions[T any](live []byte, classes int) transitions[T] {
	if len(live) <= maxFew {
		return transitions[T]{few: true, live: slices.Clone(live), to: make([]atomic.Pointer[T], len(live))}
	}
	return transitions[T]{to: make([]atomic.Pointer[T], classes)}
}

// at returns the place of class; nil if it leads nowhere.
func (t *transitions[T]) at(class uint8) *atomic.Pointer[T] {
	if !t.few {
		return &t.to[class]
	}
	if i := bytes.IndexByte(t.live, class); i >= 0 {
		return &t.to[i]
	}
	return nil
}

// index returns the place of class in a list of the transitions; -1 if it leads nowhere.
func (t *transitions[T]) index(class uint8) int {
	if !t.few {
		return int(class)
	}
	return bytes.IndexByte(t.live, class)
}

// bytes is the size.
func (t *transitions[T]) bytes() int { return 8*len(t.to) + len(t.live) }
