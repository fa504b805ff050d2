package schedule

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"
)

// Outcome is the result of an evaluation.
type Outcome struct {
	Verdict Verdict
	Message string // one line for people
}

// Evaluate runs the evaluation of an entry. run is the name of the run. After a crash or an error, Evaluate is called again with the same
// name, possibly on another machine, and must continue the run. ctx ends when the scheduler stops, or when another scheduler takes over the
// run.
type Evaluate func(ctx context.Context, e *Entry, run string) (Outcome, error)

// Options are the settings of a scheduler. For times that are 0, the defaults below are used.
type Options struct {
	File     string // path of the schedule
	Evaluate Evaluate
	Logger   *slog.Logger

	// Now returns the time for slots. If nil, it is the time of the Redis server. Tests set a fast clock.
	Now func(ctx context.Context) (time.Time, error)

	Interval time.Duration // time between two reads of the file and of the table
	Lease    time.Duration // another scheduler takes over a run whose scheduler was silent for this time
	Retry    time.Duration // time between the first two attempts at a failing run or notice; longer between later attempts
}

// The defaults of Options.
const (
	DefaultInterval = 10 * time.Second
	DefaultLease    = 30 * time.Second
	DefaultRetry    = 30 * time.Second
)

// MaxAttempts is the maximum number of attempts at a run. If the last one fails, the run ends with the verdict Error.
const MaxAttempts = 5

// Scheduler runs the entries of a schedule together with other schedulers.
type Scheduler struct {
	options Options
	table   *Table
	rdb     redis.UniversalClient
	id      string
	log     *slog.Logger
	wake    chan struct{}
	notices notifier

	mu      sync.Mutex
	entries []Entry
	broken  string          // the last logged error of the file; empty if the file can be read
	running map[string]bool // names of the entries that this scheduler is running

	runs sync.WaitGroup
}

// New returns a scheduler on a Redis server. It reads the schedule and returns an error if the schedule is not valid.
func New(rdb redis.UniversalClient, o Options) (*Scheduler, error) {
	entries, err := Read(o.File)
	if err != nil {
		return nil, err
	}
	if o.Interval == 0 {
		o.Interval = DefaultInterval
	}
	if o.Lease == 0 {
		o.Lease = DefaultLease
	}
	if o.Retry == 0 {
		o.Retry = DefaultRetry
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	s := &Scheduler{
		options: o, table: NewTable(rdb), rdb: rdb, id: fmt.Sprintf("%s:%d:%s", host, os.Getpid(), uuid.NewString()[:8]), log: o.Logger,
		wake: make(chan struct{}, 1), entries: entries, running: map[string]bool{},
	}
	if o.Now == nil {
		s.options.Now = s.table.Now
	}
	s.notices = notifier{table: s.table, entry: s.entry, retry: o.Retry, log: o.Logger, woken: make(chan struct{}, 1)}
	return s, nil
}

// Run serves the schedule until ctx ends. It then stops its runs, and other schedulers continue them.
func (s *Scheduler) Run(ctx context.Context) error {
	manager, err := asynq.NewPeriodicTaskManager(asynq.PeriodicTaskManagerOpts{
		RedisUniversalClient: s.rdb, PeriodicTaskConfigProvider: s, SyncInterval: s.options.Interval,
		SchedulerOpts: &asynq.SchedulerOpts{Logger: asynqLog{ctx, s.log}, HeartbeatInterval: s.options.Interval},
	})
	if err != nil {
		return fmt.Errorf("schedule evaluations: %w", err)
	}
	now, err := s.table.Now(ctx)
	if err == nil {
		err = s.table.forget(ctx, now)
	}
	if err != nil {
		return fmt.Errorf("schedule evaluations: %w", err)
	}
	// Record the entries before the first tick arrives.
	s.look(ctx)
	server := asynq.NewServerFromRedisClient(s.rdb, asynq.Config{
		Concurrency: 1, Queues: map[string]int{ticks: 1}, Logger: asynqLog{ctx, s.log}, LogLevel: asynq.InfoLevel, ShutdownTimeout: time.Second,
	})
	if err := server.Start(asynq.HandlerFunc(s.tick)); err != nil {
		return fmt.Errorf("schedule evaluations: %w", err)
	}
	defer server.Shutdown()
	if err := manager.Start(); err != nil {
		return fmt.Errorf("schedule evaluations: %w", err)
	}
	defer manager.Shutdown()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { s.lookUntil(ctx); return nil })
	group.Go(func() error { s.notices.run(ctx, s.options.Interval); return nil })
	err = group.Wait()
	s.runs.Wait()
	return err
}

