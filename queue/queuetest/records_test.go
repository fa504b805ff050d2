package queuetest

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/ingot-run/ingot/queue"
)

// A batch starts with the first delivery of one of its rows. Later deliveries do not change the
// start time.
func TestTheFirstDeliveryStartsABatch(t *testing.T) {
	t.Parallel()
	OnEach(t, func(t *testing.T, q queue.Queue) {
		create(t, q)
		require.Nil(t, status(t, q).Started)
		w := Hold(t, q, "m")
		beginLine(t, q, w, 1, 1).End(queue.Done())
		started := status(t, q).Started
		require.NotNil(t, started)
		for line := 1; line <= 2; line++ {
			eventually(t, "time passes", func() bool { return time.Now().After(started.Add(2 * time.Millisecond)) })
			beginLine(t, q, w, line, 3-line).End(queue.Done())
			require.Equal(t, started, status(t, q).Started)
		}
	})
}

func TestARowIsRecordedOnce(t *testing.T) {
	t.Parallel()
	OnEach(t, func(t *testing.T, q queue.Queue) {
		create(t, q)
		for i := range 3 {
			require.Equal(t, i == 0, record(t, q, result(7, i > 0))) // a later attempt that fails does not change the result either
		}
		s := status(t, q)
		require.Equal(t, []int{1, 0, 10, 5}, []int{s.Done, s.Failed, s.PromptTokens, s.CompletionTokens})
		rows := page(t, q, "", 10)
		require.Len(t, rows, 1)
		require.Equal(t, "result 7", string(rows[0].Text))
		require.False(t, rows[0].Failed)
		require.Equal(t, "00000007", rows[0].Sum)
		lines, err := q.Recorded(t.Context(), "b")
		require.NoError(t, err)
		for line := range 100 {
			require.Equal(t, line == 7, lines.Has(line), line)
		}
		record(t, q, result(90, false))
		require.False(t, lines.Has(90), "the returned set is a copy")
	})
}

func TestManyWorkersRecordTheSameRows(t *testing.T) {
	t.Parallel()
	OnEach(t, func(t *testing.T, q queue.Queue) {
		create(t, q)
		const workers, rows = 8, 100
		var firsts atomic.Int64
		var group errgroup.Group
		for w := range workers {
			group.Go(func() error {
				for line := 1; line <= rows; line++ {
					first, err := q.Record(t.Context(), "b", result(line, (line+w)%2 == 0))
					if err != nil {
						return err
					}
					if first {
						firsts.Add(1)
					}
				}
				return nil
			})
		}
		require.NoError(t, q.Seal(t.Context(), "b", rows, fileSHA))
		require.NoError(t, group.Wait())
		require.EqualValues(t, rows, firsts.Load())
		s := status(t, q)
		require.Equal(t, rows, s.Done+s.Failed)
		require.Equal(t, queue.Completed, s.State)
		require.Len(t, readAll(t, q, 7), rows)
	})
}

// A delivery that is lost counts as an attempt. One that is handed back does not.
func TestDeliveriesAreCounted(t *testing.T) {
	t.Parallel()
	OnEach(t, func(t *testing.T, q queue.Queue) {
		create(t, q)
		running := func(want int) {
			t.Helper()
			eventually(t, fmt.Sprintf("%d rows run", want), func() bool { return status(t, q).Running == want })
		}
		w := Hold(t, q, "m")
		beginLine(t, q, w, 1, 1).End(queue.Interrupted(nil))
		for range 2 {
			h := w.Next(t)
			require.Equal(t, 2, h.Attempt)
			running(1)
			h.End(queue.HandBack())
			w.Stop()
			running(1)
			w = Hold(t, q, "m")
		}
		w.Next(t).End(queue.Done())
		beginLine(t, q, w, 2, 1).End(queue.Interrupted(nil))
		require.Equal(t, 2, w.Next(t).Attempt)
		running(2)
		record(t, q, result(1, false))
		running(1)
		require.ErrorIs(t, begin(t, q, w, newJob(1)).Refused, queue.ErrRecorded)
		h := beginLine(t, q, w, 3, 1)
		running(2)
		h.End(queue.HandBack())
		running(1)
	})
}

// Begin and Record refuse a row of an earlier batch with the same id.
func TestABatchTakesRowsOfItsFileOnly(t *testing.T) {
	t.Parallel()
	OnEach(t, func(t *testing.T, q queue.Queue) {
		create(t, q)
		other := queue.FileID(strings.Repeat("cd", 32))
		w := Hold(t, q, "m")
		of := func(batch, file string) *queue.Job {
			j := newJob(1)
			j.Batch, j.File = batch, file
			return j
		}
		require.ErrorIs(t, begin(t, q, w, of("b", other)).Refused, queue.ErrOtherFile)
		stale := result(1, false)
		stale.File = other
		_, err := q.Record(t.Context(), "b", stale)
		require.ErrorIs(t, err, queue.ErrOtherFile)
		s := status(t, q)
		require.Equal(t, []int{0, 0, 0}, []int{s.Done, s.Failed, s.Running})
		require.Nil(t, s.Started)
		for i, same := range []string{queue.FileID(fileSHA), ""} { // a local run does not know its file
			h := begin(t, q, w, of("b", same))
			require.NoError(t, h.Refused)
			require.Equal(t, i+1, h.Attempt)
			h.End(queue.Done())
		}
		own := result(1, false)
		own.File = queue.FileID(fileSHA)
		require.True(t, record(t, q, own))

		_, _, err = q.Create(t.Context(), queue.Batch{ID: "unsealed", Alias: "m", Priority: queue.Bulk, Retention: time.Hour})
		require.NoError(t, err)
		require.NoError(t, begin(t, q, w, of("unsealed", other)).Refused, "the batch does not know its file yet")
	})
}

func TestTheFiguresOfResultsAreAddedUp(t *testing.T) {
	t.Parallel()
	OnEach(t, func(t *testing.T, q queue.Queue) {
		create(t, q)
		w := Hold(t, q, "m")
		for line := 1; line <= 4; line++ {
			beginLine(t, q, w, line, 1).End(queue.Done())
		}
		started := status(t, q).Started
		eventually(t, "time passes", func() bool { return time.Now().After(started.Add(20 * time.Millisecond)) })
		r := queue.Result{Line: 1, Text: []byte("{}"), Stats: queue.Stats{
			PromptTokens: 100, CachedTokens: 40, CompletionTokens: 50, DraftTokens: 9, AcceptedTokens: 6,
		}}
		record(t, q, r)
		r.Line, r.Failed = 2, true
		record(t, q, r)
		require.NoError(t, q.Seal(t.Context(), "b", 10, fileSHA))
		s := status(t, q)
		require.Equal(t, []int{10, 1, 1, 2, 6, 200, 80, 100, 18, 12}, []int{
			s.Total, s.Done, s.Failed, s.Running, s.Waiting(),
			s.PromptTokens, s.CachedTokens, s.CompletionTokens, s.DraftTokens, s.AcceptedTokens,
		})
		require.Positive(t, s.RowsPerSecond)
		require.LessOrEqual(t, s.RowsPerSecond, 2/0.02)
		require.InEpsilon(t, 50*s.RowsPerSecond, s.TokensPerSecond, 0.1)
	})
}
