// Package local answers a file on one machine. It runs a fleet's producer, worker and collector in
// one process, over a queue in memory. The output file is the only durable state.
package local

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/enqueue"
	"github.com/ingot-run/ingot/files/rows"
	"github.com/ingot-run/ingot/openai"
	"github.com/ingot-run/ingot/queue"
	"github.com/ingot-run/ingot/queue/memqueue"
	"github.com/ingot-run/ingot/worker"
)

// Batch is the batch id of `ingot run`. Rows without a seed get a seed that is derived from the
// batch id, so that all runs draw the same tokens.
const Batch = "local"

// Options are the settings of a run. A zero value stands for the default that the field's comment
// names.
type Options struct {
	Format        rows.Format           // format of the input; default rows.FormatAuto
	IgnoreUnknown bool                  // accept rows with unknown fields or names of other models
	Alias         string                // name of the model in answers; default the name of its file without .gguf
	Models        []string              // names that rows may use for the model; default the file's name and the name in its metadata
	Others        []string              // names of models that other runs use; this run leaves out rows with these names
	RecordSum     func(line int) string // as rows.Options.RecordSum
	Remote        bool                  // as rows.Options.Remote
	Continued     func(n int)           // called with the number of rows with rows.Row.Continue, if the model is for chats: before the first answer or, for a pipe, after the last; may be nil
	Prepared      *Prepared             // what Prepare returned for the input; nil if it was not called
	NoTemplate    func(chats int)       // called if the model has no chat template, and some rows need one: before the first answer or, for a pipe, after the last; nil to answer such rows with errors alone
	MixModels     bool                  // continue an output that has answers of another model or with other arithmetic
	Overwrite     bool                  // drop the answers in the output that MixModels is about
	FailFast      int                   // stop if as many rows at the start of the file all fail with one code; 0 for never
	Concurrency   int                   // maximum number of rows that the engine computes at once; 0 for as many as it allows. As many wait in the engine
	Version       string                // version of the program, for results
	Progress      func(Progress)        // called from one goroutine after rows are written; may be nil
	Logger        *slog.Logger          // receives the worker's log; default slog.Default()
}

// Progress is the progress of a run.
type Progress struct {
	// Total is the number of rows in the file, less the rows of Options.Others that were read so
	// far. It is 0 for a pipe, which cannot be read twice.
	Total            int
	Kept             int // rows with results from earlier runs
	Done             int // rows answered by this run
	Failed           int // rows of this run that became error lines
	PromptTokens     int // prompt tokens of this run
	CompletionTokens int
	Generated        int // tokens that this run has generated, also those of rows that are not finished
	Elapsed          time.Duration
}

// Summary has the outcome of a run.
type Summary struct {
	Progress
	Empty             int // answers of this run with a choice without text
	KeptFailed        int // error lines from earlier runs
	KeptByOtherModels int // answers of other models from earlier runs; 0 if this run answered nothing
}

