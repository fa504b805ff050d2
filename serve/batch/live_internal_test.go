package batch

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/files/rows"
	"github.com/ingot-run/ingot/openai"
	"github.com/ingot-run/ingot/queue"
)

// funcRunner is a Runner of functions. Those that are nil succeed.
type funcRunner struct {
	models func(context.Context) ([]string, error)
	run    func(ctx, stopped context.Context, t Task) error
	forget func(context.Context, string) error
}

func (r funcRunner) Models(ctx context.Context) ([]string, error) {
	if r.models == nil {
		return nil, nil
	}
	return r.models(ctx)
}

func (r funcRunner) Run(ctx, stopped context.Context, t Task) error {
	if r.run == nil {
		return nil
	}
	return r.run(ctx, stopped, t)
}

func (r funcRunner) Forget(ctx context.Context, id string) error {
	if r.forget == nil {
		return nil
	}
	return r.forget(ctx, id)
}

// pass lets time pass in a bubble of synctest, where nothing really waits for it.
func pass(d time.Duration) { <-time.After(d) }

const oneRow = `{"custom_id":"a","method":"POST","url":"/v1/completions","body":{"model":"m","prompt":"a"}}` + "\n"

func newBatchOf(t *testing.T, s *Store, input, window string) *batch {
	t.Helper()
	made, err := s.CreateBatch(Request{InputFileID: addInput(t, s, input).ID, Endpoint: openai.Completions, CompletionWindow: window})
	require.NoError(t, err)
	b, err := s.find(made.ID)
	require.NoError(t, err)
	return b
}

// After an error, a batch is tried again after a pause, which becomes longer until the batch
// advances.
func TestPausesAfterErrors(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := openStore(t)
		var log bytes.Buffer
		s.log = slog.New(slog.NewTextHandler(&log, nil))
		b := newBatchOf(t, s, oneRow, "24h")
		ctx, stop := context.WithCancel(t.Context())
		var at []int // seconds
		start := time.Now()
		s.Run(ctx, funcRunner{run: func(_, _ context.Context, task Task) error {
			at = append(at, int(time.Since(start).Seconds()))
			switch len(at) {
			case 9:
				task.Warn("it advances")
			case 11:
				time.AfterFunc(3*time.Second, stop) // within the pause
			}
			return errors.New("broken")
		}})
		require.Equal(t, []int{0, 1, 3, 7, 15, 31, 63, 123, 183, 184, 186}, at)
		require.Equal(t, InProgress, b.view().Status)
		require.Contains(t, log.String(), `level=ERROR msg="batch is interrupted" batch=`+b.view().ID+` error=broken again_in=32s`)
		require.NotContains(t, log.String(), "batch has ended")
	})
}

// A batch ends with its completion window, and is no longer tried then.
func TestBatchEndsWithItsWindow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := openStore(t)
		var log bytes.Buffer
		s.log = slog.New(slog.NewTextHandler(&log, nil))
		b := newBatchOf(t, s, oneRow, "10s")
		ctx, stop := context.WithCancel(t.Context())
		start := time.Now()
		s.Run(ctx, funcRunner{
			run: func(_, stopped context.Context, task Task) error {
				require.Equal(t, []any{b.view().ID, "m", start.Unix() + 10, 1}, []any{task.Batch, task.Model, task.Expires, task.Continued})
				<-stopped.Done()
				return nil
			},
			forget: func(context.Context, string) error {
				require.Equal(t, 10*time.Second, time.Since(start))
				time.AfterFunc(time.Second, stop)
				return nil
			},
		})
		require.Equal(t, Expired, b.view().Status)
		require.Equal(t, start.Unix()+10, *b.view().ExpiredAt)
		require.Contains(t, log.String(), `level=INFO msg="batch has ended" batch=`+b.view().ID+" status=expired completed=0 failed=1")
		require.NotContains(t, log.String(), "interrupted")
	})
}

