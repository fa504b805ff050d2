package redisqueue_test

import (
	"testing"

	"github.com/ingot-run/ingot/queue"
	"github.com/ingot-run/ingot/queue/queuetest"
	"github.com/ingot-run/ingot/queue/redisqueue"
	"github.com/ingot-run/ingot/queue/redistest"
)

func TestConformance(t *testing.T) {
	queuetest.Run(t, func(t testing.TB) queue.Queue { return redisqueue.New(redistest.Start(t).Client) })
}
