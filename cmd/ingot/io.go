package main

import (
	"fmt"
	"io"
	"os"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/ingot-run/ingot/config"
	"github.com/ingot-run/ingot/job"
)

// stdio is the path that means stdin or stdout.
const stdio = "-"

func openInput(cmd *cobra.Command, path string) (io.ReadCloser, error) {
	if path == stdio {
		return io.NopCloser(cmd.InOrStdin()), nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open input: %w", err)
	}
	return f, nil
}

func openOutput(cmd *cobra.Command, path, batch string) (*job.Output, error) {
	if path == stdio {
		return job.NewOutput(cmd.OutOrStdout(), batch), nil
	}
	return job.OpenOutput(path, batch)
}

// sameFile tells whether two paths lead to one file.
func sameFile(a, b string) bool {
	if a == stdio || b == stdio {
		return false
	}
	infoA, errA := os.Stat(a)
	infoB, errB := os.Stat(b)
	return errA == nil && errB == nil && os.SameFile(infoA, infoB)
}

// dial connects to Redis and logs what is risky about how it is set.
func dial(cmd *cobra.Command, cfg *config.Config) (*redis.Client, error) {
	rdb, warnings, err := job.Dial(cmd.Context(), cfg.Redis)
	if err != nil {
		return nil, err
	}
	log := newLogger(cfg, cmd.ErrOrStderr())
	for _, w := range warnings {
		log.WarnContext(cmd.Context(), "redis can lose jobs", "reason", w)
	}
	return rdb, nil
}
