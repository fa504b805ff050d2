package batch_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/openai"
	"github.com/ingot-run/ingot/queue"
	"github.com/ingot-run/ingot/queue/redisqueue"
	"github.com/ingot-run/ingot/queue/redistest"
	"github.com/ingot-run/ingot/serve/batch"
)

// front is a store whose batches a worker of a fleet answers.
type front struct {
	*bench
	redis *redistest.Server
	queue *redisqueue.Queue
	free  chan struct{} // one value allows the worker to answer one row
}

func setUpFront(t testing.TB) *front {
	t.Helper()
	r := redistest.Start(t)
	queue, _, err := redisqueue.Dial(t.Context(), r.URL, 8, nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, queue.Close()) })
	f := &front{redis: r, queue: queue, free: make(chan struct{}, 1000)}
	startWorker(t, r.URL, "worker", f.free)
	f.bench = start(t, t.TempDir(), gated{}, batch.NewFleet(queue, "test").WithInterval(50*time.Millisecond))
	return f
}

func TestFleetAnswersBatches(t *testing.T) {
	t.Parallel()
	f := setUpFront(t)
	close(f.free)
	b := await(t, f.Store, create(t, f.Store, rowsOf(30)+bad("bad")+strings.Replace(row("text"), "[300,404]", `"Hi"`, 1)).ID, ended)
	require.Equal(t, batch.Completed, b.Status)
	output, failed := requireWhole(t, f.Store, b, 32)
	require.Len(t, failed, 1)
	require.Equal(t, 62, b.Usage.OutputTokens)
	var body struct{ Model string }
	require.NoError(t, json.Unmarshal(output["text"].Response.Body, &body))
	require.Equal(t, "micro", body.Model)
	require.Equal(t, []string{"the model is for chats, but it continues the prompt of 1 row as text: for answers, send messages to /v1/chat/completions"}, b.Warnings)
	all, err := f.queue.Batches(t.Context())
	require.NoError(t, err)
	require.Empty(t, all, "the queue is empty")
}

// After a fleet's batch is cancelled, the output has the rows that were answered before.
func TestFleetCancelsBatches(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		cancel func(*front, string) error
		want   batch.Status
		code   string
	}{
		{"by a client", func(f *front, id string) error {
			_, err := f.CancelBatch(id)
			return err
		}, batch.Cancelled, "batch_cancelled"},
		{"in the queue", func(f *front, id string) error {
			_, err := f.queue.Cancel(t.Context(), id)
			return err
		}, batch.Failed, "batch_failed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := setUpFront(t)
			b := create(t, f.Store, rowsOf(40))
			for range 10 {
				f.free <- struct{}{}
			}
			await(t, f.Store, b.ID, func(b batch.Batch) bool { return b.RequestCounts.Completed == 10 })
			require.NoError(t, c.cancel(f, b.ID))
			b = await(t, f.Store, b.ID, ended)
			require.Equal(t, c.want, b.Status)
			output, failed := requireWhole(t, f.Store, b, 40)
			require.Len(t, output, 10)
			require.Equal(t, c.code, failed["row-40"].Error.Code)
			close(f.free)
			later := await(t, f.Store, create(t, f.Store, rowsOf(2)).ID, ended)
			require.Equal(t, batch.Completed, later.Status)
		})
	}
}

func TestFleetExpiresBatches(t *testing.T) {
	t.Parallel()
	f := setUpFront(t)
	b, err := f.CreateBatch(batch.Request{InputFileID: upload(t, f.Store, rowsOf(5)).ID, Endpoint: openai.Completions, CompletionWindow: "2s"})
	require.NoError(t, err)
	f.free <- struct{}{}
	b = await(t, f.Store, b.ID, ended)
	require.Equal(t, batch.Expired, b.Status)
	if b.InProgressAt == nil {
		t.Skip("the machine was too busy to check the input within two seconds")
	}
	_, failed := requireWhole(t, f.Store, b, 5)
	require.NotEmpty(t, failed)
	for _, l := range failed {
		require.Nil(t, l.Response)
		require.Equal(t, "batch_expired", l.Error.Code)
	}
}

