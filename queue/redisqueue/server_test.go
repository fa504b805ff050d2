package redisqueue

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/queue/redistest"
)

func TestServerChecks(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		info     map[string]string
		warnings int
		err      string
	}{
		{map[string]string{"redis_version": "7.0.15", "maxmemory": "0", "maxmemory_policy": "noeviction", "aof_enabled": "1"}, 0, ""},
		{map[string]string{"redis_version": "6.2.0", "maxmemory": "100", "maxmemory_policy": "volatile-lru", "aof_enabled": "0"}, 2, ""},
		{map[string]string{"redis_version": "7.0.15", "maxmemory": "0", "maxmemory_policy": "allkeys-lru", "aof_enabled": "1"}, 0, ""},
		{map[string]string{"redis_version": "6.0.16"}, 0, "6.2 or later"},
		{map[string]string{"redis_version": "5.9.0"}, 0, "6.2 or later"},
		{map[string]string{"redis_version": "10.0.0"}, 0, ""},
		{map[string]string{"redis_version": "6.1"}, 0, "6.2 or later"},
		{map[string]string{"redis_version": "6.2"}, 0, ""},
		{map[string]string{"redis_version": "5"}, 0, ""},
		{map[string]string{"redis_version": "x.1"}, 0, ""},
		{map[string]string{"connected_clients": "1"}, 0, ""},
		{map[string]string{"redis_version": "7.0.15", "redis_mode": "sentinel"}, 0, "it is a Sentinel, which holds no data: give the address of the primary"},
		{map[string]string{"redis_version": "7.0.15", "role": "master", "cluster_enabled": "1"}, 0, "it is a node of a cluster, which is not supported"},
		{map[string]string{"role": "slave", "master_host": "10.0.0.1", "master_port": "6379"}, 0, "it is a replica, to which nothing can be written: give the address of its primary, 10.0.0.1:6379"},
	} {
		warnings, err := checkServer(c.info)
		require.Len(t, warnings, c.warnings, c.info)
		if c.err == "" {
			require.NoError(t, err, c.info)
		} else {
			require.ErrorContains(t, err, c.err)
		}
	}
}

// Dial refuses a replica and a node of a cluster, and the error names the kind of server. The
// servers are real.
func TestDialRefusesOtherKindsOfServers(t *testing.T) {
	t.Parallel()
	primary, replica, node := redistest.Start(t), redistest.Start(t), redistest.Start(t, "--cluster-enabled", "yes")
	host, port, _ := strings.Cut(primary.Client.Options().Addr, ":")
	require.NoError(t, replica.Client.ReplicaOf(t.Context(), host, port).Err())
	_, _, err := Dial(t.Context(), replica.URL, 1, nil)
	require.ErrorContains(t, err, "it is a replica, to which nothing can be written: give the address of its primary, "+primary.Client.Options().Addr)
	_, _, err = Dial(t.Context(), node.URL, 1, nil)
	require.ErrorContains(t, err, "it is a node of a cluster, which is not supported: give the address of a single server")
}

// The rights that docs/queue.md names must be enough.
const documentedRights = "~asynq:* ~ingot:* &asynq:* +@all -@admin -@dangerous +info +config|get"

func TestRights(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	for _, c := range []struct{ rights, want string }{
		{documentedRights, ""},
		{documentedRights + " -info -config|get", ""}, // the server's kind and settings are not checked then
		{documentedRights + " -hsetnx", "the server refuses commands of the queue: hsetnx: "},
		{documentedRights + " -xadd -unlink", "; xadd: "},
		{strings.Replace(documentedRights, "~ingot:*", "", 1), "the user lacks rights to run scripts, or to use the keys ingot:* and asynq:*: NOPERM"},
		{strings.Replace(documentedRights, "~asynq:*", "", 1), "the user lacks rights to run scripts, or to use the keys ingot:* and asynq:*: NOPERM"},
		{strings.Replace(documentedRights, "&asynq:*", "", 1), "subscribe and publish to channel asynq:cancel: NOPERM"},
		{documentedRights + " -publish", "subscribe and publish to channel asynq:cancel: NOPERM"},
		{documentedRights + " -@scripting", "the user lacks rights to run scripts, or to use the keys"},
	} {
		rules := append([]any{"ACL", "SETUSER", "u", "reset", "on", ">p", "resetchannels"}, words(c.rights)...)
		require.NoError(t, r.Client.Do(t.Context(), rules...).Err())
		q, _, err := Dial(t.Context(), strings.Replace(r.URL, "redis://", "redis://u:p@", 1), 1, nil)
		require.NoError(t, err)
		err = q.CheckServer(t.Context())
		if c.want == "" {
			require.NoError(t, err, c.rights)
		} else {
			require.ErrorContains(t, err, c.want)
		}
		require.NoError(t, q.Close())
		require.Empty(t, r.Client.Keys(t.Context(), "*").Val(), c.rights)
	}
}

func words(s string) []any {
	var all []any
	for f := range strings.FieldsSeq(s) {
		all = append(all, f)
	}
	return all
}

// Rights are also checked on a server without free memory. The lack of memory is not an error of
// the check.
func TestRightsOnAFullServer(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	require.NoError(t, r.Client.ConfigSet(t.Context(), "maxmemory", "1").Err())
	require.NoError(t, New(r.Client).CheckServer(t.Context()))
}

func TestClocksMayDifferByTenSeconds(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	for skew, refused := range map[time.Duration]bool{0: false, 8 * time.Second: false, -8 * time.Second: false, time.Minute: true, -time.Minute: true} {
		err := checkClock(t.Context(), r.Client, func() time.Time { return time.Now().Add(skew) })
		if refused {
			require.ErrorContains(t, err, "its clock and the clock of this machine differ by 1m0s, more than 10s: synchronise them (NTP)")
		} else {
			require.NoError(t, err)
		}
	}
}
