package redisqueue

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/openai"
	"github.com/ingot-run/ingot/queue"
	"github.com/ingot-run/ingot/queue/redistest"
)

// TestErrorsOfRedisAreReturned lets each command of each operation fail. No operation may report
// success after a command that it needs has failed.
func TestErrorsOfRedisAreReturned(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	faults := new(redistest.Faults)
	server.Client.AddHook(faults)
	q := New(server.Client)
	f := &fleet{t, server, q}
	ctx := t.Context()
	batches := 0
	fresh := func() string {
		batches++
		id := fmt.Sprintf("b%d", batches)
		f.enqueue(id, 1, 3)
		return id
	}
	failed := func(batch string) {
		_, err := q.Record(ctx, batch, queue.Failure(fleetJob(batch, 1), openai.Error{Code: openai.CodeTimeout, Message: "slow"}, queue.Stats{}))
		require.NoError(t, err)
	}
	page := queue.Page{Count: 10, MaxBytes: 1 << 20, Want: func(queue.Recording) bool { return true }}
	for name, prepare := range map[string]func() func() error{
		"create": func() func() error {
			return func() error {
				batches++
				_, _, err := q.Create(ctx, queue.Batch{ID: fmt.Sprintf("b%d", batches), Alias: "m", Priority: queue.Default, Retention: time.Hour})
				return err
			}
		},
		"create again": func() func() error {
			id := fresh()
			return func() error {
				_, _, err := q.Create(ctx, queue.Batch{ID: id, Alias: "m", Priority: queue.Default, Weight: 3, MixModels: true})
				return err
			}
		},
		"add": func() func() error {
			id := fresh()
			return func() error {
				_, err := q.Add(ctx, "m", queue.Default, []*queue.Job{fleetJob(id, 4), fleetJob(id, 1)})
				return err
			}
		},
		"seal":     func() func() error { id := fresh(); return func() error { return q.Seal(ctx, id, 3, "aa") } },
		"recorded": func() func() error { id := fresh(); return func() error { _, err := q.Recorded(ctx, id); return err } },
		"record": func() func() error {
			id := fresh()
			return func() error {
				_, err := q.Record(ctx, id, queue.Failure(fleetJob(id, 1), openai.Error{Code: openai.CodeTimeout}, queue.Stats{}))
				return err
			}
		},
		"read": func() func() error {
			id := fresh()
			failed(id)
			return func() error { _, err := q.Read(ctx, id, page); return err }
		},
		"status":   func() func() error { id := fresh(); return func() error { _, err := q.Status(ctx, id); return err } },
		"batches":  func() func() error { return func() error { _, err := q.Batches(ctx); return err } },
		"cancel":   func() func() error { id := fresh(); return func() error { _, err := q.Cancel(ctx, id); return err } },
		"ping":     func() func() error { return func() error { return q.Ping(ctx) } },
		"announce": func() func() error { return func() error { return q.Announce(ctx, "c", []byte("x")) } },
		"fleet":    func() func() error { return func() error { _, err := q.Fleet(ctx); return err } },
		"workers":  func() func() error { return func() error { _, err := q.Workers(ctx, "m"); return err } },
		"pause":    func() func() error { return func() error { _, err := q.Pause(ctx, "m"); return err } },
		"resume":   func() func() error { return func() error { _, err := q.Resume(ctx, "m"); return err } },
		"aliases":  func() func() error { return func() error { _, err := q.Aliases(ctx); return err } },
		"discard": func() func() error {
			id := fresh()
			failed(id)
			rows, err := q.Read(ctx, id, page)
			require.NoError(t, err)
			require.Len(t, rows, 1)
			return func() error { return q.Discard(ctx, id, rows, true) }
		},
		"largest job":  func() func() error { return func() error { _, err := q.MaxBytes(ctx); return err } },
		"check server": func() func() error { return func() error { return q.CheckServer(ctx) } },
		"forward": func() func() error {
			require.NoError(t, server.Client.ZAdd(ctx, longerKey("m:default"), redis.Z{Score: 5, Member: "b1:1"}).Err())
			return func() error { return q.forward(ctx, "m") }
		},
		"queue archived jobs": func() func() error {
			fresh()
			return func() error { return q.unarchive(ctx, "m", slog.New(slog.DiscardHandler)) }
		},
		"look for silent workers": func() func() error {
			r := newReaper(q, f.member("w"), "m", slog.New(slog.DiscardHandler))
			return func() error { return r.look(ctx) }
		},
		"queues of lost workers": func() func() error { return func() error { _, err := q.queuesOfLost(ctx); return err } },
		"declare a worker lost": func() func() error {
			return func() error { _, err := q.lose(ctx, "w", "1"); return err }
		},
		"join":          func() func() error { m := f.member("w"); return func() error { return m.join(ctx) } },
		"delete leases": func() func() error { return func() error { return q.deleteLeases(ctx, "m") } },
		"expire a task": func() func() error {
			batches++
			id := fmt.Sprintf("b%d", batches)
			_, _, err := q.Create(ctx, queue.Batch{ID: id, Alias: "m", Priority: queue.Default, Retention: time.Hour})
			require.NoError(t, err)
			j := fleetJob(id, 1)
			j.DeadlineMS = time.Now().Add(-time.Hour).UnixMilli()
			_, err = q.Add(ctx, "m", queue.Default, []*queue.Job{j})
			require.NoError(t, err)
			return func() error { _, err := q.expireTask(ctx, "m:default", queue.TaskID(id, 1), id); return err }
		},
		"cancel a running row": func() func() error {
			id := fresh()
			require.NoError(t, q.rdb.HSet(ctx, key(id, "attempts"), "1", 1).Err())
			return func() error { _, err := q.Cancel(ctx, id); return err }
		},
		"add over a dead task": func() func() error {
			id := fresh()
			require.NoError(t, q.rdb.HSet(ctx, taskKey("m:default", queue.TaskID(id, 2)), "state", "archived").Err())
			return func() error {
				_, err := q.Add(ctx, "m", queue.Default, []*queue.Job{fleetJob(id, 2)})
				return err
			}
		},
		"queue rows again": func() func() error {
			id := fresh()
			j := fleetJob(id, 9)
			text, err := j.Encode()
			require.NoError(t, err)
			require.NoError(t, q.rdb.HSet(ctx, key(id, "jobs"), 9, text).Err())
			s, err := q.Status(ctx, id)
			require.NoError(t, err)
			return func() error { _, err := q.queueAgain(ctx, s, []int{9}); return err }
		},
		"missing": func() func() error {
			id := fresh()
			require.NoError(t, q.Seal(ctx, id, 3, "aa"))
			s, err := q.Status(ctx, id)
			require.NoError(t, err)
			return func() error { _, err := q.Missing(ctx, s); return err }
		},
		"purge": func() func() error {
			id := fresh()
			_, err := q.Cancel(ctx, id)
			require.NoError(t, err)
			return func() error { return q.Purge(ctx, id) }
		},
		"expire": func() func() error {
			batches++
			id := fmt.Sprintf("b%d", batches)
			_, _, err := q.Create(ctx, queue.Batch{ID: id, Alias: "m", Priority: queue.Default, Retention: time.Hour, Deadline: time.Now().Add(-time.Minute)})
			require.NoError(t, err)
			_, err = q.Add(ctx, "m", queue.Default, []*queue.Job{fleetJob(id, 1), fleetJob(id, 2)})
			require.NoError(t, err)
			return func() error {
				n, err := q.Expire(ctx, id)
				if err != nil {
					s, broken := q.Status(ctx, id)
					require.NoError(t, broken)
					require.LessOrEqual(t, n, s.Failed, "only rows that are recorded count")
				}
				return err
			}
		},
		"requeue": func() func() error {
			id := fresh()
			failed(id)
			require.NoError(t, q.Seal(ctx, id, 3, "aa"))
			return func() error {
				done, err := q.Requeue(ctx, id, openai.CodeTimeout)
				if err != nil {
					require.Zero(t, done.Queued)
				}
				return err
			}
		},
	} {
		t.Log(name)
		faults.Each(t, prepare)
	}
}
