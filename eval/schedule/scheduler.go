package schedule

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/redis/go-redis/v9"

	"github.com/ingot-run/ingot/queue/chores"
)

// Outcome is the result of an evaluation.
type Outcome struct {
	Verdict Verdict
	Message string // one line for people
}

// Evaluate runs the evaluation of an entry. run is the name of the run. After a crash or an error,
// Evaluate is called again with the same name, possibly on another machine, and must continue the
// run. ctx ends when the scheduler stops, or when another scheduler takes over the run.
type Evaluate func(ctx context.Context, e *Entry, run string) (Outcome, error)

// Options are the settings of a scheduler. For times that are 0, the defaults below are used.
type Options struct {
	File     string // path of the schedule
	Evaluate Evaluate
	Logger   *slog.Logger

	// Now returns the time for slots. If nil, it is the time of the Redis server. Tests set a fast
	// clock.
	Now func(ctx context.Context) (time.Time, error)

	Interval time.Duration // time between two reads of the file and of the table
	Retry    time.Duration // time between the first two attempts at a failing run or notice; longer between later attempts
}

// The defaults of Options.
const (
	DefaultInterval = 10 * time.Second
	DefaultRetry    = 30 * time.Second
)

// MaxAttempts is the maximum number of attempts at a run. If the last one fails, the run ends with
// the verdict Error.
const MaxAttempts = 5

// maxRuns is the number of runs and notices that a scheduler has at the same time. They mostly wait
// for workers and servers.
const maxRuns = 1000

// Scheduler runs the entries of a schedule together with other schedulers.
type Scheduler struct {
	options Options
	table   *Table
	rdb     redis.UniversalClient
	id      string
	log     *slog.Logger

	entries atomic.Pointer[[]Entry]
	broken  string // the last logged error of the file; empty if the file can be read
}

// New returns a scheduler on a Redis server. It reads the schedule and returns an error if the
// schedule is not valid.
func New(rdb redis.UniversalClient, o Options) (*Scheduler, error) {
	entries, err := Read(o.File)
	if err != nil {
		return nil, err
	}
	o.Interval, o.Retry = cmp.Or(o.Interval, DefaultInterval), cmp.Or(o.Retry, DefaultRetry)
	host, _ := os.Hostname() // empty if it is not known
	id := fmt.Sprintf("%s:%d:%s", host, os.Getpid(), ulid.Make())
	s := &Scheduler{options: o, table: NewTable(rdb), rdb: rdb, id: id, log: o.Logger}
	s.entries.Store(&entries)
	if o.Now == nil {
		s.options.Now = s.table.Now
	}
	return s, nil
}

// The kinds of tasks besides ticks. Their payload is ENTRY/SLOT, so schedulers together queue each
// run and each notice once.
const (
	runs    = ticks + ":run"
	notices = ticks + ":notice"
)

// Run serves the schedule until ctx ends. It then stops its runs, and other schedulers continue
// them.
func (s *Scheduler) Run(ctx context.Context) error {
	if err := cmp.Or(s.table.forget(ctx), s.adopt(ctx)); err != nil {
		return fmt.Errorf("schedule evaluations: %w", err)
	}
	member, err := chores.New(s.rdb, chores.Options{
		Queue: ticks, Concurrency: maxRuns, Logger: s.log, Interval: s.options.Interval,
		Periodic: func() []chores.Periodic { return s.refresh(ctx) },
		Handlers: map[string]chores.Handler{
			ticks:   {Do: s.tick},
			runs:    {Do: s.run, Wait: s.waitForRun},
			notices: {Do: s.notice, Wait: s.waitForNotice},
		},
	})
	if err != nil {
		return fmt.Errorf("schedule evaluations: %w", err)
	}
	return member.Run(ctx)
}

// refresh is called before the first tick and then at intervals. It reads the file, looks at the
// table, since a tick can be lost, and returns a tick for each entry. If the file is not valid, the
// entries do not change.
func (s *Scheduler) refresh(ctx context.Context) (list []chores.Periodic) {
	switch entries, err := Read(s.options.File); {
	case err == nil:
		s.entries.Store(&entries)
		s.broken = ""
	case err.Error() != s.broken:
		s.broken = err.Error()
		s.log.Error("could not read the schedule: the entries do not change", "error", err)
	}
	s.look(ctx)
	for _, e := range *s.entries.Load() {
		list = append(list, chores.Periodic{Cron: e.spec(), Task: tickOf(e.Name)})
	}
	return list
}

func (s *Scheduler) tick(ctx context.Context, entry string, _ int) error {
	if e := s.entry(entry); e != nil {
		return s.lookAt(ctx, e)
	}
	return nil // another scheduler has the entry, and looks at intervals
}

// look looks at all entries. If Redis fails, it logs the error, and the next call repeats the work.
func (s *Scheduler) look(ctx context.Context) {
	entries := *s.entries.Load()
	err := s.table.beat(ctx, s.id, entries)
	for i := range entries {
		if err == nil {
			err = s.lookAt(ctx, &entries[i])
		}
	}
	if err != nil && ctx.Err() == nil {
		s.log.WarnContext(ctx, "could not read or update the table of slots in Redis: trying again", "error", err)
	}
}