// If Redis loses all data, the batch takes longer, but no row is lost.
func TestFleetWithoutMemory(t *testing.T) {
	t.Parallel()
	f := setUpFront(t)
	b := create(t, f.Store, rowsOf(40))
	for range 10 {
		f.free <- struct{}{}
	}
	await(t, f.Store, b.ID, func(b batch.Batch) bool { return b.RequestCounts.Completed == 10 })
	require.NoError(t, f.redis.Client.FlushAll(t.Context()).Err())
	close(f.free)
	b = await(t, f.Store, b.ID, ended)
	require.Equal(t, batch.Completed, b.Status)
	requireWhole(t, f.Store, b, 40)
}

// A batch can use any model that a worker serves or served within the last hour.
func TestFleetKnowsItsModels(t *testing.T) {
	t.Parallel()
	f := setUpFront(t)
	require.Eventually(t, func() bool {
		workers, err := f.queue.Fleet(t.Context())
		return err == nil && len(workers) == 1
	}, patience, time.Millisecond)
	input := upload(t, f.Store, rowsOf(1)).ID
	b, err := f.CreateBatch(batch.Request{InputFileID: input, Endpoint: openai.Completions})
	require.NoError(t, err)
	close(f.free)
	require.Equal(t, batch.Completed, await(t, f.Store, b.ID, ended).Status)
	other := create(t, f.Store, `{"custom_id":"a","method":"POST","url":"/v1/completions","body":{"model":"other","prompt":[300]}}`)
	b = await(t, f.Store, other.ID, ended)
	require.Equal(t, batch.Failed, b.Status)
	require.Equal(t, "model_not_found", b.Errors.Data[0].Code)
}

func TestFleetQueuesLostRowsAgain(t *testing.T) {
	t.Parallel()
	f := setUpFront(t)
	b := create(t, f.Store, rowsOf(40))
	f.free <- struct{}{}
	await(t, f.Store, b.ID, func(b batch.Batch) bool { return b.RequestCounts.Completed == 1 })
	queue := "asynq:{micro:bulk}:"
	lost, err := f.redis.Client.LRange(t.Context(), queue+"pending", 0, -1).Result()
	require.NoError(t, err)
	require.NotEmpty(t, lost)
	keys := []string{queue + "pending"}
	for _, id := range lost {
		keys = append(keys, queue+"t:"+id)
	}
	require.NoError(t, f.redis.Client.Del(t.Context(), keys...).Err())
	close(f.free)
	b = await(t, f.Store, b.ID, ended)
	require.Equal(t, batch.Completed, b.Status)
	output, _ := requireWhole(t, f.Store, b, 40)
	require.Len(t, output, 40)
}

// A row whose result was lost in the queue has an error line that says so.
func TestFleetReportsLostResults(t *testing.T) {
	t.Parallel()
	f := setUpFront(t)
	b := create(t, f.Store, rowsOf(20))
	f.free <- struct{}{}
	await(t, f.Store, b.ID, func(b batch.Batch) bool { return b.RequestCounts.Completed == 1 })
	f.stop()
	close(f.free)
	require.Eventually(t, func() bool {
		s, err := f.queue.Status(t.Context(), b.ID)
		return err == nil && s.Done == 20
	}, patience, time.Millisecond)
	require.NoError(t, f.queue.Discard(t.Context(), b.ID, []queue.Recording{{Line: 20}}, false))
	f.bench = start(t, f.folder, gated{}, batch.NewFleet(f.queue, "test"))
	b = await(t, f.Store, b.ID, ended)
	require.Equal(t, batch.Completed, b.Status)
	_, failed := requireWhole(t, f.Store, b, 20)
	require.Len(t, failed, 1)
	require.Nil(t, failed["row-20"].Response)
	require.Equal(t, "result_lost", failed["row-20"].Error.Code)
}
