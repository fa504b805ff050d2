package enqueue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/ingot-run/ingot/files/rows"
	"github.com/ingot-run/ingot/openai"
	"github.com/ingot-run/ingot/queue"
)

// The defaults of Options.
const (
	DefaultMaxAttempts = 5
	DefaultTimeout     = time.Hour
	DefaultRetention   = 7 * 24 * time.Hour
)

const (
	maxRetention = 10 * 365 * 24 * time.Hour
	maxWeight    = 1000
)

// CheckRetention returns an error that begins with the value if Options.Retention cannot be d.
func CheckRetention(d time.Duration) error {
	if d < time.Second || d > maxRetention {
		return fmt.Errorf("%v is not between 1s and %v", d, maxRetention)
	}
	return nil
}

// CheckWeight returns an error that begins with the value if a batch cannot have weight n.
func CheckWeight(n int) error {
	if n < 1 || n > maxWeight {
		return fmt.Errorf("%d is not between 1 and %d", n, maxWeight)
	}
	return nil
}

// Options are the settings of a batch. A zero value stands for the default that the field's comment
// names.
type Options struct {
	Batch         string                // batch id, required; NewBatchID makes a new id
	Alias         string                // model name that workers serve; default queue.DefaultAlias
	ByModel       bool                  // rows that name a model go to its workers, other rows to those of Alias; an existing batch keeps its setting
	Priority      queue.Priority        // default queue.Default
	Format        rows.Format           // format of the input; default rows.FormatAuto
	IgnoreUnknown bool                  // accept rows with unknown fields or names of other models
	Remote        bool                  // as rows.Options.Remote
	MixModels     bool                  // let different model files under one model name answer the batch, even if the batch exists already
	Lines         int                   // number of lines of the file, set by Enqueue; 0 if not known
	MaxAttempts   int                   // maximum number of attempts at a row; the error of the last one is recorded; default DefaultMaxAttempts
	Timeout       time.Duration         // maximum time of one attempt; default DefaultTimeout
	Retention     time.Duration         // time that results are kept after the end of the batch; default DefaultRetention
	RecordSum     func(line int) string // as rows.Options.RecordSum
	Version       string                // version of the program, for the results of rows that cannot be used
	Weight        int                   // share among batches of the same priority, see CheckWeight; 0 means 1 for a new batch, and no change for an existing batch
	Deadline      time.Time             // after this time, rows are not answered any more; zero for no deadline; an existing batch keeps its deadline
	Live          *queue.Live           // settings of a request whose client waits; nil for a file. Such a batch has the priority Interactive
	Progress      func(Summary)         // called every 1000 rows from one goroutine, and at the end; may be nil

	// Continued is called with the number of rows with rows.Row.Continue if there are some. May be
	// nil.
	Continued func(n int)
	// Chats is called with the number of rows that need a model with a chat template if there are
	// some. Nil if they need not be counted, for which every row is parsed twice.
	Chats func(n int)

	// Existing is called if the batch existed already, with its deadline and ByModel, which stay,
	// as does its retention. May be nil.
	Existing func(queue.Batch)
}

func (o Options) withDefaults() (Options, error) {
	o.Alias = cmp.Or(o.Alias, queue.DefaultAlias)
	o.Priority = cmp.Or(o.Priority, queue.Default)
	o.MaxAttempts = cmp.Or(o.MaxAttempts, DefaultMaxAttempts)
	o.Timeout = cmp.Or(o.Timeout, DefaultTimeout)
	o.Retention = cmp.Or(o.Retention, DefaultRetention)
	if err := CheckRetention(o.Retention); err != nil {
		return o, fmt.Errorf("the retention %w", err)
	}
	if o.Weight != 0 {
		if err := CheckWeight(o.Weight); err != nil {
			return o, fmt.Errorf("the weight %w", err)
		}
	}
	_, err := queue.ParsePriority(string(o.Priority))
	if o.Live != nil {
		o.Priority, err = queue.Interactive, nil
	}
	return o, errors.Join(queue.CheckLimits(o.Timeout, o.MaxAttempts), queue.CheckBatch(o.Batch), queue.CheckAlias(o.Alias), err)
}

