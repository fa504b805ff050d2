package schedule

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// maxCrew is the maximum number of goroutines of a crew, the loop's included.
const maxCrew = 16

// crew works on the constraints of several sequences at once: on goroutines of its own and, in
// finish, on the caller's.
type crew struct {
	size  int
	seqs  []*sequence
	do    func(*sequence)
	next  atomic.Int64 // number of sequences that were taken, or more
	group sync.WaitGroup
	work  func() // takes sequences; stored so that a step does not allocate it
}

func newCrew() *crew {
	c := &crew{size: min(runtime.GOMAXPROCS(0), maxCrew)}
	c.work = func() {
		for i := c.next.Add(1) - 1; i < int64(len(c.seqs)); i = c.next.Add(1) - 1 {
			s := c.seqs[i]
			if err := recovered(func() { c.do(s) }); err != nil {
				s.guide.err = err
			}
		}
	}
	return c
}

// begin sets the sequences, which have a guide, and what to do for each. At least one call of
// finish must follow.
func (c *crew) begin(seqs []*sequence, do func(*sequence)) {
	c.seqs, c.do = seqs, do
	c.next.Store(0)
}

// start lets n goroutines work.
func (c *crew) start(n int) {
	for range min(n, len(c.seqs)) {
		c.group.Go(c.work)
	}
}

// finish returns when everything is done. The caller's goroutine works too.
func (c *crew) finish() {
	c.work()
	c.group.Wait()
}

// run does something for all sequences.
func (c *crew) run(seqs []*sequence, do func(*sequence)) {
	c.begin(seqs, do)
	c.start(min(c.size, len(seqs)) - 1)
	c.finish()
}
