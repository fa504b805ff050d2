package enqueue_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/enqueue"
	"github.com/ingot-run/ingot/files/rows"
	"github.com/ingot-run/ingot/openai"
	"github.com/ingot-run/ingot/queue"
	"github.com/ingot-run/ingot/queue/memqueue"
)

var errBroken = errors.New("the queue is broken")

// failing is a queue of which one call fails, without an effect.
type failing struct {
	queue.Queue
	err error // errBroken if it is nil

	mu    sync.Mutex
	left  int // number of calls until the one that fails; 0 for none
	calls map[string]int
	sizes []int // numbers of jobs of the calls of Add
}

func (q *failing) next(method string) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.calls == nil {
		q.calls = map[string]int{}
	}
	q.calls[method]++
	if q.left > 0 {
		if q.left--; q.left == 0 {
			if q.err != nil {
				return q.err
			}
			return errBroken
		}
	}
	return nil
}

func (q *failing) MaxBytes(ctx context.Context) (int, error) {
	if err := q.next("MaxBytes"); err != nil {
		return 0, err
	}
	return q.Queue.MaxBytes(ctx)
}

func (q *failing) Create(ctx context.Context, b queue.Batch) (existing queue.Batch, created bool, err error) {
	if err := q.next("Create"); err != nil {
		return existing, false, err
	}
	return q.Queue.Create(ctx, b)
}

func (q *failing) Recorded(ctx context.Context, batch string) (queue.Lines, error) {
	if err := q.next("Recorded"); err != nil {
		return nil, err
	}
	return q.Queue.Recorded(ctx, batch)
}

func (q *failing) Record(ctx context.Context, batch string, r queue.Result) (bool, error) {
	if err := q.next("Record"); err != nil {
		return false, err
	}
	return q.Queue.Record(ctx, batch, r)
}

func (q *failing) Add(ctx context.Context, alias string, p queue.Priority, jobs []*queue.Job) ([]bool, error) {
	if err := q.next("Add"); err != nil {
		return nil, err
	}
	q.mu.Lock()
	q.sizes = append(q.sizes, len(jobs))
	q.mu.Unlock()
	return q.Queue.Add(ctx, alias, p, jobs)
}

func (q *failing) Seal(ctx context.Context, batch string, total int, fileSHA string) error {
	if err := q.next("Seal"); err != nil {
		return err
	}
	return q.Queue.Seal(ctx, batch, total, fileSHA)
}

func (q *failing) Status(ctx context.Context, batch string) (queue.Status, error) {
	if err := q.next("Status"); err != nil {
		return queue.Status{}, err
	}
	return q.Queue.Status(ctx, batch)
}

func (q *failing) Read(ctx context.Context, batch string, p queue.Page) ([]queue.Recording, error) {
	if err := q.next("Read"); err != nil {
		return nil, err
	}
	return q.Queue.Read(ctx, batch, p)
}

func (q *failing) Discard(ctx context.Context, batch string, rows []queue.Recording, entries bool) error {
	if err := q.next("Discard"); err != nil {
		return err
	}
	return q.Queue.Discard(ctx, batch, rows, entries)
}

func (q *failing) Expire(ctx context.Context, batch string) (int, error) {
	if err := q.next("Expire"); err != nil {
		return 0, err
	}
	return q.Queue.Expire(ctx, batch)
}

// each calls an operation again and again, of which first one call of the queue fails, then the
// next one, until none fails. The operation must return the error, and otherwise none. It returns
// the calls of an operation without an error.
func each(t *testing.T, operation func(q *failing) error) map[string]int {
	t.Helper()
	for n := 1; ; n++ {
		require.Less(t, n, 100)
		q := &failing{left: n}
		err := operation(q)
		if q.left > 0 {
			require.NoError(t, err)
			return q.calls
		}
		require.ErrorIs(t, err, errBroken, "call %d: %v", n, q.calls)
	}
}