// GetConfigs implements asynq.PeriodicTaskConfigProvider: asynq enqueues a tick at each time of an entry. Each call reads the file again. If
// the file is not valid, the entries do not change.
func (s *Scheduler) GetConfigs() ([]*asynq.PeriodicTaskConfig, error) {
	entries, err := Read(s.options.File)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err == nil:
		s.entries, s.broken = entries, ""
	case err.Error() != s.broken:
		s.broken = err.Error()
		s.log.Error("could not read the schedule: the entries do not change", "error", err)
	}
	configs := make([]*asynq.PeriodicTaskConfig, len(s.entries))
	for i := range s.entries {
		e := &s.entries[i]
		configs[i] = &asynq.PeriodicTaskConfig{Cronspec: e.spec(), Task: tickOf(e.Name), Opts: tickOptions()}
	}
	return configs, nil
}

// tick handles a tick by waking this scheduler. It does not matter which scheduler gets a tick: the table decides which one runs a slot.
func (s *Scheduler) tick(context.Context, *asynq.Task) error {
	select {
	case s.wake <- struct{}{}:
	default: // the scheduler is already awake
	}
	return nil
}

// lookUntil looks at the table at each tick, and also at intervals, since a tick can be lost and a scheduler can die during a run.
func (s *Scheduler) lookUntil(ctx context.Context) {
	interval := time.NewTicker(s.options.Interval)
	defer interval.Stop()
	for {
		s.look(ctx)
		select {
		case <-ctx.Done():
			return
		case <-s.wake:
		case <-interval.C:
		}
	}
}

// look adds the slots that are due to the table, and starts runs of open slots that no scheduler is running. If Redis fails, look logs the
// error, and the next call of look repeats the work.
func (s *Scheduler) look(ctx context.Context) {
	s.mu.Lock()
	entries := slices.Clone(s.entries)
	s.mu.Unlock()
	err := s.table.beat(ctx, s.id, entries)
	for i := range entries {
		if err != nil {
			break
		}
		err = s.lookAt(ctx, &entries[i])
	}
	if err != nil && ctx.Err() == nil {
		s.log.WarnContext(ctx, "could not read or update the table of slots in Redis: trying again", "error", err)
	}
}

func (s *Scheduler) lookAt(ctx context.Context, e *Entry) error {
	now, err := s.options.Now(ctx)
	if err != nil {
		return err
	}
	entered, err := s.table.fire(ctx, e, now)
	if err != nil {
		return err
	}
	for _, slot := range entered {
		s.log.InfoContext(ctx, "slot added", "entry", e.Name, "slot", slot.name())
	}
	s.mu.Lock()
	busy := s.running[e.Name]
	s.mu.Unlock()
	if busy || ctx.Err() != nil {
		return ctx.Err()
	}
	t, err := s.table.take(ctx, e.Name, s.id, s.options.Lease)
	if t == nil || err != nil {
		return err
	}
	s.mu.Lock()
	s.running[e.Name] = true
	s.mu.Unlock()
	s.runs.Go(func() {
		s.evaluate(ctx, e, t)
		s.mu.Lock()
		delete(s.running, e.Name)
		s.mu.Unlock()
		s.tick(ctx, nil) //nolint:errcheck // tick never fails
	})
	return nil
}

