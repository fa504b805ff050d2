package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hibiken/asynq"

	"github.com/ingot-run/ingot/job"
)

const (
	// reapInterval is the time between two searches for archived and lost jobs.
	reapInterval = time.Minute
	// archivePage is the number of archived tasks that are read at a time, with their payloads.
	archivePage = 16
)

// reap searches the worker's queues at once and then at intervals, until ctx is done.
func (w *Worker) reap(ctx context.Context) {
	tick := time.NewTicker(reapInterval)
	defer tick.Stop()
	warned := map[string]bool{}
	for {
		err := w.requeueArchived()
		if err == nil {
			err = w.warnOfLost(ctx, warned)
		}
		if err != nil && ctx.Err() == nil {
			w.log.Warn("could not search for lost jobs", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// requeueArchived queues archived jobs again. asynq archives no job by itself, but an operator's tool can, and a batch with an
// archived job would never end. If its row needs no answer, handle drops the job. Tasks that are not jobs stay archived.
func (w *Worker) requeueArchived() error {
	inspector := asynq.NewInspectorFromRedisClient(w.rdb)
	for p := range job.Priorities() {
		queue := job.Queue(w.config.Alias, p)
		archived, err := archivedJobs(inspector, queue)
		if err != nil {
			return fmt.Errorf("list archived jobs of queue %s: %w", queue, err)
		}
		for _, id := range archived {
			if err := inspector.RunTask(queue, id); err != nil {
				w.log.Debug("an archived job was taken by another worker", "task", id, "error", err)
				continue
			}
			w.log.Warn("queued an archived job again", "task", id)
		}
	}
	return nil
}

// archivedJobs are the ids of a queue's archived jobs.
func archivedJobs(inspector *asynq.Inspector, queue string) ([]string, error) {
	var ids []string
	for page := 1; ; page++ {
		tasks, err := inspector.ListArchivedTasks(queue, asynq.PageSize(archivePage), asynq.Page(page))
		if errors.Is(err, asynq.ErrQueueNotFound) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		for _, t := range tasks {
			if _, err := job.Decode(t.Payload); err == nil {
				ids = append(ids, t.ID)
			}
		}
		if len(tasks) < archivePage {
			return ids, nil
		}
	}
}

// warnOfLost logs once which batches have rows that are neither recorded nor queued. Their bodies are in the batch's file only.
func (w *Worker) warnOfLost(ctx context.Context, warned map[string]bool) error {
	if s := w.snapshot(); s.Running+s.Waiting > 0 {
		return nil // the queues are not empty
	}
	batches, err := w.store.Batches(ctx)
	if err != nil {
		return err
	}
	for _, b := range batches {
		if b.Alias != w.config.Alias || warned[b.Batch] {
			continue
		}
		n, err := w.store.Lost(ctx, b)
		if err != nil {
			return err
		}
		if n > 0 {
			warned[b.Batch] = true
			w.log.Warn("rows are neither recorded nor queued: enqueue the file of the batch again with --batch", "batch", b.Batch, "rows", n)
		}
	}
	return nil
}
