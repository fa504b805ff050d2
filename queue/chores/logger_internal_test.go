package chores

import (
	"bytes"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
)

// What asynq mends itself is no news: its warnings are logged at debug level, and its errors, which
// it also tries again, as warnings.
func TestLevelsOfAsynqsMessages(t *testing.T) {
	t.Parallel()
	var text bytes.Buffer
	l := logger{slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	for level, log := range map[string]func(args ...any){"DEBUG": l.Debug, "INFO": l.Info, "WARN": l.Warn, "ERROR": l.Error, "FATAL": l.Fatal} {
		text.Reset()
		log("broken ", 7)
		want := map[string]string{"DEBUG": "DEBUG", "INFO": "DEBUG", "WARN": "DEBUG", "ERROR": "WARN", "FATAL": "ERROR"}[level]
		require.Contains(t, text.String(), " level="+want+` msg="broken 7" from=asynq`, level)
	}
}