// lookAt adds the due slots of an entry to the table, and queues the oldest one that is not
// finished. asynq would run two slots of an entry at once, so the others wait in the table.
func (s *Scheduler) lookAt(ctx context.Context, e *Entry) error {
	now, err := s.options.Now(ctx)
	if err != nil {
		return err
	}
	added, err := s.table.fire(ctx, e, now)
	if err != nil {
		return err
	}
	for _, slot := range added {
		s.log.InfoContext(ctx, "slot added", "entry", e.Name, "slot", slot.name())
	}
	next, err := s.table.next(ctx, e.Name)
	if next == "" || err != nil {
		return err
	}
	return chores.Enqueue(ctx, s.rdb, ticks, chores.Task{Kind: runs, Payload: e.Name + "/" + next, Unique: true, Attempts: MaxAttempts})
}

// owned returns an entry of this scheduler. If only another live scheduler has it, the error puts
// the task back for that scheduler. If none has it, the entry is nil.
func (s *Scheduler) owned(ctx context.Context, name string) (*Entry, error) {
	if e := s.entry(name); e != nil {
		return e, nil
	}
	served, err := s.table.served(ctx, name)
	if served || err != nil {
		err = errors.Join(err, chores.Later(s.options.Interval))
	}
	return nil, err
}

// Errors of changes to a slot.
var (
	errEnded = errors.New("the run has ended, or was deleted")
	errLost  = errors.New("another scheduler has the run")
)

// run handles the task of a slot, whose id is ENTRY/SLOT.
func (s *Scheduler) run(ctx context.Context, id string, attempt int) error {
	name, slot, _ := strings.Cut(id, "/")
	e, err := s.owned(ctx, name)
	if e == nil {
		return err // if no scheduler has the entry, the slot waits in the table for one
	}
	err = s.table.update(ctx, name, slot, func(now *Slot) error {
		if now.State != Waiting && now.State != Running {
			return errEnded
		}
		now.State, now.Owner, now.Attempt, now.Started = Running, s.id, attempt, cmp.Or(now.Started, timestamp())
		return nil
	})
	if err == nil {
		if err := s.evaluate(ctx, e, slot, attempt); err != nil {
			return err
		}
	}
	if err == nil || errors.Is(err, errEnded) {
		err = s.announce(ctx, e, slot)
	}
	if err == nil {
		err = s.lookAt(ctx, e) // the next slot may be waiting
	}
	return s.unrecorded(ctx, id, err)
}

// unrecorded handles an error of Redis. It counts no attempt, since a task without attempts left
// would be archived and its slot stay open.
func (s *Scheduler) unrecorded(ctx context.Context, id string, err error) error {
	if err == nil {
		return nil
	}
	s.log.WarnContext(ctx, "could not record a run: trying again", "slot", id, "error", err)
	return errors.Join(err, chores.Later(s.options.Retry))
}

func (s *Scheduler) evaluate(ctx context.Context, e *Entry, slot string, attempt int) error {
	log := s.log.With("entry", e.Name, "slot", slot, "attempt", attempt)
	log.InfoContext(ctx, "run started", "model", e.Model)
	o, err := Outcome{Error, fmt.Sprintf("the run did not finish in %d attempts", MaxAttempts)}, error(nil)
	if attempt <= MaxAttempts {
		o, err = s.options.Evaluate(ctx, e, e.Name+"-"+slot)
	}
	if err != nil && ctx.Err() == nil && attempt == MaxAttempts {
		o, err = Outcome{Error, err.Error()}, nil
	}
	failed := s.table.update(context.WithoutCancel(ctx), e.Name, slot, func(now *Slot) error {
		switch {
		case now.State != Running || now.Owner != s.id || now.Attempt != attempt:
			return errLost // asynq's lease does not keep a scheduler that was asleep from writing
		case err == nil:
			now.State, now.Verdict, now.Message, now.Ended = Done, o.Verdict, o.Message, timestamp()
		case ctx.Err() != nil:
			now.State, now.Message = Waiting, ""
		default:
			now.State, now.Message = Waiting, err.Error()
		}
		return nil
	})
	switch {
	case errors.Is(failed, errLost):
		log.WarnContext(ctx, "run stopped here: another scheduler may continue it", "reason", failed)
		return nil
	case failed != nil:
		return s.unrecorded(ctx, e.Name+"/"+slot, errors.Join(err, failed))
	case err == nil:
		log.InfoContext(ctx, "run finished", "verdict", o.Verdict, "message", o.Message)
	case ctx.Err() != nil:
		log.InfoContext(ctx, "run interrupted: another scheduler can continue it")
	default:
		log.WarnContext(ctx, "run failed: trying again after the wait", "error", err, "wait", s.waitForRun(attempt))
	}
	return err
}

func (s *Scheduler) waitForRun(attempt int) time.Duration {
	return s.options.Retry * time.Duration(attempt)
}

func (s *Scheduler) waitForNotice(attempt int) time.Duration {
	return min(maxWait, s.options.Retry<<min(attempt-1, 10))
}

func (s *Scheduler) entry(name string) *Entry {
	entries := *s.entries.Load()
	if i := slices.IndexFunc(entries, func(e Entry) bool { return e.Name == name }); i >= 0 {
		return &entries[i]
	}
	return nil
}
