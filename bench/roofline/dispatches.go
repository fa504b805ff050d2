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

// Dispatches returns the number of dispatches of a decoding step. Each stream is greedy and has one row after context positions in a cache
// of type kv. The GPU backend records the step as usual, on a device that only counts dispatches.
func Dispatches(f *gguf.File, kv gguf.Type, streams, context int) (n int, err error) {
	be, err := metal.New(&counter{shared: map[metal.Buffer][]byte{}}, metal.Options{})
	if err != nil {
		return 0, fmt.Errorf("count dispatches: %w", err)
	}
	defer func() { err = errors.Join(err, be.Close()) }()
	pages := context/engine.DefaultPageSize + 1 // number of pages of a stream
	m, err := model.Load(be, f, model.Limits{
		Rows: streams, Outputs: streams, Context: context + 1, Pages: streams * pages, PageSize: engine.DefaultPageSize, KV: kv,
	})
	if err != nil {
		return 0, fmt.Errorf("count dispatches: %w", err)
	}
	b := &compute.Batch{Top: 1}
	for i := range streams {
		table := make([]int32, pages)
		for p := range table {
			table[p] = int32(i*pages + p)
		}
		b.Seqs = append(b.Seqs, compute.Seq{Rows: 1, Pages: table})
		b.Tokens, b.Positions, b.Outputs = append(b.Tokens, 0), append(b.Positions, int32(context)), append(b.Outputs, int32(i))
	}
	before := be.Counters().Dispatches
	if _, err := m.Forward(b); err != nil {
		return 0, fmt.Errorf("count dispatches: %w", err)
	}
	return be.Counters().Dispatches - before, nil
}
