package local

import (
	"context"
	"net"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// queue is a Redis server inside the process. It listens nowhere: connections to it are pipes in memory. Its keys do not
// expire, since its clock stands still.
type queue struct {
	server *miniredis.Miniredis
	rdb    *redis.Client
}

// startQueue makes a queue with connections for so many jobs.
func startQueue(concurrency int) *queue {
	server := miniredis.NewMiniRedis()
	return &queue{server, redis.NewClient(&redis.Options{
		Dialer:                   func(context.Context, string, string) (net.Conn, error) { return server.Dial() },
		PoolSize:                 concurrency + 16,
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})}
}

func (q *queue) stop() {
	q.rdb.Close() //nolint:errcheck // nothing of it is kept
	q.server.Close()
}