// Run returns when all batches have stopped. It begins those that were created before, and removes
// files that have expired.
func TestRunOfAStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := openStore(t)
		var log bytes.Buffer
		s.log = slog.New(slog.NewTextHandler(&log, nil))
		var begun, left atomic.Int64
		runner := funcRunner{run: func(ctx, _ context.Context, _ Task) error {
			begun.Add(1)
			<-ctx.Done()
			pass(time.Second)
			left.Add(1)
			return ctx.Err()
		}}
		newBatchOf(t, s, oneRow, "24h")
		answered := newBatchOf(t, s, oneRow, "24h")
		require.NoError(t, s.conclude(answered, nil))
		ended := newBatchOf(t, s, oneRow, "24h")
		require.NoError(t, s.change(ended, func(r *record) { r.Batch.Status = Failed }))
		u, err := s.NewUpload()
		require.NoError(t, err)
		f, err := s.AddFile(u, "a", "evals", time.Hour)
		require.NoError(t, err)
		third := addInput(t, s, oneRow)
		ctx, stop := context.WithCancel(t.Context())
		go func() {
			pass(time.Hour + time.Minute)
			synctest.Wait()
			if _, err := os.Stat(s.contentPath(f.ID)); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the expired file was not removed: %v", err)
			}
			if _, err := s.CreateBatch(Request{InputFileID: third.ID, Endpoint: openai.Completions}); err != nil {
				t.Error(err)
			}
			synctest.Wait()
			stop()
		}()
		s.Run(ctx, runner)
		require.Equal(t, []int64{2, 2}, []int64{begun.Load(), left.Load()})
		require.Nil(t, s.begin)
		require.NotContains(t, log.String(), "interrupted")
		require.Equal(t, Completed, answered.view().Status)
		require.Nil(t, ended.view().CompletedAt)
	})
}

// The validation of a batch ends without a result if the batch is stopped, and can be repeated
// after an error.
func TestValidationIsInterrupted(t *testing.T) {
	t.Parallel()
	s := openStore(t)
	b := newBatchOf(t, s, oneRow, "24h")
	unchanged := b.state()
	broken := errors.New("broken")
	fails := funcRunner{models: func(context.Context) ([]string, error) { return nil, broken }}
	err := s.validate(t.Context(), b, fails)
	require.ErrorIs(t, err, broken)
	require.ErrorContains(t, err, "list the models: ")
	back := moveAway(t, s.contentPath(b.state().Batch.InputFileID))
	require.ErrorIs(t, s.validate(t.Context(), b, funcRunner{}), fs.ErrNotExist)
	back()
	ctx, stop := context.WithCancel(t.Context())
	stop()
	require.ErrorIs(t, s.validate(ctx, b, funcRunner{}), context.Canceled, "the server stops")
	ctx, stop = context.WithCancel(t.Context())
	stops := funcRunner{models: func(context.Context) ([]string, error) { stop(); return nil, nil }}
	require.ErrorIs(t, s.validate(ctx, b, stops), context.Canceled, "the server stops while the input is read")
	var ended func() error
	stops.models = func(ctx context.Context) ([]string, error) { ended = ctx.Err; return nil, broken }
	require.ErrorIs(t, s.validate(t.Context(), b, stops), broken)
	require.Error(t, ended(), "the context of an attempt ends with it")
	stops.models = func(ctx context.Context) ([]string, error) { b.stop(); <-ctx.Done(); return nil, nil }
	require.NoError(t, s.validate(t.Context(), b, stops), "the batch is stopped")
	require.NoError(t, s.validating.Acquire(t.Context(), 1))
	require.NoError(t, s.validate(t.Context(), b, fails), "the batch was stopped while it waited")
	s.validating.Release(1)
	require.Same(t, unchanged, b.state())
	requireNoneLeft(t, s)

	// An input that was read after all is not lost, and a batch that is being cancelled stays so.
	require.NoError(t, s.change(b, func(r *record) { r.Batch.Status = Cancelling }))
	require.NoError(t, s.validateInput(t.Context(), b, funcRunner{}))
	require.Equal(t, Cancelling, b.view().Status)
	require.NotNil(t, b.view().InProgressAt)
	require.Equal(t, []any{"m", 1, 1}, []any{b.view().Model, b.view().RequestCounts.Total, b.state().Continued})
}

