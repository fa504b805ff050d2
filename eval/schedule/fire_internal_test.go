package schedule

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// TestStatesOfDueSlots: a slot waits, unless its entry is paused, or one slot waits already while
// another is running, or it was missed.
func TestStatesOfDueSlots(t *testing.T) {
	t.Parallel()
	b := setup(t, quick)
	ctx := t.Context()
	minute := func(m int) time.Time { return noon.Add(time.Duration(m) * time.Minute) }
	mark := func() string { return b.client.HGet(ctx, key("marks", "quick"), "CRON_TZ=UTC * * * * *").Val() }
	unix := func(m int) string { return strconv.FormatInt(minute(m).Unix(), 10) }
	require.Empty(t, b.fire(noon.Add(time.Second)), "the slots of a new entry begin now")
	require.Equal(t, strconv.FormatInt(noon.Unix()+1, 10), mark())
	require.Equal(t, "1201 waiting", b.fire(minute(1)))
	require.Empty(t, b.fire(minute(2).Add(-time.Second)))
	require.Equal(t, unix(1), mark(), "the mark is the time of the last slot")
	require.NoError(t, b.client.SAdd(ctx, key("paused"), "quick").Err())
	require.Equal(t, "1202 paused", b.fire(minute(2)))
	require.Equal(t, "1201", b.open())
	require.NoError(t, b.client.SRem(ctx, key("paused"), "quick").Err())
	require.NoError(t, b.client.SAdd(ctx, key("paused"), "other").Err())
	require.Equal(t, "1203 waiting", b.fire(minute(3)))
	require.Equal(t, "1204 overlapped, 1205 overlapped", b.fire(minute(5)))
	b.entry("quick").Missed = RunLatest
	require.Equal(t, "1206 missed, 1207 overlapped", b.fire(minute(7)), "a missed slot stays missed")
	require.NoError(t, b.client.ZRem(ctx, key("open", "quick"), "20260102T120100Z", "20260102T120300Z").Err())
	require.NoError(t, b.client.SAdd(ctx, key("paused"), "quick").Err())
	require.Equal(t, "1208 missed, 1209 paused", b.fire(minute(9)))
	require.NoError(t, b.client.SRem(ctx, key("paused"), "quick").Err())
	require.Equal(t, "1210 waiting", b.fire(minute(10)))
	require.Equal(t, "1210", b.open())
	slots, err := b.table.Slots(ctx, "quick", 100)
	require.NoError(t, err)
	require.Len(t, slots, 10)

	// A slot that is in the table already stays as it is: the clock was set back.
	require.NoError(t, b.client.HSet(ctx, key("marks", "quick"), "CRON_TZ=UTC * * * * *", unix(8)).Err())
	require.Equal(t, "1209 paused, 1210 waiting, 1211 waiting", b.fire(minute(11)))
	require.NoError(t, b.client.ZRem(ctx, key("open", "quick"), "20260102T121000Z").Err())
	require.NoError(t, b.client.HSet(ctx, slotKey("quick", "20260102T121000Z"), "state", string(Done)).Err())
	require.NoError(t, b.client.HSet(ctx, key("marks", "quick"), "CRON_TZ=UTC * * * * *", unix(9)).Err())
	b.entry("quick").Missed = RunAll
	require.Equal(t, "1210 done, 1211 waiting", b.fire(minute(11)))
	require.Equal(t, "1211", b.open())
}

// TestMarksInTheFuture: a clock that was set back by up to an hour adds no slot until it has caught
// up. If it was set back further, the slots begin now.
func TestMarksInTheFuture(t *testing.T) {
	t.Parallel()
	b := setup(t, quick)
	for ahead, kept := range map[time.Duration]bool{0: true, maxAhead - time.Second: true, maxAhead: true, maxAhead + time.Second: false} {
		mark := noon.Add(ahead).Unix()
		require.NoError(t, b.client.HSet(t.Context(), key("marks", "quick"), b.entry("quick").spec(), mark).Err())
		require.Empty(t, b.fire(noon))
		now, err := b.client.HGet(t.Context(), key("marks", "quick"), b.entry("quick").spec()).Int64()
		require.NoError(t, err)
		require.Equal(t, kept, now == mark, ahead)
		require.Equal(t, ahead == 0 || !kept, now == noon.Unix(), ahead)
	}
}

// TestSlotsThatAnotherSchedulerAdds: of two schedulers that read the same mark, one adds the slots.
func TestSlotsThatAnotherSchedulerAdds(t *testing.T) {
	t.Parallel()
	b := setup(t, quick)
	b.begin()
	b.clock.before = once("evalsha", func() {
		due, err := NewTable(b.client).fire(t.Context(), b.entry("quick"), noon.Add(2*time.Minute))
		require.NoError(t, err)
		require.Len(t, due, 1)
		require.NoError(t, b.client.HSet(t.Context(), slotKey("quick", "20260102T120200Z"), "state", string(Running)).Err())
	})
	require.Empty(t, b.fire(noon.Add(3*time.Minute)))
	require.Equal(t, "1201, 1202", b.open())
	require.Equal(t, "1203 overlapped", b.fire(noon.Add(3*time.Minute)))
}

