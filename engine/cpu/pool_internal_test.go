package cpu

import (
	"runtime"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// tally is a task that records how often each part is done, and by which thread. It needs no locks:
// the work of all threads must be visible when do returns.
type tally struct {
	counts []int
	by     []int
	slow   int // the thread that yields to others
}

func (t *tally) part(thread, i int) {
	if thread == t.slow {
		runtime.Gosched()
	}
	t.counts[i]++
	t.by[i] = thread
}

// TestPoolDoesEachPartOnce runs tasks of all sizes without a pause, so that late threads find the
// next task.
func TestPoolDoesEachPartOnce(t *testing.T) {
	for threads := 1; threads <= 5; threads++ {
		p := newPool(threads)
		for round := range 500 {
			parts := round * 7 % 41
			task := &tally{counts: make([]int, parts), by: make([]int, parts), slow: round % threads}
			p.do(task, parts)
			for i, n := range task.counts {
				require.Equal(t, 1, n, "part %d of %d, %d threads", i, parts, threads)
				require.Less(t, task.by[i], threads)
			}
		}
		p.close()
	}
}

// held is a task whose first part waits until all other parts are done. Only another thread can do
// these.
type held struct{ left atomic.Int64 }

func (h *held) part(_, i int) {
	if i > 0 {
		h.left.Add(-1)
		return
	}
	for h.left.Load() > 0 {
		runtime.Gosched()
	}
}

// TestPoolTakesOverShares blocks a thread in the first part of its share. The other thread must do
// all remaining parts.
func TestPoolTakesOverShares(t *testing.T) {
	p := newPool(2)
	defer p.close()
	for range 200 {
		h := &held{}
		h.left.Store(9)
		p.do(h, 10)
		require.Zero(t, h.left.Load())
	}
}

// panics is a task that panics in some parts. The caller's thread starts with part 0, which waits
// until the other threads have panicked.
type panics struct {
	in    []int
	left  atomic.Int64 // parts that have not panicked
	begun atomic.Int64
}

func (p *panics) part(_, i int) {
	p.begun.Add(1)
	if slices.Contains(p.in, i) {
		p.left.Add(-1)
		panic("out of range")
	}
	for i == 0 && p.left.Load() > 0 {
		runtime.Gosched()
	}
}

// TestPoolPassesPanicsOn panics on helpers, and on the caller's thread while helpers work. After
// all parts are done, the caller gets one of the panics with the stack of its part. The pool
// remains usable.
func TestPoolPassesPanicsOn(t *testing.T) {
	p := newPool(3)
	defer p.close()
	for _, in := range [][]int{{9}, {0}, {5, 9}, {0, 1, 5, 9}} {
		for range 50 {
			task := &panics{in: in}
			task.left.Store(int64(len(in)))
			var got any
			func() {
				defer func() { got = recover() }()
				p.do(task, 10)
			}()
			require.Equal(t, "out of range", got.(*partPanic).String())
			require.Contains(t, string(got.(*partPanic).Stack()), "(*panics).part")
			require.EqualValues(t, 10, task.begun.Load())

			next := &tally{counts: make([]int, 20), by: make([]int, 20), slow: 1}
			p.do(next, 20)
			require.Equal(t, slices.Repeat([]int{1}, 20), next.counts)
		}
	}
}
