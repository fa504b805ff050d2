package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/bench"
	"github.com/ingot-run/ingot/metal"
	"github.com/ingot-run/ingot/metal/emulator"
)

// needCompiler skips tests of the emulator if this machine has no compiler for the kernels.
func needCompiler(t *testing.T) {
	t.Helper()
	dev, err := emulator.Open(emulator.Options{})
	if errors.Is(err, emulator.ErrNoCompiler) {
		t.Skipf("the emulator is not tested: %v", err)
	}
	require.NoError(t, err)
	require.NoError(t, dev.Close())
}

// TestNoMetalHere checks that all commands that run a model report a missing GPU.
func TestNoMetalHere(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "darwin" {
		t.Skip("this machine may have a GPU: errors about a missing one are not tested")
	}
	in, out := write(t, "in.jsonl", askMarch+"\n"), filepath.Join(t.TempDir(), "out.jsonl")
	for _, args := range []string{
		"run " + in + " -o " + out + " --model " + tinyLlama,
		"bench --model " + tinyLlama,
		"bench kernels",
		"doctor",
	} {
		r := ingot(t, "", append(strings.Fields(args), "--backend", "metal")...)
		require.Equal(t, exitFailure, r.code, args)
		require.Contains(t, r.stderr, "backend metal: Metal requires macOS on Apple silicon", args)
	}
}

// TestRunOnTheEmulator checks an answer computed by the GPU's kernels, and that the answer names
// the backend.
func TestRunOnTheEmulator(t *testing.T) {
	t.Parallel()
	needCompiler(t)
	in := write(t, "in.jsonl", askMarch+"\n")
	r := ingot(t, "", "run", in, "-o", "-", "--model", tinyLlama, "--backend", "emulator", "--context", "128", "--draft", "off")
	require.Equal(t, exitOK, r.code, r.stderr)
	got := readAnswers(t, r.stdout)["march"]
	require.Equal(t, "April.", got.Response.Body.Choices[0].Message.Content)
	require.Equal(t, "emulator", got.Stats.Backend)
	require.NotEmpty(t, got.Stats.Device)
	require.Contains(t, r.stderr, "for tests: runs the GPU's kernels on the processor, slowly")
}

// TestBenchCountsOnTheEmulator checks that each step is two command buffers and one wait.
func TestBenchCountsOnTheEmulator(t *testing.T) {
	t.Parallel()
	needCompiler(t)
	r := ingot(t, "", "bench", "--model", tinyLlama, "--backend", "emulator", "--prompt", "4", "--gen", "6", "--repeat", "1", "--draft", "off", "--json", "-")
	require.Equal(t, exitOK, r.code, r.stderr)
	var records []bench.Record
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &records))
	require.Equal(t, "emulator", records[0].Backend)
	// Each of 4 layers has 8 dispatches for contexts below 257 positions, and the step has 6
	// others. The prompt takes one step, and the answer five.
	require.Equal(t, &bench.PerStep{Dispatches: 38, CommandBuffers: 2, Waits: 1}, records[0].PerStep)
	require.InDelta(t, 1, records[0].TokensPerStep, 0)
}

// TestCaptureIsRefused checks that a capture that Metal cannot write is refused before the model is
// loaded.
func TestCaptureIsRefused(t *testing.T) {
	t.Parallel()
	there := write(t, "a.gputrace", "")
	for args, want := range map[string]string{
		"--backend cpu --capture a.gputrace":      "the backend is cpu",
		"--backend emulator --capture a.gputrace": "the backend is emulator",
		"--backend auto --capture a.trace":        "the file's name must end in .gputrace",
		"--backend auto --capture " + there:       "the file exists",
	} {
		r := ingot(t, "", append(strings.Fields("run - -o - --model "+tinyLlama), strings.Fields(args)...)...)
		require.Equal(t, exitUsage, r.code, r.stderr)
		require.Contains(t, r.stderr, want)
	}
}

