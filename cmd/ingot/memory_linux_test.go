package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/internal/bounded"
)

// TestMemoryOfHostileRows runs rows that need as much memory as possible. It checks that the
// program's memory stays below the sum of the limit, the program's own size and some copies of an
// input line.
func TestMemoryOfHostileRows(t *testing.T) { // not parallel, since this test and others would slow each other down
	const (
		limit   = 100 << 20
		program = 112 << 20 // as in docs/settings.md
	)
	in, out := filepath.Join(t.TempDir(), "in.jsonl"), filepath.Join(t.TempDir(), "out.jsonl")
	require.NoError(t, os.WriteFile(in, hostileRows(t), 0o600))
	binary := filepath.Join(t.TempDir(), "ingot") // the test binary may have the race detector, which needs memory
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", binary, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // as in the Makefile, so that the build cache may have the packages
	text, err := build.CombinedOutput()
	require.NoError(t, err, string(text))

	cmd := bounded.Command(t, binary, "run", in, "-o", out, "--model", tinyGLM, "--backend", "cpu", "--memory", strconv.Itoa(limit)+"B",
		"--concurrency", "512", "--threads", "2")
	cmd.Env = append(os.Environ(), memoryLimit+"=")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	require.NoError(t, cmd.Start())
	peak := peakMemory(t, cmd)
	require.NoError(t, cmd.Wait(), stderr.String())
	t.Logf("%d MiB at most: %s", peak>>20, stderr.String())
	require.LessOrEqual(t, peak, limit+limit/10+program)

	counts := map[string]int{}
	for id, a := range readAnswers(t, readFile(t, out)) {
		kind, _, _ := strings.Cut(id, "-")
		switch {
		case a.Error == nil:
			counts[kind]++
		case strings.HasPrefix(kind, "huge") || kind == "over":
			require.Contains(t, a.Error.Message, "; the context holds 4096")
		default:
			require.Equal(t, "endless", kind)
			require.Contains(t, a.Error.Message, "log-probabilities, the maximum for the memory of prompts and answers")
		}
	}
	require.Equal(t, map[string]int{"long": 4, "many": 3, "logprobs": 6, "echo": 3, "small": 512}, counts)
}

// hostileRows returns rows with prompts of 14 MB or slightly too many tokens, with 128 choices with
// penalties, with results of several MB, and many rows that wait.
func hostileRows(t *testing.T) []byte {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	words := strings.Fields("the capital of Finland is Helsinki and which month comes after March a red fox jumps over lazy dogs while seven ships sail")
	text := func(n int) string {
		var b strings.Builder
		for range n {
			b.WriteString(words[random.IntN(len(words))] + " ")
		}
		return b.String()
	}
	chat := func(n int) []map[string]string { return []map[string]string{{"role": "user", "content": text(n)}} }
	var rows []map[string]any
	add := func(n int, kind string, row func() map[string]any) {
		for i := range n {
			r := row()
			r["custom_id"] = fmt.Sprintf("%s-%d", kind, i)
			rows = append(rows, r)
		}
	}
	add(2, "huge", func() map[string]any { return map[string]any{"prompt": text(2_700_000), "max_tokens": 4} })
	add(1, "hugechat", func() map[string]any { return map[string]any{"messages": chat(2_700_000)} })
	add(4, "over", func() map[string]any { return map[string]any{"prompt": text(9000)} })
	add(4, "long", func() map[string]any { return map[string]any{"prompt": text(2000), "max_tokens": 8} })
	add(3, "many", func() map[string]any {
		return map[string]any{"prompt": text(900), "n": 128, "max_tokens": 16, "repetition_penalty": 1.1, "presence_penalty": 0.5, "ignore_eos": true}
	})
	add(6, "logprobs", func() map[string]any {
		return map[string]any{"messages": chat(20), "n": 4, "logprobs": true, "top_logprobs": 20, "max_tokens": 450, "ignore_eos": true}
	})
	add(1, "endless", func() map[string]any {
		return map[string]any{"messages": chat(20), "n": 128, "logprobs": true, "top_logprobs": 20, "ignore_eos": true}
	})
	add(3, "echo", func() map[string]any {
		return map[string]any{"prompt": text(800), "echo": true, "logprobs": 20, "max_tokens": 0}
	})
	add(512, "small", func() map[string]any { return map[string]any{"prompt": text(10), "max_tokens": 4} })
	random.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
	var file bytes.Buffer
	for _, r := range rows {
		require.NoError(t, json.NewEncoder(&file).Encode(r))
	}
	return file.Bytes()
}

// peakMemory waits until a process ends and returns its maximum resident memory in bytes.
func peakMemory(t *testing.T, cmd *exec.Cmd) (peak int) {
	t.Helper()
	highest := regexp.MustCompile(`VmHWM:\s+(\d+) kB`)
	for tick := time.NewTicker(5 * time.Millisecond); ; <-tick.C {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
		if errors.Is(err, fs.ErrNotExist) {
			return peak
		}
		require.NoError(t, err)
		found := highest.FindSubmatch(status)
		if found == nil { // the process has ended
			return peak
		}
		kib, err := strconv.Atoi(string(found[1]))
		require.NoError(t, err)
		peak = max(peak, kib<<10)
	}
}
