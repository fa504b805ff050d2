// Package redisqueue implements queue.Queue in Redis, for workers on many machines. Jobs are asynq
// tasks. Batches and results are keys of this package, which Lua scripts change. The other packages
// that access Redis are queue/chores and eval/schedule.
//
// Every worker sends heartbeats to Redis. A worker whose heartbeats have stopped is silent: another
// worker declares it lost, and returns its rows to the queue. The owner of a row is the worker that
// Redis records as running it.
package redisqueue

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/ingot-run/ingot/queue"
)

// Queue implements queue.Queue in Redis. A batch has these keys:
//
//	ingot:{BATCH}:meta      hash: the batch's settings, counts and times
//	ingot:{BATCH}:done      bitmap: a bit for each recorded line, so that nothing is recorded twice
//	ingot:{BATCH}:attempts  hash: number of attempts at each line that was begun and is not recorded
//	ingot:{BATCH}:results   hash: the line of output of each recorded line
//	ingot:{BATCH}:stream    stream: the recorded lines and their checksums in the order of recording
//	ingot:{BATCH}:jobs      hash: the jobs of rows that failed, for Requeue
//
// These keys have entries only for some of the lines that are not recorded:
//
//	ingot:{BATCH}:checkpoints  hash: the progress of each line that has run for a while
//	ingot:{BATCH}:deliveries   hash: how often each line was taken from a silent worker; writes with a lower number are refused
//	ingot:{BATCH}:deaths       hash: number of workers that died while they ran each line
type Queue struct {
	// Leases has the workers' intervals: DefaultLeases, unless a test replaces them before Serve.
	Leases Leases

	rdb       redis.UniversalClient
	inspector *asynq.Inspector
	answers   *answers
}

var _ queue.Queue = (*Queue)(nil)

// New returns the queue of a Redis server.
func New(rdb redis.UniversalClient) *Queue {
	a := newAnswers()
	rdb.AddHook(a)
	return &Queue{Leases: DefaultLeases, rdb: rdb, inspector: asynq.NewInspectorFromRedisClient(rdb), answers: a}
}

// Client returns the connections to Redis, for packages with their own keys on the same server.
func (q *Queue) Client() redis.UniversalClient { return q.rdb }

// Close closes the connections to Redis.
func (q *Queue) Close() error { return q.rdb.Close() }

// Ping implements queue.Queue.
func (q *Queue) Ping(ctx context.Context) error {
	return failure(q.rdb.Ping(ctx).Err(), "reach redis")
}

// LastFetch implements queue.Queue.
func (q *Queue) LastFetch() time.Time { return *q.answers.fetch.Load() }

// queuesOfBatch returns the names of the asynq queues with rows of a batch.
func queuesOfBatch(s queue.Status) []string {
	names := s.Aliases()
	for i, alias := range names {
		names[i] = queueName(alias, s.Priority)
	}
	return names
}

func key(batch, name string) string { return "ingot:{" + batch + "}:" + name }

// batchKeys are the names of a batch's keys.
var batchKeys = []string{"meta", "done", "attempts", "results", "stream", "jobs", "checkpoints", "deliveries", "deaths"}

func now() int64 { return time.Now().UnixMilli() }

func isNil(err error) bool { return errors.Is(err, redis.Nil) }

// failure adds the failed operation to an error. A transient error then also matches
// queue.ErrUnavailable. If err is nil, failure returns nil.
func failure(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	if transient(err) {
		err = unavailable{err}
	}
	return fmt.Errorf(format+": %w", append(args, err)...)
}

// unavailable is a transient error of Redis.
type unavailable struct{ error }

func (u unavailable) Is(target error) bool {
	return target == queue.ErrUnavailable || target == queue.ErrFull && redis.HasErrorPrefix(u.error, overMaxMemory)
}
func (u unavailable) Unwrap() error { return u.error }

// overMaxMemory is the prefix of Redis's reply to a write while it uses more memory than its
// setting maxmemory.
const overMaxMemory = "OOM"

// transient reports whether the failed operation can succeed later, when Redis is reachable, has
// free memory or accepts the user again.
func transient(err error) bool {
	var network net.Error
	if errors.As(err, &network) || errors.Is(err, redis.ErrPoolTimeout) || errors.Is(err, net.ErrClosed) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return true
	}
	if redis.IsAuthError(err) || redis.IsPermissionError(err) { // the user was accepted when the program started
		return true
	}
	// MISCONF: Redis cannot write to its disk. BUSY: it runs somebody's slow script. UNBLOCKED: it
	// became a replica while a command waited. The last two are for commands of scripts that the
	// user may not run, by Redis 7.2 and later, and by earlier ones. HasErrorPrefix leaves out an
	// "ERR " at the start of a reply.
	return slices.ContainsFunc([]string{
		"LOADING", "BUSY ", "TRYAGAIN", "CLUSTERDOWN", "MASTERDOWN", "READONLY", "NOREPLICAS", "UNBLOCKED", overMaxMemory, "MISCONF", "max number of clients",
		"ACL failure in script", "The user executing the script",
	}, func(reply string) bool { return redis.HasErrorPrefix(err, reply) })
}
