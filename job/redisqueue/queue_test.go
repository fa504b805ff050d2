package redisqueue_test

import (
	"testing"

	"github.com/ingot-run/ingot/job"
	"github.com/ingot-run/ingot/job/jobtest"
	"github.com/ingot-run/ingot/job/redisqueue"
	"github.com/ingot-run/ingot/job/redistest"
)

func TestConformance(t *testing.T) {
	jobtest.Run(t, func(t testing.TB) job.Queue { return redisqueue.New(redistest.Start(t).Client) })
}
