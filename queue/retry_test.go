package queue

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRetry(t *testing.T) {
	t.Parallel()
	calls := 0
	require.NoError(t, UntilAvailable(t.Context(), time.Minute, func() error {
		if calls++; calls < 3 {
			return fmt.Errorf("read: %w", ErrUnavailable)
		}
		return nil
	}))
	require.Equal(t, 3, calls)

	broken := errors.New("no")
	calls = 0
	require.ErrorIs(t, UntilAvailable(t.Context(), time.Minute, func() error { calls++; return broken }), broken)
	require.Equal(t, 1, calls, "another try would not help")

	calls = 0
	require.ErrorIs(t, UntilAvailable(t.Context(), time.Millisecond, func() error { calls++; return ErrUnavailable }), ErrUnavailable)
	require.Equal(t, 1, calls, "maxWait is over")

	ctx, cancel := context.WithCancel(t.Context())
	require.ErrorIs(t, UntilAvailable(ctx, time.Minute, func() error { cancel(); return ErrUnavailable }), ErrUnavailable)
}

// The pauses between tries double up to two seconds, and no try begins after the maximum time.
func TestPausesBetweenTries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		var at []int64
		require.ErrorIs(t, UntilAvailable(t.Context(), 7150*time.Millisecond, func() error {
			at = append(at, time.Since(begun).Milliseconds())
			return ErrUnavailable
		}), ErrUnavailable)
		require.Equal(t, []int64{0, 50, 150, 350, 750, 1550, 3150, 5150, 7150}, at)
		require.Equal(t, 7150*time.Millisecond, time.Since(begun))
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		require.ErrorIs(t, UntilAvailable(ctx, time.Minute, func() error { return ErrUnavailable }), ErrUnavailable)
		require.Equal(t, 7250*time.Millisecond, time.Since(begun))
	})
}
