package main

import (
	"io"
	"log/slog"

	"github.com/ingot-run/ingot/config"
)

func newLogger(cfg *config.Config, w io.Writer) *slog.Logger {
	opts := &slog.HandlerOptions{Level: cfg.LogLevel}
	if cfg.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, opts))
	}
	return slog.New(slog.NewTextHandler(w, opts))
}

// warningsOnly returns the settings with a higher level of the log, if it is the default: commands
// that print a summary need not log what they do.
func warningsOnly(cfg *config.Config) *config.Config {
	quiet := *cfg
	if quiet.LogLevel == slog.LevelInfo {
		quiet.LogLevel = slog.LevelWarn
	}
	return &quiet
}
