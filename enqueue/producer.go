package enqueue

import (
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

// leaveToWorker is added to the time that asynq grants an attempt, so that the worker's own limit comes first: asynq only
// knows how to try again, the worker can record the error.
const leaveToWorker = 5 * time.Minute

// Options says where and how rows are queued. Zero values take the defaults named.
type Options struct {
	Batch       string        // id, needed; NewBatchID makes one
	Alias       string        // model; job.DefaultAlias
	Priority    job.Priority  // job.Default
	Format      rows.Format   // rows.FormatAuto
	MaxAttempts int           // deliveries of a job before it is recorded as an error; DefaultMaxAttempts
	Timeout     time.Duration // of one attempt; DefaultTimeout
	Retention   time.Duration // of the results, once all are there; DefaultRetention
	Version     string        // of the program, in the results of rows that cannot be used
	Progress    func(Summary) // called every 1000 rows from one goroutine, and at the end; may be nil
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

// NewBatchID makes a batch id: a ULID, which sorts by time.
func NewBatchID() string { return ulid.Make().String() }

// Outcome is what became of a row that was to be queued.
type Outcome int

// The outcomes.
const (
	Added    Outcome = iota // it is in the queue
	Known                   // it was queued or finished before
	Rejected                // it cannot be used, and its error is recorded
)

// Producer queues the rows of one batch. Its methods are safe for concurrent use.
type Producer struct {
	batch    string
	queue    string
	options  Options
	fileSHA  string // of the file that the batch was made of, where it was made before
	recorded job.Lines
	store    *job.Store
	client   *asynq.Client
}

// NewProducer makes the batch of o known, or resumes it. fileSHA is the SHA-256 of its file, or empty where it is not known
// before the rows are read.
func NewProducer(ctx context.Context, rdb redis.UniversalClient, o Options, fileSHA string) (*Producer, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	p := &Producer{
		batch:   o.Batch,
		queue:   job.Queue(o.Alias, o.Priority),
		options: o,
		store:   job.NewStore(rdb),
		client:  asynq.NewClientFromRedisClient(rdb),
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
	p.fileSHA = known.FileSHA
	if err := p.checkFile(fileSHA); err != nil {
		return nil, err
	}
	p.recorded, err = p.store.Recorded(ctx, o.Batch)
	return p, err
}

func (p *Producer) checkFile(sha string) error {
	if sha == "" || p.fileSHA == "" || sha == p.fileSHA {
		return nil
	}
	return fmt.Errorf("batch %s: %w: it was made of a file with SHA-256 %.12s…, this one has %.12s…; give another batch id",
		p.batch, rows.ErrOtherFile, p.fileSHA, sha)
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
	payload, err := j.Encode()
	if err != nil {
		return 0, fmt.Errorf("queue line %d of batch %s: %w", row.Line, p.batch, err)
	}
	_, err = p.client.EnqueueContext(ctx, asynq.NewTask(job.TaskType, payload),
		asynq.Queue(p.queue),
		asynq.TaskID(job.TaskID(p.batch, row.Line)),
		asynq.Timeout(p.options.Timeout+leaveToWorker),
		// asynq archives a task whose worker dies on the last attempt that it counts, and an archived task is lost. The
		// worker counts attempts itself and records the last one's error.
		asynq.MaxRetry(math.MaxInt32))
	switch {
	case errors.Is(err, asynq.ErrTaskIDConflict):
		return Known, nil
	case err != nil:
		return 0, fmt.Errorf("queue line %d of batch %s: %w", row.Line, p.batch, err)
	}
	return Added, nil
}

// Seal says that all rows of the batch are queued, how many they are, and the SHA-256 of their file.
func (p *Producer) Seal(ctx context.Context, rows int, fileSHA string) error {
	return p.store.Seal(ctx, p.batch, rows, fileSHA)
}
