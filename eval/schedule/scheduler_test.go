package schedule_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/eval/schedule"
	"github.com/ingot-run/ingot/queue/redistest"
)

// states returns the time and state of the entry's newest slots, the newest first.
func (f *fleet) states() string {
	list, err := f.table.Slots(f.t.Context(), "quick", 1000)
	if err != nil {
		return err.Error()
	}
	var parts []string
	for _, s := range list {
		parts = append(parts, s.Name[9:13]+" "+string(s.State))
	}
	return strings.Join(parts, ", ")
}

func (f *fleet) untilStates(want string) {
	f.t.Helper()
	f.until(func() bool { return f.states() == want }, "slots: %s", want)
	require.Equal(f.t, want, f.states())
}

func (f *fleet) set(key string) {
	f.t.Helper()
	require.NoError(f.t, f.redis.Client.Set(f.t.Context(), key, 1, 0).Err())
}

func (f *fleet) unset(key string) {
	f.t.Helper()
	require.NoError(f.t, f.redis.Client.Del(f.t.Context(), key).Err())
}

// minute sets the clock to m minutes after the start, plus the duration later.
func (f *fleet) minute(m int, later time.Duration) {
	f.t.Helper()
	f.setClock(start.Add(time.Duration(m)*time.Minute + later))
}

// TestNothingPilesUp checks a run that takes longer than the time between slots. One slot waits for
// the end of the run, and later slots are not run.
func TestNothingPilesUp(t *testing.T) {
	t.Parallel()
	f := newFleet(t, everyMinute, 2, often)
	f.begun()
	f.set(holdKey)
	f.minute(1, 0)
	f.untilStates("0301 running")
	f.minute(2, 0)
	f.untilStates("0302 waiting, 0301 running")
	f.minute(3, 0)
	f.untilStates("0303 overlapped, 0302 waiting, 0301 running")
	f.minute(5, 0)
	f.untilStates("0305 overlapped, 0304 overlapped, 0303 overlapped, 0302 waiting, 0301 running")
	_, err := f.table.RunNow(t.Context(), "quick")
	require.ErrorIs(t, err, schedule.ErrWaiting)
	f.unset(holdKey)
	f.untilStates("0305 overlapped, 0304 overlapped, 0303 overlapped, 0302 done, 0301 done")
	f.minute(6, 0)
	f.until(func() bool { return strings.HasPrefix(f.states(), "0306 done") }, "the next slot runs")
}

// TestMissedSlots kills the scheduler during four slots and checks which of them each policy runs
// later. With skip, a slot still runs within five minutes after its time.
func TestMissedSlots(t *testing.T) {
	t.Parallel()
	for policy, want := range map[string]string{
		"all":    "0340 done, 0330 done, 0320 done, 0310 done",
		"latest": "0340 done, 0330 missed, 0320 missed, 0310 missed",
		"skip":   "0340 missed, 0330 missed, 0320 missed, 0310 missed",
	} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			text := "entries: [{name: quick, cron: '*/10 * * * *', tasks: [a], missed: " + policy + "}]"
			f := newFleet(t, text, 1, often)
			f.begun()
			require.NoError(t, f.procs[0].Process.Kill())
			f.minute(46, 0)
			f.kill(0)
			f.untilStates(want)
			if policy == "skip" {
				f.minute(54, 0)
				f.untilStates("0350 done, " + want)
			}
		})
	}
}

// TestClockThatWasWrong sets the clock forward by two days and then back. The entry runs at its
// next time, although the slots up to the wrong time were added already.
func TestClockThatWasWrong(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "entries: [{name: quick, cron: '0 12 * * *', tasks: [a]}]", 1, often)
	f.begun()
	f.minute(57*60, 0) // noon of the third day
	f.untilStates("1200 done, 1200 missed, 1200 missed")
	f.minute(-24*60, 0)
	f.until(func() bool {
		marks, err := f.redis.Client.HVals(t.Context(), "ingot:{:eval}:marks:quick").Result()
		return err == nil && slices.Contains(marks, strconv.FormatInt(start.Add(-24*time.Hour).Unix(), 10))
	}, "the entry begins again at the time of the clock")
	f.minute(-15*60, 0) // noon of the day before
	f.untilStates("1200 done, 1200 missed, 1200 missed, 1200 done")
}

