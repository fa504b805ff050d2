package engine

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/cpu"
	"github.com/ingot-run/ingot/engine/sample"
)

// A step that only decodes allocates nothing around the model's forward pass.
func TestASteadyStepAllocatesNothing(t *testing.T) {
	for name, params := range map[string]sample.Params{
		"greedy":  {},
		"sampled": {Temperature: 1, TopP: 0.9, TopK: 50, FrequencyPenalty: 0.1},
	} {
		t.Run(name, func(t *testing.T) {
			be, err := cpu.New(1)
			require.NoError(t, err)
			e, err := open("model/testdata/micro-glm.gguf", be, Options{Draft: DraftOff})
			require.NoError(t, err)
			defer func() { require.NoError(t, be.Close()) }()
			c, err := e.newCall(t.Context(), &Request{Tokens: []int32{1, 2, 3}, N: 4, IgnoreEOS: true, Sampling: params})
			require.NoError(t, err)
			require.NoError(t, e.inbox.put(c))
			l := e.loop
			l.waiting, _ = l.inbox.takeTo(l.waiting)
			l.sweep()
			l.admit()
			l.step() // the prompts; its logits serve as those of every step from here on
			logits, err := l.model.Forward(&l.batch.Batch)
			require.NoError(t, err)
			step := func() {
				l.sweep()
				l.admit()
				l.publish()
				l.plan()
				l.batch.fill(l.running)
				l.handOut(logits)
			}
			for range 100 {
				step()
			}
			require.Zero(t, testing.AllocsPerRun(300, step))
			require.Len(t, c.seqs[3].answer(), 1+100+301)
		})
	}
}
