package queuetest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/queue"
)

func everything(queue.Recording) bool { return true }

// page reads a page of batch "b" with all results.
func page(t testing.TB, q queue.Queue, after string, count int) []queue.Recording {
	t.Helper()
	rows, err := q.Read(t.Context(), "b", queue.Page{After: after, Count: count, MaxBytes: 1 << 20, Want: everything})
	require.NoError(t, err)
	return rows
}

// readAll reads batch "b" to its end in pages. It checks that each line appears once, with its
// result.
func readAll(t testing.TB, q queue.Queue, count int) (lines []int) {
	t.Helper()
	seen := map[int]bool{}
	for after := ""; ; {
		rows := page(t, q, after, count)
		if len(rows) == 0 {
			return lines
		}
		require.LessOrEqual(t, len(rows), count)
		for _, r := range rows {
			require.False(t, seen[r.Line], "line %d is in the stream twice", r.Line)
			seen[r.Line] = true
			require.Equal(t, fmt.Sprint("result ", r.Line), string(r.Text))
			require.Equal(t, fmt.Sprintf("%08x", r.Line), r.Sum)
			lines = append(lines, r.Line)
		}
		after = rows[len(rows)-1].ID
	}
}

func TestResultsAreReadInOrder(t *testing.T) {
	t.Parallel()
	OnEach(t, func(t *testing.T, q queue.Queue) {
		create(t, q)
		want := []int{9, 2, 70, 3, 1, 8, 1000}
		for _, line := range want {
			record(t, q, result(line, false))
		}
		for count := range len(want) + 1 {
			require.Equal(t, want, readAll(t, q, count+1))
		}
		record(t, q, result(4, false))
		require.Equal(t, append(want, 4), readAll(t, q, 3))
		_, err := q.Read(t.Context(), "b", queue.Page{After: "x", Count: 3, MaxBytes: 1 << 20, Want: everything})
		require.ErrorContains(t, err, "batch b")
	})
}

func TestReadFetchesWhatIsWanted(t *testing.T) {
	t.Parallel()
	OnEach(t, func(t *testing.T, q queue.Queue) {
		create(t, q)
		for line := 1; line <= 4; line++ {
			record(t, q, result(line, line == 2))
		}
		rows, err := q.Read(t.Context(), "b", queue.Page{Count: 3, MaxBytes: 1000, Want: func(r queue.Recording) bool { return r.Line != 3 }})
		require.NoError(t, err)
		require.Len(t, rows, 3)
		require.Equal(t, []string{"result 1", "result 2", ""}, []string{string(rows[0].Text), string(rows[1].Text), string(rows[2].Text)})
		require.Equal(t, []bool{false, true, false}, []bool{rows[0].Failed, rows[1].Failed, rows[2].Failed})
		rows, err = q.Read(t.Context(), "b", queue.Page{Count: 10, Want: func(queue.Recording) bool { return false }})
		require.NoError(t, err)
		require.Len(t, rows, 4)
	})
}

// A page ends before the result that would exceed the page's size. A result that is larger than a
// page is a page by itself.
func TestAPageIsBoundedByBytes(t *testing.T) {
	t.Parallel()
	OnEach(t, func(t *testing.T, q queue.Queue) {
		create(t, q)
		sizes := []int{400, 400, 300, 5000, 1, 2000, 999, 1, 1, 0}
		for i, size := range sizes {
			r := result(i+1, false)
			r.Text = []byte(strings.Repeat("x", size))
			record(t, q, r)
		}
		pages := func(want func(queue.Recording) bool) (pages [][]int) {
			for after := ""; ; {
				rows, err := q.Read(t.Context(), "b", queue.Page{After: after, Count: 100, MaxBytes: 1000, Want: want})
				require.NoError(t, err)
				if len(rows) == 0 {
					return pages
				}
				var lines []int
				for _, r := range rows {
					lines = append(lines, r.Line)
					if want(r) {
						require.Len(t, r.Text, sizes[r.Line-1])
					} else {
						require.Empty(t, r.Text)
					}
				}
				pages = append(pages, lines)
				after = rows[len(rows)-1].ID
			}
		}
		require.Equal(t, [][]int{{1, 2}, {3}, {4}, {5}, {6}, {7, 8}, {9, 10}}, pages(everything))
		require.Equal(t, [][]int{{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}}, pages(func(queue.Recording) bool { return false }))
		require.Equal(t, [][]int{{1, 2, 3, 4, 5}, {6, 7, 8, 9, 10}}, pages(func(r queue.Recording) bool { return r.Line == 4 || r.Line == 6 }))
	})
}