// TestPause pauses an entry, runs it with RunNow, and resumes it. The slots of the pause are not
// run later.
func TestPause(t *testing.T) {
	t.Parallel()
	_, err := schedule.NewTable(redistest.Start(t).Client).Pause(t.Context(), "quick")
	require.ErrorContains(t, err, "start a scheduler with")
	f := newFleet(t, everyMinute, 2, often)
	f.begun()
	for _, want := range []bool{true, false} {
		changed, err := f.table.Pause(t.Context(), "quick")
		require.NoError(t, err)
		require.Equal(t, want, changed)
	}
	f.minute(2, 0)
	f.untilStates("0302 paused, 0301 paused")
	run, err := f.table.RunNow(t.Context(), "quick")
	require.NoError(t, err)
	f.until(func() bool {
		s := f.newest()
		return s.Run == run && s.State == schedule.Done && s.Verdict == schedule.Pass
	}, "the run of RunNow ends")
	changed, err := f.table.Resume(t.Context(), "quick")
	require.NoError(t, err)
	require.True(t, changed)
	f.minute(3, 0)
	f.until(func() bool { return strings.Contains(f.states(), "0303 done, 0302 paused, 0301 paused") }, "the next slot runs")
	_, err = f.table.Pause(t.Context(), "other")
	require.ErrorIs(t, err, schedule.ErrNoEntry)
	_, err = f.table.RunNow(t.Context(), "other")
	require.ErrorContains(t, err, "the known entries are: quick")
}

// TestTwoFiles lets two schedulers serve different files. A task that asynq gives to the scheduler
// without the entry goes to the other one, and this does not count as an attempt.
func TestTwoFiles(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "notices")
	f := newFleet(t, fmt.Sprintf(`entries:
- {name: quick, cron: "* * * * *", missed: all, tasks: [a], notify: {on: [pass], command: [sh, -c, 'echo >>"$0"', %q]}}
`, out), 1, often)
	f.begun()
	f.file = filepath.Join(t.TempDir(), "other.yaml")
	f.write("entries: [{name: other, cron: '0 0 1 1 *', tasks: [a]}]")
	f.procs = append(f.procs, f.start(), f.start())
	f.until(func() bool { s, err := f.table.List(t.Context(), 1); return err == nil && len(s.Schedulers) == 3 }, "all schedulers run")
	const slots = 20
	for m := 1; m <= slots; m++ {
		f.minute(m, 0)
		f.until(func() bool {
			s := f.newest()
			return f.idle(start.Add(time.Duration(m)*time.Minute)) && s.Notified != ""
		}, "slot %d ends", m)
		s := f.newest()
		require.Equal(t, schedule.Pass, s.Verdict)
		require.Equal(t, 1, s.Attempt)
		require.Zero(t, f.owner(s))
		require.NotContains(t, s.Notified, "not notified")
	}
	lines, err := os.ReadFile(out)
	require.NoError(t, err)
	require.Len(t, lines, slots)
}

// TestStoppedScheduler stops a scheduler during a run, like a machine that sleeps. Another
// scheduler takes over the run and ends it. When the first scheduler continues, it changes nothing.
func TestStoppedScheduler(t *testing.T) {
	t.Parallel()
	f := newFleet(t, everyMinute, 2, often)
	f.begun()
	f.set(holdKey)
	f.minute(1, 0)
	f.until(func() bool { return f.newest().State == schedule.Running && f.owner(f.newest()) >= 0 }, "a run begins")
	stopped := f.owner(f.newest())
	require.NoError(t, f.procs[stopped].Process.Signal(syscall.SIGSTOP))
	asleep := f.procs[stopped]
	f.procs[stopped] = nil // its leases end
	f.kill(1 - stopped)
	f.until(func() bool { return f.owner(f.newest()) == 1-stopped }, "the other one takes over")
	f.unset(holdKey)
	f.untilStates("0301 done")
	ended := f.newest()
	require.NoError(t, f.procs[1-stopped].Process.Kill())
	require.NoError(t, asleep.Process.Signal(syscall.SIGCONT))
	f.minute(2, 0)
	f.untilStates("0302 done, 0301 done")
	list, err := f.table.Slots(t.Context(), "quick", 10)
	require.NoError(t, err)
	require.Equal(t, ended, list[1])
	f.mu.Lock()
	defer f.mu.Unlock()
	require.LessOrEqual(t, f.ended[ended.Name], 1)
}

