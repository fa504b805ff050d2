package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ingot-run/ingot/config"
	"github.com/ingot-run/ingot/files/rows"
	"github.com/ingot-run/ingot/queue"
	"github.com/ingot-run/ingot/queue/redisqueue"
)

// stdio is the path that means stdin or stdout.
const stdio = "-"

// openInput opens a file to read. The result implements io.Seeker only for a regular file.
func openInput(cmd *cobra.Command, path string) (io.ReadCloser, error) {
	in := io.NopCloser(cmd.InOrStdin())
	if f, ok := cmd.InOrStdin().(*os.File); ok {
		in = f
	}
	if path != stdio {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		if err := checkInput(path, f); err != nil {
			return nil, errors.Join(err, f.Close())
		}
		in = f
	}
	if isRegular(in) {
		return in, nil
	}
	return struct{ io.ReadCloser }{in}, nil // hides Seek, since some terminals claim that Seek works
}

// checkInput refuses devices, such as /dev/zero, which may never end.
func checkInput(path string, f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if info.Mode()&os.ModeDevice == 0 || isTerminal(f) || sameFile(path, os.DevNull) {
		return nil
	}
	return fmt.Errorf("open %s: it is a device: give a file or a pipe", path)
}

// maxWhole is the maximum size of a file that a command reads as a whole, in bytes.
const maxWhole = 64 << 20

// readWhole reads r to its end. It returns an error if r is longer than maxWhole.
func readWhole(r io.Reader) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxWhole+1))
	if err == nil && len(text) > maxWhole {
		err = fmt.Errorf("the text is larger than %d MiB", maxWhole>>20)
	}
	return text, err
}

// readWholeFile reads a file of at most maxWhole bytes to its end.
func readWholeFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // the file was only read
	return readWhole(f)
}

// isRegular reports whether r is a file on a disk, which can be read twice.
func isRegular(r io.Reader) bool {
	f, ok := r.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode().IsRegular()
}

func openOutput(cmd *cobra.Command, path, batch string) (*rows.Output, error) {
	if path == stdio {
		return rows.NewOutput(cmd.OutOrStdout(), batch), nil
	}
	return rows.OpenOutput(path, batch)
}

// Values of --unknown-fields.
const (
	unknownError  = "error"
	unknownIgnore = "ignore"
)

func addUnknownFlag(flags *pflag.FlagSet, unknown *string, usage string) {
	flags.StringVar(unknown, "unknown-fields", unknownError, usage)
}

// ignoresUnknown reads a value of --unknown-fields.
func ignoresUnknown(s string) (bool, error) {
	if s != unknownError && s != unknownIgnore {
		return false, usagef("--unknown-fields: %q is not known: use %s or %s", s, unknownError, unknownIgnore)
	}
	return s == unknownIgnore, nil
}

// sameFile reports whether two paths lead to the same file.
func sameFile(a, b string) bool {
	if a == stdio || b == stdio {
		return false
	}
	infoA, errA := os.Stat(a)
	infoB, errB := os.Stat(b)
	return errA == nil && errB == nil && os.SameFile(infoA, infoB)
}

// dialBatch connects to Redis for a command whose argument, if any, is a batch id.
func dialBatch(cmd *cobra.Command, cfg *config.Config, args []string) (*redisqueue.Queue, error) {
	for _, batch := range args {
		if err := queue.CheckBatch(batch); err != nil {
			return nil, &usageError{err}
		}
	}
	queue, _, err := redisqueue.Dial(cmd.Context(), cfg.Redis, 1, waiting(cmd)) // only enqueue and worker print the warnings
	return queue, err
}

// onRedis returns the RunE of a command that uses Redis. The command takes at most one argument, a batch id. Without a batch id, it is
// about all batches.
func onRedis(run func(cmd *cobra.Command, queue *redisqueue.Queue, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		cfg, err := settings(cmd, config.Redis)
		if err != nil {
			return err
		}
		queue, err := dialBatch(cmd, cfg, args)
		if err != nil {
			return err
		}
		defer queue.Close() //nolint:errcheck // Redis has answered every command
		return run(cmd, queue, args)
	}
}

// dial connects to Redis for a command that queues or answers rows. It checks the server, and logs settings of the server with which jobs
// can be lost.
func dial(cmd *cobra.Command, cfg *config.Config) (*redisqueue.Queue, error) {
	queue, warnings, err := redisqueue.Dial(cmd.Context(), cfg.Redis, cfg.Concurrency, waiting(cmd))
	if err != nil {
		return nil, err
	}
	if err := queue.CheckServer(cmd.Context()); err != nil {
		return nil, errors.Join(err, queue.Close())
	}
	log := newLogger(cfg, cfg.LogLevel, cmd.ErrOrStderr())
	for _, w := range warnings {
		log.WarnContext(cmd.Context(), "redis can lose jobs", "reason", w)
	}
	return queue, nil
}

// waiting returns a function that prints the reason why a command waits.
func waiting(cmd *cobra.Command) func(reason string) {
	return func(reason string) { cmd.PrintErrf("%s\n", printable(reason)) }
}
