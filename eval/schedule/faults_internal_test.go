package schedule

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/queue/redistest"
)

// TestErrorsOfRedisAreReturned lets each command of each operation on the table fail. No operation
// may report success after a command that it needs has failed.
func TestErrorsOfRedisAreReturned(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	server := redistest.Start(t)
	faults := new(redistest.Faults)
	server.Client.AddHook(faults)
	table := NewTable(server.Client)
	entry := Entry{Name: "quick", Cron: "* * * * *", Tasks: []string{"a"}}
	var err error
	entry.times, err = parse(entry.Cron, "")
	require.NoError(t, err)
	const slot = "20260102T030100Z"
	fresh := func() {
		require.NoError(t, server.Client.FlushAll(ctx).Err())
		require.NoError(t, table.beat(ctx, "one", []Entry{entry}))
		_, err := table.fire(ctx, &entry, time.Now().Add(-3*time.Minute))
		require.NoError(t, err)
		due, err := table.fire(ctx, &entry, time.Now())
		require.NoError(t, err)
		require.NotEmpty(t, due)
	}
	for name, operation := range map[string]func() error{
		"list":   func() error { _, err := table.List(ctx, 5); return err },
		"slots":  func() error { _, err := table.Slots(ctx, "quick", 5); return err },
		"pause":  func() error { _, err := table.Pause(ctx, "quick"); return err },
		"resume": func() error { _, err := table.Resume(ctx, "quick"); return err },
		"fire":   func() error { _, err := table.fire(ctx, &entry, time.Now().Add(5*time.Minute)); return err },
		"next":   func() error { _, err := table.next(ctx, "quick"); return err },
		"now":    func() error { _, err := table.Now(ctx); return err },
		"slot":   func() error { _, err := table.slot(ctx, "quick", slot); return err },
		"update": func() error {
			return table.update(ctx, "quick", slot, func(s *Slot) error { s.State = Running; return nil })
		},
		"beat":   func() error { return table.beat(ctx, "two", []Entry{entry}) },
		"served": func() error { _, err := table.served(ctx, "quick"); return err },
		"forget": func() error { return table.forget(ctx) },
	} {
		t.Log(name)
		faults.Each(t, func() func() error {
			fresh()
			if name == "forget" {
				text, err := json.Marshal(storedEntry{entry, time.Now().Add(-forgottenAfter - time.Minute)})
				require.NoError(t, err)
				require.NoError(t, server.Client.HSet(ctx, key("entries"), "quick", text).Err())
			}
			return operation
		})
	}
}

// TestListedSchedulers: a scheduler is listed for a minute after its last heartbeat, and so are its
// entries.
func TestListedSchedulers(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	server := redistest.Start(t)
	table := NewTable(server.Client)
	entry := Entry{Name: "quick", Cron: "* * * * *", Tasks: []string{"a"}}
	require.NoError(t, table.beat(ctx, "two", []Entry{entry}))
	require.NoError(t, table.beat(ctx, "one", nil))
	now, err := table.Now(ctx)
	require.NoError(t, err)
	for owner, age := range map[string]time.Duration{"late": lostAfter - 20*time.Second, "lost": lostAfter + 20*time.Second, "ahead": -lostAfter} {
		require.NoError(t, server.Client.ZAdd(ctx, key("schedulers"), redis.Z{Score: float64(now.Add(-age).Unix()), Member: owner}).Err())
	}
	for name, age := range map[string]time.Duration{"late": lostAfter - 20*time.Second, "lost": lostAfter + 20*time.Second} {
		text, err := json.Marshal(storedEntry{Entry{Name: name, Cron: "* * * * *"}, now.Add(-age)})
		require.NoError(t, err)
		require.NoError(t, server.Client.HSet(ctx, key("entries"), name, text).Err())
	}
	require.NoError(t, server.Client.HSet(ctx, key("entries"), "damaged", "{").Err())
	text, err := json.Marshal(storedEntry{Entry{Name: "strange", Cron: "no times"}, now})
	require.NoError(t, err)
	require.NoError(t, server.Client.HSet(ctx, key("entries"), "strange", text).Err())
	require.NoError(t, server.Client.SAdd(ctx, key("paused"), "late").Err())
	s, err := table.List(ctx, 5)
	require.NoError(t, err)
	require.Equal(t, []string{"ahead", "late", "one", "two"}, s.Schedulers)
	require.Len(t, s.Entries, 2)
	require.Equal(t, []string{"late", "quick"}, []string{s.Entries[0].Name, s.Entries[1].Name})
	require.Equal(t, []bool{true, false}, []bool{s.Entries[0].Paused, s.Entries[1].Paused})
	for name, want := range map[string]bool{"quick": true, "late": true, "lost": false, "damaged": false, "none": false} {
		served, err := table.served(ctx, name)
		require.NoError(t, err)
		require.Equal(t, want, served, name)
	}
	require.NoError(t, table.beat(ctx, "one", nil))
	names, err := server.Client.ZRange(ctx, key("schedulers"), 0, -1).Result()
	require.NoError(t, err)
	require.NotContains(t, names, "lost", "a heartbeat forgets lost schedulers")
	_, err = table.Slots(ctx, "none", 5)
	require.ErrorIs(t, err, ErrNoEntry)
	slots, err := table.Slots(ctx, "quick", 5)
	require.NoError(t, err)
	require.NotNil(t, slots)
	require.Empty(t, slots)
}

// TestForgottenEntries: an entry that no scheduler has had for a month is deleted with its slots.
func TestForgottenEntries(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	server := redistest.Start(t)
	table := NewTable(server.Client)
	now, err := table.Now(ctx)
	require.NoError(t, err)
	for name, age := range map[string]time.Duration{"old": forgottenAfter + time.Minute, "kept": forgottenAfter - time.Minute} {
		entry := Entry{Name: name, Cron: "* * * * *"}
		entry.times, err = parse(entry.Cron, "")
		require.NoError(t, err)
		_, err = table.fire(ctx, &entry, now.Add(-3*time.Minute))
		require.NoError(t, err)
		due, err := table.fire(ctx, &entry, now)
		require.NoError(t, err)
		require.NotEmpty(t, due)
		require.NoError(t, server.Client.SAdd(ctx, key("paused"), name).Err())
		text, err := json.Marshal(storedEntry{entry, now.Add(-age)})
		require.NoError(t, err)
		require.NoError(t, server.Client.HSet(ctx, key("entries"), name, text).Err())
	}
	require.NoError(t, table.forget(ctx))
	keys, err := server.Client.Keys(ctx, "*old*").Result()
	require.NoError(t, err)
	require.Empty(t, keys)
	keys, err = server.Client.Keys(ctx, "*kept*").Result()
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(keys), 4)
	paused, err := server.Client.SMembers(ctx, key("paused")).Result()
	require.NoError(t, err)
	require.Equal(t, []string{"kept"}, paused)
	entries, err := server.Client.HKeys(ctx, key("entries")).Result()
	require.NoError(t, err)
	require.Equal(t, []string{"kept"}, entries)
}
