package job_test

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/ingot-run/ingot/job"
	"github.com/ingot-run/ingot/job/redistest"
)

func newBatch(t testing.TB, s *job.Store) string {
	t.Helper()
	_, created, err := s.Create(t.Context(), job.Batch{ID: "b", Alias: "m", Priority: job.Bulk, FileSHA: "f", Retention: time.Hour})
	require.NoError(t, err)
	require.True(t, created)
	return "b"
}

func result(line int, failed bool) job.Result {
	return job.Result{Line: line, Sum: fmt.Sprintf("%08x", line), Text: []byte("result " + strconv.Itoa(line)), Failed: failed, Stats: job.Stats{PromptTokens: 10, CompletionTokens: 5}}
}

func status(t testing.TB, s *job.Store) job.Status {
	t.Helper()
	st, err := s.Status(t.Context(), "b")
	require.NoError(t, err)
	return st
}

func all(int) bool { return true }

func TestABatchIsCreatedOnce(t *testing.T) {
	redistest.Both(t, func(t *testing.T, r *redistest.Server) {
		s := job.NewStore(r.Client)
		_, err := s.Status(t.Context(), "b")
		require.ErrorIs(t, err, job.ErrNoBatch)
		newBatch(t, s)
		known, created, err := s.Create(t.Context(), job.Batch{ID: "b", Alias: "other", Priority: job.Critical, Retention: time.Minute})
		require.NoError(t, err)
		require.False(t, created)
		require.Equal(t, job.Batch{ID: "b", Alias: "m", Priority: job.Bulk, FileSHA: "f"}, known)
	})
}

// The first delivery of any row starts a batch. Later ones, of the same row or another, do not change the time.
func TestTheFirstDeliveryStartsABatch(t *testing.T) {
	redistest.Both(t, func(t *testing.T, r *redistest.Server) {
		s := job.NewStore(r.Client)
		newBatch(t, s)
		require.Nil(t, status(t, s).Started)
		_, err := s.Begin(t.Context(), "b", 1, "")
		require.NoError(t, err)
		started := status(t, s).Started
		require.NotNil(t, started)
		for _, line := range []int{1, 2} {
			require.Eventually(t, func() bool { return time.Now().After(started.Add(2 * time.Millisecond)) }, time.Minute, time.Millisecond)
			_, err := s.Begin(t.Context(), "b", line, "")
			require.NoError(t, err)
			require.Equal(t, started, status(t, s).Started)
		}
	})
}

func TestARowIsRecordedOnce(t *testing.T) {
	redistest.Both(t, func(t *testing.T, r *redistest.Server) {
		s := job.NewStore(r.Client)
		newBatch(t, s)
		for i := range 3 {
			first, err := s.Record(t.Context(), "b", result(7, i > 0)) // a later attempt that fails changes nothing either
			require.NoError(t, err)
			require.Equal(t, i == 0, first)
		}
		st := status(t, s)
		require.Equal(t, []int{1, 0, 10, 5}, []int{st.Done, st.Failed, st.PromptTokens, st.CompletionTokens})
		rows, err := s.Read(t.Context(), "b", "", 10, 0, all)
		require.NoError(t, err)
		require.Len(t, rows, 1)
		require.Equal(t, "result 7", string(rows[0].Text))
		require.False(t, rows[0].Failed)
		require.Equal(t, "00000007", rows[0].Sum)
		lines, err := s.Recorded(t.Context(), "b")
		require.NoError(t, err)
		for line := range 100 {
			require.Equal(t, line == 7, lines.Has(line), line)
		}
	})
}

