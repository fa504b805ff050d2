package redistest

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// ErrFault is the error of a command that Faults lets fail.
var ErrFault = errors.New("an injected fault")

// ofConnection has the commands with which the client sets up a connection. It can do without them.
var ofConnection = map[string]bool{"hello": true, "client": true}

// Faults is a hook of a client that lets one of its commands fail before it reaches the server. A
// pipeline counts as one command. Use it with AddHook.
type Faults struct {
	mu     sync.Mutex
	left   int // number of commands until the one that fails; 0 for none
	failed bool
}

// next reports whether the next command fails.
func (f *Faults) next() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.left > 0 {
		f.left--
		f.failed = f.failed || f.left == 0
		return f.left == 0
	}
	return false
}

// arm lets the n-th command from now fail; 0 lets none fail. It reports whether a command has
// failed since the call before.
func (f *Faults) arm(n int) (failed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	failed, f.left, f.failed = f.failed, n, false
	return failed
}

// Each calls prepare and then the operation that it returned: first with the first command of the
// operation failing, then with the second one, and so on, until no command of the operation fails.
// The test fails if the operation does not return the error of the command.
func (f *Faults) Each(t *testing.T, prepare func() (operation func() error)) {
	t.Helper()
	for n := 1; ; n++ {
		require.Less(t, n, 100, "each call of the operation has more commands than the one before")
		operation := prepare()
		f.arm(n)
		err := operation()
		if !f.arm(0) {
			require.NoError(t, err, "no command failed")
			require.Greater(t, n, 1, "the operation has no commands")
			return
		}
		require.ErrorContains(t, err, ErrFault.Error(), "command %d failed", n) // asynq does not wrap errors
		require.NotContains(t, err.Error(), "%!", "the text of the error is formatted")
	}
}

// DialHook implements redis.Hook.
func (f *Faults) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

// ProcessHook implements redis.Hook.
func (f *Faults) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if !ofConnection[cmd.Name()] && f.next() {
			cmd.SetErr(ErrFault)
			return ErrFault
		}
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook implements redis.Hook.
func (f *Faults) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if !ofConnection[cmds[0].Name()] && f.next() {
			for _, cmd := range cmds {
				cmd.SetErr(ErrFault)
			}
			return ErrFault
		}
		return next(ctx, cmds)
	}
}