// TestMarksOfEarlierTimes: the mark of a cron expression that the entry no longer has is deleted
// ten minutes after its last use.
func TestMarksOfEarlierTimes(t *testing.T) {
	t.Parallel()
	b := setup(t, quick)
	ctx := t.Context()
	require.Empty(t, b.fire(noon))
	later := Entry{Name: "quick", Cron: "0 0 1 1 *", TimeZone: "UTC", Missed: RunAll}
	var err error
	later.times, err = parse(later.Cron, later.TimeZone)
	require.NoError(t, err)
	for _, after := range []time.Duration{0, 10 * time.Minute} {
		_, err = b.table.fire(ctx, &later, noon.Add(after))
		require.NoError(t, err)
		require.EqualValues(t, 4, b.client.HLen(ctx, key("marks", "quick")).Val(), after)
	}
	_, err = b.table.fire(ctx, &later, noon.Add(10*time.Minute+time.Millisecond))
	require.NoError(t, err)
	fields, err := b.client.HGetAll(ctx, key("marks", "quick")).Result()
	require.NoError(t, err)
	require.Equal(t, map[string]string{
		later.spec(): strconv.FormatInt(noon.Unix(), 10), "seen:" + later.spec(): strconv.FormatInt(noon.Add(10*time.Minute).UnixMilli()+1, 10),
	}, fields)
}

// TestOldSlots: the newest 1,000 slots are kept, and older ones that are not finished.
func TestOldSlots(t *testing.T) {
	t.Parallel()
	b := setup(t, quick)
	ctx := t.Context()
	require.Empty(t, b.fire(noon))
	pipe := b.client.Pipeline()
	old := func(i int) string { return fmt.Sprintf("2025%04dT000000Z", i) }
	for i := range 999 {
		pipe.HSet(ctx, slotKey("quick", old(i)), "state", string(Done))
		pipe.ZAdd(ctx, key("order", "quick"), redis.Z{Member: old(i)})
	}
	pipe.ZAdd(ctx, key("open", "quick"), redis.Z{Member: old(0)})
	_, err := pipe.Exec(ctx)
	require.NoError(t, err)
	kept := func(list ...string) {
		t.Helper()
		order, err := b.client.ZRange(ctx, key("order", "quick"), 0, -1).Result()
		require.NoError(t, err)
		hashes, err := b.client.Keys(ctx, slotKey("quick", "*")).Result()
		require.NoError(t, err)
		require.ElementsMatch(t, hashes, func() (all []string) {
			for _, name := range order {
				all = append(all, slotKey("quick", name))
			}
			return all
		}())
		require.Equal(t, list, order[:len(list)])
	}
	require.Equal(t, "1201 waiting", b.fire(noon.Add(time.Minute)))
	kept(old(0), old(1))
	b.entry("quick").Missed = Skip
	_, err = b.table.fire(ctx, b.entry("quick"), noon.Add(4*time.Minute))
	require.NoError(t, err)
	kept(old(0), old(3))
	require.EqualValues(t, 1001, b.client.ZCard(ctx, key("order", "quick")).Val())
}

// TestUpdatesAtTheSameTime: a change of a slot is made again if another client changes the slot
// meanwhile.
func TestUpdatesAtTheSameTime(t *testing.T) {
	t.Parallel()
	b := setup(t, quick)
	slot := b.begin()
	var read []string
	require.NoError(t, b.table.update(t.Context(), "quick", slot, func(s *Slot) error {
		read = append(read, s.Owner)
		if len(read) == 1 {
			require.NoError(t, b.client.HSet(t.Context(), slotKey("quick", slot), "owner", "other").Err())
		}
		s.State, s.Message = Running, "begun"
		return nil
	}))
	require.Equal(t, []string{"", "other"}, read)
	s, err := b.table.slot(t.Context(), "quick", slot)
	require.NoError(t, err)
	require.Equal(t, Slot{Name: slot, Run: "quick-" + slot, State: Running, Owner: "other", Message: "begun"}, s)
	require.Equal(t, "1201", b.open())
	err = b.table.update(t.Context(), "quick", slot, func(*Slot) error { return errLost })
	require.ErrorIs(t, err, errLost)
	require.ErrorContains(t, err, "update slot 20260102T120100Z of quick: ")
	ended := Slot{State: Done, Owner: "o", Attempt: 3, Started: "s", Ended: "e", Verdict: Fail, Message: "m"}
	require.NoError(t, b.table.update(t.Context(), "quick", slot, func(s *Slot) error { *s = ended; return nil }))
	ended.Name, ended.Run = slot, "quick-"+slot
	s, err = b.table.slot(t.Context(), "quick", slot)
	require.NoError(t, err)
	require.Equal(t, ended, s)
	require.Empty(t, b.open())
}
