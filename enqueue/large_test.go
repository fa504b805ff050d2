package enqueue_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/enqueue"
	"github.com/ingot-run/ingot/files/rows"
	"github.com/ingot-run/ingot/queue/redisqueue"
	"github.com/ingot-run/ingot/queue/redistest"
)

// A row that is too large for Redis becomes an error line, and the other rows are queued.
func TestARowThatIsTooLargeForRedis(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	require.NoError(t, r.Client.ConfigSet(t.Context(), "proto-max-bulk-len", "1mb").Err())
	q := redisqueue.New(r.Client)
	in := `{"prompt":"a"}` + "\n" + `{"prompt":"` + strings.Repeat("x", 1<<20) + `"}` + "\n" + `{"prompt":"b"}`
	sum, err := enqueue.Enqueue(t.Context(), q, strings.NewReader(in), enqueue.Options{Batch: "b"})
	require.NoError(t, err)
	require.Equal(t, []int{3, 2, 1}, []int{sum.Rows, sum.Added, sum.Rejected})
	var out bytes.Buffer
	_, err = enqueue.Collect(t.Context(), q, rows.NewOutput(&out, "b"), enqueue.CollectOptions{})
	require.NoError(t, err)
	require.Contains(t, out.String(), `"error":{"code":"line_too_long","message":"line 2: the request body has 1048589 bytes, more than the 1032192 that the queue accepts"}`)
}
