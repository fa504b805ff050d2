package console

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/queue"
	"github.com/ingot-run/ingot/serve/batch"
)

func TestProgressOfBatches(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		completed, failed, total int
		speed                    float64
		finished, percent        int
		left                     string
	}{
		{0, 0, 0, 0, 0, 0, ""},
		{3, 1, 8, 0, 4, 50, ""},
		{3, 1, 8, 2, 4, 50, "3 s left"},
		{7, 0, 8, 0.01, 7, 87, "2 min left"},
		{8, 0, 8, 2, 8, 100, ""},
	} {
		p := progress{batch.Progress{RowsPerSecond: c.speed}}
		p.Batch.RequestCounts.Completed, p.Batch.RequestCounts.Failed, p.Batch.RequestCounts.Total = c.completed, c.failed, c.total
		require.Equal(t, c.finished, p.Finished())
		require.Equal(t, c.percent, p.Percent())
		require.Equal(t, c.left, p.Left(), "%+v", c)
	}
}

func TestQueuedBatches(t *testing.T) {
	t.Parallel()
	list, err := (&Console{}).queued(t.Context())
	require.NoError(t, err)
	require.Empty(t, list)
	broken := errors.New("broken")
	c := &Console{Queued: func(context.Context) ([]queue.Status, error) {
		return []queue.Status{{Batch: "a", Done: 3, Failed: 1, Total: 8, RowsPerSecond: 2}, {Batch: "b", Total: 8}}, broken
	}}
	list, err = c.queued(t.Context())
	require.ErrorIs(t, err, broken)
	require.Len(t, list, 2)
	require.Equal(t, []any{"a", 4, "3 s left"}, []any{list[0].Batch, list[0].Finished(), list[0].Left()})
	require.Equal(t, []any{"b", 0, ""}, []any{list[1].Batch, list[1].Finished(), list[1].Left()})
}
