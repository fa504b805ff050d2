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

// moreConnections is the number of connections for producers, collectors and asynq. In addition,
// there is one for each running row.
const moreConnections = 16

// Dial connects to the Redis server of a URL (redis://[user:password@]host:port[/db], rediss:// for
// TLS, or unix://path) and checks that it answers, is a single primary (no replica, Sentinel or
// cluster) and has version 6.2 or later. rows is the number of rows that run at the same time; it
// determines the number of connections. warnings describes settings of the server that can lose
// jobs. If the server is loading its data, Dial calls the function waiting once, with a message for
// the user, and waits until the data is loaded. If waiting is nil, Dial returns an error instead.
func Dial(ctx context.Context, url string, rows int, waiting func(reason string)) (q *Queue, warnings []string, err error) {
	redis.SetLogger(clientLog{})
	opts, err := redis.ParseURL(url)
	if err != nil {
		return nil, nil, fmt.Errorf("read the redis URL: %w (a valid URL is redis://localhost:6379/0)", err)
	}
	if opts.PoolSize == 0 { // the URL sets no pool size
		opts.PoolSize = rows + moreConnections
	}
	dialSteady(opts)
	c := redis.NewClient(opts)
	defer func() {
		if q == nil {
			c.Close() //nolint:errcheck // nothing was written
		}
	}()
	info, err := readInfo(ctx, c)
	if err == nil && info["loading"] == "1" {
		left := info["loading_eta_seconds"]
		if waiting == nil {
			return nil, nil, fmt.Errorf("use redis at %s: it is loading its data: try again in %s s", opts.Addr, left)
		}
		waiting(fmt.Sprintf("redis at %s is loading its data: waiting for it (%s s left)", opts.Addr, left))
		info, err = waitUntilLoaded(ctx, c, info)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("reach redis at %s: %w%s", opts.Addr, err, hint(opts, err))
	}
	warnings, err = checkServer(info)
	if err != nil {
		return nil, nil, fmt.Errorf("use redis at %s: %w", opts.Addr, err)
	}
	return New(c), warnings, nil
}

// loadingInterval is the time between two checks of a server that loads its data.
const loadingInterval = 250 * time.Millisecond

// waitUntilLoaded reads a server's INFO repeatedly until the server has loaded its data. It returns
// the last INFO.
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

// hint suggests what to change in the URL. It is empty if the error itself is clear.
func hint(opts *redis.Options, err error) string {
	switch {
	case redis.HasErrorPrefix(err, "NOAUTH"), redis.HasErrorPrefix(err, "WRONGPASS"):
		return " (give user and password in the URL: redis://user:password@host:port, or redis://:password@host:port)"
	case opts.TLSConfig == nil && (errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET)):
		return " (is it restarting? If it uses TLS, give a URL that begins with rediss://)"
	case opts.TLSConfig != nil && (errors.Is(err, context.DeadlineExceeded) || errors.As(err, new(tls.RecordHeaderError))):
		return " (does it use TLS? If not, give a URL that begins with redis://)"
	case errors.Is(err, syscall.ECONNREFUSED):
		return " (is it running there?)"
	}
	return ""
}

// clientLog passes the Redis client's log on at debug level. The client also returns everything
// important as an error.
type clientLog struct{}

func (clientLog) Printf(ctx context.Context, format string, args ...any) {
	slog.DebugContext(ctx, fmt.Sprintf(format, args...), "from", "redis client")
}
