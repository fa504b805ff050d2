package redisqueue

import (
	"context"
	"sync"
	"time"
)

// loop calls a function at once and then at intervals, from start to shutdown.
type loop struct {
	interval time.Duration
	do       func(ctx context.Context)

	stop  context.CancelFunc
	ended sync.WaitGroup
}

func (l *loop) start(ctx context.Context) {
	ctx, l.stop = context.WithCancel(ctx)
	l.ended.Go(func() {
		tick := time.NewTicker(l.interval)
		defer tick.Stop()
		for {
			l.do(ctx)
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	})
}

// shutdown ends the function's context and waits until it has returned.
func (l *loop) shutdown() {
	l.stop()
	l.ended.Wait()
}
