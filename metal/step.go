package metal

import (
	"errors"
	"fmt"
	"math"

	"github.com/ingot-run/ingot/engine/compute"
)

// step is compute.Step: it records dispatches and submits them in Run. There is one a backend, begun anew for each batch;
// what it records into is kept, so that a step allocates nothing once it has grown to its size.
type step struct {
	*Backend
	batch *compute.Batch
	err   error // of an operation or a submission; told by Submit and Run

	unread error // of results that could not be read after the step before

	work     []Dispatch
	bindings []Binding
	args     []byte

	ring     [stepsAhead]indices // what the host writes for each step that may be under way
	turn     int                 // of ring, that of the present step
	inputs   *indices            // likewise
	underWay int                 // submissions that are not waited for
	last     Ticket              // the newest of them
	retired  []indices           // inputs that were too small, which steps under way may use
	before   int                 // of retired, those of the steps before the present one

	places    Binding // [rows] of place
	slots     []int32 // the values of places
	tokens    Binding // [rows], one in tokenStep values
	tokenStep int
	tables    Binding // the page tables
	long      bool    // the step may take so long that it had better be several command buffers
	apart     bool    // the next dispatch may begin one

	pairs                          Binding // tiles of attention, for pairHeads heads a key head, from row pairFrom on
	pairHeads, pairFrom, pairCount int
}

// longRows is the rows of a sequence from which on a step is long.
const longRows = 64

// stepsAhead is how many steps can be under way at once. While the GPU is at one, the host records those after it.
const stepsAhead = 8

// Ahead implements compute.Backend.
func (b *Backend) Ahead() int { return stepsAhead }

// indices is a buffer that takes a step's small integers.
type indices struct {
	buffer Buffer
	values []int32
	used   int
}

func (s *step) init(b *Backend) error {
	s.Backend = b
	for i := range s.ring {
		s.inputs = &s.ring[i]
		if err := s.grow(1 << 16); err != nil {
			return err
		}
	}
	return nil
}

// grow makes room for n integers. What dispatches are bound to stays until the steps under way have run.
func (s *step) grow(n int) error {
	if s.inputs.buffer != 0 {
		s.retired = append(s.retired, *s.inputs)
	}
	storage := Private
	if s.unified {
		storage = Shared
	}
	buffer, err := s.newBuffer(4*n, storage, "make room for a step's rows")
	if err != nil {
		return err
	}
	*s.inputs = indices{buffer: buffer}
	if s.unified {
		s.inputs.values = valuesOf[int32](s.device.Contents(buffer))
	} else {
		s.inputs.values = make([]int32, n)
	}
	return nil
}

// upload brings the step's inputs to the device, where the CPU does not write them there itself.
func (s *step) upload() error {
	if s.unified {
		return nil
	}
	for _, in := range s.retired[s.before:] {
		if err := s.device.Upload(in.buffer, 0, bytesOfInts(in.values[:in.used])); err != nil {
			return err
		}
	}
	return s.device.Upload(s.inputs.buffer, 0, bytesOfInts(s.inputs.values[:s.inputs.used]))
}

// Begin implements compute.Backend.
func (b *Backend) Begin(batch *compute.Batch) compute.Step {
	s := &b.step
	s.batch, s.err, s.unread, s.pairHeads = batch, s.unread, nil, 0
	s.long, s.apart = s.rowsBefore(longRows) < len(batch.Tokens), false
	s.clear()
	if s.underWay == stepsAhead {
		s.wait()
	}
	s.before = len(s.retired)
	s.turn = (s.turn + 1) % stepsAhead
	s.inputs = &s.ring[s.turn]
	s.inputs.used = 0
	rows, tables := len(batch.Tokens), 0
	for _, seq := range batch.Seqs {
		tables += len(seq.Pages)
	}
	var ints []int32
	if batch.From.Buffer != nil {
		s.tokens, s.tokenStep = at(batch.From), batch.From.Stride
	} else {
		s.tokens, ints = s.take(rows)
		s.tokenStep = 1
		for i, id := range batch.Tokens {
			ints[i] = int32(math.Float32bits(float32(id)))
		}
	}
	s.tables, ints = s.take(tables)
	at := 0
	starts := ints
	for _, seq := range batch.Seqs {
		at += copy(starts[at:], seq.Pages)
	}
	s.places, ints = s.take(3 * rows)
	s.slots = ints
	row, first := 0, 0
	for _, seq := range batch.Seqs {
		for range seq.Rows {
			p := batch.Positions[row]
			ints[3*row], ints[3*row+2] = p, int32(first)
			row++
		}
		first += len(seq.Pages)
	}
	return s
}

