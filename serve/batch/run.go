package batch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/ingot-run/ingot/files/rows"
	"github.com/ingot-run/ingot/openai"
)

const (
	sweepInterval = time.Minute
	maxPause      = time.Minute // between two attempts at a batch
)

// Run runs the store's batches until ctx is done: those that an earlier process has begun, and
// those that are created meanwhile. The next Run continues the batches that have not ended. Only
// one Run may be active at a time.
func (s *Store) Run(ctx context.Context, runner Runner) {
	var running sync.WaitGroup
	begin := func(b *batch) { running.Go(func() { s.live(ctx, b, runner) }) }
	s.mu.Lock()
	for _, id := range s.batchIDs { // from the oldest to the newest
		if b := s.batches[id]; !b.state().Batch.Status.Ended() {
			begin(b)
		}
	}
	s.begin = begin
	s.mu.Unlock()
	tick := time.NewTicker(sweepInterval)
	for ctx.Err() == nil {
		s.removeExpired()
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
	s.mu.Lock()
	s.begin = nil
	s.mu.Unlock()
	running.Wait()
}

func (s *Store) live(ctx context.Context, b *batch, runner Runner) {
	expires := time.Unix(b.state().Batch.ExpiresAt, 0)
	window := time.AfterFunc(expires.Sub(s.now()), b.stop)
	defer window.Stop()
	log := s.log.With("batch", b.state().Batch.ID)
	pauses := backoff.NewExponentialBackOff()
	pauses.InitialInterval, pauses.MaxInterval, pauses.Multiplier, pauses.RandomizationFactor = time.Second, maxPause, 2, 0
	for {
		before := b.state()
		err := s.advance(ctx, b, runner)
		after := b.state()
		switch {
		case after.Batch.Status.Ended():
			log.Info("batch has ended", "status", after.Batch.Status, "completed", after.Batch.RequestCounts.Completed, "failed", after.Batch.RequestCounts.Failed)
			return
		case ctx.Err() != nil:
			return
		case err == nil || before != after:
			pauses.Reset()
		}
		if err == nil {
			continue
		}
		pause := pauses.NextBackOff()
		log.Error("batch is interrupted", "error", err, "again_in", pause)
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// advance takes a batch to its next state. After an error, the caller may try again.
func (s *Store) advance(ctx context.Context, b *batch, runner Runner) error {
	r := b.state()
	switch {
	case r.Ending != nil:
		return s.finalize(ctx, b, runner)
	case r.Batch.InProgressAt != nil:
		return s.answer(ctx, b, runner)
	case b.stopped.Err() != nil:
		return s.conclude(b, nil)
	}
	return s.validate(ctx, b, runner)
}

// validate validates the input. It stops when the batch is cancelled or its completion window is
// over.
func (s *Store) validate(ctx context.Context, b *batch, runner Runner) error {
	ctx, cancel := until(ctx, b.stopped)
	defer cancel()
	err := s.validateInput(ctx, b, runner)
	if b.stopped.Err() != nil && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

func (s *Store) validateInput(ctx context.Context, b *batch, runner Runner) error {
	if err := s.validating.Acquire(ctx, 1); err != nil {
		return err
	}
	defer s.validating.Release(1)
	models, err := runner.Models(ctx)
	if err != nil {
		return fmt.Errorf("list the models: %w", err)
	}
	r := b.state()
	in, err := os.Open(s.contentPath(r.Batch.InputFileID))
	if err != nil {
		return err
	}
	defer in.Close() //nolint:errcheck // the file was only read
	v := validation{endpoint: r.Batch.Endpoint, models: models, allowed: r.Models}
	if err := v.read(ctx, in); err != nil {
		return err
	}
	if len(v.faults) > 0 {
		return s.change(b, func(r *record) {
			r.Batch.Status, r.Batch.FailedAt, r.Batch.Errors = Failed, s.unix(), newFaults(v.faults...)
		})
	}
	return s.change(b, func(r *record) {
		r.Batch.InProgressAt, r.Batch.Model, r.Batch.RequestCounts.Total = s.unix(), v.model, v.total
		r.Continued = v.texts
		if r.Batch.Status == Validating { // the batch may have been cancelled meanwhile
			r.Batch.Status = InProgress
		}
	})
}

// answer runs the rows. When it returns without an error, the results file is final.
func (s *Store) answer(ctx context.Context, b *batch, runner Runner) error {
	v := b.state().Batch
	results := sync.OnceValues(func() (*rows.Output, error) {
		out, err := rows.OpenOutput(s.resultsPath(v.ID), v.ID)
		if err == nil {
			b.results.Store(out)
		}
		return out, err
	})
	err := runner.Run(ctx, b.stopped, Task{
		Batch: v.ID, Model: v.Model, Input: s.contentPath(v.InputFileID), Results: results, Expires: v.ExpiresAt, Report: b.report,
		Continued: b.state().Continued, Warn: func(text string) { s.warn(b, text) },
	})
	out, openErr := results() // conclude counts the results
	if openErr != nil {
		return openErr
	}
	err = errors.Join(err, out.Close())
	s.warnOfEmpty(b, out)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, ErrHopeless):
		return s.conclude(b, err)
	case err != nil:
		return err
	}
	return s.conclude(b, nil)
}

// warn adds a warning to a batch, unless it has the warning already.
func (s *Store) warn(b *batch, text string) {
	if slices.Contains(b.state().Batch.Warnings, text) {
		return
	}
	s.log.Warn("batch: "+text, "batch", b.state().Batch.ID, "rows", b.state().Batch.RequestCounts.Total)
	err := s.change(b, func(r *record) { r.Batch.Warnings = append(slices.Clone(r.Batch.Warnings), text) })
	if err != nil {
		s.log.Warn("could not store a warning of a batch", "batch", b.state().Batch.ID, "error", err)
	}
}

// warnOfEmpty warns if many answers of the results are empty.
func (s *Store) warnOfEmpty(b *batch, out *rows.Output) {
	lines, failed := out.Counts()
	if empty := out.Empty(); rows.ManyEmpty(empty, lines-failed-out.Kept()) {
		s.warn(b, fmt.Sprintf("%d answers are empty: finish_reason says whether the model ended them (stop), or max_tokens did (length)", empty))
	}
}

// conclude decides how a batch ends. failure is the error that ended the batch, or nil.
func (s *Store) conclude(b *batch, failure error) error {
	b.writing.Lock() // no client can cancel the batch meanwhile
	defer b.writing.Unlock()
	var lines, failed, expired int
	if out := b.results.Load(); out != nil {
		lines, failed = out.Counts()
		expired = out.Codes()[openai.CodeExpired].Rows
	}
	return s.changeLocked(b, func(r *record) {
		missing := r.Batch.RequestCounts.Total - lines
		r.Batch.RequestCounts.Completed, r.Batch.RequestCounts.Failed = lines-failed, failed
		e := ending{Status: Completed, OutputFile: s.newID(filePrefix), ErrorFile: s.newID(filePrefix)}
		switch {
		case r.Batch.Status == Cancelling:
			e.Status = Cancelled
		case failure != nil:
			e.Status = Failed
			r.Batch.Errors = newFaults(Fault{Code: "batch_failed", Message: failure.Error()})
		case expired > 0 || b.stopped.Err() != nil && (missing > 0 || r.Batch.InProgressAt == nil):
			e.Status = Expired
		}
		if e.Status == Completed || e.Status == Expired {
			r.Batch.Status, r.Batch.FinalizingAt = Finalizing, s.unix()
		}
		r.Ending = &e
	})
}
