package redisqueue

import (
	"fmt"
	"io"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/queue"
)

func TestWhichErrorsMayGoAway(t *testing.T) {
	t.Parallel()
	require.NoError(t, failure(nil, "read"))
	err := failure(fmt.Errorf("x: %w", io.EOF), "read batch %s", "b")
	require.ErrorIs(t, err, queue.ErrUnavailable)
	require.ErrorIs(t, err, io.EOF)
	require.EqualError(t, err, "read batch b: x: EOF")
	require.NotErrorIs(t, failure(queue.ErrNoBatch, "read"), queue.ErrUnavailable)
	require.ErrorIs(t, failure(redis.ErrPoolTimeout, "read"), queue.ErrUnavailable, "a full connection pool is transient")
	for _, reply := range []string{
		"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.", "NOREPLICAS Not enough good replicas to write.",
		"UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)",
	} {
		require.ErrorIs(t, failure(replyError(reply), "read"), queue.ErrUnavailable, reply)
	}
	require.NotErrorIs(t, failure(replyError("BUSYGROUP Consumer Group name already exists"), "read"), queue.ErrUnavailable)
}