// TestTakeover kills the scheduler of a run and waits until asynq gives the run to another one: its
// lease lasts 30 s, and is missed 30 s to 90 s later.
func TestTakeover(t *testing.T) {
	if os.Getenv("INGOT_LONG") == "" {
		t.Skip("another scheduler takes a run over after one to two minutes: set INGOT_LONG=1")
	}
	t.Parallel()
	f := newFleet(t, everyMinute, 2, often)
	f.begun()
	f.set(holdKey)
	f.minute(1, 0)
	f.until(func() bool { return f.newest().State == schedule.Running && f.owner(f.newest()) >= 0 }, "a run begins")
	first := f.owner(f.newest())
	require.NoError(t, f.procs[first].Process.Kill())
	killed := time.Now()
	other := func() bool { return f.owner(f.newest()) == 1-first }
	require.Eventually(t, other, 3*time.Minute, 100*time.Millisecond)
	t.Logf("taken over after %v", time.Since(killed))
	require.Less(t, time.Since(killed), 130*time.Second)
	require.Equal(t, 2, f.newest().Attempt)
	f.unset(holdKey)
	f.untilStates("0301 done")
}

// TestForgottenEntry checks that an entry is deleted with all its keys when no scheduler has had it
// for a month. Other entries stay.
func TestForgottenEntry(t *testing.T) {
	t.Parallel()
	f := newFleet(t, everyMinute, 1, often)
	f.begun()
	f.minute(1, 0)
	f.untilStates("0301 done")
	_, err := f.table.Pause(t.Context(), "quick")
	require.NoError(t, err)
	require.NoError(t, f.procs[0].Process.Kill())
	for _, days := range []int{29, 31} {
		deleted := days > 30
		seen := time.Now().AddDate(0, 0, -days).Format(time.RFC3339)
		require.NoError(t, f.redis.Client.HSet(t.Context(), "ingot:{:eval}:entries", "quick", `{"name":"quick","seen":"`+seen+`"}`).Err())
		f.write("entries: [{name: other, cron: '* * * * *', tasks: [a]}]")
		f.kill(0)
		begun := func() bool { return f.redis.Client.Exists(t.Context(), "ingot:{:eval}:marks:other").Val() > 0 }
		f.until(begun, "the other entry begins")
		require.NoError(t, f.procs[0].Process.Kill())
		keys, err := f.redis.Client.Keys(t.Context(), "ingot:{:eval}:*quick*").Result()
		require.NoError(t, err)
		paused, err := f.redis.Client.SIsMember(t.Context(), "ingot:{:eval}:paused", "quick").Result()
		require.NoError(t, err)
		require.Equal(t, deleted, len(keys) == 0, "%v", keys)
		require.Equal(t, deleted, !paused)
		require.NoError(t, f.redis.Client.Del(t.Context(), "ingot:{:eval}:marks:other").Err())
	}
}

// TestFailedRun checks that a failed run is tried again and that it ends with the verdict error
// after the last attempt.
func TestFailedRun(t *testing.T) {
	t.Parallel()
	f := newFleet(t, everyMinute, 2, often)
	f.begun()
	f.set(failKey)
	f.minute(1, 0)
	f.untilStates("0301 done")
	s := f.newest()
	require.Equal(t, schedule.Error, s.Verdict)
	require.Equal(t, "the tasks are gone", s.Message)
	begins, err := f.redis.Client.LLen(t.Context(), beginsKey).Result()
	require.NoError(t, err)
	require.EqualValues(t, schedule.MaxAttempts, begins)
	f.unset(failKey)
	f.minute(2, 0)
	f.untilStates("0302 done, 0301 done")
	require.Equal(t, schedule.Pass, f.newest().Verdict)
}

// TestTicks checks that a tick wakes a scheduler that would not look for an hour.
func TestTicks(t *testing.T) {
	t.Parallel()
	f := newFleet(t, everyMinute, 1, time.Hour)
	f.begun()
	f.minute(1, 0)
	client := asynq.NewClientFromRedisClient(f.redis.Client)
	_, err := client.Enqueue(asynq.NewTask("ingot-evaluations", []byte("quick")), asynq.Queue("ingot-evaluations"))
	require.NoError(t, err)
	f.untilStates("0301 done")
}

