package redisqueue

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// moreConnections is the number of connections in addition to one for each running row. They are for
// producers, collectors and asynq.
const moreConnections = 16

// Dial connects to the Redis server of a URL (redis://[user:password@]host:port[/db], rediss:// for TLS, or unix://path) and checks that
// it answers, holds data of its own and is version 6.2 or later. There is one connection for each of the rows that run at the same time.
// The warnings name settings of the server that can lose jobs. While the server loads its data, Dial calls waiting with the reason, and
// then waits. If waiting is nil, Dial returns an error instead.
func Dial(ctx context.Context, url string, rows int, waiting func(reason string)) (q *Queue, warnings []string, err error) {
	redis.SetLogger(clientLog{})
	opts, err := redis.ParseURL(url)
	if err != nil {
		return nil, nil, fmt.Errorf("redis URL: %w (it looks like redis://localhost:6379/0)", err)
	}
	if opts.PoolSize == 0 { // the URL gives none
		opts.PoolSize = rows + moreConnections
	}
	dialSteady(opts)
	c := redis.NewClient(opts)
	info, err := readInfo(ctx, c)
	if err == nil && info["loading"] == "1" {
		left := info["loading_eta_seconds"]
		if waiting == nil {
			c.Close() //nolint:errcheck // nothing was written
			return nil, nil, fmt.Errorf("use redis at %s: it loads its data: try again in %s s", opts.Addr, left)
		}
		waiting(fmt.Sprintf("redis at %s loads its data: waiting for it (%s s left)", opts.Addr, left))
		info, err = waitUntilLoaded(ctx, c, info)
	}
	if err != nil {
		c.Close() //nolint:errcheck // it was never used
		return nil, nil, fmt.Errorf("reach redis at %s: %w%s", opts.Addr, err, hint(opts, err))
	}
	warnings, err = checkServer(info)
	if err != nil {
		c.Close() //nolint:errcheck // it was never used
		return nil, nil, fmt.Errorf("use redis at %s: %w", opts.Addr, err)
	}
	return New(c), warnings, nil
}

// loadingInterval is the time between two checks of a server that loads its data.
const loadingInterval = 250 * time.Millisecond

// waitUntilLoaded reads a server's INFO again until it has loaded its data.
func waitUntilLoaded(ctx context.Context, c *redis.Client, info map[string]string) (map[string]string, error) {
	for info["loading"] == "1" {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(loadingInterval):
		}
		var err error
		if info, err = readInfo(ctx, c); err != nil {
			return nil, err
		}
	}
	return info, nil
}

// hint suggests what to change in the URL, or is empty if the error itself is clear.
func hint(opts *redis.Options, err error) string {
	switch {
	case redis.HasErrorPrefix(err, "NOAUTH"), redis.HasErrorPrefix(err, "WRONGPASS"):
		return " (the URL takes them as redis://user:password@host:port, or redis://:password@host:port)"
	case opts.TLSConfig == nil && (errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET)):
		return " (is it restarting? If it wants TLS, the URL begins with rediss://)"
	case opts.TLSConfig != nil && (errors.Is(err, context.DeadlineExceeded) || errors.As(err, new(tls.RecordHeaderError))):
		return " (does it speak TLS? Without, the URL begins with redis://)"
	case errors.Is(err, syscall.ECONNREFUSED):
		return " (is it running there?)"
	}
	return ""
}

// clientLog passes the Redis client's log on at debug level. Anything important in it is also returned as an error.
type clientLog struct{}

func (clientLog) Printf(ctx context.Context, format string, args ...any) {
	slog.DebugContext(ctx, fmt.Sprintf(format, args...), "from", "redis client")
}
