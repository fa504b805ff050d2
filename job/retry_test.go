package job_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/job"
	"github.com/ingot-run/ingot/job/redistest"
)

// A server without free memory refuses writes until it has memory again.
func TestRetryWaitsForMemory(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	require.NoError(t, r.Client.ConfigSet(t.Context(), "maxmemory", "1").Err())
	calls := 0
	require.NoError(t, job.Retry(t.Context(), time.Minute, func() error {
		calls++
		err := r.Client.Set(t.Context(), "k", "v", 0).Err()
		require.NoError(t, r.Client.ConfigSet(t.Context(), "maxmemory", "0").Err())
		return err
	}))
	require.Equal(t, 2, calls)
}

func TestRetry(t *testing.T) {
	t.Parallel()
	calls := 0
	require.NoError(t, job.Retry(t.Context(), time.Minute, func() error {
		if calls++; calls < 3 {
			return fmt.Errorf("read: %w", io.EOF)
		}
		return nil
	}))
	require.Equal(t, 3, calls)

	broken := errors.New("no")
	calls = 0
	require.ErrorIs(t, job.Retry(t.Context(), time.Minute, func() error { calls++; return broken }), broken)
	require.Equal(t, 1, calls, "another try would not help")

	calls = 0
	require.ErrorIs(t, job.Retry(t.Context(), time.Millisecond, func() error { calls++; return io.EOF }), io.EOF)
	require.Equal(t, 1, calls, "maxWait is over")

	ctx, cancel := context.WithCancel(t.Context())
	require.ErrorIs(t, job.Retry(ctx, time.Minute, func() error { cancel(); return io.EOF }), io.EOF)
}
