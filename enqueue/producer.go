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

// MaxRetention is the maximum of Options.Retention.
const MaxRetention = 10 * 365 * 24 * time.Hour

// MaxWeight is the maximum of Options.Weight.
const MaxWeight = 1000

// Options are the settings of a batch. A zero value stands for the default that the field's comment names.
type Options struct {
	Batch         string         // batch id, required; NewBatchID makes a new id
	Alias         string         // model name that workers serve; default queue.DefaultAlias
	ByModel       bool           // rows that name a model go to its workers, other rows to those of Alias; an existing batch keeps its setting
	Priority      queue.Priority // default job.Default
	Format        rows.Format    // format of the input; default rows.FormatAuto
	IgnoreUnknown bool           // accept rows with unknown fields or names of other models
	MixModels     bool           // let different model files under one model name answer the batch, even if the batch exists already
	Lines         int            // number of lines of the file, set by Enqueue; 0 if not known
	MaxAttempts   int            // maximum number of attempts at a row; the error of the last one is recorded; default DefaultMaxAttempts
	Timeout       time.Duration  // maximum time of one attempt; default DefaultTimeout
	Retention     time.Duration  // time that results are kept after the end of the batch; default DefaultRetention
	Version       string         // version of the program, for the results of rows that cannot be used
	Weight        int            // share among batches of the same priority, from 1 to MaxWeight; 0 means 1 for a new batch, and no change for an existing batch
	Deadline      time.Time      // after this time, rows are not answered any more; zero for no deadline; an existing batch keeps its deadline
	Progress      func(Summary)  // called every 1000 rows from one goroutine, and at the end; may be nil
}

func (o Options) withDefaults() (Options, error) {
	if o.Alias == "" {
		o.Alias = queue.DefaultAlias
	}
	if o.Priority == "" {
		o.Priority = queue.Default
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
	if o.Retention < time.Second || o.Retention > MaxRetention {
		return o, fmt.Errorf("the retention %v is not between 1s and %v", o.Retention, MaxRetention)
	}
	if o.Weight < 0 || o.Weight > MaxWeight {
		return o, fmt.Errorf("the weight %d is not between 1 and %d", o.Weight, MaxWeight)
	}
	_, err := queue.ParsePriority(string(o.Priority))
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
	file     string // job.FileID of the batch's file; empty if the file's SHA-256 is not known
	recorded queue.Lines
	queue    queue.Queue
	maxBody  int     // maximum size of a request body that the queue accepts, in bytes
	models   *Models // nil if all rows go to options.Alias
}

// jobFields is the maximum size of a job without its request body, in bytes.
const jobFields = 16 << 10

// NewProducer creates the batch that o describes, or resumes it if it exists. fileSHA is the SHA-256 of the batch's file, or empty if it
// is not known before all rows are read.
func NewProducer(ctx context.Context, q queue.Queue, o Options, fileSHA string) (*Producer, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	p := &Producer{batch: o.Batch, options: o, file: queue.FileID(fileSHA), queue: q}
	var known queue.Batch
	var created bool
	err = retryUnlessFull(ctx, func() error {
		maxBytes, err := q.MaxBytes(ctx)
		if err != nil {
			return err
		}
		p.maxBody = maxBytes - jobFields
		known, created, err = p.queue.Create(ctx, queue.Batch{
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
	p.options.Deadline = known.Deadline
	if known.Cancelled {
		return nil, fmt.Errorf("continue batch %s: %w: give another batch id", o.Batch, queue.ErrCancelled)
	}
	if known.Alias != o.Alias || known.Priority != o.Priority {
		return nil, fmt.Errorf("batch %s was queued for model name %s with priority %s: give the same model name and priority, or another batch id",
			o.Batch, known.Alias, known.Priority)
	}
	if fileSHA != "" && known.FileSHA != "" && fileSHA != known.FileSHA {
		return nil, fmt.Errorf("batch %s was %w, with the SHA-256 %.12s… instead of %.12s…: give another batch id",
			o.Batch, rows.ErrOtherFile, known.FileSHA, fileSHA)
	}
	err = retryUnlessFull(ctx, func() (err error) {
		p.recorded, err = p.queue.Recorded(ctx, o.Batch)
		return err
	})
	return p, err
}

// route decides to which model a row goes. The rows must be passed in the order of the file, by one goroutine. A row that cannot go to
// any model gets an error.
func (p *Producer) route(row *rows.Row) {
	if p.models == nil || row.Err != nil {
		return
	}
	alias, err := p.models.Of(*row)
	if err != nil {
		row.Endpoint, row.Body, row.Model, row.Err = "", nil, "", err
		return
	}
	row.Model = alias
}

// Add queues rows, and records an error for each row that cannot be used. It returns an outcome for each row. If Redis does not answer,
// Add tries again with all rows, so a row that this call added can be reported as Known.
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
			err := retryUnlessFull(ctx, func() error {
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

// queuedRow is a job with the index of its row among the rows of a call of Add.
type queuedRow struct {
	*queue.Job
	index int
}

// addJobs queues jobs of one alias and sets their outcomes.
func (p *Producer) addJobs(ctx context.Context, queued []queuedRow, outcomes []Outcome) error {
	jobs := make([]*queue.Job, len(queued))
	for i, r := range queued {
		jobs[i] = r.Job
	}
	return retryUnlessFull(ctx, func() error {
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
		File:        p.file,
		CustomID:    row.CustomID,
		Endpoint:    row.Endpoint,
		Body:        row.Body,
		EnqueuedMS:  time.Now().UnixMilli(),
		TimeoutMS:   p.options.Timeout.Milliseconds(),
		MaxAttempts: p.options.MaxAttempts,
	}
	if p.models != nil && row.Model != p.options.Alias {
		j.Alias = row.Model
	}
	if !p.options.Deadline.IsZero() {
		j.DeadlineMS = p.options.Deadline.UnixMilli()
	}
	return j
}

// Seal records that all rows of the batch are queued, with the number of rows and the SHA-256 of their file.
func (p *Producer) Seal(ctx context.Context, rows int, fileSHA string) error {
	return retryUnlessFull(ctx, func() error { return p.queue.Seal(ctx, p.batch, rows, fileSHA) })
}
