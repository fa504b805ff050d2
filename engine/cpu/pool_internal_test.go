package cpu

import (
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// tally counts how often each part is done, and by which thread. It has no synchronisation: the work of a run must be visible
// when the run returns.
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

// TestPoolDoesEachPartOnce runs tasks of all sizes one right after another, so that late threads meet the next task.
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

// held is a task whose first part waits until all others are done, which only another thread can have done.
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

// TestPoolTakesOverShares blocks a thread in the first part of its share.
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
