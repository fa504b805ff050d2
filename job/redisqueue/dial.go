package redisqueue

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"syscall"

	"github.com/redis/go-redis/v9"
)

// Dial connects to the Redis server of a URL (redis://[user:password@]host:port[/db], rediss:// for TLS, or unix://path)
// and checks that it answers and is version 6.2 or later. The warnings name settings of the server that can lose jobs.
func Dial(ctx context.Context, url string) (q *Queue, warnings []string, err error) {
	redis.SetLogger(clientLog{})
	opts, err := redis.ParseURL(url)
	if err != nil {
		return nil, nil, fmt.Errorf("redis URL: %w (it looks like redis://localhost:6379/0)", err)
	}
	c := redis.NewClient(opts)
	info, err := c.Info(ctx).Result()
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

// hint suggests what to change in the URL, or is empty if the error itself is clear.
func hint(opts *redis.Options, err error) string {
	switch {
	case redis.HasErrorPrefix(err, "NOAUTH"), redis.HasErrorPrefix(err, "WRONGPASS"):
		return " (the URL takes them as redis://user:password@host:port, or redis://:password@host:port)"
	case opts.TLSConfig == nil && (errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET)):
		return " (does it want TLS? Then the URL begins with rediss://)"
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

// checkServer checks the version and settings in a server's INFO.
func checkServer(info string) (warnings []string, err error) {
	fields := map[string]string{}
	for line := range strings.Lines(info) {
		if k, v, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[k] = v
		}
	}
	if v := fields["redis_version"]; v != "" && tooOld(v) {
		return nil, fmt.Errorf("version %s is too old: 6.2 or later is needed", v)
	}
	if p := fields["maxmemory_policy"]; p != "" && p != "noeviction" && fields["maxmemory"] != "0" {
		warnings = append(warnings, fmt.Sprintf("maxmemory-policy is %s: jobs are lost when memory runs out; set noeviction", p))
	}
	if fields["aof_enabled"] == "0" {
		warnings = append(warnings, "appendonly is off: jobs of the last minutes are lost when Redis stops suddenly")
	}
	return warnings, nil
}

func tooOld(version string) bool {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) < 2 {
		return false
	}
	major, err1 := strconv.Atoi(parts[0])
	minor, err2 := strconv.Atoi(parts[1])
	return err1 == nil && err2 == nil && (major < 6 || major == 6 && minor < 2)
}
