package enqueue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/hibiken/asynq"
	"github.com/oklog/ulid/v2"
	"github.com/redis/go-redis/v9"

	"github.com/ingot-run/ingot/job"
	"github.com/ingot-run/ingot/rows"
)

// The defaults of Options.
const (
	DefaultMaxAttempts = 5
	DefaultTimeout     = time.Hour
	DefaultRetention   = 7 * 24 * time.Hour
)

// asynqGrace is added to asynq's timeout of an attempt, so that the worker's own timeout ends it first. asynq would only retry;
// the worker can record the error.
const asynqGrace = 5 * time.Minute

// Options are the settings of a batch. Zero values mean the defaults named.
type Options struct {
	Batch         string        // id, required; NewBatchID makes one
	Alias         string        // model; job.DefaultAlias
	Priority      job.Priority  // job.Default
	Format        rows.Format   // rows.FormatAuto
	IgnoreUnknown bool          // of rows: accept unknown fields and names of other models
	MaxAttempts   int           // maximum deliveries of a job, after which its error is recorded; DefaultMaxAttempts
	Timeout       time.Duration // of one attempt; DefaultTimeout
	Retention     time.Duration // of the results after the end of the batch; DefaultRetention
	Version       string        // of the program, for the results of rows that cannot be used
	Progress      func(Summary) // called every 1000 rows from one goroutine, and at the end; may be nil
}

func (o Options) withDefaults() (Options, error) {
	if o.Alias == "" {
		o.Alias = job.DefaultAlias
	}
	if o.Priority == "" {
		o.Priority = job.Default
	}
	if o.MaxAttempts == 0 {
		o.MaxAttempts = DefaultMaxAttempts
	}
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	if o.Retention == 0 {
		o.Retention = DefaultRetention
	}
	if o.MaxAttempts < 1 || o.Timeout < time.Second || o.Retention < time.Second {
		return o, fmt.Errorf("enqueue: attempts (%d) must be at least 1, timeout (%v) and retention (%v) at least 1s",
			o.MaxAttempts, o.Timeout, o.Retention)
	}
	_, err := job.ParsePriority(string(o.Priority))
	return o, errors.Join(job.CheckBatch(o.Batch), job.CheckAlias(o.Alias), err)
}

// NewBatchID makes a batch id: a ULID. ULIDs sort by time.
func NewBatchID() string { return ulid.Make().String() }

// Outcome is what Add did with a row.
type Outcome int

// The outcomes.
const (
	Added    Outcome = iota // queued it
	Known                   // nothing: it was queued or recorded before
	Rejected                // recorded an error, because it cannot be used
)

// Producer queues the rows of one batch. Its methods are safe for concurrent use.
type Producer struct {
	batch     string
	queue     string
	options   Options
	file      string // job.FileID of the batch's file; empty if it is not known
	recorded  job.Lines
	store     *job.Store
	client    *asynq.Client
	inspector *asynq.Inspector
}

// NewProducer creates the batch of o, or resumes it. fileSHA is the SHA-256 of its file, or empty if it is not known before all
// rows are read.
func NewProducer(ctx context.Context, rdb redis.UniversalClient, o Options, fileSHA string) (*Producer, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	p := &Producer{
		batch:     o.Batch,
		file:      job.FileID(fileSHA),
		queue:     job.Queue(o.Alias, o.Priority),
		options:   o,
		store:     job.NewStore(rdb),
		client:    asynq.NewClientFromRedisClient(rdb),
		inspector: asynq.NewInspectorFromRedisClient(rdb),
	}
	known, created, err := p.store.Create(ctx, job.Batch{
		ID: o.Batch, Alias: o.Alias, Priority: o.Priority, FileSHA: fileSHA, Retention: o.Retention,
	})
	if err != nil || created {
		return p, err
	}
	if known.Cancelled {
		return nil, fmt.Errorf("batch %s: %w: give another batch id", o.Batch, job.ErrCancelled)
	}
	if known.Alias != o.Alias || known.Priority != o.Priority {
		return nil, fmt.Errorf("batch %s was queued for model %s with priority %s: give the same, or another batch id",
			o.Batch, known.Alias, known.Priority)
	}
	if fileSHA != "" && known.FileSHA != "" && fileSHA != known.FileSHA {
		return nil, fmt.Errorf("batch %s was %w, with SHA-256 %.12s…; this one has %.12s…: give another batch id",
			o.Batch, rows.ErrOtherFile, known.FileSHA, fileSHA)
	}
	p.recorded, err = p.store.Recorded(ctx, o.Batch)
	return p, err
}