func TestManyWorkersRecordTheSameRows(t *testing.T) {
	redistest.Both(t, func(t *testing.T, r *redistest.Server) {
		s := job.NewStore(r.Client)
		newBatch(t, s)
		const workers, rows = 8, 100
		var firsts atomic.Int64
		var group errgroup.Group
		for w := range workers {
			group.Go(func() error {
				for line := 1; line <= rows; line++ {
					first, err := s.Record(t.Context(), "b", result(line, (line+w)%2 == 0))
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
		require.NoError(t, s.Seal(t.Context(), "b", rows, "f"))
		require.NoError(t, group.Wait())
		require.EqualValues(t, rows, firsts.Load())
		st := status(t, s)
		require.Equal(t, rows, st.Done+st.Failed)
		require.Equal(t, job.Completed, st.State)

		seen := map[int]bool{}
		for after := ""; ; {
			page, err := s.Read(t.Context(), "b", after, 7, 0, all)
			require.NoError(t, err)
			if len(page) == 0 {
				break
			}
			for _, rec := range page {
				require.False(t, seen[rec.Line], "line %d is in the stream twice", rec.Line)
				seen[rec.Line] = true
				require.Equal(t, fmt.Sprint("result ", rec.Line), string(rec.Text))
			}
			after = page[len(page)-1].ID
		}
		require.Len(t, seen, rows)
	})
}

func TestDeliveriesAreCounted(t *testing.T) {
	redistest.Both(t, func(t *testing.T, r *redistest.Server) {
		s := job.NewStore(r.Client)
		_, err := s.Begin(t.Context(), "b", 1, "")
		require.ErrorIs(t, err, job.ErrNoBatch)
		newBatch(t, s)
		begin := func(want int) {
			t.Helper()
			n, err := s.Begin(t.Context(), "b", 1, "")
			require.NoError(t, err)
			require.Equal(t, want, n)
		}
		begin(1)
		begin(2)
		require.NoError(t, s.Release(t.Context(), "b", 1))
		begin(2)
		require.Equal(t, 1, status(t, s).Running)
		require.NotNil(t, status(t, s).Started)
		require.NoError(t, s.Release(t.Context(), "b", 1))
		require.NoError(t, s.Release(t.Context(), "b", 1))
		require.Equal(t, 0, status(t, s).Running)
		require.NoError(t, s.Release(t.Context(), "b", 1))
		begin(1)
		_, err = s.Record(t.Context(), "b", result(1, false))
		require.NoError(t, err)
		require.Equal(t, 0, status(t, s).Running)
		_, err = s.Begin(t.Context(), "b", 1, "")
		require.ErrorIs(t, err, job.ErrRecorded)
		require.NoError(t, s.Release(t.Context(), "b", 1))
		require.Equal(t, 0, status(t, s).Running)
	})
}

func TestABatchIsFinishedWhenItIsSealedAndRecorded(t *testing.T) {
	for _, sealFirst := range []bool{true, false} {
		t.Run(fmt.Sprintf("sealed first %v", sealFirst), func(t *testing.T) {
			redistest.Both(t, func(t *testing.T, r *redistest.Server) {
				s := job.NewStore(r.Client)
				newBatch(t, s)
				require.Equal(t, job.Enqueueing, status(t, s).State)
				seal := func() { require.NoError(t, s.Seal(t.Context(), "b", 2, "sha")) }
				record := func(line int, failed bool) {
					_, err := s.Record(t.Context(), "b", result(line, failed))
					require.NoError(t, err)
				}
				if sealFirst {
					seal()
				}
				record(1, false)
				st := status(t, s)
				require.Nil(t, st.Finished)
				require.Nil(t, st.Expires, "an unfinished batch stays")
				record(3, true)
				if !sealFirst {
					require.Equal(t, job.Enqueueing, status(t, s).State)
					seal()
				}
				st = status(t, s)
				require.Equal(t, job.Completed, st.State)
				require.Equal(t, []int{2, 1, 1, 0}, []int{st.Total, st.Done, st.Failed, st.Waiting()})
				require.Equal(t, "sha", st.FileSHA)
				require.WithinDuration(t, time.Now().Add(time.Hour), *st.Expires, time.Minute)
				for _, name := range []string{"meta", "done", "results", "stream"} {
					require.Greater(t, r.Client.PTTL(t.Context(), "ingot:{b}:"+name).Val(), 50*time.Minute, name)
				}
			})
		})
	}
}

func TestAnUnknownBatchTakesNothing(t *testing.T) {
	redistest.Both(t, func(t *testing.T, r *redistest.Server) {
		s := job.NewStore(r.Client)
		_, err := s.Record(t.Context(), "b", result(1, false))
		require.ErrorIs(t, err, job.ErrNoBatch)
		require.ErrorIs(t, s.Seal(t.Context(), "b", 1, ""), job.ErrNoBatch)
		require.Empty(t, r.Client.Keys(t.Context(), "ingot:*").Val())
	})
}

// A row that is left from an earlier batch with the same id is neither begun nor recorded.
func TestABatchTakesRowsOfItsFileOnly(t *testing.T) {
	redistest.Both(t, func(t *testing.T, r *redistest.Server) {
		s := job.NewStore(r.Client)
		file, other := strings.Repeat("ab", 32), strings.Repeat("cd", 32)
		_, _, err := s.Create(t.Context(), job.Batch{ID: "b", Alias: "m", Priority: job.Bulk, FileSHA: file, Retention: time.Hour})
		require.NoError(t, err)
		_, err = s.Begin(t.Context(), "b", 1, job.FileID(other))
		require.ErrorIs(t, err, job.ErrOtherFile)
		stale := result(1, false)
		stale.File = job.FileID(other)
		_, err = s.Record(t.Context(), "b", stale)
		require.ErrorIs(t, err, job.ErrOtherFile)
		st := status(t, s)
		require.Equal(t, []int{0, 0, 0}, []int{st.Done, st.Failed, st.Running})
		require.Nil(t, st.Started)
		for _, same := range []string{job.FileID(file), ""} { // a local run does not know its file
			_, err = s.Begin(t.Context(), "b", 1, same)
			require.NoError(t, err)
		}
		own := result(1, false)
		own.File = job.FileID(file)
		first, err := s.Record(t.Context(), "b", own)
		require.NoError(t, err)
		require.True(t, first)
	})
}

func TestACancelledBatchTakesNothingMore(t *testing.T) {
	redistest.Both(t, func(t *testing.T, r *redistest.Server) {
		s := job.NewStore(r.Client)
		_, _, err := s.Cancel(t.Context(), "b")
		require.ErrorIs(t, err, job.ErrNoBatch)
		newBatch(t, s)
		for line := 1; line <= 2; line++ {
			_, err := s.Begin(t.Context(), "b", line, "")
			require.NoError(t, err)
		}
		_, err = s.Record(t.Context(), "b", result(1, false))
		require.NoError(t, err)
		cancelled, err := s.Cancelled(t.Context(), "b")
		require.NoError(t, err)
		require.False(t, cancelled)

		running, finished, err := s.Cancel(t.Context(), "b")
		require.NoError(t, err)
		require.False(t, finished)
		require.Equal(t, []int{2}, running)
		cancelled, err = s.Cancelled(t.Context(), "b")
		require.NoError(t, err)
		require.True(t, cancelled)
		_, err = s.Begin(t.Context(), "b", 3, "")
		require.ErrorIs(t, err, job.ErrCancelled)
		require.NoError(t, s.Release(t.Context(), "b", 2))
		_, err = s.Record(t.Context(), "b", result(2, false))
		require.ErrorIs(t, err, job.ErrCancelled)
		require.ErrorIs(t, s.Seal(t.Context(), "b", 3, "sha"), job.ErrCancelled)
		running, _, err = s.Cancel(t.Context(), "b")
		require.NoError(t, err, "it can be repeated")
		require.Empty(t, running)

		st := status(t, s)
		require.Equal(t, job.Cancelled, st.State)
		require.True(t, st.Ended())
		require.Equal(t, []int{1, 0, 0}, []int{st.Done, st.Failed, st.Running})
		require.WithinDuration(t, time.Now(), *st.Cancelled, time.Minute)
		require.WithinDuration(t, time.Now().Add(time.Hour), *st.Expires, time.Minute)
		left := r.Client.Keys(t.Context(), "ingot:*").Val()
		require.Len(t, left, 4)
		for _, key := range left {
			require.Greater(t, r.Client.PTTL(t.Context(), key).Val(), 50*time.Minute, key)
		}
		rows, err := s.Read(t.Context(), "b", "", 10, 0, all)
		require.NoError(t, err)
		require.Len(t, rows, 1, "what was recorded can be collected")
		known, created, err := s.Create(t.Context(), job.Batch{ID: "b", Alias: "m", Priority: job.Bulk, Retention: time.Hour})
		require.NoError(t, err)
		require.False(t, created)
		require.True(t, known.Cancelled)
	})
}

func TestAFinishedBatchCannotBeCancelled(t *testing.T) {
	redistest.Both(t, func(t *testing.T, r *redistest.Server) {
		s := job.NewStore(r.Client)
		newBatch(t, s)
		_, err := s.Record(t.Context(), "b", result(1, false))
		require.NoError(t, err)
		require.NoError(t, s.Seal(t.Context(), "b", 1, "sha"))
		_, finished, err := s.Cancel(t.Context(), "b")
		require.NoError(t, err)
		require.True(t, finished)
		require.Equal(t, job.Completed, status(t, s).State)
	})
}

func TestOnlyABatchThatHasEndedIsPurged(t *testing.T) {
	redistest.Both(t, func(t *testing.T, r *redistest.Server) {
		s := job.NewStore(r.Client)
		require.ErrorIs(t, s.Purge(t.Context(), "b"), job.ErrNoBatch)
		for _, end := range []func() error{
			func() error { return s.Seal(t.Context(), "b", 1, "sha") },
			func() error { _, _, err := s.Cancel(t.Context(), "b"); return err },
		} {
			newBatch(t, s)
			require.ErrorIs(t, s.Purge(t.Context(), "b"), job.ErrUnfinished)
			_, err := s.Record(t.Context(), "b", result(1, false))
			require.NoError(t, err)
			require.NoError(t, end())
			require.NoError(t, s.Purge(t.Context(), "b"))
			require.Empty(t, r.Client.Keys(t.Context(), "*").Val())
			_, err = s.Record(t.Context(), "b", result(2, false))
			require.ErrorIs(t, err, job.ErrNoBatch, "a late result does not make it again")
			require.Empty(t, r.Client.Keys(t.Context(), "*").Val())
		}
	})
}

func TestAFullRedisCanBePurged(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	s := job.NewStore(r.Client)
	newBatch(t, s)
	_, err := s.Record(t.Context(), "b", result(1, false))
	require.NoError(t, err)
	require.NoError(t, s.Seal(t.Context(), "b", 1, "sha"))
	require.NoError(t, r.Client.ConfigSet(t.Context(), "maxmemory", "1").Err())
	require.ErrorContains(t, r.Client.Set(t.Context(), "x", "y", 0).Err(), "OOM")
	require.NoError(t, s.Purge(t.Context(), "b"))
	require.Empty(t, r.Client.Keys(t.Context(), "*").Val())
}

func TestBatchesAreListedTheNewestFirst(t *testing.T) {
	redistest.Both(t, func(t *testing.T, r *redistest.Server) {
		s := job.NewStore(r.Client)
		list, err := s.Batches(t.Context())
		require.NoError(t, err)
		require.Empty(t, list)
		var want []string
		for i := range 30 {
			id := fmt.Sprintf("b.%d_-", i)
			_, _, err := s.Create(t.Context(), job.Batch{ID: id, Alias: "m", Priority: job.Bulk, Retention: time.Hour})
			require.NoError(t, err)
			require.NoError(t, r.Client.HSet(t.Context(), "ingot:{"+id+"}:meta", "created_ms", 1000-i).Err())
			want = append(want, id)
		}
		require.NoError(t, r.Client.Set(t.Context(), "ingot:other", "x", 0).Err())
		list, err = s.Batches(t.Context())
		require.NoError(t, err)
		var got []string
		for _, b := range list {
			got = append(got, b.Batch)
		}
		require.Equal(t, want, got)
		require.Equal(t, "m", list[0].Alias)
	})
}

func TestReadFetchesWhatIsWanted(t *testing.T) {
	redistest.Both(t, func(t *testing.T, r *redistest.Server) {
		s := job.NewStore(r.Client)
		newBatch(t, s)
		for line := 1; line <= 4; line++ {
			_, err := s.Record(t.Context(), "b", result(line, line == 2))
			require.NoError(t, err)
		}
		rows, err := s.Read(t.Context(), "b", "", 3, 0, func(line int) bool { return line != 3 })
		require.NoError(t, err)
		require.Len(t, rows, 3)
		require.Equal(t, "result 1", string(rows[0].Text))
		require.True(t, rows[1].Failed)
		require.Nil(t, rows[2].Text)

		require.NoError(t, s.Drop(t.Context(), "b", rows))
		rows, err = s.Read(t.Context(), "b", "", 10, 0, all)
		require.NoError(t, err)
		require.Len(t, rows, 1)
		require.Equal(t, 4, rows[0].Line)
		first, err := s.Record(t.Context(), "b", result(1, false))
		require.NoError(t, err)
		require.False(t, first, "what was dropped stays recorded")

		rows, err = s.Read(t.Context(), "b", rows[0].ID, 10, time.Millisecond, all)
		require.NoError(t, err)
		require.Empty(t, rows)
	})
}

// Read returns as soon as a row is recorded.
func TestReadWaits(t *testing.T) {
	redistest.Both(t, func(t *testing.T, r *redistest.Server) {
		s := job.NewStore(r.Client)
		newBatch(t, s)
		var rows []job.Recording
		var err error
		var reading sync.WaitGroup
		reading.Go(func() { rows, err = s.Read(t.Context(), "b", "", 1, time.Minute, all) })
		_, recordErr := s.Record(t.Context(), "b", result(1, false))
		require.NoError(t, recordErr)
		reading.Wait()
		require.NoError(t, err)
		require.Len(t, rows, 1)
	})
}
