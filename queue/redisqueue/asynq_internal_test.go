package redisqueue

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ingot-run/ingot/queue"
)

func TestTaskIDs(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want, line := rapid.StringMatching(`[a-z0-9][a-z0-9._-]{0,9}`).Draw(t, "batch"), rapid.IntRange(1, 1<<40).Draw(t, "line")
		id := queue.TaskID(want, line)
		require.Equal(t, id, rowID(id))
		require.Equal(t, id, rowID(id+":7"), "earlier versions appended the number of the delivery")
	})
	for _, id := range []string{"", "b", "b:", "b:0", "b:-1", "b:x", "b:1:", "b:1:0", "b:1:-1", "b:01", "b:1:2:3", ":1", "a b:1", "6f2b1e1e-2c54-4b8e-9d76-0242ac120002"} {
		require.NotEqual(t, queue.TaskID("b", 1), rowID(id))
	}
}