// NewBatchID makes a batch id: a ULID. ULIDs sort by time.
func NewBatchID() string { return ulid.Make().String() }

// Outcome is what Add did with a row.
type Outcome int

// The outcomes.
const (
	Added    Outcome = iota // the row was queued
	Known                   // the row was queued or recorded already
	Rejected                // an error was recorded, since the row cannot be used
)

// Producer queues the rows of one batch. Its exported methods are safe for concurrent use.
type Producer struct {
	batch    string
	options  Options
	file     string // queue.FileID of the batch's file; empty if the file's SHA-256 is not known
	recorded queue.Lines
	queue    queue.Queue
	maxBody  int     // maximum size of a request body that the queue accepts, in bytes
	models   *Models // nil if all rows go to options.Alias
}

// jobFields is the maximum size of a job without its request body, in bytes.
const jobFields = 16 << 10

// NewProducer creates the batch that o describes, or resumes it if it exists. fileSHA is the
// SHA-256 of the batch's file, or empty if it is not known before all rows are read.
func NewProducer(ctx context.Context, q queue.Queue, o Options, fileSHA string) (*Producer, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	p := &Producer{batch: o.Batch, options: o, file: queue.FileID(fileSHA), queue: q}
	var known queue.Batch
	var created bool
	err = p.retry(ctx, func() error {
		maxBytes, err := q.MaxBytes(ctx)
		if err != nil {
			return err
		}
		p.maxBody = maxBytes - jobFields
		known, created, err = q.Create(ctx, queue.Batch{
			ID: o.Batch, Alias: o.Alias, Priority: o.Priority, FileSHA: fileSHA, Retention: o.Retention, Deadline: o.Deadline,
			Lines: o.Lines, MixModels: o.MixModels, Weight: o.Weight, ByModel: o.ByModel,
		})
		return err
	})
	if err == nil && known.ByModel {
		p.models = NewModels(o.Alias)
	}
	if err != nil || created {
		return p, err
	}
	if o.Existing != nil {
		o.Existing(known)
	}
	err = p.resume(ctx, known, fileSHA)
	return p, err
}

// resume continues a batch that exists. The error says what differs if the batch was made with
// other settings or from another file.
func (p *Producer) resume(ctx context.Context, known queue.Batch, fileSHA string) error {
	o := &p.options
	o.Deadline = known.Deadline
	if known.Cancelled {
		return fmt.Errorf("continue batch %s: %w: give another batch id", o.Batch, queue.ErrCancelled)
	}
	if known.Alias != o.Alias || known.Priority != o.Priority {
		return fmt.Errorf("batch %s was queued for model name %s with priority %s: give the same model name and priority, or another batch id",
			o.Batch, known.Alias, known.Priority)
	}
	if fileSHA != "" && known.FileSHA != "" && fileSHA != known.FileSHA {
		return fmt.Errorf("batch %s was %w, with the SHA-256 %.12s… instead of %.12s…: give another batch id",
			o.Batch, rows.ErrOtherFile, known.FileSHA, fileSHA)
	}
	return p.retry(ctx, func() (err error) {
		p.recorded, err = p.queue.Recorded(ctx, o.Batch)
		return err
	})
}

// maxWait is the maximum time to wait for an unreachable Redis.
const maxWait = time.Minute

// retry calls f until Redis can be reached. It gives up after maxWait.
func retry(ctx context.Context, f func() error) error { return queue.UntilAvailable(ctx, maxWait, f) }

func read[T any](ctx context.Context, f func() (T, error)) (value T, err error) {
	err = retry(ctx, func() (err error) {
		value, err = f()
		return err
	})
	return value, err
}

// retry is the function retry for a producer. It returns queue.ErrFull at once: somebody has to
// free memory in Redis, and that would take longer than maxWait. It calls f once if a client waits,
// which would rather send its request to another server.
func (p *Producer) retry(ctx context.Context, f func() error) error {
	if p.options.Live != nil {
		return f()
	}
	var full error
	err := retry(ctx, func() error {
		err := f()
		if errors.Is(err, queue.ErrFull) {
			full = err
			return nil
		}
		return err
	})
	return cmp.Or(full, err)
}

