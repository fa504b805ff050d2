package queuetest

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ingot-run/ingot/queue"
)

// model is the expected state of a batch after a sequence of operations.
type model struct {
	exists, sealed, cancelled bool
	total                     int
	attempts                  map[int]int
	stream                    []queue.Result
	dropped                   map[int]bool
	pins                      map[string]string // by the alias that a row names; the key is empty for rows that name none
}

func newModel() *model {
	return &model{attempts: map[int]int{}, dropped: map[int]bool{}, pins: map[string]string{}}
}

// otherModel returns queue.ErrOtherModel if the batch refuses answers of a worker with this pin to rows of an alias.
func (m *model) otherModel(alias, pin string) error {
	if first := m.pins[alias]; pin != "" && first != "" && pin != first {
		return queue.ErrOtherModel
	}
	return nil
}

func (m *model) recorded(line int) bool {
	return slices.ContainsFunc(m.stream, func(r queue.Result) bool { return r.Line == line })
}

func (m *model) finished() bool { return m.sealed && len(m.stream) >= m.total }

// refusal returns the error with which the batch refuses to change a row of this file, or nil.
func (m *model) refusal(file string) error {
	switch {
	case !m.exists:
		return queue.ErrNoBatch
	case m.cancelled:
		return queue.ErrCancelled
	case file == otherFile:
		return queue.ErrOtherFile
	}
	return nil
}

const otherFile = "ffffffffffffffff"

// testRandomOperations applies random operations to a queue and to a model. After each one it compares the results and the batch.
func testRandomOperations(t *testing.T, open func(t testing.TB) queue.Queue) {
	t.Helper()
	q := open(t)
	ctx, batches := t.Context(), 0
	rapid.Check(t, func(t *rapid.T) {
		batches++
		id := fmt.Sprint("batch-", batches)
		m := newModel()
		lines := rapid.IntRange(1, 6)
		aliases, pins := rapid.SampledFrom([]string{"", "other"}), rapid.SampledFrom([]string{"", "one", "two"})
		files := rapid.SampledFrom([]string{"", queue.FileID(fileSHA), otherFile})
		t.Repeat(map[string]func(*rapid.T){
			"create": func(t *rapid.T) {
				_, created, err := q.Create(ctx, queue.Batch{ID: id, Alias: "m", Priority: queue.Bulk, FileSHA: fileSHA, Retention: time.Hour})
				require.NoError(t, err)
				require.Equal(t, !m.exists, created)
				m.exists = true
			},
			"begin": func(t *rapid.T) {
				line, f := lines.Draw(t, "line"), files.Draw(t, "file")
				alias, pin := aliases.Draw(t, "alias"), pins.Draw(t, "pin")
				n, err := q.Begin(ctx, &queue.Job{Batch: id, Line: line, File: f, Alias: alias, Pin: pin})
				want := m.refusal(f)
				if want == nil && m.recorded(line) {
					want = queue.ErrRecorded
				}
				if want == nil {
					want = m.otherModel(alias, pin)
				}
				require.ErrorIs(t, err, want)
				if want == nil {
					m.attempts[line]++
					require.Equal(t, m.attempts[line], n.Attempt)
				}
			},
			"release": func(t *rapid.T) {
				line := lines.Draw(t, "line")
				require.NoError(t, q.Release(ctx, &queue.Job{Batch: id, Line: line}))
				if m.attempts[line]--; m.attempts[line] <= 0 {
					delete(m.attempts, line)
				}
			},
			"record": func(t *rapid.T) {
				r := result(lines.Draw(t, "line"), rapid.Bool().Draw(t, "failed"))
				r.File, r.Alias, r.Pin = files.Draw(t, "file"), aliases.Draw(t, "alias"), pins.Draw(t, "pin")
				first, err := q.Record(ctx, id, r)
				want := m.refusal(r.File)
				if want == nil && !m.recorded(r.Line) {
					want = m.otherModel(r.Alias, r.Pin)
				}
				require.ErrorIs(t, err, want)
				require.Equal(t, err == nil && !m.recorded(r.Line), first)
				if first {
					if m.pins[r.Alias] == "" {
						m.pins[r.Alias] = r.Pin
					}
					m.stream = append(m.stream, r)
					delete(m.attempts, r.Line)
				}
			},
			"drop": func(t *rapid.T) {
				rows := m.read(ctx, t, q, id)
				rows = rows[:rapid.IntRange(0, len(rows)).Draw(t, "rows")]
				require.NoError(t, q.Drop(ctx, id, rows))
				for _, r := range rows {
					m.dropped[r.Line] = true
				}
			},
			"seal": func(t *rapid.T) {
				if m.sealed {
					t.Skip("the batch is sealed already")
				}
				total := rapid.IntRange(0, 6).Draw(t, "total")
				err := q.Seal(ctx, id, total, fileSHA)
				require.ErrorIs(t, err, m.refusal(""))
				if err == nil {
					m.sealed, m.total = true, total
				}
			},
			"cancel": func(t *rapid.T) {
				if rapid.IntRange(0, 3).Draw(t, "rarely") > 0 {
					t.Skip("cancel only a few sealed batches, so that most sequences continue")
				}
				finished, err := q.Cancel(ctx, id)
				if !m.exists {
					require.ErrorIs(t, err, queue.ErrNoBatch)
					return
				}
				require.NoError(t, err)
				require.Equal(t, m.finished() && !m.cancelled, finished)
				if !finished {
					m.cancelled = true
					clear(m.attempts)
				}
			},
			"purge": func(t *rapid.T) {
				err := q.Purge(ctx, id)
				switch {
				case !m.exists:
					require.ErrorIs(t, err, queue.ErrNoBatch)
				case !m.cancelled && !m.finished():
					require.ErrorIs(t, err, queue.ErrUnfinished)
				default:
					require.NoError(t, err)
					*m = *newModel()
				}
			},
			"": func(t *rapid.T) { m.compare(ctx, t, q, id) },
		})
	})
}

