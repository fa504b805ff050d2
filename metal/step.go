package metal

import (
	"errors"
	"math"
	"slices"

	"github.com/ingot-run/ingot/engine/compute"
)

// step has the operations, the dispatches and the inputs of a forward pass. Submit and Run let the
// backend's recorder make the dispatches, which they pass to the device. A backend has one step.
// Begin resets it for each batch. The step reuses its memory, so it allocates nothing after its
// slices have grown.
type step struct {
	*Backend
	collector
	batch *compute.Batch
	err   error // error of an operation or a submission; Submit and Run return it

	unread error // error of reading the previous step's results

	work     []Dispatch
	bindings []Binding
	args     []byte

	ring     [maxInFlight]indices // inputs of each step that may be in flight
	turn     int                  // index in ring of the current step
	inputs   *indices             // inputs of the current step: &ring[turn]
	inFlight int                  // number of submissions that were not waited for
	tickets  [maxInFlight]Ticket  // tickets[:inFlight] are those of these submissions, the oldest first
	retired  []indices            // input buffers that were too small and that steps in flight may still use
	before   int                  // number of buffers in retired that were added before the current step

	slotMapping Binding   // [groups of layers][rows] of Slot in kernels/pages.h
	slots       []int32   // the values of slotMapping
	located     []bool    // [groups of layers] locate has set the group's slots
	groupTables [][]int32 // [groups of layers] the values of tables
	divided     []bool    // [groups of layers] divide has changed the group's page tables
	tokens      Binding   // [rows] token ids as float32, tokenStep values apart
	tokenStep   int
	tables      Binding // page tables of all groups of layers: in each group, those of all sequences, one after another
	long        bool    // the step may occupy the GPU too long for one command buffer
	splitNext   bool    // the next dispatch gets SplitBefore

	pairs                          Binding // tiles of attention for pairHeads heads per key head; they begin at row pairFrom
	pairHeads, pairFrom, pairCount int
	pairsPerTile                   int

	states stateLists
}

// longRows is the minimum number of rows of one sequence for which a step counts as long.
const longRows = 64

// maxInFlight is the maximum number of steps in flight. While the GPU runs a step, the CPU records
// the next ones.
const maxInFlight = 8

// MaxInFlight implements compute.Backend.
func (b *Backend) MaxInFlight() int { return maxInFlight }

// indices is a buffer for the integer inputs of a step: tokens, slots and page tables.
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

// grow replaces the input buffer by one for at least n integers. The old buffer is freed when the
// steps in flight have run, since their dispatches are bound to it.
func (s *step) grow(n int) error {
	if s.inputs.buffer != 0 {
		s.retired = append(s.retired, *s.inputs)
	}
	storage := Private
	if s.unified {
		storage = Shared
	}
	buffer, err := s.newBuffer(4*n, storage, "allocate the inputs of a step")
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

// upload copies the step's inputs to the device. With unified memory, the CPU has already written
// them to the shared buffer.
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
	s.batch, s.err, s.unread, s.pairHeads, s.states.made = batch, s.unread, nil, 0, false
	s.long, s.splitNext = s.rowsBefore(longRows) < len(batch.Tokens), false
	s.reset()
	if s.inFlight == maxInFlight {
		s.wait()
	}
	s.before = len(s.retired)
	s.turn = (s.turn + 1) % maxInFlight
	s.inputs = &s.ring[s.turn]
	s.inputs.used = 0
	rows := len(batch.Tokens)
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
	s.mapPages()
	return s
}

// slotInts and slotBytes are the sizes of Slot in kernels/pages.h.
const slotInts, slotBytes = 3, 12

// tableRoom is the unit, in integers, of the memory that all page tables of a step take. The inputs
// after the tables are then in the same place in most steps of a generation, although the tables
// grow. A driver can repeat such steps as one: see cuda/graph.go.
const tableRoom = 1024

// mapPages writes the page tables of all groups of layers, and the positions and page tables of all
// rows to the slot mapping.
func (s *step) mapPages() {
	rows, groups, pages := len(s.batch.Tokens), 1, 0
	if len(s.batch.Seqs) > 0 {
		groups += len(s.batch.Seqs[0].Further)
	}
	for _, seq := range s.batch.Seqs {
		for group := range groups {
			pages += len(seq.Table(group))
		}
	}
	var tables []int32
	s.tables, tables = s.take((pages + tableRoom - 1) / tableRoom * tableRoom)
	s.slotMapping, s.slots = s.take(slotInts * rows * groups)
	s.located = slices.Grow(s.located[:0], groups)[:groups]
	clear(s.located)
	s.divided = slices.Grow(s.divided[:0], groups)[:groups]
	clear(s.divided)
	s.groupTables = s.groupTables[:0]
	first := 0
	for group := range groups {
		begin := first
		slots, row := s.slots[slotInts*group*rows:], 0
		for _, seq := range s.batch.Seqs {
			for range seq.Rows {
				slots[slotInts*row], slots[slotInts*row+2] = s.batch.Positions[row], int32(first)
				row++
			}
			first += copy(tables[first:], seq.Table(group))
		}
		s.groupTables = append(s.groupTables, tables[begin:first])
	}
}

