package local_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/engine/cpu"
	"github.com/ingot-run/ingot/engine/enginetest"
	"github.com/ingot-run/ingot/files/rows"
	"github.com/ingot-run/ingot/internal/bounded"
	"github.com/ingot-run/ingot/worker/local"
)

// TestMain makes the test binary a process that answers a file, for the test to kill.
func TestMain(m *testing.M) {
	enginetest.GiveCosts()
	if in := os.Getenv("INGOT_TEST_RUN"); in != "" {
		if err := runFile(in, os.Getenv("INGOT_TEST_OUT")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// runFile answers the rows of a file and prints the number of finished rows. It then reads rows
// from stdin, so that it does not end before it is killed.
func runFile(in, out string) error {
	backend, err := cpu.New(1)
	if err != nil {
		return err
	}
	eng, err := engine.Open(filepath.Join("..", "..", "engine", "model", "testdata", "micro-llama.gguf"), backend, engine.Options{})
	if err != nil {
		return err
	}
	input, err := os.Open(in)
	if err != nil {
		return err
	}
	output, err := rows.OpenOutput(out, local.Batch)
	if err != nil {
		return err
	}
	_, err = local.Run(context.Background(), eng, io.MultiReader(input, os.Stdin), output, local.Options{
		Concurrency: 8, Logger: quiet, Progress: func(p local.Progress) { fmt.Println(p.Kept + p.Done) },
	})
	return err
}

// A run is killed many times, each time a little later. At the end, the output has the same rows as
// the output of a run without interruptions.
func TestRunSurvivesKills(t *testing.T) {
	dir := t.TempDir()
	in, out, whole := filepath.Join(dir, "in.jsonl"), filepath.Join(dir, "out.jsonl"), filepath.Join(dir, "whole.jsonl")
	const n = 160
	require.NoError(t, os.WriteFile(in, []byte(fileOf(n)), 0o600))
	rowsFile, err := os.Open(in)
	require.NoError(t, err)
	defer rowsFile.Close()
	_, err = run(t, openMicro(t), rowsFile, whole, local.Options{})
	require.NoError(t, err)

	for killAt := 30; killAt < n; killAt += 40 {
		cmd := bounded.Command(t, os.Args[0])
		cmd.Env = append(os.Environ(), "INGOT_TEST_RUN="+in, "INGOT_TEST_OUT="+out)
		cmd.Stderr = os.Stderr
		stdout, err := cmd.StdoutPipe()
		require.NoError(t, err)
		_, err = cmd.StdinPipe() // stdin stays open and has no data
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			done := 0
			_, err := fmt.Sscan(lines.Text(), &done)
			require.NoError(t, err)
			if done >= killAt {
				break
			}
		}
		require.NoError(t, cmd.Process.Kill())
		require.ErrorContains(t, cmd.Wait(), "killed")
		require.GreaterOrEqual(t, strings.Count(read(t, out), "\n"), killAt)
	}
	_, err = rowsFile.Seek(0, 0)
	require.NoError(t, err)
	sum, err := run(t, openMicro(t), rowsFile, out, local.Options{})
	require.NoError(t, err)
	require.Equal(t, n, sum.Kept+sum.Done)
	require.Equal(t, stripped(t, read(t, whole)), stripped(t, read(t, out)))
}