// TestReload changes the schedule while a scheduler runs: first to another time and time zone, then
// to a file that is not valid. A changed time applies from its next slot on. asynq's manager, which
// enqueues the ticks, has the same entries.
func TestReload(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "entries: [{name: quick, cron: '0 4 * * *', tasks: [a]}]", 1, often)
	f.begun()
	inspector := asynq.NewInspectorFromRedisClient(f.redis.Client)
	ticks := func() string {
		entries, err := inspector.SchedulerEntries()
		if err != nil || len(entries) != 1 {
			return ""
		}
		return fmt.Sprintf("%s: %s %s", entries[0].Spec, entries[0].Task.Type(), entries[0].Task.Payload())
	}
	f.until(func() bool { return ticks() == "CRON_TZ=UTC 0 4 * * *: ingot-evaluations quick" }, "asynq has the entry")
	f.minute(50, 0)
	f.write(`entries: [{name: quick, cron: "0 5 * * *", timezone: Europe/Berlin, tasks: [a], missed: all}]`)
	f.until(func() bool {
		n, err := f.redis.Client.HExists(t.Context(), "ingot:{:eval}:marks:quick", "CRON_TZ=Europe/Berlin 0 5 * * *").Result()
		return err == nil && n
	}, "the new time applies")
	f.until(func() bool { return ticks() == "CRON_TZ=Europe/Berlin 0 5 * * *: ingot-evaluations quick" }, "asynq has the new time")
	f.write("entries: [{name: quick, cron: '* * * * *', tasks: [a], surprise: 1}]")
	f.minute(61, 0)
	f.untilStates("0400 done") // 5 o'clock in Berlin
	list, err := f.table.List(t.Context(), 10)
	require.NoError(t, err)
	require.Len(t, list.Schedulers, 1)
	require.Len(t, list.Entries, 1)
	require.Equal(t, "Europe/Berlin", list.Entries[0].TimeZone)
	require.Equal(t, 4, list.Entries[0].Next.In(time.FixedZone("", 0)).Hour()+map[bool]int{true: 1}[list.Entries[0].Next.IsDST()])
}

// TestNotices kills a scheduler while it calls a webhook. The webhook answers the next attempt with
// an error. The notice is repeated with the same key until the webhook accepts it, and not after
// that. The command receives the same notice.
func TestNotices(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var keys, bodies []string
	var f *fleet
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		keys, bodies = append(keys, r.Header.Get("Idempotency-Key")), append(bodies, string(body))
		switch {
		case err != nil || len(keys) == 1:
			f.procs[0].Process.Kill() //nolint:errcheck // the test waits for the process to end
			<-r.Context().Done()
		case len(keys) == 2:
			w.WriteHeader(http.StatusBadGateway)
		}
	}))
	defer site.Close()
	out := filepath.Join(t.TempDir(), "notices")
	text := fmt.Sprintf(`entries:
- name: quick
  cron: "* * * * *"
  tasks: [a]
  gate: {baseline: main}
  notify: {on: [pass], webhook: %q, command: [sh, -c, 'cat >>"$0"; echo " $INGOT_EVAL_VERDICT $INGOT_EVAL_KEY" >>"$0"', %q]}
`, site.URL, out)
	f = newFleet(t, text, 1, often)
	f.begun()
	f.minute(1, 0)
	f.until(func() bool { mu.Lock(); defer mu.Unlock(); return len(keys) == 1 }, "the webhook is called")
	f.kill(0)
	f.until(func() bool { return f.newest().Notified != "" }, "the notice is delivered")
	mu.Lock()
	defer mu.Unlock()
	require.Equal(t, []string{"quick/20260102T030100Z/pass", "quick/20260102T030100Z/pass", "quick/20260102T030100Z/pass"}, keys)
	require.Equal(t, bodies[0], bodies[2])
	var body map[string]string
	require.NoError(t, json.Unmarshal([]byte(bodies[0]), &body))
	require.Equal(t, "quick-20260102T030100Z", body["run"])
	require.Equal(t, "main", body["baseline"])
	require.Equal(t, "as good as ever", body["message"])
	received, err := os.ReadFile(out)
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(string(received)), "\n")
	require.Equal(t, bodies[0]+" pass quick/20260102T030100Z/pass", lines[len(lines)-1])
	f.until(func() bool {
		left, err := f.redis.Client.Exists(t.Context(), "asynq:{ingot-evaluations}:t:ingot-evaluations:notice:quick/20260102T030100Z").Result()
		return err == nil && left == 0
	}, "the notice is gone")
}
