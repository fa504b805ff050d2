package redisqueue

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/queue"
)

// An outage of Redis gives two lines of log, however many parts of a worker notice it.
func TestAnOutageIsTwoLines(t *testing.T) {
	t.Parallel()
	var text bytes.Buffer
	log := slog.New(slog.NewTextHandler(&text, nil))
	o := &outage{log: log}
	lines := func() int { return strings.Count(text.String(), "\n") }
	o.over()
	require.Zero(t, lines())
	for round := range 2 {
		for range 10 {
			o.failed("could not take rows", unavailable{errors.New("refused")})
			o.failed("could not register this worker", unavailable{errors.New("refused")})
		}
		require.Equal(t, 2*round+1, lines(), text.String())
		o.over()
		o.over()
		require.Equal(t, 2*round+2, lines(), text.String())
		require.Contains(t, text.String(), "errors=20")
	}
	o.failed("could not give up a row", queue.ErrNoBatch)
	require.Equal(t, 5, lines(), "errors that are no outage are logged one by one")
}