// take reserves n integers in the step's inputs. It returns their binding and their memory for the
// CPU.
func (s *step) take(n int) (Binding, []int32) {
	n = max(n, 1)
	if s.inputs.used+n > len(s.inputs.values) {
		if err := s.grow(2*len(s.inputs.values) + n); err != nil {
			s.fail(err)
			return Binding{Buffer: s.inputs.buffer}, make([]int32, n) // the step has failed and will not be submitted
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

// grid is the size of a dispatch, and whether it can run concurrently with the one before.
type grid struct {
	x, y, z    int  // threadgroups
	simdgroups int  // simdgroups per threadgroup
	shared     int  // bytes of threadgroup memory
	concurrent bool // runs concurrently with the dispatch before it
}

// record adds a dispatch to the step. Unless the grid is concurrent, the dispatch waits for all
// dispatches before it.
func record[A any](s *step, name string, p Pipeline, g grid, args *A, buffers ...Binding) {
	from, at := len(s.bindings), len(s.args)
	s.bindings = append(s.bindings, buffers...)
	s.args = append(s.args, bytesOf(args)...)
	s.work = append(s.work, Dispatch{
		Name: name, Pipeline: p,
		Buffers: s.bindings[from:len(s.bindings):len(s.bindings)], Args: s.args[at:len(s.args):len(s.args)],
		ThreadgroupMemory: (g.shared + 15) &^ 15,
		Groups:            [3]int{g.x, g.y, max(g.z, 1)}, Threads: [3]int{32 * g.simdgroups, 1, 1},
		Barrier: !g.concurrent, SplitBefore: s.splitNext,
	})
	s.splitNext = false
}

func (s *step) Submit() error {
	s.submit()
	if s.err != nil {
		s.wait()
	}
	return s.err
}

func (s *step) Run() error {
	s.submit()
	s.wait()
	return s.err
}

// submit records the collected operations and submits their dispatches. It sets s.err on failure.
func (s *step) submit() {
	s.work, s.bindings, s.args = s.work[:0], s.bindings[:0], s.args[:0]
	s.recorder.record(s.collected)
	s.reset()
	if s.err != nil || len(s.work) == 0 {
		return
	}
	if err := s.upload(); err != nil {
		s.fail(err)
		return
	}
	s.splitEarly()
	ticket, err := s.device.Submit(s.work)
	if err != nil {
		s.fail(err)
		return
	}
	s.tickets[s.inFlight] = ticket
	s.inFlight++
}

// Await implements compute.Backend.
func (b *Backend) Await(inFlight int) error {
	s := &b.step
	done := s.inFlight - inFlight
	if done <= 0 {
		return nil
	}
	_, err := s.device.Wait(s.tickets[done-1])
	copy(s.tickets[:], s.tickets[done:s.inFlight])
	s.inFlight = inFlight
	if err != nil {
		s.err = err
		s.wait()
	}
	return err
}

// earlyPart is the number of dispatches after which a step's first command buffer may end, if no
// other step is in flight: the GPU then computes them while the driver encodes the rest.
const earlyPart = 40

func (s *step) splitEarly() {
	if s.inFlight == 0 && len(s.work) >= 2*earlyPart {
		s.work[earlyPart].SplitBefore = true
	}
}

// wait waits for all submissions in flight. It sets s.err on failure.
func (s *step) wait() {
	if s.inFlight > 0 {
		if _, err := s.device.Wait(s.tickets[s.inFlight-1]); err != nil {
			s.fail(err)
		}
		s.inFlight = 0
	}
	for _, in := range s.retired[:s.before] {
		s.device.FreeBuffer(in.buffer)
	}
	s.retired = append(s.retired[:0], s.retired[s.before:]...)
	s.before = 0
}

// Checkpoint implements compute.Step. If the step is traced, it first runs the operations collected
// so far. The device may split a long step here.
func (s *step) Checkpoint(layer int, stage string, t compute.Tensor) {
	if s.batch.Trace == nil {
		s.split = s.long
		return
	}
	s.submit()
	s.wait()
	s.batch.Report(layer, stage, s.Floats(t))
}

// at returns the binding of a tensor that a dispatch reads.
func at(t compute.Tensor) Binding { return Binding{t.Buffer.(*memory).buffer, 4 * t.Offset} }

// into returns the binding of a tensor that a dispatch writes. What was made from earlier values of
// its memory, such as quantised activations, is then out of date; see memory.version.
func into(t compute.Tensor) Binding {
	t.Buffer.(*memory).version++
	return at(t)
}

// bind returns the binding of a weight. For a nil weight, it returns fallback, since the argument
// must be bound although the kernel does not read it.
func bind(w compute.Weight, fallback Binding) Binding {
	if w == nil {
		return fallback
	}
	return Binding{Buffer: weightOf(w).buffer}
}

func joinClose(err error, dev Device) error { return errors.Join(err, dev.Close()) }
