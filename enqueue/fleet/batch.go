package fleet

import (
	"context"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ingot-run/ingot/internal/textfmt"
	"github.com/ingot-run/ingot/queue"
	"github.com/ingot-run/ingot/queue/redisqueue"
)

// Batch is the progress of a batch, and who can answer the rest of it.
type Batch struct {
	queue.Status
	Models []Model `json:"models"`
	Lost   int     `json:"lost"` // rows that are neither recorded nor queued; 0 unless the batch's queues are empty
}

// Model is a model alias of a batch.
type Model struct {
	queue.Model
	Workers int  `json:"workers"` // number of workers that serve the name
	Paused  bool `json:"paused"`  // workers take none of its rows

	loading string // name of a worker that loads the model for it; empty for none
}

// ReadBatch reads the progress of a batch. Rows whose deadline has passed are recorded as expired.
func ReadBatch(ctx context.Context, q *redisqueue.Queue, batch string) (b Batch, err error) {
	if _, err = q.Expire(ctx, batch); err != nil {
		return b, err
	}
	if b.Status, err = q.Status(ctx, batch); err != nil {
		return b, err
	}
	serving, err := readServing(ctx, q)
	if err != nil {
		return b, err
	}
	b.Models = make([]Model, len(b.Status.Models))
	for i, m := range b.Status.Models {
		b.Models[i] = Model{m, serving.count(m.Alias), serving.paused[m.Alias], serving.loading(m.Alias)}
	}
	b.Lost, err = q.Missing(ctx, b.Status)
	return b, err
}

// Batches returns the batches in Redis, the newest first, without those of a server's requests. It
// calls onSkip for those that cannot be read.
func Batches(ctx context.Context, q *redisqueue.Queue, onSkip func(damage string)) ([]queue.Status, error) {
	all, err := q.Batches(ctx)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(s queue.Status) bool {
		if s.Damage != "" {
			onSkip(s.Damage)
		}
		return s.Damage != "" || s.Priority == queue.Interactive
	}), nil
}

// WriteBatches prints a table of batches.
func WriteBatches(w io.Writer, all []queue.Status) error {
	t := textfmt.NewTable(w, "batch", "state", "rows", "answered", "failed", "model name", "priority", "created")
	for _, s := range all {
		total := "?" // more rows are being queued
		if s.Total > 0 || s.State == queue.Completed {
			total = strconv.Itoa(s.Total)
		}
		t.Line(s.Batch, s.State, total, s.Done, s.Failed, strings.Join(s.Aliases(), ","), s.Priority, s.Created.Local().Format(time.DateTime))
	}
	return t.Flush()
}

// Write prints the batch, a line for each property.
func (b *Batch) Write(w io.Writer) error {
	t := textfmt.NewTable(w)
	line := t.Linef
	moment := func(name string, at *time.Time) {
		if at != nil {
			line(name, "%s", at.Local().Format(time.DateTime))
		}
	}
	line("batch", "%s", b.Batch)
	line("model name", "%s", strings.Join(b.Aliases(), ", "))
	if b.Weight > 1 {
		line("priority", "%s, weight %d", b.Priority, b.Weight)
	} else {
		line("priority", "%s", b.Priority)
	}
	line("state", "%s", b.State)
	switch b.State {
	case queue.Enqueueing:
		line("rows", "%d answered, %d failed, %d running, more to come", b.Done, b.Failed, b.Running)
	case queue.Cancelled:
		line("rows", "%d answered, %d failed, the rest cancelled", b.Done, b.Failed)
	default:
		line("rows", "%d: %d answered, %d failed, %d running, %d waiting", b.Total, b.Done, b.Failed, b.Running, b.Waiting())
	}
	if b.Lost > 0 {
		line("lost", "%s neither recorded nor queued: enqueue the file again with --batch %s", textfmt.Count(b.Lost, "row"), b.Batch)
	}
	if !b.Ended() {
		b.writeModels(t)
	}
	line("tokens", "%d of prompts, %d of answers", b.PromptTokens, b.CompletionTokens)
	line("speed", "%.1f rows/s, %.1f tokens/s", b.RowsPerSecond, b.TokensPerSecond)
	moment("created", &b.Created)
	moment("started", b.Started)
	moment("finished", b.Finished)
	moment("cancelled", b.Cancelled)
	moment("deadline", b.Deadline)
	moment("kept until", b.Expires)
	return t.Flush()
}

func (b *Batch) writeModels(t textfmt.Table) {
	for _, m := range b.Models {
		switch {
		case m.Workers == 0 && m.loading != "":
			t.Linef("workers", "none serves model name %q now; %s loads its model", m.Alias, m.loading)
		case m.Workers == 0:
			t.Linef("workers", "none serves model name %q now", m.Alias)
		case len(b.Models) == 1:
			t.Linef("workers", "%d", m.Workers)
		default:
			t.Linef("workers", "%d with model name %q", m.Workers, m.Alias)
		}
		if m.Paused {
			t.Linef("paused", "no rows of model name %q are taken: ingot resume %s", m.Alias, m.Alias)
		}
	}
}