func TestWhatIsDroppedStaysRecorded(t *testing.T) {
	t.Parallel()
	OnEach(t, func(t *testing.T, q queue.Queue) {
		create(t, q)
		for line := 1; line <= 5; line++ {
			record(t, q, result(line, false))
		}
		rows := page(t, q, "", 4)
		require.NoError(t, q.Discard(t.Context(), "b", append(rows[:2:2], rows[3]), true))
		require.NoError(t, q.Discard(t.Context(), "b", nil, true))
		require.Equal(t, []int{3, 5}, readAll(t, q, 10))
		left := page(t, q, rows[3].ID, 10)
		require.Len(t, left, 1, "a page can begin after a dropped entry")
		require.Equal(t, 5, left[0].Line)
		require.False(t, record(t, q, result(1, false)), "the row of a dropped result stays recorded")
		require.Equal(t, 5, status(t, q).Done)
		require.True(t, record(t, q, result(6, false)))
		require.Equal(t, []int{3, 5, 6}, readAll(t, q, 10))
	})
}

// A waiting Read returns as soon as a row is recorded.
func TestAReadWaitsForARow(t *testing.T) {
	t.Parallel()
	OnEach(t, func(t *testing.T, q queue.Queue) {
		create(t, q)
		after := ""
		for line := 1; line <= 20; line++ {
			var rows []queue.Recording
			var err error
			var reading sync.WaitGroup
			reading.Go(func() {
				rows, err = q.Read(t.Context(), "b", queue.Page{After: after, Count: 1, MaxBytes: 100, Wait: maxWait, Want: everything})
			})
			record(t, q, result(line, false))
			reading.Wait()
			require.NoError(t, err)
			require.Len(t, rows, 1)
			require.Equal(t, line, rows[0].Line)
			after = rows[0].ID
		}
	})
}

func TestAReadThatWaitsEnds(t *testing.T) {
	t.Parallel()
	OnEach(t, func(t *testing.T, q queue.Queue) {
		create(t, q)
		wait := func(ctx context.Context, wait time.Duration) ([]queue.Recording, error) {
			return q.Read(ctx, "b", queue.Page{Count: 1, Wait: wait, Want: everything})
		}
		rows, err := wait(t.Context(), time.Millisecond)
		require.NoError(t, err)
		require.Empty(t, rows)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = wait(ctx, maxWait)
		require.ErrorIs(t, err, context.Canceled)
	})
}

// A row whose result was freed stays in the stream, with its checksum.
func TestWhatIsFreedStaysListed(t *testing.T) {
	t.Parallel()
	OnEach(t, func(t *testing.T, q queue.Queue) {
		create(t, q)
		for line := 1; line <= 4; line++ {
			record(t, q, result(line, false))
		}
		rows := page(t, q, "", 2)
		require.NoError(t, q.Discard(t.Context(), "b", rows, false))
		require.NoError(t, q.Discard(t.Context(), "b", nil, false))
		require.False(t, record(t, q, result(1, false)), "the row of a freed result stays recorded")
		after := page(t, q, "", 10)
		require.Len(t, after, 4)
		for i, r := range after {
			require.Equal(t, []any{i + 1, fmt.Sprintf("%08x", i+1), i < 2}, []any{r.Line, r.Sum, r.Text == nil})
		}
		require.NoError(t, q.Discard(t.Context(), "none", rows, false))
	})
}
