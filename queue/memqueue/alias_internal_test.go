package memqueue

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/queue"
)

// A task that was passed on is taken for its longer context only while it waits for that: not when
// it has left the queue, runs, or waits in its batch again, where another worker could take it too.
func TestTasksThatWerePassedOn(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(a *alias, t *task)
		taken  bool
	}{
		"waits for a longer context": {func(*alias, *task) {}, true},
		"removed":                    {(*alias).remove, false},
		"replaced":                   {func(a *alias, t *task) { a.tasks[t.row()] = &task{job: t.job} }, false},
		"running":                    {func(_ *alias, t *task) { t.running = true }, false},
		"waits in its batch":         {(*alias).put, false},
	} {
		a := New().alias("m")
		passed := &task{job: &queue.Job{Batch: "b", Line: 1}, priority: queue.Bulk, context: 64}
		a.tasks[passed.row()] = passed
		a.longer = []*task{passed}
		c.change(a, passed)
		require.Nil(t, a.takeLonger(64, false), name)
		require.Nil(t, a.takeLonger(65, true), name)
		require.Equal(t, c.taken, a.takeLonger(65, false) == passed, name)
		require.Nil(t, a.takeLonger(65, false), name)
		require.Empty(t, a.longer, name)
	}
}
