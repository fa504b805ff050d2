package redisqueue

import (
	"context"
	"strconv"

	"github.com/redis/go-redis/v9"
)

const (
	// defaultMaxBulk is Redis's default of proto-max-bulk-len, the maximum bytes of one argument of
	// a command.
	defaultMaxBulk = 512 << 20
	// minMaxBytes is the minimum of MaxBytes, and the minimum that Redis allows for
	// proto-max-bulk-len.
	minMaxBytes = 1 << 20
	// memoryShare limits a job or a result to maxmemory/memoryShare, since Redis holds the data
	// twice while it receives them.
	memoryShare = 2
)

// MaxBytes implements queue.Store. It depends on settings of the server, which can change while the
// server runs. For settings that the user may not read, the defaults are used.
func (q *Queue) MaxBytes(ctx context.Context) (int, error) {
	bulk, err := q.setting(ctx, "proto-max-bulk-len")
	if err != nil {
		return 0, err
	}
	memory, err := q.setting(ctx, "maxmemory")
	if err != nil {
		return 0, err
	}
	most := defaultMaxBulk
	if bulk > 0 {
		most = bulk
	}
	if memory > 0 {
		most = min(most, memory/memoryShare)
	}
	return max(most, minMaxBytes), nil
}

// setting returns the value of a numeric setting of the server. It returns 0 if the server has no
// such setting or the user may not read it.
func (q *Queue) setting(ctx context.Context, name string) (int, error) {
	values, err := q.rdb.ConfigGet(ctx, name).Result()
	if redis.HasErrorPrefix(err, "NOPERM") || redis.HasErrorPrefix(err, "unknown ") { // some providers have no CONFIG; an "ERR " is left out
		return 0, nil
	}
	if err != nil {
		return 0, failure(err, "read setting %s of redis", name)
	}
	n, _ := strconv.Atoi(values[name]) // 0 if the server has no such setting
	return n, nil
}
