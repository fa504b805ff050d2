package schedule

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/cpu"
	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/engine/model"
)

// reportingModel reports the start of each step but the first.
type reportingModel struct {
	model.Model
	steps   int
	started chan struct{}
}

func (m *reportingModel) Decode(b *compute.Batch, n int) error {
	if m.steps++; m.steps > 1 {
		m.started <- struct{}{}
	}
	return m.Model.Decode(b, n)
}

// On a backend with steps in flight, a step starts although the text of the last one is not written
// yet. The texts are the same as on a backend that writes them first.
func TestTextIsWrittenDuringTheNextStep(t *testing.T) {
	t.Parallel()
	for _, stop := range [][]string{nil, {"never generated"}} {
		req := generation.Request{Tokens: []int32{1, 2, 3}, N: 3, MaxTokens: 90, IgnoreEOS: true, Stop: stop, Sampling: generation.Sampling{Temperature: 1, Seed: 3}}
		first := newManual(t, setup{path: microLlama})
		want := first.begin(req)
		first.finish(want)

		be, err := cpu.New(1)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, be.Close()) })
		m := newManual(t, setup{path: microLlama, backend: several{be}, options: Options{Steps: constant(1)}}) // runs of 8 steps
		started := make(chan struct{}, 64)
		m.loop.model = &reportingModel{Model: m.loop.model, started: started}
		w, during := m.loop.writer, 0
		w.write = func() {
			select {
			case <-started:
				during++
			case <-time.After(time.Minute):
			}
			w.writeAll()
		}
		got := m.begin(req)
		for range 10 {
			m.step()
		}
		require.Equal(t, 9, during)
		started <- struct{}{} // for the text of the tenth step
		w.wait()
		w.write = w.writeAll
		m.finish(got)
		for i, s := range got.seqs {
			require.Equal(t, string(want.seqs[i].text.text), string(s.text.text))
			require.NotEmpty(t, s.text.text)
		}
	}
}