// Run answers the rows of the input and writes each result to the output when it is finished. The
// output determines the batch id. Run skips rows that have results in the output, except errors
// about prompts that were too long for a shorter context. It holds only a window of rows in memory.
// When ctx is done, Run stops quickly and returns ctx's error with the summary so far; another run
// can continue. The error is ErrOtherModel if the output has answers of another model and o does
// not allow that.
func Run(ctx context.Context, eng worker.Engine, in io.Reader, out *rows.Output, o Options) (Summary, error) {
	if o.Overwrite {
		if err := dropOthers(ctx, eng, out); err != nil {
			return Summary{}, err
		}
	}
	if err := checkModel(ctx, eng, out, o); err != nil {
		return Summary{}, err
	}
	if err := dropTooShort(eng, out); err != nil {
		return Summary{}, err
	}
	if err := o.checkTemplate(in, eng.Info()); err != nil {
		return Summary{}, err
	}
	if o.Prepared == nil {
		p, err := survey(in, rows.SurveyOptions{Format: o.Format})
		if err != nil {
			return Summary{}, err
		}
		o.Prepared = &p
	}
	continued := o.Prepared.Continued
	o.reportContinued(eng, continued)
	if o.Models == nil {
		o.Models = modelNames(eng.Info())
	}
	if o.Concurrency == 0 {
		o.Concurrency = eng.Info().MaxSequences
	}
	r := &run{in: in, out: out, options: o, window: newWindow(o.Concurrency, eng.Info().Fit.Rows), start: time.Now()}
	r.generated = func() uint64 { return eng.Snapshot().GeneratedTokens }
	r.before = r.generated()
	r.total = o.Prepared.Rows
	r.held, r.failed = out.Counts()
	if r.held == r.failed {
		r.failFast.limit = o.FailFast
	}
	err := r.run(ctx, eng)
	if err == nil || ctx.Err() != nil { // after any other error, Flush may fail with the same error
		err = errors.Join(ctx.Err(), out.Flush())
	}
	r.count()
	if continued == 0 {
		o.reportContinued(eng, int(r.continued.Load()))
	}
	if chats := int(r.chats.Load()); !o.Prepared.Known && !eng.Info().Chat && chats > 0 && o.NoTemplate != nil {
		o.NoTemplate(chats)
	}
	s := Summary{Progress: r.progress, KeptFailed: r.failed, Empty: out.Empty()}
	if err == nil && s.Done > 0 { // the model's hash was computed for the results
		model, err := modelOf(ctx, eng)
		if err != nil {
			return s, err
		}
		s.KeptByOtherModels, _ = out.ByOtherModels(model)
	}
	return s, err
}

// ErrOtherModel means that an output has answers of another model file, or of the same file with
// other arithmetic, which Options.MixModels does not allow.
var ErrOtherModel = errors.New("answers of another model")

// otherModelError is an error that matches ErrOtherModel in errors.Is.
type otherModelError struct{ error }

func (otherModelError) Is(target error) bool { return target == ErrOtherModel }

// checkModel returns ErrOtherModel if the output has answers that depend on something in which this
// run differs, and o does not allow this: the model file, the arithmetic, or the context if it
// ended the answer.
func checkModel(ctx context.Context, eng worker.Engine, out *rows.Output, o Options) error {
	if o.MixModels || out.Answers() == 0 {
		return nil // the model's hash is not needed, and computing it takes time
	}
	own, err := modelOf(ctx, eng)
	if err != nil {
		return err
	}
	n, other := out.ByOtherModels(own)
	switch {
	case n == 0:
		return nil
	case other.SHA256 != own.SHA256:
		return fmt.Errorf("the output has %w (%d), and the model of this run has the SHA-256 %.12s…: choose another output, or give --mix-models", ErrOtherModel, n, own.SHA256)
	}
	difference := fmt.Sprintf("answers that ended at the end of a context of %d; this run has a context of %d", other.Context, own.Context)
	switch {
	case other.Sampling != own.Sampling:
		difference = queue.SamplingDifference(other.Sampling, own.Sampling, "this run")
	case other.Arithmetic != "" && other.Arithmetic != own.Arithmetic:
		difference = queue.ArithmeticDifference(other.Arithmetic, own.Arithmetic, "this run")
	}
	return otherModelError{fmt.Errorf("the output has %s (answers: %d): repeat the run with the same settings, choose another output, or give --mix-models", difference, n)}
}

func modelOf(ctx context.Context, eng worker.Engine) (rows.Model, error) {
	info := eng.Info()
	sha, err := eng.SHA256(ctx)
	return rows.Model{SHA256: sha, Arithmetic: info.Arithmetic, Sampling: info.Recommended.String(), Context: info.Context}, err
}

// reportContinued calls Continued if there are rows with text that a model for chats continues.
func (o *Options) reportContinued(eng worker.Engine, rows int) {
	if rows > 0 && o.Continued != nil && eng.Info().Chat {
		o.Continued(rows)
	}
}

func modelNames(info engine.Info) []string {
	file := filepath.Base(info.Path)
	return slices.Compact(slices.Sorted(slices.Values([]string{info.Model, file, strings.TrimSuffix(file, filepath.Ext(file))})))
}