// read reads the stream to its end in pages.
func (m *model) read(ctx context.Context, t *rapid.T, q queue.Queue, id string) (all []queue.Recording) {
	count, after := rapid.IntRange(1, 7).Draw(t, "page"), ""
	for {
		rows, err := q.Read(ctx, id, queue.Page{After: after, Count: count, MaxBytes: 20, Want: everything})
		require.NoError(t, err)
		if len(rows) == 0 {
			return all
		}
		all = append(all, rows...)
		after = rows[len(rows)-1].ID
	}
}

// compare compares the batch with the model.
func (m *model) compare(ctx context.Context, t *rapid.T, q queue.Queue, id string) {
	s, err := q.Status(ctx, id)
	if !m.exists {
		require.ErrorIs(t, err, queue.ErrNoBatch)
	} else {
		require.NoError(t, err)
		failed := 0
		for _, r := range m.stream {
			if r.Failed {
				failed++
			}
		}
		state := queue.Enqueueing
		switch {
		case m.cancelled:
			state = queue.Cancelled
		case m.finished():
			state = queue.Completed
		case m.sealed:
			state = queue.InProgress
		}
		require.Equal(t, []any{state, m.total, len(m.stream) - failed, failed, len(m.attempts)}, []any{s.State, s.Total, s.Done, s.Failed, s.Running})
		require.Equal(t, []queue.Model{{Alias: "m", Pin: m.pins[""]}}, s.Models)
		require.Equal(t, s.Ended(), s.Expires != nil)
	}
	lines, err := q.Recorded(ctx, id)
	require.NoError(t, err)
	for line := range 9 {
		require.Equal(t, m.recorded(line), lines.Has(line), line)
	}
	var want []queue.Recording
	for _, r := range m.stream {
		if !m.dropped[r.Line] {
			want = append(want, queue.Recording{Line: r.Line, Sum: r.Sum, Failed: r.Failed, Text: r.Text})
		}
	}
	got := m.read(ctx, t, q, id)
	for i := range got {
		require.NotEmpty(t, got[i].ID)
		got[i].ID = ""
	}
	require.Equal(t, want, got)
}
