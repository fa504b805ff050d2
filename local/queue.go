package local

import (
	"context"
	"net"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// queue is a Redis server in memory. It does not listen on a network: connections to it are pipes. Its keys do not expire,
// because nothing advances its clock.
type queue struct {
	server *miniredis.Miniredis
	rdb    *redis.Client
}

// bufferBytes is the size of a connection's buffers. Larger ones save system calls, which pipes in memory do not have.
const bufferBytes = 4 << 10

// startQueue starts a queue with enough connections for a worker of this concurrency.
func startQueue(concurrency int) *queue {
	server := miniredis.NewMiniRedis()
	return &queue{server, redis.NewClient(&redis.Options{
		Dialer:                   func(context.Context, string, string) (net.Conn, error) { return server.Dial() },
		PoolSize:                 concurrency + 16,
		ReadBufferSize:           bufferBytes,
		WriteBufferSize:          bufferBytes,
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})}
}

func (q *queue) stop() {
	q.rdb.Close() //nolint:errcheck // its data is not needed any more
	q.server.Close()
}
