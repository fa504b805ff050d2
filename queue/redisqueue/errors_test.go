package redisqueue

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/hibiken/asynq"
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
}

func TestEventsOfAWorkerAreNoFailures(t *testing.T) {
	t.Parallel()
	for _, err := range []error{queue.ErrDeliveryEnded, asynq.ErrLeaseExpired, fmt.Errorf("x: %w", queue.ErrHandedBack), context.Canceled} {
		require.False(t, isFailure(err), "%v", err)
		require.Zero(t, retryDelay(3, err))
	}
	require.True(t, isFailure(errors.New("x")))
	require.Equal(t, time.Second, retryDelay(0, errors.New("x")))
}
