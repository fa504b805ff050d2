package main

import (
	"io"
	"log/slog"

	"github.com/ingot-run/ingot/config"
)

func newLogger(cfg *config.Config, level slog.Level, w io.Writer) *slog.Logger {
	opts := &slog.HandlerOptions{Level: level}
	if cfg.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, opts))
	}
	return slog.New(slog.NewTextHandler(w, opts))
}
