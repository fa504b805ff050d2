package serve

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/queue"
	"github.com/ingot-run/ingot/queue/memqueue"
)

// A model without a worker stays known for an hour. Requests for it wait a few seconds for another
// worker.
func TestModelsAreForgotten(t *testing.T) {
	t.Parallel()
	q := memqueue.New()
	m := &fleetModels{queue: q, byAlias: map[string]*fleetModel{}}
	list := func() []Model {
		m.from = time.Time{} // no list is too young to be read again
		all, err := m.list(t.Context())
		require.NoError(t, err)
		return all
	}
	abandoned := func() bool {
		m.from = time.Time{}
		return m.abandoned(t.Context(), "m")
	}
	require.Empty(t, list())
	require.True(t, abandoned(), "no worker has served it")

	ctx, stop := context.WithCancel(t.Context())
	var serving sync.WaitGroup
	serving.Go(func() {
		o := queue.ServeOptions{
			Alias: "m", Concurrency: 1, Context: 7, Logger: slog.New(slog.DiscardHandler),
			Describe: func() queue.Worker { return queue.Worker{Model: "model"} },
		}
		if err := q.Serve(ctx, o, nil); err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	require.Eventually(t, func() bool { return len(list()) == 1 }, time.Minute, time.Millisecond)
	require.Equal(t, []any{"m", "model", 7, false}, []any{list()[0].Alias, list()[0].Name, list()[0].Context, list()[0].Away})
	require.False(t, abandoned())
	stop()
	serving.Wait()

	require.True(t, list()[0].Away)
	require.Equal(t, "model", list()[0].Name)
	require.WithinDuration(t, time.Now(), m.byAlias["m"].gone, time.Minute)
	for _, c := range []struct {
		ago              time.Duration
		abandoned, known bool
	}{
		{0, false, true}, {maxAbsence + time.Second, true, true},
		{modelMemory - time.Minute, true, true}, {modelMemory + time.Minute, true, false},
	} {
		m.byAlias["m"].gone = time.Now().Add(-c.ago)
		require.Equal(t, c.abandoned, abandoned(), c.ago)
		require.Equal(t, c.known, len(list()) == 1, c.ago)
	}
}

// brokenFleet is a queue whose workers cannot be listed.
type brokenFleet struct {
	queue.Queue
	calls int
}

func (b *brokenFleet) Fleet(context.Context) ([]queue.Worker, error) {
	b.calls++
	return nil, queue.ErrUnavailable
}

// While the queue cannot be used, it is not asked for every request, and no request is given up.
func TestModelsOfABrokenQueue(t *testing.T) {
	t.Parallel()
	b := &brokenFleet{}
	m := &fleetModels{queue: b, byAlias: map[string]*fleetModel{"m": {Model: Model{Alias: "m", Away: true}}}}
	for range 3 {
		_, err := m.list(t.Context())
		require.ErrorIs(t, err, queue.ErrUnavailable)
		require.False(t, m.abandoned(t.Context(), "m"))
	}
	require.Equal(t, 1, b.calls)
}

// Each time of a model includes its first instant.
func TestTimesOfModels(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // the clock stands still
		q, calls := newFaultyQueue(), 0
		var workers []queue.Worker
		q.fleet = func(context.Context) ([]queue.Worker, error) { calls++; return workers, nil }
		m := &fleetModels{queue: q, byAlias: map[string]*fleetModel{}}
		list := func(age time.Duration) int {
			m.from = time.Now().Add(-age)
			all, err := m.list(t.Context())
			require.NoError(t, err)
			return len(all)
		}
		list(modelsAge - 1)
		require.Zero(t, calls, "the list is too young to be read again")
		list(modelsAge)
		require.Equal(t, 1, calls)

		for ago, known := range map[time.Duration]int{modelMemory - 1: 1, modelMemory: 0} {
			clear(m.byAlias)
			workers = []queue.Worker{{Aliases: []string{"m"}, Lost: time.Now().Add(-ago)}}
			require.Equal(t, known, list(modelsAge), ago)
		}
		workers = nil
		for ago, known := range map[time.Duration]int{modelMemory: 1, modelMemory + 1: 0} {
			m.byAlias["m"] = &fleetModel{Model: Model{Alias: "m", Away: true}, gone: time.Now().Add(-ago)}
			require.Equal(t, known, list(modelsAge), ago)
		}
		for ago, abandoned := range map[time.Duration]bool{maxAbsence - 1: false, maxAbsence: true} {
			m.byAlias["m"] = &fleetModel{Model: Model{Alias: "m", Away: true}, gone: time.Now().Add(-ago)}
			require.Equal(t, abandoned, m.abandoned(t.Context(), "m"), ago)
		}
	})
}
