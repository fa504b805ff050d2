package schedule

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/model"
)

// countedModel counts the reads of the highest logits. Its only step has two outputs.
type countedModel struct {
	model.Model
	reads int
}

func (m *countedModel) Best(int) [][]float32 {
	m.reads++
	return [][]float32{{7, 1, 2}, {8, 3, 4}}
}

// A GPU takes long for each read, so the highest logits of all outputs of a step are read at once.
func TestHighestLogitsAreReadOncePerStep(t *testing.T) {
	t.Parallel()
	var m countedModel
	var b batch
	b.Top = 1
	for step := range 3 {
		b.advance()
		for row, id := range []int32{7, 8} {
			r := b.result(&m, output{row: row, top: 1}, step)
			require.Equal(t, id, r.best.ID(0))
		}
		require.Equal(t, step+1, m.reads)
	}
}