// An error of any call of the queue ends the operation that needs the call.
func TestErrorsOfTheQueue(t *testing.T) {
	t.Parallel()
	file := prompts(3) + "nonsense\n"
	calls := each(t, func(q *failing) error {
		memory := memqueue.New()
		_, err := enqueue.Enqueue(t.Context(), memory, strings.NewReader(file), enqueue.Options{Batch: "b"})
		require.NoError(t, err)
		q.Queue = memory
		_, err = enqueue.Enqueue(t.Context(), q, strings.NewReader(file+prompts(5)), enqueue.Options{Batch: "c"})
		if err != nil {
			return err
		}
		_, err = enqueue.Enqueue(t.Context(), q, strings.NewReader(file), enqueue.Options{Batch: "b"})
		return err
	})
	for _, method := range []string{"MaxBytes", "Create", "Recorded", "Record", "Add", "Seal"} {
		require.Positive(t, calls[method], method)
	}

	path := filepath.Join(t.TempDir(), "out.jsonl")
	calls = each(t, func(q *failing) error {
		memory := memqueue.New()
		makeBatch(t, memory)
		for line := range 40 {
			finish(t, memory, line+1)
		}
		out, err := rows.OpenOutput(path, "b")
		require.NoError(t, err)
		defer func() { require.NoError(t, out.Close()) }()
		if kept := out.Kept(); kept == 0 {
			_, err := enqueue.Collect(t.Context(), memory, out, enqueue.CollectOptions{})
			require.NoError(t, err)
			require.NoError(t, out.Close())
			out, err = rows.OpenOutput(path, "b")
			require.NoError(t, err)
		}
		for line := range 5 {
			finish(t, memory, line+41)
		}
		require.NoError(t, memory.Seal(t.Context(), "b", 45, "aa"))
		q.Queue = memory
		_, err = enqueue.Collect(t.Context(), q, rows.NewOutput(new(bytes.Buffer), "b"), enqueue.CollectOptions{})
		if err != nil {
			return err
		}
		_, err = enqueue.Collect(t.Context(), q, out, enqueue.CollectOptions{Free: true})
		return err
	})
	require.Equal(t, 1, calls["Discard"])
	require.Greater(t, calls["Read"], 4)
}

// brokenWriter accepts a number of bytes.
type brokenWriter struct{ left int }

func (w *brokenWriter) Write(p []byte) (int, error) {
	if w.left -= len(p); w.left < 0 {
		return 0, errBroken
	}
	return len(p), nil
}

// An output that cannot be written ends Collect, whichever result cannot be written.
func TestAnOutputThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	q := memqueue.New()
	makeBatch(t, q)
	for line := range 70 {
		finish(t, q, line+1)
	}
	var whole bytes.Buffer
	_, err := enqueue.Collect(t.Context(), q, rows.NewOutput(&whole, "b"), enqueue.CollectOptions{})
	require.NoError(t, err)
	for n := 0; n < whole.Len(); n += 997 {
		_, err := enqueue.Collect(t.Context(), q, rows.NewOutput(&brokenWriter{n}, "b"), enqueue.CollectOptions{})
		require.ErrorIs(t, err, errBroken)
	}
	written := errors.New("not accepted")
	_, err = enqueue.Collect(t.Context(), q, rows.NewOutput(new(bytes.Buffer), "b"), enqueue.CollectOptions{Written: func([]queue.Recording) error { return written }})
	require.ErrorIs(t, err, written)
}

// Watch reads the status each second until the batch has ended, and lets its rows expire every ten
// seconds after the deadline.
func TestWatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		q := &failing{Queue: memqueue.New()}
		_, _, err := q.Create(t.Context(), queue.Batch{ID: "b", Alias: "m", Priority: queue.Default, Retention: time.Hour, Deadline: began.Add(2500 * time.Millisecond)})
		require.NoError(t, err)
		add := func(line int) {
			j := &queue.Job{Batch: "b", Line: line, Sum: "0badcafe", CustomID: "x", Endpoint: openai.Completions, Body: []byte("{}"), TimeoutMS: 60_000, MaxAttempts: 1, DeadlineMS: began.Add(2500 * time.Millisecond).UnixMilli()}
			_, err := q.Add(t.Context(), "m", queue.Default, []*queue.Job{j})
			require.NoError(t, err)
		}
		add(1)
		require.NoError(t, q.Seal(t.Context(), "b", 3, "aa"))
		time.AfterFunc(3500*time.Millisecond, func() { add(2) })
		time.AfterFunc(15500*time.Millisecond, func() { _, _ = q.Record(t.Context(), "b", queue.Result{Line: 3, Sum: "0badcafe", Text: []byte("{}")}) })
		var at, failed []int
		require.NoError(t, enqueue.Watch(t.Context(), q, "b", func(s queue.Status) {
			at, failed = append(at, int(time.Since(began).Milliseconds())), append(failed, s.Failed)
		}))
		require.Equal(t, []int{0, 1000, 2000, 3000, 4000, 5000}, at[:6])
		require.Equal(t, 16000, at[len(at)-1])
		require.Equal(t, []int{0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2}, failed)
		require.Equal(t, 2, q.calls["Expire"])

		ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
		defer cancel()
		_, _, err = q.Create(t.Context(), queue.Batch{ID: "c", Alias: "m"})
		require.NoError(t, err)
		seen := 0
		require.ErrorIs(t, enqueue.Watch(ctx, q, "c", func(queue.Status) { seen++ }), context.DeadlineExceeded)
		require.Equal(t, 3, seen)
		require.ErrorIs(t, enqueue.Watch(t.Context(), q, "none", func(queue.Status) { seen++ }), queue.ErrNoBatch)
		_, _, err = q.Create(t.Context(), queue.Batch{ID: "d", Alias: "m", Deadline: time.Now().Add(-time.Second)})
		require.NoError(t, err)
		q.left = 2
		require.ErrorIs(t, enqueue.Watch(t.Context(), q, "d", func(queue.Status) { seen++ }), errBroken, "its rows cannot expire")
		q.left = 2
		_, err = enqueue.Collect(t.Context(), q, rows.NewOutput(new(bytes.Buffer), "d"), enqueue.CollectOptions{})
		require.ErrorIs(t, err, errBroken)
	})
}

