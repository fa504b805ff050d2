package schedule_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/eval/schedule"
	"github.com/ingot-run/ingot/queue/redistest"
)

// asScheduler is the environment variable that makes the test binary a scheduler, which a test can
// kill. Its value is the URL of Redis. The arguments of the process are the schedule and the
// interval.
const asScheduler = "INGOT_TEST_AS_SCHEDULER"

func TestMain(m *testing.M) {
	if url := os.Getenv(asScheduler); url != "" {
		if err := serve(url, os.Args[1], os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// Keys with which a test steers its schedulers.
const (
	clockKey  = "test:clock"  // the time in seconds
	holdKey   = "test:hold"   // while this key exists, runs do not end
	beginsKey = "test:begins" // list: the runs that began
	againKey  = "test:again"  // list: the runs that began again after their end, although their scheduler has the lease
	failKey   = "test:fail"   // while this key exists, runs fail
)

// serve runs a scheduler with the test's clock. Its runs take a moment and compute nothing.
func serve(url, file, interval string) error {
	opts, err := redis.ParseURL(url)
	if err != nil {
		return err
	}
	rdb := redis.NewClient(opts)
	wait, err := time.ParseDuration(interval)
	if err != nil {
		return err
	}
	s, err := schedule.New(rdb, schedule.Options{
		File: file, Logger: slog.New(slog.NewJSONHandler(os.Stdout, nil)), Interval: wait, Retry: time.Millisecond,
		Now: func(ctx context.Context) (time.Time, error) {
			seconds, err := rdb.Get(ctx, clockKey).Int64()
			return time.Unix(seconds, 0), err
		},
		Evaluate: func(ctx context.Context, e *schedule.Entry, run string) (o schedule.Outcome, err error) {
			slot := "ingot:{:eval}:slot:" + e.Name + "/" + strings.TrimPrefix(run, e.Name+"-")
			// Read at once: a scheduler that was silent for longer than its lease may begin a run
			// that another has ended.
			both, err := rdb.HMGet(ctx, slot, "ended", "owner").Result()
			if err != nil {
				return o, err
			}
			if both[0] != nil && both[0] != "" && strings.Contains(fmt.Sprint(both[1]), fmt.Sprintf(":%d:", os.Getpid())) {
				rdb.RPush(ctx, againKey, run)
			}
			if err := rdb.RPush(ctx, beginsKey, run).Err(); err != nil {
				return o, err
			}
			if failed, err := rdb.Exists(ctx, failKey).Result(); err != nil || failed > 0 {
				return o, errors.Join(errors.New("the tasks are gone"), err)
			}
			for {
				held, err := rdb.Exists(ctx, holdKey).Result()
				if err != nil || held == 0 {
					return schedule.Outcome{Verdict: schedule.Pass, Message: "as good as ever"}, err
				}
				select {
				case <-ctx.Done():
					return o, ctx.Err()
				case <-time.After(5 * time.Millisecond):
				}
			}
		},
	})
	if err != nil {
		return err
	}
	return s.Run(context.Background())
}

// fleet is a Redis server with schedulers, each in its own process.
type fleet struct {
	t        *testing.T
	redis    *redistest.Server
	table    *schedule.Table
	file     string
	interval time.Duration
	procs    []*exec.Cmd

	mu      sync.Mutex
	entered map[string]int // how often each slot was entered, from the logs
	ended   map[string]int
}

const everyMinute = "entries:\n- {name: quick, cron: '* * * * *', missed: all, tasks: [none.yaml]}\n"

// often is the interval of schedulers under a fast clock. asynq's ticks follow the real clock and
// are too slow to wake them.
const often = 10 * time.Millisecond

func newFleet(t *testing.T, text string, n int, interval time.Duration) *fleet {
	t.Helper()
	r := redistest.Start(t)
	f := &fleet{
		t: t, redis: r, table: schedule.NewTable(r.Client), file: filepath.Join(t.TempDir(), "schedule.yaml"),
		interval: interval, entered: map[string]int{}, ended: map[string]int{},
	}
	f.write(text)
	f.setClock(start)
	for range n {
		f.procs = append(f.procs, f.start())
	}
	return f
}

// write replaces the schedule.
func (f *fleet) write(text string) {
	f.t.Helper()
	require.NoError(f.t, os.WriteFile(f.file, []byte(text), 0o600))
}

// start is the time at which a fleet's clock starts.
var start = time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)

func (f *fleet) setClock(now time.Time) {
	f.t.Helper()
	require.NoError(f.t, f.redis.Client.Set(f.t.Context(), clockKey, now.Unix(), 0).Err())
}

func (f *fleet) start() *exec.Cmd {
	f.t.Helper()
	cmd := exec.CommandContext(f.t.Context(), os.Args[0], f.file, f.interval.String())
	cmd.Env = append(os.Environ(), asScheduler+"="+f.redis.URL)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(f.t, err)
	require.NoError(f.t, cmd.Start())
	read := make(chan struct{})
	go func() {
		defer close(read)
		f.read(out)
	}()
	f.t.Cleanup(func() {
		cmd.Process.Kill() //nolint:errcheck // the process may be dead already
		<-read
		cmd.Wait() //nolint:errcheck // the process was killed
	})
	return cmd
}

// read counts the slots that a scheduler's log names as entered and as ended.
func (f *fleet) read(log io.Reader) {
	for lines := bufio.NewScanner(log); lines.Scan(); {
		var l struct{ Msg, Slot string }
		if json.Unmarshal(lines.Bytes(), &l) != nil {
			continue
		}
		f.mu.Lock()
		switch l.Msg {
		case "slot added":
			f.entered[l.Slot]++
		case "run finished":
			f.ended[l.Slot]++
		}
		f.mu.Unlock()
	}
}

// kill kills a scheduler and starts a new one in its place, as if asynq's leases of the tasks of
// schedulers that were killed or stopped had ended a while ago: asynq's servers look for such
// leases when they start.
func (f *fleet) kill(i int) {
	f.t.Helper()
	require.NoError(f.t, f.procs[i].Process.Kill())
	f.procs[i].Process.Wait() //nolint:errcheck // it was killed
	f.procs[i] = nil
	const leases = "asynq:{ingot-evaluations}:lease"
	tasks, err := f.redis.Client.ZRange(f.t.Context(), leases, 0, -1).Result()
	require.NoError(f.t, err)
	for _, task := range tasks {
		slot, isRun := strings.CutPrefix(task, "ingot-evaluations:run:")
		owner, err := f.redis.Client.HGet(f.t.Context(), "ingot:{:eval}:slot:"+slot, "owner").Result()
		if isRun && err == nil && f.owner(schedule.Slot{Owner: owner}) >= 0 {
			continue
		}
		require.NoError(f.t, f.redis.Client.ZAddXX(f.t.Context(), leases, redis.Z{Score: 0, Member: task}).Err())
	}
	f.procs[i] = f.start()
}

// owner returns the number of the scheduler that runs a slot, or -1 if that scheduler was killed.
func (f *fleet) owner(s schedule.Slot) int {
	for i, p := range f.procs {
		if p != nil && strings.Contains(s.Owner, fmt.Sprintf(":%d:", p.Process.Pid)) {
			return i
		}
	}
	return -1
}

func (f *fleet) newest() schedule.Slot {
	list, err := f.table.Slots(f.t.Context(), "quick", 1)
	if err != nil || len(list) == 0 {
		return schedule.Slot{}
	}
	return list[0]
}

// until waits for a condition. It fails after a long time, so that a test cannot hang.
func (f *fleet) until(condition func() bool, what string, args ...any) {
	f.t.Helper()
	require.Eventually(f.t, condition, 2*time.Minute, 2*time.Millisecond, append([]any{what}, args...)...)
}

// idle reports whether every slot up to a time has ended.
func (f *fleet) idle(now time.Time) bool {
	if f.newest().Name != now.UTC().Format("20060102T150405Z") { // checked first: the slot is open as soon as it is entered
		return false
	}
	open, err := f.redis.Client.ZCard(f.t.Context(), "ingot:{:eval}:open:quick").Result()
	return err == nil && open == 0
}

// begun waits until the schedulers have read the entry. Slots later than that are entered.
func (f *fleet) begun() {
	f.t.Helper()
	f.until(func() bool {
		n, err := f.redis.Client.HLen(f.t.Context(), "ingot:{:eval}:marks:quick").Result()
		return err == nil && n > 0
	}, "the schedulers have read the entry")
}

// TestEachSlotOnce lets three schedulers serve a schedule under a fast clock. Schedulers are killed
// during runs and at random times, Redis is restarted, and the clock jumps over slots. Each slot is
// entered once, ends once, and is not taken again after its end.
func TestEachSlotOnce(t *testing.T) {
	t.Parallel()
	slots := 100
	if os.Getenv("INGOT_LONG") != "" {
		slots = 500
	}
	f := newFleet(t, everyMinute, 3, often)
	f.begun()
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a test
	now, fired, kills, restarts, jumps := start, 0, 0, 0, 0
	for fired < slots {
		n := 1
		if random.IntN(20) == 0 {
			n = min(1+random.IntN(5), slots-fired)
			jumps++
		}
		now, fired = now.Add(time.Duration(n)*time.Minute), fired+n
		kill, restart := fired%20 == 10, fired%25 == 0
		if kill {
			require.NoError(t, f.redis.Client.Set(t.Context(), holdKey, 1, 0).Err())
		}
		f.setClock(now)
		if kill {
			f.until(func() bool { s := f.newest(); return s.State == schedule.Running && f.owner(s) >= 0 || n > 1 }, "a run begins")
			if i := f.owner(f.newest()); i >= 0 {
				f.kill(i)
				kills++
			}
			require.NoError(t, f.redis.Client.Del(t.Context(), holdKey).Err())
		}
		if random.IntN(30) == 0 {
			f.kill(random.IntN(len(f.procs)))
			kills++
		}
		if restart {
			f.redis.Restart(t)
			restarts++
		}
		f.until(func() bool { return f.idle(now) }, "slots up to %v end", now)
	}
	t.Logf("%d slots, %d kills, %d restarts of Redis, %d jumps of the clock", fired, kills, restarts, jumps)
	require.Positive(t, kills)
	require.Positive(t, restarts)

	list, err := f.table.Slots(t.Context(), "quick", 1000)
	require.NoError(t, err)
	require.Len(t, list, slots)
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, s := range list {
		require.Equal(t, now.Add(-time.Duration(i)*time.Minute).Format("20060102T150405Z"), s.Name)
		require.Equal(t, schedule.Done, s.State, s.Name)
		require.Equal(t, schedule.Pass, s.Verdict, "%+v", s)
		require.LessOrEqual(t, f.entered[s.Name], 1, s.Name) // 0 if the scheduler was killed before it logged the slot
		require.LessOrEqual(t, f.ended[s.Name], 1, s.Name)
	}
	again, err := f.redis.Client.LRange(t.Context(), againKey, 0, -1).Result()
	require.NoError(t, err)
	require.Empty(t, again, "slots that were taken again after their end")
	begins, err := f.redis.Client.LRange(t.Context(), beginsKey, 0, -1).Result()
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(begins), slots)
	t.Logf("%d runs began for %d slots", len(begins), slots)
}
