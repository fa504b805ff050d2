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
		"LOADING Redis is loading the dataset in memory", "TRYAGAIN Multiple keys request during rehashing of slot", "CLUSTERDOWN The cluster is down",
		"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.", "READONLY You can't write against a read only replica.",
		"OOM command not allowed when used memory > 'maxmemory'.", "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.",
		"ERR max number of clients reached", "NOAUTH Authentication required.", "WRONGPASS invalid username-password pair or user is disabled.",
		"NOPERM this user has no permissions to run the 'get' command", "ACL failure in script: User x has no permissions to run the 'get' command",
		"The user executing the script can't run this command or subcommand",
	} {
		require.ErrorIs(t, failure(replyError(reply), "read"), queue.ErrUnavailable, reply)
	}
	require.ErrorIs(t, failure(replyError("OOM command not allowed"), "read"), queue.ErrFull)
	require.NotErrorIs(t, failure(replyError("LOADING"), "read"), queue.ErrFull)
	for _, reply := range []string{
		"BUSYGROUP Consumer Group name already exists", "ERR unknown command 'x'", "WRONGTYPE Operation against a key holding the wrong kind of value",
		"NOSCRIPT No matching script.",
	} {
		require.NotErrorIs(t, failure(replyError(reply), "read"), queue.ErrUnavailable, reply)
	}
}
