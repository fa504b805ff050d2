package worker

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/enqueue"
	"github.com/ingot-run/ingot/generation"
	"github.com/ingot-run/ingot/job"
	"github.com/ingot-run/ingot/job/redisqueue"
	"github.com/ingot-run/ingot/job/redistest"
)

// A worker that is stopped while Redis is away ends within the time that it has for that, with an answer that it cannot record.
func TestAWorkerWithoutRedisEndsInTime(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	taken, finish := make(chan struct{}), make(chan struct{})
	b := setUp(t, redisqueue.New(r.Client), func(context.Context, generation.Request) (generation.Completion, error) {
		close(taken)
		<-finish
		return generation.Completion{Choices: []generation.Choice{{Text: "ok"}}}, nil
	}, Config{Concurrency: 1, ShutdownTimeout: 100 * time.Millisecond})
	b.enqueue(t, prompts(1), enqueue.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- b.worker.Run(ctx) }()
	<-taken
	r.Stop()
	cancel()
	close(finish)
	start := time.Now()
	require.ErrorIs(t, <-ended, job.ErrUnavailable, "its record stays in Redis")
	require.Less(t, time.Since(start), maxRecordWait/2)
}
