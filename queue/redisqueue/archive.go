package redisqueue

import (
	"errors"
	"log/slog"
	"time"

	"github.com/hibiken/asynq"

	"github.com/ingot-run/ingot/queue"
)

const (
	// archiveInterval is the time between two searches for archived jobs.
	archiveInterval = time.Minute
	// archivePage is the number of archived tasks that are read at a time.
	archivePage = 16
)

// unarchive queues archived jobs of a model alias again. This package archives no job, but an
// operator can with asynq's tools, and a batch with an archived job would never end. The worker
// drops the queued job if its row needs no answer. Tasks that are not jobs stay archived.
func (q *Queue) unarchive(alias string, log *slog.Logger) error {
	for _, queue := range queuesOf(alias) {
		archived, err := q.archivedJobs(queue)
		if err != nil {
			return failure(err, "list archived jobs of queue %s", queue)
		}
		for _, id := range archived {
			if err := q.inspector.RunTask(queue, id); err != nil {
				log.Debug("could not queue an archived job again: another worker may have done so", "task", id, "error", err)
			} else {
				log.Warn("queued an archived job again", "task", id)
			}
		}
	}
	return nil
}

// archivedJobs returns the ids of a queue's archived jobs.
func (q *Queue) archivedJobs(name string) ([]string, error) {
	var ids []string
	for page := 1; ; page++ {
		tasks, err := q.inspector.ListArchivedTasks(name, asynq.PageSize(archivePage), asynq.Page(page))
		if errors.Is(err, asynq.ErrQueueNotFound) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		for _, t := range tasks {
			if _, err := queue.Decode(t.Payload); err == nil {
				ids = append(ids, t.ID)
			}
		}
		if len(tasks) < archivePage {
			return ids, nil
		}
	}
}