// evaluate runs a taken slot and records its outcome.
func (s *Scheduler) evaluate(ctx context.Context, e *Entry, t *taken) {
	log := s.log.With("entry", e.Name, "slot", t.slot, "attempt", t.attempt)
	log.InfoContext(ctx, "run started", "model", e.Model)
	running, lost := context.WithCancelCause(ctx)
	var renewals sync.WaitGroup
	renewals.Go(func() { s.renewUntil(running, e.Name, lost) })
	outcome, err := s.attempt(running, e, t)
	lost(nil)
	renewals.Wait()

	over := context.WithoutCancel(ctx)
	switch cause := context.Cause(running); {
	case errors.Is(cause, errLost):
		log.WarnContext(ctx, "run stopped here: another scheduler may continue it", "reason", cause)
		return
	case err == nil:
		if err = s.table.finish(over, e, t, s.id, outcome); err == nil {
			log.InfoContext(ctx, "run finished", "verdict", outcome.Verdict, "message", outcome.Message)
			s.notices.wakeUp()
		}
	case ctx.Err() != nil:
		err = s.table.release(over, e.Name, t, s.id, 0, "")
		log.InfoContext(ctx, "run interrupted: another scheduler can continue it")
	default:
		wait := s.options.Retry * time.Duration(t.attempt)
		log.WarnContext(ctx, "run failed: trying again after the wait", "error", err, "wait", wait)
		err = s.table.release(over, e.Name, t, s.id, wait, err.Error())
	}
	if err != nil { // the lease will expire, and a scheduler will take the slot again
		log.WarnContext(ctx, "could not record the end of a run: it will be run again", "error", err)
	}
}

// attempt evaluates a slot. If the last attempt fails, it returns an outcome with the verdict Error instead of an error.
func (s *Scheduler) attempt(ctx context.Context, e *Entry, t *taken) (Outcome, error) {
	if t.attempt > MaxAttempts {
		return Outcome{Error, fmt.Sprintf("the run did not finish in %d attempts", MaxAttempts)}, nil
	}
	o, err := s.options.Evaluate(ctx, e, e.Name+"-"+t.slot)
	if err != nil && ctx.Err() == nil && t.attempt == MaxAttempts {
		return Outcome{Error, err.Error()}, nil
	}
	return o, err
}

// renewUntil extends the lease of a run until ctx ends. If another scheduler has the lease, or if the lease expired because it could not be
// extended, renewUntil calls the function lost and returns.
func (s *Scheduler) renewUntil(ctx context.Context, entry string, lost context.CancelCauseFunc) {
	ticker := time.NewTicker(s.options.Lease / 4)
	defer ticker.Stop()
	extended := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		begun := time.Now()
		err := s.table.renew(ctx, entry, s.id, s.options.Lease)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			extended = begun
		case errors.Is(err, errLost):
			lost(err)
			return
		case time.Since(extended) > s.options.Lease:
			lost(fmt.Errorf("%w: %w", errLost, err))
			return
		}
	}
}

// entry returns the entry with a name, or nil if the schedule has none.
func (s *Scheduler) entry(name string) *Entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.entries {
		if s.entries[i].Name == name {
			return &s.entries[i]
		}
	}
	return nil
}

// asynqLog passes asynq's messages to the log at lower levels: errors as warnings, all others as debug messages. When the scheduler stops,
// errors are debug messages too, since asynq then fails to close connections that it does not own.
type asynqLog struct {
	ctx context.Context //nolint:containedctx // asynq's loggers get none
	log *slog.Logger
}

func (l asynqLog) Debug(args ...any) { l.log.Debug(fmt.Sprint(args...), "from", "queue") }
func (l asynqLog) Info(args ...any)  { l.log.Debug(fmt.Sprint(args...), "from", "queue") }
func (l asynqLog) Warn(args ...any)  { l.log.Debug(fmt.Sprint(args...), "from", "queue") }
func (l asynqLog) Error(args ...any) {
	level := slog.LevelWarn
	if l.ctx.Err() != nil {
		level = slog.LevelDebug
	}
	l.log.Log(l.ctx, level, fmt.Sprint(args...), "from", "queue")
}
func (l asynqLog) Fatal(args ...any) { l.Error(args...) }
