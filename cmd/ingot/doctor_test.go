package main

import (
	"encoding/json"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/config/doctor"
	"github.com/ingot-run/ingot/metal/drivers"
)

func diagnose(t *testing.T, code int, args ...string) *doctor.Diagnosis {
	t.Helper()
	r := ingot(t, "", append([]string{"doctor", "--json"}, args...)...)
	require.Equal(t, code, r.code, r.stderr)
	d := &doctor.Diagnosis{}
	require.NoError(t, json.Unmarshal([]byte(r.stdout), d), r.stdout)
	return d
}

func stateOf(t *testing.T, d *doctor.Diagnosis, name string) doctor.BackendState {
	t.Helper()
	i := slices.IndexFunc(d.Backends, func(s doctor.BackendState) bool { return s.Name == name })
	require.GreaterOrEqual(t, i, 0, name)
	return d.Backends[i]
}

func TestDoctorText(t *testing.T) {
	t.Parallel()
	r := ingot(t, "", "doctor", "--model", tinyGLM, "--backend", "cpu", "--kv", "f32", "--concurrency", "2", "--context", "100")
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Empty(t, r.stderr)
	for _, line := range []string{
		`ingot +\S+ \(go\S+\)`, `system +` + runtime.GOOS + "/" + runtime.GOARCH + `, \d+ processors`, `CPU kernels +\w+.*`,
		`free memory +[\d.]+ [KMGT]iB`, `backend metal +.+`, `backend cpu +\S+ \w+, \d+ threads`, `backend emulator +.+`,
		`--backend cpu +cpu: the settings name it`, `model +` + tinyGLM,
		// From the model's card: 6 layers of 64+32 values, of 4 bytes each.
		` +weights [\d.]+ MiB, steps [\d.]+ MiB, rows [\d.]+ MiB, cache 2\.2 KiB per token; together they may use [\d.]+ [MGT]iB`,
		` +fits, with a context of 100 tokens \(trained for 4096\) and 224 in all rows together`,
		`question +What is the capital of France\?`, `answer +Paris\.`, ` +\d tokens in [\d.]+m?s, [\d.]+ tokens/s; loaded in [\d.]+m?s`,
	} {
		require.Regexp(t, "(?m)^"+line+"$", r.stdout)
	}
}

// TestDoctorChoosesForAuto checks that --backend auto chooses a GPU if there is one, else the CPU
// with the reasons.
func TestDoctorChoosesForAuto(t *testing.T) {
	t.Parallel()
	d := diagnose(t, exitOK, "--backend", "auto")
	require.Equal(t, "auto", d.Chosen.Setting)
	require.Len(t, d.Backends, len(drivers.All())+1)
	for i, name := range drivers.Names(true) {
		gpu := d.Backends[i]
		require.Equal(t, name, gpu.Name)
		if gpu.Available {
			require.Equal(t, name, d.Chosen.Backend)
			require.NotEmpty(t, gpu.Family)
			require.NotEmpty(t, gpu.LanguageVersion)
			require.Equal(t, "safe", gpu.MathMode)
			require.Positive(t, gpu.WorkingSet)
			return
		}
		require.NotEmpty(t, gpu.Reason)
	}
	require.NotEqual(t, "darwin/arm64", d.System)
	require.Equal(t, doctor.Choice{Setting: "auto", Backend: "cpu", Why: "no GPU can be used"}, d.Chosen)
	require.Contains(t, stateOf(t, d, "metal").Reason, "Metal requires macOS on Apple silicon")
}

func TestDoctorCompilesForTheEmulator(t *testing.T) {
	t.Parallel()
	needCompiler(t)
	d := diagnose(t, exitOK, "--backend", "emulator", "--kernels", "fast", "--model", tinyLlama, "--memory", "64MiB")
	require.Equal(t, "emulator", d.Chosen.Backend)
	state := stateOf(t, d, "emulator")
	require.True(t, state.Available)
	require.Equal(t, "3.1", state.LanguageVersion)
	require.Equal(t, "relaxed", state.MathMode)
	require.Contains(t, state.Device, ", fast kernels")
	require.Equal(t, "used", state.Matrices)
	require.True(t, d.Model.Fits)
	require.EqualValues(t, 64<<20, d.Model.Memory)
	require.Equal(t, "Paris.", d.Answer.Text)
}

// TestDoctorFails checks the error for a setting that cannot be used, and that the diagnosis is
// printed nevertheless.
func TestDoctorFails(t *testing.T) {
	t.Parallel()
	text := write(t, "text", "not a model")
	for _, c := range []struct {
		name, args, want string
		check            func(t *testing.T, d *doctor.Diagnosis)
	}{
		{"redis", "--redis redis://127.0.0.1:1/0", "reach redis at 127.0.0.1:1: ", func(t *testing.T, d *doctor.Diagnosis) {
			t.Helper()
			require.False(t, d.Redis.Reachable)
			require.Contains(t, d.Redis.Error, "127.0.0.1:1")
		}},
		{"too large", "--backend cpu --memory 1MiB --model " + tinyGLM, "allow more memory", func(t *testing.T, d *doctor.Diagnosis) {
			t.Helper()
			require.False(t, d.Model.Fits)
			require.Contains(t, d.Model.Error, "allow more memory")
			require.Positive(t, d.Model.Weights)
			require.EqualValues(t, 1<<20, d.Model.Memory)
		}},
		{"small context", "--backend cpu --context 4 --model " + tinyLlama, "answer a question with " + tinyLlama + ": ", func(t *testing.T, d *doctor.Diagnosis) {
			t.Helper()
			require.True(t, d.Model.Fits)
			require.Contains(t, d.Answer.Error, "the context holds 4")
			require.Empty(t, d.Answer.Text)
		}},
		{"no model", "--model " + text, text + " is not a GGUF file: ", func(t *testing.T, d *doctor.Diagnosis) {
			t.Helper()
			require.NotEmpty(t, d.Model.Error)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			args := append([]string{"doctor", "--json"}, strings.Fields(c.args)...)
			r := ingot(t, "", args...)
			require.Equal(t, exitFailure, r.code)
			require.Contains(t, r.stderr, c.want)
			c.check(t, diagnose(t, exitFailure, strings.Fields(c.args)...))
		})
	}
}

// TestDoctorTunes checks that --tune measures, stores and reports, that the next start uses what is
// stored, and that it needs a GPU. The time limit ends the tuning at once.
func TestDoctorTunes(t *testing.T) {
	needCompiler(t)
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	r := ingot(t, "", "doctor", "--backend", "emulator", "--tune", "--tuning", "1ns")
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Contains(t, r.stdout, "choices that differ from the default: 0\n")
	require.Regexp(t, `(?m)^.+ \(emulator\), \S+ \S+, ingot \S+, kernels [0-9a-f]{16}$`, r.stdout)
	require.Contains(t, r.stdout, "ended the tuning early")
	state := stateOf(t, diagnose(t, exitOK, "--backend", "emulator"), "emulator")
	require.False(t, state.Tuning.Complete)
	require.FileExists(t, state.TuningFile)
	r = ingot(t, "", "doctor", "--backend", "cpu", "--tune")
	require.Equal(t, exitFailure, r.code)
	require.Contains(t, r.stderr, "--tune requires a GPU that runs the kernels in Metal's language, but the backend is cpu")
	require.Equal(t, exitUsage, ingot(t, "", "doctor", "--tune", "--tuning", "off").code)
}
