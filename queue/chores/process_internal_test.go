package chores

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/require"
)

// A task that is given back waits as long as it says, and after a lost lease it does not wait.
// After other errors the wait is that of its handler, by the number of counted attempts.
func TestWaits(t *testing.T) {
	t.Parallel()
	c := &Chores{Options: Options{Handlers: map[string]Handler{
		"slow": {Wait: func(attempt int) time.Duration { return time.Duration(attempt) * time.Minute }}, "fast": {},
	}}}
	broken := errors.New("broken")
	for _, w := range []struct {
		kind string
		err  error
		want time.Duration
	}{
		{"slow", broken, 3 * time.Minute},
		{"slow", fmt.Errorf("stopped: %w", Later(time.Second)), time.Second},
		{"slow", Later(0), 0},
		{"slow", fmt.Errorf("recover: %w", asynq.ErrLeaseExpired), 0},
		{"fast", broken, 0},
		{"unknown", broken, 0},
		{"unknown", Later(time.Second), time.Second},
	} {
		require.Equal(t, w.want, c.wait(2, w.err, asynq.NewTask(w.kind, nil)), "%s: %v", w.kind, w.err)
	}
}

// A member that stops gives its tasks back without running them, and one that does not know the
// kind waits for another member.
func TestTasksThatAreGivenBack(t *testing.T) {
	t.Parallel()
	calls := 0
	c := &Chores{Options: Options{Interval: time.Second, Handlers: map[string]Handler{
		"known": {Do: func(context.Context, string, int) error { calls++; return nil }},
	}}}
	running, stop := context.WithCancel(t.Context())
	require.Equal(t, Later(time.Second), c.process(t.Context(), running, asynq.NewTask("unknown", nil)))
	require.NoError(t, c.process(t.Context(), running, asynq.NewTask("known", nil)))
	stop()
	require.Equal(t, Later(0), c.process(t.Context(), running, asynq.NewTask("known", nil)))
	require.Equal(t, Later(0), c.process(t.Context(), running, asynq.NewTask("unknown", nil)))
	require.Equal(t, 1, calls)
}
