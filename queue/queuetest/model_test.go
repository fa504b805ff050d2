package queuetest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
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
	total, results            int
	attempts                  map[int]int
	stream                    []queue.Result
	freed, dropped            map[int]bool      // lines whose results, and whose entries, were discarded
	queued                    map[string]bool   // aliases under which rows were queued
	held                      map[int]*Held     // running deliveries, by line
	pins                      map[string]string // by the alias that a row names; the key is empty for rows that name none
}

func newModel() *model {
	return &model{attempts: map[int]int{}, freed: map[int]bool{}, dropped: map[int]bool{}, held: map[int]*Held{}, queued: map[string]bool{}, pins: map[string]string{}}
}

// otherModel returns queue.ErrOtherModel if the batch refuses answers of a worker with this pin to
// rows of an alias.
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

// testRandomOperations applies random operations to a queue and to a model. After each one it
// compares the results and the batch.
func TestRandomOperations(t *testing.T) {
	t.Parallel()
	OnEach(t, func(outer *testing.T, q queue.Queue) {
		outer.Helper()
		ctx, batches := outer.Context(), 0
		workers := map[string]*Worker{"": Hold(outer, q, "m"), "other": Hold(outer, q, "other")}
		rapid.Check(outer, func(t *rapid.T) {
			batches++
			id := fmt.Sprint("batch-", batches)
			m := newModel()
			defer m.release()
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
					line, alias := lines.Draw(t, "line"), aliases.Draw(t, "alias")
					if m.held[line] != nil {
						t.Skip("it is running")
					}
					j := newJob(line)
					j.Batch, j.File, j.Alias = id, files.Draw(t, "file"), alias
					pin := m.drawPin(t, alias)
					workers[alias].Pin.Store(&pin)
					if want := m.refusal(""); want != nil {
						_, err := q.Add(ctx, workers[alias].alias, queue.Bulk, []*queue.Job{j})
						require.ErrorIs(t, err, want)
						return
					}
					m.queued[alias] = true
					eventually(outer, "an earlier delivery of the row has ended", func() bool {
						added, err := q.Add(ctx, workers[alias].alias, queue.Bulk, []*queue.Job{j})
						return err == nil && added[0] // the error may be ErrRowRunning
					})
					m.take(t, workers[alias], j, pin)
				},
				"end": func(t *rapid.T) {
					for _, line := range slices.Sorted(maps.Keys(m.held)) {
						h := m.held[line]
						delete(m.held, line)
						switch rapid.IntRange(0, 2).Draw(t, "outcome") {
						case 0:
							h.End(queue.Done())
						case 1:
							r := m.result(line, rapid.Bool().Draw(t, "failed"))
							r.File, r.Alias, r.Pin = h.File, h.Alias, pins.Draw(t, "pin")
							m.record(t, r, func() (bool, error) { return h.Record(ctx, r) })
							h.End(queue.Done())
						case 2:
							pin := m.drawPin(t, h.Alias)
							workers[h.Alias].Pin.Store(&pin)
							h.End(queue.Interrupted(nil))
							m.take(t, workers[h.Alias], h.Job, pin)
						}
					}
				},
				"record": func(t *rapid.T) {
					r := m.result(lines.Draw(t, "line"), rapid.Bool().Draw(t, "failed"))
					r.File, r.Alias, r.Pin = files.Draw(t, "file"), aliases.Draw(t, "alias"), pins.Draw(t, "pin")
					m.record(t, r, func() (bool, error) { return q.Record(ctx, id, r) })
				},
				"discard": func(t *rapid.T) {
					rows, entries := m.read(ctx, t, q, id), rapid.Bool().Draw(t, "entries")
					rows = rows[:rapid.IntRange(0, len(rows)).Draw(t, "rows")]
					require.NoError(t, q.Discard(ctx, id, rows, entries))
					for _, r := range rows {
						m.freed[r.Line] = true
						m.dropped[r.Line] = m.dropped[r.Line] || entries
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
					m.release()
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
					m.release()
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
	})
}

// drawPin draws the pin of a worker's model. Few of the pins are those of another model, since
// refused rows are delivered again a second later.
func (m *model) drawPin(t *rapid.T, alias string) string {
	pin := rapid.SampledFrom([]string{"", "one", "two"}).Draw(t, "pin")
	if m.otherModel(alias, pin) != nil && rapid.IntRange(0, 20).Draw(t, "rarely") > 0 {
		return m.pins[alias]
	}
	return pin
}

// take waits for a row that was queued, and checks that it is begun or refused as the model
// expects.
func (m *model) take(t *rapid.T, w *Worker, j *queue.Job, pin string) {
	h := w.Next(t)
	for h.Batch != j.Batch { // a row of an earlier batch, whose delivery ended without an answer
		if h.Refused == nil {
			h.End(queue.Done())
		}
		h = w.Next(t)
	}
	require.Equal(t, j, h.Job)
	want := m.refusal(j.File)
	if want == nil && m.recorded(j.Line) {
		want = queue.ErrRecorded
	}
	if want == nil {
		want = m.otherModel(j.Alias, pin)
	}
	require.ErrorIs(t, h.Refused, want)
	if errors.Is(want, queue.ErrOtherModel) { // the row is delivered again
		w.Pin.Store(new(string))
		m.take(t, w, j, "")
		return
	}
	if want == nil {
		m.attempts[j.Line]++
		require.Equal(t, m.attempts[j.Line], h.Attempt)
		m.held[j.Line] = h
	}
}

// record records a result and checks that it is recorded or refused as the model expects.
func (m *model) record(t *rapid.T, r queue.Result, record func() (first bool, err error)) {
	first, err := record()
	want := m.refusal(r.File)
	if want == nil && !m.recorded(r.Line) {
		want = m.otherModel(r.Alias, r.Pin)
	}
	require.ErrorIs(t, err, want)
	if m.freed[r.Line] {
		return // a queue may take the result of a delivery for the one that was freed
	}
	require.Equal(t, err == nil && !m.recorded(r.Line), first)
	if first {
		if m.pins[r.Alias] == "" {
			m.pins[r.Alias] = r.Pin
		}
		m.stream = append(m.stream, r)
		delete(m.attempts, r.Line)
	}
}

// result returns a result whose text differs from that of all others: a second delivery of the same
// text counts as the repetition of a call whose reply was lost.
func (m *model) result(line int, failed bool) queue.Result {
	m.results++
	r := result(line, failed)
	r.Text = fmt.Appendf(r.Text, ", %d", m.results)
	return r
}

// release ends the running deliveries.
func (m *model) release() {
	for _, h := range m.held {
		h.End(queue.Done())
	}
	clear(m.held)
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
		models := []queue.Model{}
		for _, alias := range []string{"", "other"} {
			if m.queued[alias] || alias == "" && len(m.queued) == 0 {
				models = append(models, queue.Model{Alias: cmp.Or(alias, "m"), Pin: m.pins[alias]})
			}
		}
		require.Equal(t, models, s.Models)
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
			recording := queue.Recording{Line: r.Line, Sum: r.Sum, Failed: r.Failed, Text: r.Text}
			if m.freed[r.Line] {
				recording.Text = nil
			}
			want = append(want, recording)
		}
	}
	got := m.read(ctx, t, q, id)
	for i := range got {
		require.NotEmpty(t, got[i].ID)
		got[i].ID = ""
	}
	require.Equal(t, want, got)
}
