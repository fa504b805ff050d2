package enqueue_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/enqueue"
	"github.com/ingot-run/ingot/files/rows"
	"github.com/ingot-run/ingot/queue"
	"github.com/ingot-run/ingot/queue/memqueue"
	"github.com/ingot-run/ingot/queue/queuetest"
)

// discards counts the results that are deleted from a queue.
type discards struct {
	queue.Queue
	rows  int
	calls []int // number of rows of each call
}

func (d *discards) Discard(ctx context.Context, batch string, rows []queue.Recording, entries bool) error {
	d.rows += len(rows)
	d.calls = append(d.calls, len(rows))
	return d.Queue.Discard(ctx, batch, rows, entries)
}

// Results are deleted only once the output is on the disk. If it cannot be synced, they stay.
func TestNothingIsFreedThatIsNotOnTheDisk(t *testing.T) {
	t.Parallel()
	for name, lost := range map[string]bool{"a good disk": false, "a lost disk": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := &discards{Queue: memqueue.New()}
			makeBatch(t, d)
			for line := 1; line <= 20; line++ {
				finish(t, d, line)
			}
			out, err := rows.OpenOutput(filepath.Join(t.TempDir(), "out.jsonl"), "b")
			require.NoError(t, err)
			_, err = enqueue.Collect(t.Context(), d, out, enqueue.CollectOptions{Free: true, Progress: func(queue.Status) {
				if written, _ := out.Counts(); written == 20 && lost {
					out.Close() // all rows are written; the file cannot be synced from now on
				}
			}})
			if lost {
				require.ErrorContains(t, err, "closed")
				require.Zero(t, d.rows)
				return
			}
			require.NoError(t, err)
			require.Equal(t, 18, d.rows, "the error lines stay: their rows may be queued again")
			require.NoError(t, out.Close())
		})
	}
}

// Results are deleted while the output grows, not only at the end, and never without the option.
func TestResultsAreFreedInParts(t *testing.T) {
	t.Parallel()
	for free, want := range map[bool]int{true: 2, false: 0} {
		d := &discards{Queue: memqueue.New()}
		makeBatch(t, d)
		for line := 1; line <= 1300; line++ {
			finish(t, d, line)
		}
		out, err := rows.OpenOutput(filepath.Join(t.TempDir(), "out.jsonl"), "b")
		require.NoError(t, err)
		c, err := enqueue.Collect(t.Context(), d, out, enqueue.CollectOptions{Free: free})
		require.NoError(t, err)
		require.NoError(t, out.Close())
		require.Equal(t, []int{1300, 130}, []int{c.Written, c.Failed})
		require.Len(t, d.calls, want)
		if free {
			require.Equal(t, 1170, d.rows)
			require.Less(t, d.calls[0], 1100)
		}
	}
}

// A continued batch keeps its deadline and takes no other settings.
func TestAContinuedBatch(t *testing.T) {
	queuetest.OnEach(t, func(t *testing.T, q queue.Queue) {
		deadline := time.Now().Add(time.Hour).Truncate(time.Second)
		first, _, _ := strings.Cut(prompts(3), "\n")
		add := func(o enqueue.Options, line int) error {
			o.Batch, o.Alias = "b", "m"
			p, err := enqueue.NewProducer(t.Context(), q, o, strings.Repeat("0", 64))
			if err != nil {
				return err
			}
			row, err := rows.NewReader(strings.NewReader(strings.Repeat("\n", line-1)+first), rows.Options{}).Next()
			require.NoError(t, err)
			_, err = p.Add(t.Context(), row)
			return err
		}
		require.NoError(t, add(enqueue.Options{Deadline: deadline}, 1))
		require.NoError(t, add(enqueue.Options{}, 2))
		require.NoError(t, add(enqueue.Options{Deadline: deadline.Add(time.Hour)}, 3))
		jobs := queuetest.Take(t, q, "m", queue.Default, 3)
		for i, j := range jobs {
			require.Equal(t, i+1, j.Line)
			require.Equal(t, deadline.UnixMilli(), j.DeadlineMS, "line %d", j.Line)
		}
		for _, c := range []struct {
			o    enqueue.Options
			says string
		}{
			{enqueue.Options{Priority: queue.Bulk}, "batch b was queued for model name m with priority default: give the same model name and priority, or another batch id"},
			{enqueue.Options{Retention: time.Second - 1}, "the retention 999.999999ms is not between 1s and 87600h0m0s"},
			{enqueue.Options{Weight: 1001}, "the weight 1001 is not between 1 and 1000"},
			{enqueue.Options{Weight: -1}, "the weight -1 is not between 1 and 1000"},
		} {
			require.ErrorContains(t, add(c.o, 4), c.says)
		}
		_, err := enqueue.NewProducer(t.Context(), q, enqueue.Options{Batch: "b", Alias: "n"}, "")
		require.ErrorContains(t, err, "give the same model name and priority")
		_, err = enqueue.NewProducer(t.Context(), q, enqueue.Options{Batch: "b", Alias: "m"}, strings.Repeat("1", 64))
		require.ErrorIs(t, err, rows.ErrOtherFile)
		require.ErrorContains(t, err, fmt.Sprintf("with the SHA-256 %s… instead of %s…: give another batch id", strings.Repeat("0", 12), strings.Repeat("1", 12)))
		_, err = q.Cancel(t.Context(), "b")
		require.NoError(t, err)
		require.ErrorIs(t, add(enqueue.Options{}, 4), queue.ErrCancelled)
		for _, o := range []enqueue.Options{{Retention: time.Second}, {Retention: 87600 * time.Hour}, {Weight: 1}, {Weight: 1000}} {
			o.Batch = fmt.Sprintf("b%d-%d", o.Retention/time.Second, o.Weight)
			_, err := enqueue.NewProducer(t.Context(), q, o, "")
			require.NoError(t, err)
		}
	})
}