// TestFlagsWithoutEffect checks that flags for GPUs are refused on the CPU, and that the same
// settings in the environment are not.
func TestFlagsWithoutEffect(t *testing.T) {
	in := write(t, "in.jsonl", askMarch+"\n")
	args := []string{"run", in, "-o", "-", "--model", tinyLlama, "--backend", "cpu", "--context", "128"}
	for _, flag := range []string{"--device=0", "--kernels=fast"} {
		r := ingot(t, "", append(args, flag)...)
		require.Equal(t, exitUsage, r.code, r.stderr)
		name, _, _ := strings.Cut(flag, "=")
		require.Contains(t, r.stderr, name+" requires a GPU, but the backend is cpu")
		require.Contains(t, ingot(t, "", "doctor", "--backend", "cpu", flag).stderr, name+" requires a GPU")
	}
	t.Setenv("INGOT_DEVICE", "3")
	t.Setenv("INGOT_KERNELS", "fast")
	require.Equal(t, exitOK, ingot(t, "", args...).code)
	require.Equal(t, exitOK, ingot(t, "", "doctor", "--backend", "cpu").code)
}

// TestGeometry checks that the geometry comes from the user's file, that an invalid file is
// refused, and that a sweep needs a GPU and a model.
func TestGeometry(t *testing.T) {
	needCompiler(t)
	dir := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", dir)
	path := filepath.Join(dir, "ingot", "geometry.json")
	have := metal.Geometry{{Device: "emulator", Kernel: metal.Product, Type: "Q4_0", Inputs: 1, Rows: 4, Simdgroups: 8}}
	require.NoError(t, have.WriteFile(path))
	got, err := metal.ReadGeometryFile(path)
	require.NoError(t, err)
	require.Equal(t, have, got)

	in := write(t, "in.jsonl", `{"custom_id": "a", "prompt": "The", "max_tokens": 2, "ignore_eos": true}`+"\n")
	answer := []string{"run", in, "-o", "-", "--model", tinyLlama, "--backend", "emulator", "--context", "128", "--draft", "off"}
	r := ingot(t, "", answer...)
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Contains(t, r.stdout, `"completion_tokens":2`)

	require.Regexp(t, `geometry from `+path+`, choices: 1`, ingot(t, "", "doctor", "--backend", "emulator").stdout)
	require.NoError(t, os.WriteFile(path, []byte(`[{"kernel":"product","inputs":1,"rows":3}]`), 0o600))
	r = ingot(t, "", answer...)
	require.Equal(t, exitFailure, r.code)
	require.Contains(t, r.stderr, path+": read a geometry: choice 1: ")
	require.Contains(t, r.stderr, "remove the file, or write it again")
	require.Contains(t, stateOf(t, diagnose(t, exitFailure, "--backend", "emulator"), "emulator").Reason, path+": read a geometry")

	require.NoError(t, os.Remove(path))
	for args, want := range map[string]string{
		"--backend emulator":                           "a model is missing: give --model FILE or --shape NAME",
		"--backend cpu --model " + tinyLlama:           "--sweep requires a GPU",
		"--backend emulator --shape smollm-135million": "smollm-135million",
	} {
		r := ingot(t, "", append(strings.Fields("bench kernels --sweep"), strings.Fields(args)...)...)
		require.Equal(t, exitUsage, r.code, r.stderr)
		require.Contains(t, r.stderr, want)
	}
	require.NoFileExists(t, path)
}

// TestOneDeviceOnly checks that only a worker accepts several GPUs.
func TestOneDeviceOnly(t *testing.T) {
	t.Parallel()
	in := write(t, "in.jsonl", askMarch)
	r := ingot(t, "", "run", in, "-o", filepath.Join(t.TempDir(), "out.jsonl"), "--model", tinyGLM, "--backend", "emulator", "--device", "0,1")
	require.Equal(t, exitUsage, r.code)
	require.Contains(t, r.stderr, "--device names 2 GPUs, but only \"ingot worker\" uses several")
}