type run struct {
	in        io.Reader
	out       *rows.Output
	options   Options
	window    *window
	start     time.Time
	held      int          // number of lines in the output before this run
	failed    int          // number of error lines in the output before this run
	total     int          // number of rows in the file; 0 if unknown
	kept      atomic.Int64 // number of input rows that the output had before this run, counted while the input is read
	continued atomic.Int64 // number of rows with Row.Continue, counted while the input is read
	others    atomic.Int64 // number of rows for other models, counted while the input is read
	chats     atomic.Int64 // number of rows that need a chat template, counted while the input is read
	failFast  failFast
	generated func() uint64 // tokens that the engine has generated
	before    uint64        // generated at the start
	progress  Progress      // written by collect
}

func (r *run) run(ctx context.Context, eng worker.Engine) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	q := memqueue.New()
	w, err := worker.New(eng, q, worker.Config{
		Alias:           Batch,
		Model:           cmp.Or(r.options.Alias, eng.Info().FileName()),
		Version:         r.options.Version,
		Concurrency:     r.options.Concurrency,
		Prefetch:        r.options.Concurrency,
		ShutdownTimeout: time.Nanosecond, // the next run answers the rows that are running when Run stops
		Logger:          r.options.Logger,
	})
	if err != nil {
		return err
	}
	producer, err := enqueue.NewProducer(ctx, q, enqueue.Options{
		Batch: r.out.Batch(), Alias: Batch, Version: r.options.Version,
	}, "")
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	working, finish := context.WithCancel(ctx)
	group.Go(func() error { return w.Run(working) })
	group.Go(func() error { return r.feed(ctx, producer) })
	group.Go(func() error {
		defer finish()
		return r.collect(ctx, q)
	})
	return group.Wait()
}

// feed queues the rows that the output does not hold, when the window has room for them.
func (r *run) feed(ctx context.Context, p *enqueue.Producer) error {
	whole := sha256.New()
	rows := rows.NewReader(io.TeeReader(r.in, whole), rows.Options{
		Format: r.options.Format, IgnoreUnknown: r.options.IgnoreUnknown, Models: slices.Concat(r.options.Models, r.options.Others),
		Remote: r.options.Remote, RecordSum: r.options.RecordSum,
	})
	added := 0
	for row, err := range rows.Rows(ctx) {
		if err != nil {
			return err
		}
		if r.isForOther(row) {
			r.others.Add(1)
			continue
		}
		if row.Continue {
			r.continued.Add(1)
		}
		if r.out.Has(row.Line) {
			if err := r.out.Check(row); err != nil {
				return err
			}
			r.kept.Add(1)
			continue
		}
		if row.Endpoint == openai.Chat {
			r.chats.Add(1)
		}
		r.failFast.fed(row.Line)
		if err := r.window.acquire(ctx, row); err != nil {
			return err
		}
		if _, err := p.Add(ctx, row); err != nil {
			return err
		}
		added++
		size := len(row.Body)
		row.Body = nil // the queue has its own copy
		if err := r.window.drain(ctx, size); err != nil {
			return err
		}
	}
	return p.Seal(ctx, added, hex.EncodeToString(whole.Sum(nil)))
}

func (r *run) isForOther(row rows.Row) bool {
	return row.Err == nil && slices.Contains(r.options.Others, row.Model)
}

// collect writes each result when it is recorded, deletes it from the queue, and releases its room
// in the window.
func (r *run) collect(ctx context.Context, q queue.Queue) error {
	_, err := enqueue.Collect(ctx, q, r.out, enqueue.CollectOptions{
		Follow:    true,
		Immediate: true,
		Progress:  r.report,
		Written: func(rows []queue.Recording) error {
			if err := q.Discard(ctx, r.out.Batch(), rows, true); err != nil {
				return err
			}
			r.window.release(rows)
			return r.failFast.ended(rows)
		},
	})
	return err
}

func (r *run) report(s queue.Status) {
	r.progress.PromptTokens, r.progress.CompletionTokens = s.PromptTokens, s.CompletionTokens
	r.count()
	r.progress.Generated = int(r.generated() - r.before)
	if r.options.Progress != nil {
		r.options.Progress(r.progress)
	}
}

func (r *run) count() {
	held, failed := r.out.Counts()
	p := &r.progress
	p.Kept = int(r.kept.Load())
	p.Total = max(0, r.total-int(r.others.Load()))
	p.Failed = failed - r.failed
	p.Done = held - r.held - p.Failed
	p.Elapsed = time.Since(r.start)
}
