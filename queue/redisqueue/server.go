package redisqueue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// maxClockSkew is the maximum difference between the clocks of a machine and of Redis. Leases
	// and times in the queue are compared between machines.
	maxClockSkew = 10 * time.Second
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

// readInfo returns the fields of a server's INFO. They are empty if the user may not run that
// command.
func readInfo(ctx context.Context, c *redis.Client) (map[string]string, error) {
	text, err := c.Info(ctx).Result()
	if err != nil && !redis.HasErrorPrefix(err, "NOPERM") {
		return nil, err
	}
	info := map[string]string{}
	for line := range strings.Lines(text) {
		if k, v, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			info[k] = v
		}
	}
	return info, nil
}

// checkServer checks the kind, version and settings of a server.
func checkServer(info map[string]string) (warnings []string, err error) {
	switch {
	case info["redis_mode"] == "sentinel":
		return nil, errors.New("it is a Sentinel, which holds no data: give the address of the primary")
	case info["cluster_enabled"] == "1":
		return nil, errors.New("it is a node of a cluster, which is not supported: give the address of a single server")
	case info["role"] == "slave":
		return nil, fmt.Errorf("it is a replica, to which nothing can be written: give the address of its primary, %s",
			net.JoinHostPort(info["master_host"], info["master_port"]))
	}
	if v := info["redis_version"]; v != "" && tooOld(v) {
		return nil, fmt.Errorf("its version %s is too old: install Redis 6.2 or later", v)
	}
	if p := info["maxmemory_policy"]; p != "" && p != "noeviction" && info["maxmemory"] != "0" {
		warnings = append(warnings, fmt.Sprintf("maxmemory-policy is %s: jobs are lost when memory runs out; set noeviction", p))
	}
	if info["aof_enabled"] == "0" {
		warnings = append(warnings, "appendonly is off: jobs of the last minutes are lost when Redis stops suddenly")
	}
	return warnings, nil
}

func tooOld(version string) bool {
	var major, minor int
	n, _ := fmt.Sscanf(version, "%d.%d", &major, &minor)
	return n == 2 && (major < 6 || major == 6 && minor < 2)
}

// CheckServer checks that a producer or worker can use the server: its clock must agree with the
// clock of this machine, and the user must have the rights to the queue's commands, keys and
// channel.
func (q *Queue) CheckServer(ctx context.Context) error {
	if err := checkClock(ctx, q.rdb, time.Now); err != nil {
		return fmt.Errorf("use redis: %w", err)
	}
	if err := q.checkRights(ctx); err != nil {
		return fmt.Errorf("use redis: %w", err)
	}
	return nil
}

// probe is the batch id and queue name in the keys with which rights are checked.
const probe = "ingot-rights"

// checkRights returns an error that names the commands, keys and channels that the user may not
// use. It leaves no keys on the server.
func (q *Queue) checkRights(ctx context.Context) error {
	keys := []string{key(probe, "x"), asynqKey(probe, "x")} // Redis checks the rights to the keys that a call names before the script runs
	c := with(rightsScript).rows(len(keys), "key")
	c.add(keys[0], keys[1])
	failed, err := rightsScript.Run(ctx, q.rdb, keys, c.args()...).StringSlice()
	if redis.HasErrorPrefix(err, "NOPERM") {
		return fmt.Errorf("the user lacks rights to run scripts, or to use the keys ingot:* and asynq:*: %w", err)
	}
	if err != nil {
		return failure(err, "check the user's rights to the commands of the queue")
	}
	if len(failed) > 0 {
		return fmt.Errorf("the server refuses commands of the queue: %s", strings.Join(failed, "; "))
	}
	s := q.rdb.Subscribe(ctx, cancelChannel)
	defer s.Close() //nolint:errcheck // the subscription was only a check
	if _, err = s.Receive(ctx); err == nil {
		err = q.rdb.Publish(ctx, cancelChannel, "").Err()
	}
	if err != nil {
		return fmt.Errorf("subscribe and publish to channel %s: %w", cancelChannel, err)
	}
	return nil
}

// checkClock returns an error if the clocks of this machine and of Redis differ by more than
// maxClockSkew.
func checkClock(ctx context.Context, c redis.UniversalClient, now func() time.Time) error {
	before := now()
	server, err := c.Time(ctx).Result()
	if err != nil {
		return fmt.Errorf("read its clock: %w", err)
	}
	after := now()
	// The server read its clock at a time between before and after.
	skew := max(server.Sub(after), before.Sub(server))
	if skew > maxClockSkew {
		return fmt.Errorf("its clock and the clock of this machine differ by %v, more than %v: synchronise them (NTP)", skew.Round(time.Second), maxClockSkew)
	}
	return nil
}

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
	most := cmp.Or(bulk, defaultMaxBulk)
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
