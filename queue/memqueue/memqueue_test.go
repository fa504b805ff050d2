package memqueue_test

import (
	"testing"

	"github.com/ingot-run/ingot/queue"
	"github.com/ingot-run/ingot/queue/memqueue"
	"github.com/ingot-run/ingot/queue/queuetest"
)

func TestConformance(t *testing.T) {
	queuetest.Run(t, func(testing.TB) queue.Queue { return memqueue.New() })
}