// Add queues a row, or records its error.
func (p *Producer) Add(ctx context.Context, row rows.Row) (Outcome, error) {
	if p.recorded.Has(row.Line) {
		return Known, nil
	}
	j := job.Job{
		Batch:       p.batch,
		Line:        row.Line,
		Sum:         row.Sum,
		File:        p.file,
		CustomID:    row.CustomID,
		Endpoint:    row.Endpoint,
		Body:        row.Body,
		EnqueuedMS:  time.Now().UnixMilli(),
		TimeoutMS:   p.options.Timeout.Milliseconds(),
		MaxAttempts: p.options.MaxAttempts,
	}
	if row.Err != nil {
		version := job.Stats{Origin: job.Origin{Version: p.options.Version}}
		_, err := p.store.Record(ctx, p.batch, job.Failure(&j, *row.Err, version))
		return Rejected, err
	}
	return p.queueJob(ctx, &j)
}

// maxQueueTries is the maximum number of attempts to queue a job while other tasks have its id.
const maxQueueTries = 3

// queueJob queues a job, unless it is queued. A task with its id that will not answer it is replaced.
func (p *Producer) queueJob(ctx context.Context, j *job.Job) (Outcome, error) {
	payload, err := j.Encode()
	for try := 0; err == nil && try < maxQueueTries; try++ {
		_, err = p.client.EnqueueContext(ctx, asynq.NewTask(job.TaskType, payload),
			asynq.Queue(p.queue),
			asynq.TaskID(job.TaskID(p.batch, j.Line)),
			asynq.Timeout(p.options.Timeout+asynqGrace),
			// asynq archives a task, and so loses it, if the worker dies during the last attempt that asynq allows. The worker
			// therefore counts attempts itself and records the error of the last one.
			asynq.MaxRetry(math.MaxInt32))
		if err == nil {
			return Added, nil
		}
		if !errors.Is(err, asynq.ErrTaskIDConflict) {
			break
		}
		var removed bool
		if removed, err = p.removeDead(j); err == nil && !removed {
			return Known, nil
		}
	}
	return 0, fmt.Errorf("queue line %d of batch %s: %w", j.Line, p.batch, cmp.Or(err, asynq.ErrTaskIDConflict))
}

// removeDead removes the task with a job's id from the queue if it will not answer the job, because it is archived or is left
// from an earlier batch with the same id.
func (p *Producer) removeDead(j *job.Job) (removed bool, err error) {
	id := job.TaskID(p.batch, j.Line)
	info, err := p.inspector.GetTaskInfo(p.queue, id)
	if errors.Is(err, asynq.ErrTaskNotFound) {
		return false, nil // it has just been answered
	}
	if err != nil {
		return false, err
	}
	queued, err := job.Decode(info.Payload)
	if err == nil && queued.File == j.File && info.State != asynq.TaskStateArchived {
		return false, nil
	}
	if info.State == asynq.TaskStateActive {
		return false, errors.New("a worker runs the row of an earlier batch with the same id: give another batch id, or try again when it has ended")
	}
	return true, p.inspector.DeleteTask(p.queue, id)
}

// Seal declares that all rows of the batch are queued, with their number and the SHA-256 of their file.
func (p *Producer) Seal(ctx context.Context, rows int, fileSHA string) error {
	return p.store.Seal(ctx, p.batch, rows, fileSHA)
}
