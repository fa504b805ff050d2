package redisqueue_test

import (
	"testing"

	"github.com/ingot-run/ingot/queue/queuetest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	queuetest.Conformance(t, queuetest.OpenRedis)
}