// An attempt at the rows ends a batch if it succeeds or is hopeless. After other errors, another
// attempt follows.
func TestAttemptsAtABatch(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		err  error
		stop bool // the server stops
		want error
		ends Status
	}{
		"answered":             {nil, false, nil, Completed},
		"broken":               {broken, false, broken, ""},
		"hopeless":             {errors.Join(ErrHopeless, broken), false, nil, Failed},
		"the server stops":     {nil, true, context.Canceled, ""},
		"hopeless, but stops":  {ErrHopeless, true, context.Canceled, ""},
		"broken, and it stops": {broken, true, context.Canceled, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openStore(t)
			b := newBatchOf(t, s, oneRow, "24h")
			require.NoError(t, s.validate(t.Context(), b, funcRunner{}))
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			err := s.answer(ctx, b, funcRunner{run: func(context.Context, context.Context, Task) error {
				if c.stop {
					stop()
				}
				return c.err
			}})
			if c.want == nil {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, c.want)
			}
			if c.ends == "" {
				require.Nil(t, b.state().Ending)
			} else {
				require.Equal(t, c.ends, b.state().Ending.Status)
			}
			requireNoneLeft(t, s)
		})
	}
	s := openStore(t)
	b := newBatchOf(t, s, oneRow, "24h")
	block(t, s.resultsPath(b.view().ID))
	require.ErrorContains(t, s.answer(t.Context(), b, funcRunner{}), "is a directory")
	require.Nil(t, b.state().Ending)

	// Results that cannot be closed are not final.
	s = openStore(t)
	b = newBatchOf(t, s, oneRow, "24h")
	err := s.answer(t.Context(), b, funcRunner{run: func(_, _ context.Context, task Task) error {
		_, err := task.Results()
		require.NoError(t, err)
		return os.Remove(s.resultsPath(task.Batch))
	}})
	require.ErrorIs(t, err, rows.ErrNotOurs)
	require.Nil(t, b.state().Ending)
}

// The progress of a batch has the speed of its rows and tokens while it runs.
func TestSpeedOfABatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := openStore(t)
		b := newBatchOf(t, s, oneRow+oneRow, "24h")
		out, err := rows.OpenOutput(s.resultsPath(b.view().ID), b.view().ID)
		require.NoError(t, err)
		defer out.Close()
		write := func(line int, failed bool) {
			j := &queue.Job{Batch: b.view().ID, Line: line, Sum: "00000000", CustomID: "a"}
			r := queue.Answered(j, new(openai.Request), nil, time.Now(), queue.Stats{})
			if failed {
				r = queue.Failure(j, openai.Error{Code: openai.CodeFailed}, queue.Stats{})
			}
			require.NoError(t, out.Write(line, r.Text, failed))
			require.NoError(t, out.Flush())
		}
		b.report(Tokens{Prompt: 100, Completion: 100})
		require.Equal(t, Progress{Batch: b.view(), Tokens: Tokens{100, 100}}, b.progress())
		b.results.Store(out)
		require.Zero(t, b.progress().RowsPerSecond)
		pass(2 * time.Second)
		write(1, false)
		write(2, true)
		write(3, true)
		b.report(Tokens{Prompt: 110, Completion: 110})
		for _, find := range []func() (Progress, error){
			func() (Progress, error) { return s.BatchProgress(b.view().ID) },
			func() (Progress, error) {
				page, err := s.Progress(Query{Limit: 5})
				return page.Items[0], err
			},
		} {
			p, err := find()
			require.NoError(t, err)
			require.Equal(t, Tokens{110, 110}, p.Tokens)
			require.Equal(t, []float64{1.5, 5}, []float64{p.RowsPerSecond, p.TokensPerSecond})
			require.Equal(t, Counts{Completed: 1, Failed: 2}, p.Batch.RequestCounts)
		}
		pass(time.Second)
		require.InDelta(t, 1, b.progress().RowsPerSecond, 0, "a look at a batch measures its speed, too")
		b.results.Store(nil)
		require.Zero(t, b.progress().RowsPerSecond)
		_, err = s.BatchProgress("batch_none")
		require.ErrorIs(t, err, ErrNoBatch)
		_, err = s.Batch("batch_none")
		require.ErrorIs(t, err, ErrNoBatch)
		page, err := s.Batches(Query{Limit: 1})
		require.NoError(t, err)
		require.Equal(t, []Batch{b.view()}, page.Items)
	})
}
