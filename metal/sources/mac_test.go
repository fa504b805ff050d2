package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/metal"
)

// fakeProgram records its arguments and its variables for Metal. It fails if its arguments contain
// $FAILS. `go run ./metal/sources FOLDER` writes two kernels.
const fakeProgram = `#!/bin/sh
echo "${0##*/} $*" "${MTL_SHADER_VALIDATION:-}${INGOT_METAL_ANY:-}" >>"$CALLS"
case "$*" in "run ./metal/sources "*) : >"$3/a.metal"; : >"$3/b.metal" ;; esac
case "$*" in *"$FAILS"*) exit 3 ;; esac
`

// TestMacSteps runs the steps of the workflow's job for Macs with fake programs: what they run, and
// how they and the summary end when a program fails.
func TestMacSteps(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		step  string
		calls []string // the beginning of each call; the last one can fail
	}{
		{"doctor", []string{"make build", "ingot doctor --backend metal"}},
		{"kernels", []string{"go run ./metal/sources", "xcrun -sdk macosx metal -std=metal3.1 -Wall -Werror -c", "xcrun -sdk macosx metal"}},
		{"pipelines", []string{"go test ./metal -count=1 -v -run TestPipelinesOnGPU 1"}},
		{"driver", []string{"go test ./metal/apple"}},
		{"gpu", []string{"go test ./metal -count=1 -timeout 40m -run OnGPU 1"}},
		{"validation", []string{"go test ./metal -count=1 -timeout 40m -run TestConformanceOnGPU/metal/release|TestMatricesOnGPU 11"}},
		{"demo", []string{"ingot run models/demo.jsonl -o", "ingot run models/demo.jsonl -o"}},
	} {
		t.Run(c.step, func(t *testing.T) {
			t.Parallel()
			last := strings.Fields(c.calls[len(c.calls)-1])[1]
			for fails, want := range map[string]struct {
				status  int
				outcome string
			}{"nothing": {0, "passed"}, last: {1, "failed"}} {
				calls, status, summary := macStep(t, c.step, fails)
				require.Equal(t, want.status != 0, status != 0)
				require.Contains(t, summary, "| "+c.step+" | "+want.outcome)
				if status == 0 {
					require.Len(t, calls, len(c.calls))
					for i := range calls {
						require.True(t, strings.HasPrefix(calls[i], c.calls[i]), calls[i])
					}
				}
			}
		})
	}
	out, err := exec.CommandContext(t.Context(), "bash", "../../.ci/mac", "nonsense").CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "usage: ")
}

// macStep runs a step and the summary. It returns the calls of programs and the step's exit status.
func macStep(t *testing.T, step, fails string) (calls []string, status int, summary string) {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"go", "make", "xcrun", "ingot"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(fakeProgram), 0o700))
	}
	run := func(step string) (string, error) {
		cmd := exec.CommandContext(t.Context(), "bash", "../../.ci/mac", step)
		cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "REPORT="+filepath.Join(dir, "report"), "INGOT="+filepath.Join(dir, "ingot"),
			"CALLS="+filepath.Join(dir, "calls"), "FAILS="+fails)
		out, err := cmd.Output()
		return string(out), err
	}
	_, err := run(step)
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		status = exit.ExitCode()
	} else {
		require.NoError(t, err)
	}
	recorded, err := os.ReadFile(filepath.Join(dir, "calls"))
	require.NoError(t, err)
	calls = slices.Collect(strings.Lines(string(recorded)))
	summary, err = run("summary")
	require.NoError(t, err)
	return calls, status, summary
}

// TestWorkflows checks the definitions of CI: their syntax, expressions, and the shell commands of
// their steps. The commands of the job for Macs are in .ci/mac, which TestMacSteps runs.
func TestWorkflows(t *testing.T) {
	t.Parallel()
	actionlint, err := filepath.Abs("../../.tools/actionlint")
	require.NoError(t, err)
	if _, err := os.Stat(actionlint); err != nil {
		t.Skip("the workflows are not checked: there is no .tools/actionlint: run .ci/install")
	}
	workflows, err := filepath.Glob("../../.github/workflows/*.yml")
	require.NoError(t, err)
	require.Len(t, workflows, 2)
	out, err := exec.CommandContext(t.Context(), actionlint, append([]string{"-no-color"}, workflows...)...).CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// TestWrite checks that every kernel file is written with its headers.
func TestWrite(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, write(dir))
	for _, name := range metal.Files() {
		text, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		require.Contains(t, string(text), "#include <metal_stdlib>", name)
		require.NotContains(t, string(text), `#include "`, name)
	}
	require.Error(t, write(filepath.Join(dir, "missing")))
}
