package redisqueue

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/job"
)

func TestServerChecks(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		info     string
		warnings int
		err      string
	}{
		{"redis_version:7.0.15\r\nmaxmemory:0\r\nmaxmemory_policy:noeviction\r\naof_enabled:1\r\n", 0, ""},
		{"redis_version:6.2.0\r\nmaxmemory:100\r\nmaxmemory_policy:volatile-lru\r\naof_enabled:0\r\n", 2, ""},
		{"redis_version:7.0.15\r\nmaxmemory:0\r\nmaxmemory_policy:allkeys-lru\r\naof_enabled:1\r\n", 0, ""},
		{"redis_version:6.0.16\r\n", 0, "6.2 or later"},
		{"redis_version:5.9.0\r\n", 0, "6.2 or later"},
		{"redis_version:10.0.0\r\n", 0, ""},
		{"# Clients\r\nconnected_clients:1\r\n", 0, ""},
	} {
		warnings, err := checkServer(c.info)
		require.Len(t, warnings, c.warnings, c.info)
		if c.err == "" {
			require.NoError(t, err, c.info)
		} else {
			require.ErrorContains(t, err, c.err)
		}
	}
}

func TestWhichErrorsMayGoAway(t *testing.T) {
	t.Parallel()
	require.NoError(t, failure(nil, "read"))
	err := failure(fmt.Errorf("x: %w", io.EOF), "read batch %s", "b")
	require.ErrorIs(t, err, job.ErrUnavailable)
	require.ErrorIs(t, err, io.EOF)
	require.EqualError(t, err, "read batch b: x: EOF")
	require.NotErrorIs(t, failure(job.ErrNoBatch, "read"), job.ErrUnavailable)
}

func TestEventsOfAWorkerAreNoFailures(t *testing.T) {
	t.Parallel()
	for _, err := range []error{job.ErrDeliveryEnded, asynq.ErrLeaseExpired, fmt.Errorf("x: %w", job.ErrHandedBack), context.Canceled} {
		require.False(t, isFailure(err), "%v", err)
		require.Zero(t, retryDelay(3, err, nil))
	}
	require.True(t, isFailure(errors.New("x")))
	require.Equal(t, time.Second, retryDelay(0, errors.New("x"), nil))
}
