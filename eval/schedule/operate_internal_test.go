package schedule

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/queue/redistest"
)

// TestRunNow: RunNow adds a slot and wakes a scheduler. It adds none if a slot is waiting already,
// or has the same time.
func TestRunNow(t *testing.T) {
	t.Parallel()
	b := setup(t, quick)
	ctx := t.Context()
	b.begin()
	run, err := b.table.RunNow(ctx, "quick")
	require.NoError(t, err)
	require.Equal(t, "quick-20260102T120000Z-now", run)
	require.Equal(t, "1200, 1201", b.open())
	slots, err := b.table.Slots(ctx, "quick", 1)
	require.NoError(t, err)
	require.Equal(t, []Slot{{Name: "20260102T120100Z", Run: "quick-20260102T120100Z", State: Waiting}}, slots, "at most one, the newest")
	slots, err = b.table.Slots(ctx, "quick", 2)
	require.NoError(t, err)
	require.Equal(t, Slot{Name: "20260102T120000Z-now", Run: run, State: Waiting}, slots[1])
	require.Equal(t, []string{"ingot-evaluations quick: 1 retries, 1m0s"}, b.queued())
	_, err = b.table.RunNow(ctx, "quick")
	require.ErrorIs(t, err, ErrWaiting)
	require.EqualError(t, err, "run quick now: a run of this entry is already waiting")
	require.NoError(t, b.client.ZRem(ctx, key("open", "quick"), "20260102T120100Z").Err())
	_, err = b.table.RunNow(ctx, "quick")
	require.ErrorIs(t, err, ErrWaiting, "of the same second")
	b.clock.now = noon.Add(time.Second)
	b.clock.before = once("exists", func() {
		require.NoError(t, b.client.ZAdd(ctx, key("open", "quick"), redis.Z{Member: "20260102T120200Z"}).Err())
	})
	_, err = b.table.RunNow(ctx, "quick")
	require.ErrorIs(t, err, ErrWaiting, "another slot has been added meanwhile")
	require.NoError(t, b.client.Del(ctx, key("open", "quick")).Err())
	_, err = b.table.RunNow(ctx, "quick")
	require.NoError(t, err)
	require.Equal(t, "1200", b.open())
	_, err = b.table.RunNow(ctx, "other")
	require.ErrorIs(t, err, ErrNoEntry)
	require.EqualError(t, err, `entry "other": no scheduler has this entry; the known entries are: quick`)
}

// TestErrorsOfRunNow: only the tick may fail.
func TestErrorsOfRunNow(t *testing.T) {
	t.Parallel()
	b := setup(t, quick)
	b.faults.Each(t, func() func() error {
		b.begin()
		return func() error {
			run, err := b.table.RunNow(t.Context(), "quick")
			if err == nil {
				require.Equal(t, "quick-20260102T120000Z-now", run)
				require.Equal(t, "1200, 1201", b.open())
				if len(b.queued()) == 0 { // the scheduler finds the slot at its next look
					err = redistest.ErrFault
				}
			}
			return err
		}
	})
}

// TestPauses: Pause and Resume report whether they changed anything.
func TestPauses(t *testing.T) {
	t.Parallel()
	b := setup(t, quick)
	ctx := t.Context()
	_, err := b.table.Pause(ctx, "quick")
	require.EqualError(t, err, `entry "quick": no scheduler has this entry; start a scheduler with "ingot eval schedule"`)
	b.begin()
	for _, step := range []struct {
		change       func(entry string) (bool, error)
		want, paused bool
	}{
		{func(e string) (bool, error) { return b.table.Resume(ctx, e) }, false, false},
		{func(e string) (bool, error) { return b.table.Pause(ctx, e) }, true, true},
		{func(e string) (bool, error) { return b.table.Pause(ctx, e) }, false, true},
		{func(e string) (bool, error) { return b.table.Resume(ctx, e) }, true, false},
	} {
		changed, err := step.change("quick")
		require.NoError(t, err)
		require.Equal(t, step.want, changed)
		s, err := b.table.List(ctx, 0)
		require.NoError(t, err)
		require.Equal(t, step.paused, s.Entries[0].Paused)
		require.Equal(t, noon.Add(time.Minute), s.Entries[0].Next.UTC())
	}
	_, err = b.table.Pause(ctx, "other")
	require.ErrorIs(t, err, ErrNoEntry)
}

// TestValuesThatCannotBeStored: a slot that cannot be read and an entry that has no JSON are
// errors.
func TestValuesThatCannotBeStored(t *testing.T) {
	t.Parallel()
	b := setup(t, quick)
	slot := b.begin()
	require.NoError(t, b.client.HSet(t.Context(), slotKey("quick", slot), "attempt", "many").Err())
	_, err := b.table.Slots(t.Context(), "quick", 5)
	require.ErrorContains(t, err, "read slot 20260102T120100Z of quick: ")
	margin := math.NaN()
	err = b.table.beat(t.Context(), b.id, []Entry{{Name: "strange", Gate: &Gate{Margin: &margin}}})
	require.ErrorContains(t, err, "record entry strange: ")
}

// TestAges: a scheduler is alive for a minute after its heartbeat, and its entries are served for a
// minute. An entry is forgotten after 30 days.
func TestAges(t *testing.T) {
	t.Parallel()
	b := setup(t, quick)
	ctx := t.Context()
	store := func(name string, age time.Duration) {
		text, err := json.Marshal(storedEntry{Entry{Name: name, Cron: "* * * * *", TimeZone: "UTC"}, noon.Add(-age)})
		require.NoError(t, err)
		require.NoError(t, b.client.HSet(ctx, key("entries"), name, text).Err())
		require.NoError(t, b.client.ZAdd(ctx, key("schedulers"), redis.Z{Score: float64(noon.Add(-age).Unix()), Member: name}).Err())
	}
	store("new", lostAfter)
	store("lost", lostAfter+time.Second)
	store("kept", forgottenAfter-time.Second)
	store("old", forgottenAfter)
	require.NoError(t, b.client.HSet(ctx, key("entries"), "damaged", `{"seen": "`+noon.Format(time.RFC3339)+`", "limit": "many"}`).Err())
	s, err := b.table.List(ctx, 1)
	require.NoError(t, err)
	require.Equal(t, []string{"new"}, s.Schedulers)
	require.Len(t, s.Entries, 1)
	require.Equal(t, "new", s.Entries[0].Name)
	for name, want := range map[string]bool{"new": true, "lost": false, "damaged": false, "none": false} {
		served, err := b.table.served(ctx, name)
		require.NoError(t, err)
		require.Equal(t, want, served, name)
	}
	require.NoError(t, b.table.forget(ctx))
	names := func() string { return strings.Join(b.client.ZRange(ctx, key("schedulers"), 0, -1).Val(), " ") }
	entries, err := b.client.HKeys(ctx, key("entries")).Result()
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"new", "lost", "kept"}, entries, "an unreadable entry is as old as can be")
	store("late", lostAfter-time.Second)
	require.NoError(t, b.table.beat(ctx, b.id, *b.entries.Load()))
	require.Equal(t, "late "+b.id, names(), "a heartbeat removes schedulers that are lost")
	require.Equal(t, float64(noon.Unix()), b.client.ZScore(ctx, key("schedulers"), b.id).Val())
	served, err := b.table.served(ctx, "quick")
	require.NoError(t, err)
	require.True(t, served)
}