// MaxBody returns the maximum size of a row's body that the queue accepts, in bytes.
func (p *Producer) MaxBody() int { return p.maxBody }

// route decides to which model a row goes. The rows must be passed in the order of the file, by one
// goroutine. A row that cannot go to any model gets an error.
func (p *Producer) route(row *rows.Row) {
	if p.models == nil || row.Err != nil {
		return
	}
	alias, err := p.models.Of(*row)
	row.Model = alias
	if err != nil {
		row.Endpoint, row.Body, row.Err = "", nil, err
	}
}

// Add queues rows, and records an error for each row that cannot be used. It returns an outcome for
// each row. If Redis does not answer, Add tries again with all rows, so a row that this call added
// can be reported as Known.
func (p *Producer) Add(ctx context.Context, rows ...rows.Row) ([]Outcome, error) {
	outcomes := make([]Outcome, len(rows))
	queued := make([]queuedRow, 0, len(rows))
	for i, row := range rows {
		if row.Err == nil && len(row.Body) > p.maxBody {
			row.Err = &openai.Error{Code: openai.CodeTooLong, Message: fmt.Sprintf("the request body has %d bytes, more than the %d that the queue accepts", len(row.Body), p.maxBody)}
		}
		j := p.job(row)
		switch {
		case p.recorded.Has(row.Line):
			outcomes[i] = Known
		case row.Err != nil:
			outcomes[i] = Rejected
			version := queue.Stats{Origin: queue.Origin{Version: p.options.Version}}
			failure := queue.Failure(j, *row.Err, version)
			err := p.retry(ctx, func() error {
				_, err := p.queue.Record(ctx, p.batch, failure)
				return err
			})
			if err != nil {
				return nil, err
			}
		default:
			queued = append(queued, queuedRow{j, i})
		}
	}
	slices.SortStableFunc(queued, func(a, b queuedRow) int { return strings.Compare(a.Alias, b.Alias) })
	for len(queued) > 0 {
		n := 1
		for n < len(queued) && queued[n].Alias == queued[0].Alias {
			n++
		}
		if err := p.addJobs(ctx, queued[:n], outcomes); err != nil {
			return nil, err
		}
		queued = queued[n:]
	}
	return outcomes, nil
}

type queuedRow struct {
	*queue.Job
	index int
}

func (p *Producer) addJobs(ctx context.Context, queued []queuedRow, outcomes []Outcome) error {
	jobs := make([]*queue.Job, len(queued))
	for i, r := range queued {
		jobs[i] = r.Job
	}
	return p.retry(ctx, func() error {
		added, err := p.queue.Add(ctx, cmp.Or(jobs[0].Alias, p.options.Alias), p.options.Priority, jobs)
		if err != nil {
			return err
		}
		for i, r := range queued {
			outcomes[r.index] = Known
			if added[i] {
				outcomes[r.index] = Added
			}
		}
		return nil
	})
}

func (p *Producer) job(row rows.Row) *queue.Job {
	j := &queue.Job{
		Batch:       p.batch,
		Line:        row.Line,
		Sum:         row.Sum,
		RecordSum:   row.Record,
		File:        p.file,
		CustomID:    row.CustomID,
		Endpoint:    row.Endpoint,
		Body:        row.Body,
		EnqueuedMS:  time.Now().UnixMilli(),
		TimeoutMS:   p.options.Timeout.Milliseconds(),
		MaxAttempts: p.options.MaxAttempts,
		Live:        p.options.Live,
	}
	if p.models != nil && row.Model != p.options.Alias {
		j.Alias = row.Model
	}
	if !p.options.Deadline.IsZero() {
		j.DeadlineMS = p.options.Deadline.UnixMilli()
	}
	return j
}

// Seal records that all rows of the batch are queued, with the number of rows and the SHA-256 of
// their file.
func (p *Producer) Seal(ctx context.Context, rows int, fileSHA string) error {
	return p.retry(ctx, func() error { return p.queue.Seal(ctx, p.batch, rows, fileSHA) })
}
