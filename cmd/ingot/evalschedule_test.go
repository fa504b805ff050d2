package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/eval/schedule"
	"github.com/ingot-run/ingot/internal/bounded"
	"github.com/ingot-run/ingot/queue/redistest"
)

// startScheduler runs a scheduler in this process. stop ends it and waits until it has ended.
func startScheduler(t *testing.T, url, file, runs string) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(bounded.Context(t))
	ended := make(chan int, 1)
	var log strings.Builder
	go func() {
		ended <- run(ctx, []string{"eval", "schedule", "-f", file, "--redis", url, "--runs", runs}, strings.NewReader(""), io.Discard, &log)
	}()
	return func() {
		cancel()
		require.Equal(t, exitOK, <-ended)
		t.Log(log.String())
	}
}

// TestEvalSchedule starts a run of an entry. Its scheduler ends before there is a worker, and a
// second scheduler continues the run, which has no baseline to compare with. The run is then pinned
// as the baseline, and the next run passes.
func TestEvalSchedule(t *testing.T) {
	t.Parallel()
	url, folder := redistest.Start(t).URL, t.TempDir()
	runs, notices := filepath.Join(folder, "runs"), filepath.Join(folder, "notices")
	file := write(t, "schedule.yaml", fmt.Sprintf(`entries:
- name: nightly
  cron: "0 0 1 1 *"
  timezone: Europe/Berlin
  tasks: [%q]
  model: quiz
  limit: 6
  gate: {baseline: main}
  notify: {command: [sh, -c, 'cat >>"$0"', %q]}
`, quiz(t), notices))
	command := func(args ...string) result {
		return ingot(t, "", append([]string{"eval", "schedule"}, append(args, "--redis", url)...)...)
	}
	slots := func() []schedule.Slot {
		r := command("list", "nightly", "--json")
		require.Equal(t, exitOK, r.code, r.stderr)
		var list []schedule.Slot
		require.NoError(t, json.Unmarshal([]byte(r.stdout), &list))
		return list
	}
	until := func(condition func() bool) {
		t.Helper()
		require.Eventually(t, condition, 2*time.Minute, 20*time.Millisecond)
	}
	r := command("run-now", "nightly")
	require.Equal(t, exitFailure, r.code)
	require.Contains(t, r.stderr, "no scheduler has this entry")

	stop := startScheduler(t, url, file, runs)
	until(func() bool { return strings.Contains(command("list").stdout, "nightly") })
	require.Regexp(t, `(?m)^nightly +0 0 1 1 \* +Europe/Berlin +quiz +\d{4}-`, command("list").stdout)
	r = command("run-now", "nightly")
	require.Equal(t, exitOK, r.code, r.stderr)
	first := strings.TrimSpace(r.stdout)
	answers := filepath.Join(runs, first, "answers.jsonl")
	until(func() bool { _, err := os.Stat(answers); return err == nil })
	stop()
	require.Equal(t, schedule.Waiting, slots()[0].State)

	startWorker(t, url, "quiz")
	stop = startScheduler(t, url, file, runs)
	defer stop()
	until(func() bool { return slots()[0].State == schedule.Done && slots()[0].Notified != "" })
	s := slots()[0]
	require.Equal(t, first, s.Run)
	require.Equal(t, schedule.Error, s.Verdict)
	require.Contains(t, s.Message, "no run is pinned under this name")
	var notice map[string]string
	text, err := os.ReadFile(notices)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &notice))
	require.Equal(t, "error", notice["verdict"])
	require.Equal(t, "nightly/"+s.Name+"/error", notice["key"])

	r = ingot(t, "", "eval", "baseline", "set", "main", first, "--runs", runs)
	require.Equal(t, exitOK, r.code, r.stderr)
	r = command("run-now", "nightly")
	require.Equal(t, exitOK, r.code, r.stderr)
	second := strings.TrimSpace(r.stdout)
	until(func() bool { return slots()[0].State == schedule.Done && slots()[0].Run == second })
	require.Equal(t, schedule.Pass, slots()[0].Verdict, slots()[0].Message)
	r = ingot(t, "", "eval", "list", "--runs", runs)
	require.Regexp(t, `(?m)^`+first+` +main .* 6 +0 +$`, r.stdout)
	require.Regexp(t, `(?m)^`+second+` .* 6 +0 +pass$`, r.stdout)
	require.Regexp(t, `(?m)^`+strings.TrimPrefix(second, "nightly-")+` +done +1 .* pass +as good as `+first+`$`, command("list", "nightly").stdout)

	require.Equal(t, "nightly: paused\n", command("pause", "nightly").stderr)
	require.Regexp(t, `(?m)^nightly .* quiz +paused `, command("list").stdout)
	require.Equal(t, "nightly: resumed\n", command("resume", "nightly").stderr)
	require.Equal(t, "nightly: was not paused\n", command("resume", "nightly").stderr)
}

func TestEvalScheduleUsage(t *testing.T) {
	t.Parallel()
	for says, args := range map[string][]string{
		"-f FILE is missing":   {"--redis", "redis://localhost:1"},
		"unknown command":      {"lits"},
		"ENTRY is missing":     {"run-now"},
		"a name has up to 64":  {"pause", "a b", "--redis", "redis://localhost:1"},
		"redis is missing":     {"-f", "x.yaml"},
		"unexpected argument":  {"list", "a", "b"},
		"reach redis at local": {"resume", "a", "--redis", "redis://localhost:1"},
	} {
		r := ingot(t, "", append([]string{"eval", "schedule"}, args...)...)
		require.NotEqual(t, exitOK, r.code)
		require.Contains(t, r.stderr, says)
	}
}