// A producer waits for a queue that cannot be reached, up to a minute. One whose client waits does
// not.
func TestHowLongAProducerWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := &failing{Queue: memqueue.New(), err: fmt.Errorf("reach: %w", queue.ErrUnavailable), left: 1}
		began := time.Now()
		live := enqueue.Options{Batch: "l", Live: &queue.Live{Channel: "c"}}
		_, err := enqueue.NewProducer(t.Context(), q, live, "")
		require.ErrorIs(t, err, queue.ErrUnavailable)
		require.Zero(t, time.Since(began))
		p, err := enqueue.NewProducer(t.Context(), q, live, "")
		require.NoError(t, err)
		require.Positive(t, p.MaxBody())
		s, err := q.Status(t.Context(), "l")
		require.NoError(t, err)
		require.Equal(t, queue.Interactive, s.Priority)

		q.left = 1
		_, err = enqueue.NewProducer(t.Context(), q, enqueue.Options{Batch: "b"}, "")
		require.NoError(t, err)
		require.Equal(t, 50*time.Millisecond, time.Since(began), "the second try succeeds")
		q.err, q.left = errors.Join(queue.ErrUnavailable, queue.ErrFull), 1
		_, err = enqueue.NewProducer(t.Context(), q, enqueue.Options{Batch: "b"}, "")
		require.ErrorIs(t, err, queue.ErrFull)
		require.Equal(t, 50*time.Millisecond, time.Since(began))
		_, err = enqueue.NewProducer(t.Context(), alwaysUnavailable{q}, enqueue.Options{Batch: "b"}, "")
		require.ErrorIs(t, err, queue.ErrUnavailable)
		require.InDelta(t, time.Minute, time.Since(began), float64(3*time.Second))
	})
}

type alwaysUnavailable struct{ queue.Queue }

func (alwaysUnavailable) MaxBytes(context.Context) (int, error) { return 0, queue.ErrUnavailable }

type smallQueue struct{ queue.Queue }

func (smallQueue) MaxBytes(context.Context) (int, error) { return 1 << 20, nil }

// A body of exactly the queue's limit is queued; a body of one byte more is rejected.
func TestTheLargestBodyThatIsQueued(t *testing.T) {
	t.Parallel()
	p, err := enqueue.NewProducer(t.Context(), smallQueue{memqueue.New()}, enqueue.Options{Batch: "b"}, "")
	require.NoError(t, err)
	body := func(n int) []byte { return []byte(`"` + strings.Repeat("x", n-2) + `"`) }
	got, err := p.Add(t.Context(), rows.Row{Line: 0, Body: body(p.MaxBody())}, rows.Row{Line: 1, Body: body(p.MaxBody() + 1)})
	require.NoError(t, err)
	require.Equal(t, enqueue.Added, got[0])
	require.Equal(t, enqueue.Rejected, got[1])
}

