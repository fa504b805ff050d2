package schedule

import (
	"cmp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/cpu"
	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/engine/gguf"
	"github.com/ingot-run/ingot/engine/internal/cost"
	"github.com/ingot-run/ingot/engine/internal/draft"
	"github.com/ingot-run/ingot/engine/model"
	"github.com/ingot-run/ingot/engine/tokenizer"
)

// Two models with random weights; see models/README.md.
const (
	microGLM   = "../../model/testdata/micro-glm.gguf"
	microLlama = "../../model/testdata/micro-llama.gguf"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// setup describes a scheduler. The zero value of a field means the default of an engine, with pages
// for all sequences.
type setup struct {
	path      string
	backend   compute.Backend // nil for the CPU with one thread
	limits    model.Limits
	options   Options
	speculate func(be compute.Backend, o *draft.Options) // nil to draft nothing
}

// manual is a scheduler whose loop a test runs, one step after another.
type manual struct {
	t testing.TB
	*Scheduler
}

func newManual(t testing.TB, s setup) manual {
	t.Helper()
	if s.backend == nil {
		be, err := cpu.New(1)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, be.Close()) })
		s.backend = be
	}
	f, err := gguf.Open(s.path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	config, err := model.ReadConfig(f)
	require.NoError(t, err)

	o, l := &s.options, &s.limits
	o.MaxSequences = cmp.Or(o.MaxSequences, 32)
	l.Rows, l.Outputs = cmp.Or(l.Rows, 512), Outputs(o.MaxSequences)
	l.Context, l.PageSize = cmp.Or(l.Context, config.Context), cmp.Or(l.PageSize, 16)
	l.Pages = cmp.Or(l.Pages, o.MaxSequences*((l.Context+l.PageSize-1)/l.PageSize))
	o.PrefillChunk = cmp.Or(o.PrefillChunk, l.Rows)
	o.Limits, o.MaxInFlight = *l, s.backend.MaxInFlight()
	o.Tokenizer, err = tokenizer.New(f.Meta())
	require.NoError(t, err)
	o.Model, err = model.Load(s.backend, f, *l)
	require.NoError(t, err)
	if s.speculate != nil {
		steps, err := cost.Measure(o.Model, *l)
		require.NoError(t, err)
		d := draft.Options{Model: o.Model, Limits: *l, Sequences: o.MaxSequences, Steps: steps}
		s.speculate(s.backend, &d)
		o.Speculator, err = draft.New(d)
		require.NoError(t, err)
	}
	return manual{t, New(*o)}
}

// begin adds a request's sequences to the waiting ones.
func (m manual) begin(req generation.Request) *request {
	m.t.Helper()
	r, err := newRequest(m.t.Context(), m.tokenizer, m.context, time.Now(), req.Tokens, &req, nil)
	require.NoError(m.t, err)
	m.loop.planner.enqueue(r.seqs)
	return r
}

// step runs one turn of the loop. Without running sequences, it only notifies the callers of
// requests that have ended.
func (m manual) step() {
	l := m.loop
	l.planner.sweep()
	l.planner.admit()
	l.publish()
	if len(l.planner.running) > 0 {
		l.step()
	}
}

// finish runs the loop until a request has ended.
func (m manual) finish(r *request) {
	m.t.Helper()
	for i := 0; r.open > 0; i++ {
		require.Less(m.t, i, 100, "the request must end")
		m.step()
	}
	require.NoError(m.t, r.err)
}
