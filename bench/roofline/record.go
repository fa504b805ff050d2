package roofline

import (
	"errors"
	"fmt"

	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/gguf"
	"github.com/ingot-run/ingot/engine/model"
	"github.com/ingot-run/ingot/metal"
)

// Step is a step of the engine: sequences with the same number of rows, after the same number of
// cached positions.
type Step struct {
	Sequences int
	Rows      int  // number of rows of each sequence: 1 while it generates
	Context   int  // number of positions before the rows
	Outputs   bool // the last row of each sequence reaches the output head
}

// all returns the number of rows of all sequences.
func (s Step) all() int { return s.Sequences * s.Rows }

// batch returns the step's batch and the number of pages that it needs. All tokens differ, so that
// rows choose different experts.
func (s Step) batch(vocab int) (b *compute.Batch, pages int) {
	each := (s.Context+s.Rows-1)/engine.DefaultPageSize + 1
	b = &compute.Batch{}
	for i := range s.Sequences {
		table := make([]int32, each)
		for p := range table {
			table[p] = int32(i*each + p)
		}
		state := compute.SeqState{From: i, Slot: i}
		if s.Rows > 1 {
			state.Prompt = s.Rows
		}
		b.Seqs = append(b.Seqs, compute.Seq{Rows: s.Rows, Pages: table, State: state})
		for r := range s.Rows {
			b.Tokens = append(b.Tokens, int32(len(b.Tokens)%vocab))
			b.Positions = append(b.Positions, int32(s.Context+r))
		}
		if s.Outputs {
			b.Outputs, b.Top = append(b.Outputs, int32(len(b.Tokens)-1)), 1
		}
	}
	return b, s.Sequences * each
}

// Record returns the dispatches of a step on Apple's GPUs. The backend records the step as usual,
// on a device that only counts dispatches.
func Record(f *gguf.File, kv gguf.Type, s Step) ([]Dispatch, error) {
	var list []Dispatch
	err := onDevice(&counter{shared: map[metal.Buffer][]byte{}}, f, kv, s, func(l *ledger, forward func() error) error {
		if err := forward(); err != nil {
			return err
		}
		list = l.step
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("count dispatches: %w", err)
	}
	return list, nil
}

// onDevice loads a model on a device, calls use, and closes the device. It passes two arguments to
// use: a ledger l, and a function forward that runs the step. Each run replaces the list of
// dispatches in the ledger.
func onDevice(dev metal.Device, f *gguf.File, kv gguf.Type, s Step, use func(l *ledger, forward func() error) error) (err error) {
	c, err := model.ReadConfig(f)
	if err != nil {
		return errors.Join(err, dev.Close())
	}
	l, err := newLedger(dev, f, c.Architecture, s)
	if err != nil {
		return errors.Join(err, dev.Close())
	}
	be, err := metal.New(l, metal.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, be.Close()) }()
	b, pages := s.batch(c.Vocab)
	l.slots = pages * engine.DefaultPageSize
	m, err := model.Load(be, f, model.Limits{
		Rows: s.all(), Outputs: max(len(b.Outputs), 1), Context: s.Context + s.Rows, Pages: pages, PageSize: engine.DefaultPageSize, KV: kv,
		States: s.Sequences,
	})
	if err != nil {
		return err
	}
	return use(l, func() error {
		l.step, l.rows = nil, s.all()
		_, err := m.Forward(b)
		return err
	})
}