// Rows are queued in groups of a number of rows or bytes.
func TestGroupsOfRows(t *testing.T) {
	t.Parallel()
	large := func(n int) string {
		return strings.Repeat(fmt.Sprintf("{\"prompt\":%q}\n", strings.Repeat("x", 100<<10)), n)
	}
	for name, c := range map[string]struct {
		file string
		want []int
	}{
		"whole groups": {prompts(256), []int{128, 128}}, "a rest": {prompts(300), []int{44, 128, 128}}, "one row more": {prompts(129), []int{1, 128}},
		"large rows": {large(7), []int{1, 3, 3}}, "some rows": {prompts(5), []int{5}},
	} {
		q := &failing{Queue: memqueue.New()}
		var last enqueue.Summary
		calls := 0
		_, err := enqueue.Enqueue(t.Context(), q, strings.NewReader(c.file), enqueue.Options{Batch: "b", Progress: func(s enqueue.Summary) { last = s; calls++ }})
		require.NoError(t, err)
		slices.Sort(q.sizes)
		require.Equal(t, c.want, q.sizes, name)
		require.Equal(t, 1, calls)
		require.Equal(t, strings.Count(c.file, "\n"), last.Added)
	}
}

// Rows that continue texts, and rows for models for chats, are counted before they are queued.
func TestRowsThatAreCountedFirst(t *testing.T) {
	t.Parallel()
	chat := `{"messages":[{"role":"user","content":"hi"}]}` + "\n"
	for _, c := range []struct {
		file             string
		continued, chats []int
	}{
		{prompts(2) + chat, []int{2}, []int{1}}, {chat + chat, nil, []int{2}}, {prompts(3), []int{3}, nil},
	} {
		var continued, chats []int
		q := memqueue.New()
		_, err := enqueue.Enqueue(t.Context(), q, strings.NewReader(c.file), enqueue.Options{
			Batch: "b", Continued: func(n int) { continued = append(continued, n) }, Chats: func(n int) { chats = append(chats, n) },
		})
		require.NoError(t, err)
		require.Equal(t, c.continued, continued)
		require.Equal(t, c.chats, chats)
		var existing []queue.Batch
		_, err = enqueue.Enqueue(t.Context(), q, strings.NewReader(c.file), enqueue.Options{Batch: "b", Existing: func(b queue.Batch) { existing = append(existing, b) }})
		require.NoError(t, err)
		require.Len(t, existing, 1)
		require.Equal(t, "b", existing[0].ID)
	}
}

// changing is a file that has other rows when it is read for the second time.
type changing struct {
	*strings.Reader
	seeks int
	later string
}

func (c *changing) Seek(offset int64, whence int) (int64, error) {
	if c.seeks++; c.seeks == 2 {
		c.Reader = strings.NewReader(c.later)
	}
	return c.Reader.Seek(offset, whence)
}

func TestAFileThatChangesWhileItIsRead(t *testing.T) {
	t.Parallel()
	q := memqueue.New()
	_, err := enqueue.Enqueue(t.Context(), q, &changing{Reader: strings.NewReader(prompts(3)), later: prompts(2)}, enqueue.Options{Batch: "b"})
	require.ErrorIs(t, err, rows.ErrOtherFile)
	require.ErrorContains(t, err, "the input file changed while it was read, so its batch was ")
	s, err := q.Status(t.Context(), "b")
	require.NoError(t, err)
	require.Equal(t, queue.Enqueueing, s.State, "the batch is not sealed")
}

// Results are gathered for a tenth of a second, unless they are to be written at once.
func TestResultsAreGathered(t *testing.T) {
	t.Parallel()
	for immediate, pages := range map[bool][2]int{true: {50, 50}, false: {8, 20}} {
		synctest.Test(t, func(t *testing.T) {
			q := memqueue.New()
			makeBatch(t, q)
			require.NoError(t, q.Seal(t.Context(), "b", 50, "aa"))
			for line := range 50 {
				time.AfterFunc(time.Duration(line+1)*20*time.Millisecond, func() { finish(t, q, line+1) })
			}
			began := time.Now()
			n := 0
			got, err := enqueue.Collect(t.Context(), q, rows.NewOutput(new(bytes.Buffer), "b"), enqueue.CollectOptions{
				Follow: true, Immediate: immediate, Written: func([]queue.Recording) error { n++; return nil },
			})
			require.NoError(t, err)
			require.Equal(t, 50, got.Written)
			require.GreaterOrEqual(t, n, pages[0])
			require.LessOrEqual(t, n, pages[1])
			require.LessOrEqual(t, time.Since(began), 1200*time.Millisecond)
		})
	}
}
