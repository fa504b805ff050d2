package worker

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/enqueue"
	"github.com/ingot-run/ingot/queue/redisqueue"
	"github.com/ingot-run/ingot/queue/redistest"
)

// logged is a log that a test can read while others write it.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// lines returns the lines that contain a text.
func (l *logged) lines(text string) (found []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.text.String()) {
		if strings.Contains(line, text) {
			found = append(found, line)
		}
	}
	return found
}

// While Redis refuses a worker's password or its rights, the worker logs that Redis cannot be used,
// and later that it can be used again. It keeps its answers, and records them then.
func TestARefusedPasswordIsAnOutage(t *testing.T) {
	t.Parallel()
	const n = 3
	for name, c := range map[string]struct {
		url         string // user and password of the worker
		spoil, mend [][]any
	}{
		"the password is wrong":      {"w:old@", [][]any{{"ACL", "SETUSER", "w", "resetpass", ">new"}}, [][]any{{"ACL", "SETUSER", "w", ">old"}}},
		"the user is off":            {"w:old@", [][]any{{"ACL", "SETUSER", "w", "off"}}, [][]any{{"ACL", "SETUSER", "w", "on"}}},
		"a password is required":     {"", [][]any{{"CONFIG", "SET", "requirepass", "new"}}, [][]any{{"CONFIG", "SET", "requirepass", ""}}},
		"the user may not write":     {"w:old@", [][]any{{"ACL", "SETUSER", "w", "-@write"}}, [][]any{{"ACL", "SETUSER", "w", "+@write"}}},
		"the user may not run Lua":   {"w:old@", [][]any{{"ACL", "SETUSER", "w", "-@scripting"}}, [][]any{{"ACL", "SETUSER", "w", "+@scripting"}}},
		"the user has no keys":       {"w:old@", [][]any{{"ACL", "SETUSER", "w", "resetkeys", "~x"}}, [][]any{{"ACL", "SETUSER", "w", "~*"}}},
		"the user may not record":    {"w:old@", [][]any{{"ACL", "SETUSER", "w", "-xadd"}}, [][]any{{"ACL", "SETUSER", "w", "+xadd"}}},
		"the user may not take rows": {"w:old@", [][]any{{"ACL", "SETUSER", "w", "-rpoplpush", "-lpush"}}, [][]any{{"ACL", "SETUSER", "w", "+rpoplpush", "+lpush"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := redistest.Start(t)
			admin := redis.NewClient(&redis.Options{Addr: r.Client.Options().Addr, PoolSize: 1, MaxRetries: -1})
			t.Cleanup(func() { admin.Close() })
			do := func(commands ...[]any) {
				t.Helper()
				for _, command := range commands {
					require.NoError(t, admin.Do(t.Context(), command...).Err())
				}
			}
			do([]any{"ACL", "SETUSER", "w", "on", ">old", "~*", "&*", "+@all"})
			q, _, err := redisqueue.Dial(t.Context(), strings.Replace(r.URL, "://", "://"+c.url, 1), n, nil)
			require.NoError(t, err)
			t.Cleanup(func() { q.Close() })
			q.Leases.Beat, q.Leases.Poll = 50*time.Millisecond, 5*time.Millisecond
			begun, finish := make(chan struct{}, 2*n), make(chan struct{})
			b := setUp(t, q, func(ctx context.Context, _ generation.Request) (generation.Completion, error) {
				begun <- struct{}{}
				select {
				case <-finish:
				case <-ctx.Done():
				}
				return generation.Completion{Choices: []generation.Choice{{Text: "ok"}}}, ctx.Err()
			}, Config{Concurrency: n + 1})
			longest := 500 * time.Millisecond      // the outage lasts longer
			if name != "the user may not record" { // in that case, rows are delivered all the time
				b.worker.maxRecordWait = longest
			}
			log := new(logged)
			b.worker.log = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
			b.enqueue(t, prompts(n), enqueue.Options{})
			stop := b.start(t)
			for range n {
				<-begun
			}

			do(c.spoil...)
			broken := time.Now()
			do([]any{"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"})
			close(finish)
			const lost, back = "redis cannot be used: trying again", "redis can be used again"
			require.Eventually(t, func() bool {
				return len(log.lines("redis cannot be used")) > 10 && time.Since(broken) > 3*longest
			}, 20*time.Second, time.Millisecond, "the worker tries again")
			require.Empty(t, log.lines(back))
			do(c.mend...)
			require.Eventually(t, func() bool { return len(log.lines(back)) > 0 }, 20*time.Second, time.Millisecond)
			rows := b.results(t)
			stop()
			warnings := append(log.lines("level=WARN"), log.lines("level=ERROR")...)
			require.Len(t, warnings, 1)
			require.Len(t, rows, n)
			for _, row := range rows {
				require.Nil(t, row.Error)
				require.Equal(t, 1, row.Stats.Attempts)
			}
			require.Empty(t, begun, "a row was computed again")
			require.Contains(t, warnings[0], lost)
			require.Len(t, log.lines(back), 1)
		})
	}
}
