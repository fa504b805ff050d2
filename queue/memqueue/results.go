package memqueue

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sort"
	"strconv"
	"time"

	"github.com/ingot-run/ingot/queue"
)

// entry is an entry of a batch's stream.
type entry struct {
	number uint64 // ascending, from 2; the entry's ID as a number
	queue.Recording
}

// append appends a result to the stream. It wakes readers that wait for a result.
func (b *batch) append(r queue.Result) {
	b.next++
	b.stream = append(b.stream, entry{b.next, queue.Recording{
		ID: strconv.FormatUint(b.next, 10), Line: r.Line, Sum: r.Sum, Failed: r.Failed, Text: r.Text,
	}})
	if b.grown != nil {
		close(b.grown)
		b.grown = nil
	}
}

// index returns the index of the first entry whose number is at least n.
func (b *batch) index(n uint64) int {
	return sort.Search(len(b.stream), func(i int) bool { return b.stream[i].number >= n })
}

// Read implements queue.Store.
func (q *Queue) Read(ctx context.Context, id string, p queue.Page) ([]queue.Recording, error) {
	after := uint64(0)
	if p.After != "" {
		var err error
		if after, err = strconv.ParseUint(p.After, 10, 64); err != nil {
			return nil, fmt.Errorf("read results of batch %s: %q is not the id of a recording", id, p.After)
		}
	}
	rows, grown := q.page(id, after, p)
	if len(rows) > 0 || p.Wait <= 0 {
		return rows, nil
	}
	enough := time.NewTimer(p.Wait)
	defer enough.Stop()
	select {
	case <-ctx.Done():
		return nil, fmt.Errorf("read results of batch %s: %w", id, ctx.Err())
	case <-enough.C:
	case <-grown:
	}
	rows, _ = q.page(id, after, p)
	return rows, nil
}

// page returns the next page of a batch's recordings. after is the number of the last entry of the
// previous page. If rows is empty, the channel grown is closed when the next row is recorded. If
// the batch does not exist, grown is nil.
func (q *Queue) page(id string, after uint64, p queue.Page) (rows []queue.Recording, grown <-chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	b, err := q.find(id)
	if err != nil {
		return nil, nil
	}
	size, found := 0, false
	for _, e := range b.stream[b.index(after+1):] {
		if len(rows) == p.Count {
			break
		}
		text := e.Text
		e.Text = nil
		if p.Want(e.Recording) {
			if size += len(text); found && size > p.MaxBytes {
				break
			}
			found = found || len(text) > 0
			e.Text = text
		}
		rows = append(rows, e.Recording)
	}
	if len(rows) == 0 && b.grown == nil {
		b.grown = make(chan struct{})
	}
	return rows, b.grown
}

// Discard implements queue.Store.
func (q *Queue) Discard(_ context.Context, id string, rows []queue.Recording, entries bool) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	b, err := q.find(id)
	if err != nil {
		return nil
	}
	discarded := make(map[string]bool, len(rows))
	for _, r := range rows {
		discarded[r.ID] = true
	}
	isDiscarded := func(e entry) bool { return discarded[e.ID] }
	if entries {
		b.stream = slices.DeleteFunc(b.stream, isDiscarded)
		return nil
	}
	for i := range b.stream {
		if isDiscarded(b.stream[i]) {
			b.stream[i].Text = nil
		}
	}
	return nil
}

// MaxBytes implements queue.Store.
func (q *Queue) MaxBytes(context.Context) (int, error) { return math.MaxInt, nil }
