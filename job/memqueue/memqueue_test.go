package memqueue_test

import (
	"testing"

	"github.com/ingot-run/ingot/job"
	"github.com/ingot-run/ingot/job/jobtest"
	"github.com/ingot-run/ingot/job/memqueue"
)

func TestConformance(t *testing.T) {
	jobtest.Run(t, func(testing.TB) job.Queue { return memqueue.New() })
}
