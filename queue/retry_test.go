package queue

import (
	"context"
	"errors"
	"fmt"
	"testing"
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
