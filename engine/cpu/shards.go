package cpu

import (
	"math"
	"runtime"
	"sync/atomic"

	"github.com/ingot-run/ingot/engine/compute"
)

// residentBytes is the maximum size of a model's weights for which steps are divided by rows.
// Weights of this size are assumed to stay in the processor's caches, so that every thread can read
// all of them in a step.
const residentBytes = 16 << 20

// shards implements compute.Step by dividing the rows: every thread executes all operations of a
// step for its shard of the rows. Only attention reads other rows, and waits for the shards that
// have earlier rows of the same sequence. This is faster for small models, which spend less time on
// reading weights than on passing activations between threads.
type shards struct {
	whole   *step // divides the weights; executes operations with fewer rows than there are shards
	shards  []shard
	pending []operation // recorded operations that are not executed yet; all have the same number of rows
	rows    int         // number of rows of the pending operations
}

type shard struct {
	backend Backend // a backend with one thread
	batch   compute.Batch
	after   int          // the first shard that has rows of this shard's first sequence
	_       [64]byte     // puts the next field, which other threads poll, on a separate cache line
	reached atomic.Int64 // the number of pending attentions whose keys and values the shard has stored
	_       [56]byte
}

func newShards(b *Backend) *shards {
	l := &shards{whole: &b.step, shards: make([]shard, len(b.scratch))}
	for i := range l.shards {
		one := &l.shards[i].backend
		one.kernels, one.products, one.pool, one.scratch = b.kernels, b.products, newPool(1), make([]scratch, 1)
		one.step.begin(one)
	}
	return l
}

// takes reports whether the batch is computed by dividing its rows among the shards. Otherwise, the
// weights are divided.
func (l *shards) takes(b *compute.Batch) bool {
	n := len(l.shards)
	return n > 1 && len(b.Tokens) >= 2*n && l.whole.weightBytes <= residentBytes && b.Trace == nil
}

func (l *shards) begin(b *compute.Batch) {
	l.pending = l.pending[:0] // a step that panicked may have left operations
	l.whole.start(b)
	n := len(b.Tokens)
	for i := range l.shards {
		own := &l.shards[i].batch
		from, to := l.span(i, n)
		own.Tokens, own.Positions, own.From = b.Tokens[from:to], b.Positions[from:to], b.From.Span(from, to)
		own.Seqs = own.Seqs[:0]
		first := 0
		for _, seq := range b.Seqs {
			at, end := max(first, from), min(first+seq.Rows, to)
			if at < end {
				if len(own.Seqs) == 0 {
					l.shards[i].after = l.of(first, n)
				}
				own.Seqs = append(own.Seqs, compute.Seq{Rows: end - at, Pages: seq.Pages, Further: seq.Further})
			}
			first += seq.Rows
		}
		l.shards[i].backend.step.start(own)
	}
}

func (l *shards) span(i, rows int) (from, to int) {
	return rows * i / len(l.shards), rows * (i + 1) / len(l.shards)
}

func (l *shards) of(row, rows int) int { return ((row+1)*len(l.shards) - 1) / rows }

// add records an operation, which do executes. An operation with fewer rows than there are shards
// runs at once.
func (l *shards) add(o operation, do func(o *operation, s *step, p part)) {
	rows := o.dst.Rows
	o.do = do
	if rows != l.rows {
		l.flush()
		l.rows = rows
	}
	// An operation in which a shard reads rows of other shards runs alone: otherwise these shards
	// could write the rows in a later operation before they are read.
	alone := !l.divides(&o)
	if alone {
		l.flush()
	}
	l.pending = append(l.pending, o)
	if rows < len(l.shards) {
		l.pending[0].run(l.whole, 0, rows)
		l.pending = l.pending[:0]
		return
	}
	if alone {
		l.flush()
	}
}

// divides reports whether each shard reads only its own rows in an operation. This holds for every
// operation except Gather.
func (l *shards) divides(o *operation) bool {
	for i, r := range o.rows {
		if l.of(i, l.rows) != l.of(int(r), l.rows) {
			return false
		}
	}
	return true
}

func (l *shards) flush() {
	if len(l.pending) == 0 {
		return
	}
	for i := range l.shards {
		l.shards[i].reached.Store(0)
	}
	l.whole.pool.do(l, len(l.shards))
	l.pending = l.pending[:0]
}

// part executes the pending operations for the rows of shard i. Any thread may run it; it uses the
// memory of the shard, not of the thread.
func (l *shards) part(_, i int) {
	from, to := l.span(i, l.rows)
	own := &l.shards[i]
	defer own.reached.Store(math.MaxInt64) // if this shard panics, the others do not wait for it
	attentions := int64(0)
	for k := range l.pending {
		o := &l.pending[k]
		if o.readsCache {
			attentions++
			own.reached.Store(attentions)
			for before := own.after; before < i; before++ {
				l.shards[before].await(attentions)
			}
		}
		o.run(&own.backend.step, from, to)
	}
}

// await waits until the shard has stored its keys and values for the given number of attentions
// among the pending operations. The wait always ends: a shard waits only for earlier shards, the
// first shard waits for none, and a thread that is done with its shard runs the first shard that
// has not begun.
func (l *shard) await(attentions int64) {
	for spins := 0; l.reached.Load() < attentions; spins++ {
		pause()
		if spins >= callerSpins {
			runtime.Gosched()
		}
	}
}

// Checkpoint implements compute.Step. It does nothing, because batches with a Trace do not use
// shards.
func (l *shards) Checkpoint(int, string, compute.Tensor) {}

func (l *shards) Submit() error { return l.Run() }

func (l *shards) Run() error {
	l.flush()
	return nil
}