// take makes room for n integers among the step's inputs.
func (s *step) take(n int) (Binding, []int32) {
	n = max(n, 1)
	if s.inputs.used+n > len(s.inputs.values) {
		if err := s.grow(2*len(s.inputs.values) + n); err != nil {
			s.fail(err)
			return Binding{Buffer: s.inputs.buffer}, make([]int32, n) // Run will not submit
		}
	}
	in := s.inputs
	at := in.used
	in.used = (at + n + 3) &^ 3
	return Binding{in.buffer, 4 * at}, in.values[at : at+n : at+n]
}

func (s *step) fail(err error) {
	if s.err == nil {
		s.err = err
	}
}

func (s *step) clear() {
	s.work, s.bindings, s.args = s.work[:0], s.bindings[:0], s.args[:0]
}

// grid is the size of a dispatch.
type grid struct {
	x, y, z    int // threadgroups
	simdgroups int // of a threadgroup
	shared     int // bytes of threadgroup memory
	beside     bool
}

// record adds a dispatch to the step. Unless it runs beside the one before, it waits for all before it.
func record[A any](s *step, name string, p Pipeline, g grid, args *A, buffers ...Binding) {
	from, at := len(s.bindings), len(s.args)
	s.bindings = append(s.bindings, buffers...)
	s.args = append(s.args, bytesOf(args)...)
	s.work = append(s.work, Dispatch{
		Name: name, Pipeline: p,
		Buffers: s.bindings[from:len(s.bindings):len(s.bindings)], Args: s.args[at:len(s.args):len(s.args)],
		ThreadgroupMemory: (g.shared + 15) &^ 15,
		Groups:            [3]int{g.x, g.y, max(g.z, 1)}, Threads: [3]int{32 * g.simdgroups, 1, 1},
		Barrier: !g.beside, Apart: s.apart,
	})
	s.apart = false
}

// Submit implements compute.Step.
func (s *step) Submit() error {
	s.submit()
	if s.err != nil {
		s.wait()
	}
	return s.err
}

// Run implements compute.Step.
func (s *step) Run() error {
	s.submit()
	s.wait()
	return s.err
}

// submit starts what is recorded.
func (s *step) submit() {
	if s.err != nil || len(s.work) == 0 {
		return
	}
	if err := s.upload(); err != nil {
		s.fail(fmt.Errorf("upload the rows of a step: %w", err))
		s.clear()
		return
	}
	ticket, err := s.device.Submit(s.work)
	if err != nil {
		s.fail(fmt.Errorf("start %d operations on the GPU: %w", len(s.work), err))
	} else {
		s.last = ticket
		s.underWay++
	}
	s.clear()
}

// wait waits for all that is under way.
func (s *step) wait() {
	if s.underWay > 0 {
		if _, err := s.device.Wait(s.last); err != nil {
			s.fail(fmt.Errorf("run %d steps on the GPU: %w", s.underWay, err))
		}
		s.underWay = 0
	}
	for _, in := range s.retired[:s.before] {
		s.device.FreeBuffer(in.buffer)
	}
	s.retired = append(s.retired[:0], s.retired[s.before:]...)
	s.before = 0
}

// Checkpoint implements compute.Step. With a trace, what is recorded so far runs first. In a long step, it is where a command
// buffer may end.
func (s *step) Checkpoint(layer int, stage string, t compute.Tensor) {
	if s.batch.Trace == nil {
		s.apart = s.long
		return
	}
	s.submit()
	s.wait()
	for r, row := range s.Floats(t) {
		c := compute.Checkpoint{Layer: layer, Stage: stage, Row: r}
		for _, v := range row {
			c.Sum += float64(v)
			c.Norm += float64(v) * float64(v)
		}
		c.Norm = math.Sqrt(c.Norm)
		s.batch.Trace(c)
	}
}

// at binds a tensor.
func at(t compute.Tensor) Binding { return Binding{t.Buffer.(*memory).buffer, 4 * t.Offset} }

// bind binds a weight, or anything in its place where there is none.
func bind(w compute.Weight, otherwise Binding) Binding {
	if w == nil {
		return otherwise
	}
	return Binding{Buffer: w.(*weight).buffer}
}

func joinClose(err error, dev Device) error { return errors.Join(err, dev.Close()) }
