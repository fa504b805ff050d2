package config

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/gguf"
	"github.com/ingot-run/ingot/metal"
	"github.com/ingot-run/ingot/metal/drivers"
	"github.com/ingot-run/ingot/queue"
)

// isolate runs a test in a new working folder, without settings in the environment and without a
// config file outside that folder.
func isolate(t *testing.T) {
	t.Helper()
	t.Chdir(t.TempDir())
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	for _, s := range settings {
		t.Setenv(s.name.Env(), "")
	}
}

func load(t *testing.T, args ...string) (*Config, error) {
	t.Helper()
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	AddFileFlag(flags)
	for _, s := range settings {
		AddFlag(flags, s.name)
	}
	require.NoError(t, flags.Parse(args))
	return Load(flags)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
}

func TestDefaults(t *testing.T) {
	isolate(t)
	c, err := load(t)
	require.NoError(t, err)
	require.Equal(t, &Config{
		Alias: queue.DefaultAlias, Priority: queue.Default, Backend: "auto", Devices: []int{0}, Tuning: 45 * time.Second,
		Engine:   engine.Options{KV: gguf.TypeF16, MemoryPercent: 70, Draft: engine.DraftAuto, Recommended: true},
		LogLevel: slog.LevelInfo, LogFormat: "text",
	}, c)
}

func TestEverySettingFromEverySource(t *testing.T) {
	want := &Config{
		Redis: "redis://:secret@queue:6380/2", Model: "m.gguf", Alias: "glm/4.7", Priority: queue.Bulk, Backend: "cpu", Kernels: metal.FastMath,
		Device: 1, Devices: []int{1, 0}, Threads: 3, Precision: compute.Fast, Engine: engine.Options{
			Context: 512, KV: gguf.TypeQ80, Memory: 12 << 30, Draft: engine.DraftModel, DraftModel: "small.gguf", DraftTokens: 4,
			StepTime: 20 * time.Millisecond,
		},
		Tuning: 5 * time.Second, Concurrency: 7, Listen: "127.0.0.1:9090", Data: "/var/ingot", APIKeyFile: "keys", TLSCert: "cert.pem", TLSKey: "key.pem",
		CORSOrigin: "https://app.example.com", LogLevel: slog.LevelWarn, LogFormat: "json",
	}
	text := map[Name]string{
		Redis: want.Redis, Model: want.Model, Alias: want.Alias, Priority: "bulk", Backend: "cpu", Kernels: "fast", Device: "1,0", Threads: "3", Precision: "fast",
		KV: "q8_0", Sampling: "plain", MemoryLimit: "12GiB", Draft: "model=small.gguf", DraftTokens: "4", StepTime: "20ms", Tuning: "5s",
		Context: "512", Concurrency: "7", Listen: want.Listen, Data: want.Data, APIKeyFile: want.APIKeyFile, TLSCert: want.TLSCert,
		TLSKey: want.TLSKey, CORSOrigin: want.CORSOrigin, LogLevel: "warn", LogFormat: "json",
	}
	require.Len(t, text, len(settings))

	t.Run("flags", func(t *testing.T) {
		isolate(t)
		var args []string
		for name, value := range text {
			args = append(args, "--"+string(name), value)
		}
		c, err := load(t, args...)
		require.NoError(t, err)
		require.Len(t, c.FromFlags, len(settings))
		c.FromFlags = nil
		require.Equal(t, want, c)
	})
	t.Run("environment", func(t *testing.T) {
		isolate(t)
		for name, value := range text {
			t.Setenv(name.Env(), value)
		}
		c, err := load(t)
		require.NoError(t, err)
		require.Equal(t, want, c)
	})
	t.Run("file", func(t *testing.T) {
		isolate(t)
		yaml := ""
		for name, value := range text {
			yaml += string(name) + ": " + value + "\n"
		}
		write(t, "ingot.yaml", yaml)
		c, err := load(t)
		require.NoError(t, err)
		require.Equal(t, want, c)
	})
}

func TestPrecedence(t *testing.T) {
	isolate(t)
	user := filepath.Join(os.Getenv("XDG_CONFIG_HOME"), "ingot", "ingot.yaml")
	threads := func(args ...string) int {
		t.Helper()
		c, err := load(t, args...)
		require.NoError(t, err)
		return c.Threads
	}
	require.Equal(t, 0, threads())
	write(t, user, "threads: 1")
	require.Equal(t, 1, threads(), "the user's file overrides the default")
	write(t, "ingot.yaml", "threads: 2")
	require.Equal(t, 2, threads(), "the working folder's file overrides the user's")
	write(t, "other.yaml", "threads: 3")
	require.Equal(t, 3, threads("--config", "other.yaml"), "the file of --config overrides both")
	t.Setenv("INGOT_THREADS", "4")
	require.Equal(t, 4, threads("--config", "other.yaml"), "the environment overrides the file")
	require.Equal(t, 5, threads("--config", "other.yaml", "--threads", "5"), "the flag overrides everything")
	require.Equal(t, 0, threads("--threads=0"), "a flag with the default value too")
}

// TestFormerNames: the earlier flags, variable and key of the alias still work, and the new ones
// override them.
func TestFormerNames(t *testing.T) {
	isolate(t)
	alias := func(args ...string) string {
		t.Helper()
		c, err := load(t, args...)
		require.NoError(t, err)
		return c.Alias
	}
	write(t, "ingot.yaml", "model-name: file")
	require.Equal(t, "file", alias())
	write(t, "ingot.yaml", "model-name: former\nalias: file")
	require.Equal(t, "file", alias())
	t.Setenv("INGOT_MODEL_NAME", "variable")
	require.Equal(t, "variable", alias())
	t.Setenv("INGOT_ALIAS", "newer")
	require.Equal(t, "newer", alias())
	require.Equal(t, "glm", alias("--name", "glm"))
	require.Equal(t, "glm", alias("--model-name", "glm"))
	require.Equal(t, "glm", alias("--alias", "glm"))
	_, err := load(t, "--name", "two words")
	require.ErrorContains(t, err, "alias (from --name)")
	write(t, "ingot.yaml", "model-name: two words")
	t.Setenv("INGOT_ALIAS", "")
	t.Setenv("INGOT_MODEL_NAME", "")
	_, err = load(t)
	require.ErrorContains(t, err, "alias (from ingot.yaml)")
}

func TestErrorsNameSettingSourceAndAllowedValues(t *testing.T) {
	for _, c := range []struct {
		name string
		args []string
		env  map[string]string
		file string
		want string
	}{
		{"flag", []string{"--concurrency", "0"}, nil, "",
			`concurrency (from --concurrency): "0" is not allowed; give a whole number from 1 to 4096`},
		{"not a number", []string{"--threads", "many"}, nil, "",
			`threads (from --threads): "many" is not allowed; give a whole number from 0 to 1024`},
		{"environment", nil, map[string]string{"INGOT_BACKEND": "gpu"}, "",
			`backend (from INGOT_BACKEND): "gpu" is not known: use auto, ` + strings.Join(drivers.Names(true), ", ") + `, cpu or emulator`},
		{"devices", []string{"--device", "0,x"}, nil, "", `device (from --device): "x" is not allowed; give a whole number from 0 to 255`},
		{"a device twice", []string{"--device", "1, 0,1"}, nil, "", `device (from --device): "1, 0,1" has the number 1 twice`},
		{"kernels", []string{"--kernels", "slow"}, nil, "",
			`kernels (from --kernels): "slow" is not known: use release, debug or fast`},
		{"precision", []string{"--precision", "low"}, nil, "",
			`precision (from --precision): "low" is not known: use high or fast`},
		{"environment over file", nil, map[string]string{"INGOT_THREADS": "many"}, "threads: few", `threads (from INGOT_THREADS): "many" `},
		{"flag over environment", []string{"--threads", "all"}, map[string]string{"INGOT_THREADS": "many"}, "threads: few", `threads (from --threads): "all" `},
		{"flag over file", []string{"--threads", "all"}, nil, "threads: few", `threads (from --threads): "all" `},
		{"another setting's flag", []string{"--threads", "1"}, nil, "backend: gpu", `backend (from ingot.yaml): "gpu" `},
		{"file", nil, nil, "log-level: loud",
			`log-level (from ingot.yaml): "loud" is not known: use debug, info, warn or error`},
		{"fraction", nil, nil, "context: 1.5",
			`context (from ingot.yaml): 1.5 is not allowed; give a string or a whole number`},
		{"list", nil, nil, "redis: [a, b]",
			`redis (from ingot.yaml): [a b] is not allowed; give a string or a whole number`},
		{"address", []string{"--listen", "9090"}, nil, "",
			`listen (from --listen): "9090" is not an address; give host:port or :port`},
		{"port", []string{"--listen", ":99999"}, nil, "",
			`listen (from --listen): "99999" is not allowed; give a whole number from 0 to 65535`},
		{"priority", []string{"--priority", "high"}, nil, "",
			`priority (from --priority): "high" is not a priority: use critical, default or bulk`},
		{"empty", []string{"--priority", ""}, nil, "", `priority (from --priority)`},
		{"unknown key", nil, nil, "modle: x.gguf\nredis: redis://h:1/0",
			`read config file ingot.yaml: "modle" is not a setting; the settings are: redis, model, alias, `},
		{"key below a key", nil, nil, "redis:\n  url: redis://h:1/0",
			`read config file ingot.yaml: "redis" has settings below it; give one value`},
		{"KV type", []string{"--kv", "F16"}, nil, "", `kv (from --kv): "F16" is not known: use f32, f16, q8_0 or q4_0`},
		{"no unit", []string{"--memory", "12"}, nil, "", `memory (from --memory): "12" is not a size; give a size such as 12GiB`},
		{"less than a byte", []string{"--memory", "0.5B"}, nil, "", `"0.5B" is not a size`},
		{"too much", []string{"--memory", "101%"}, nil, "", `"101" is not allowed; give a whole number from 1 to 100`},
		{"no number", []string{"--memory", "NaNGiB"}, nil, "", `"NaNGiB" is not a size`},
		{"infinite", []string{"--memory", "InfB"}, nil, "", `"InfB" is not a size`},
		{"drafting", []string{"--draft", "model="}, nil, "",
			`draft (from --draft): "model=" is not known: use auto, mtp, ngram, model=FILE or off`},
		{"draft tokens", []string{"--draft-tokens", "0"}, nil, "",
			`draft-tokens (from --draft-tokens): "0" is not allowed; give a whole number from 1 to 8, or auto`},
		{"tuning", []string{"--tuning", "-1s"}, nil, "",
			`tuning (from --tuning): "-1s" is not allowed; give a time above 0 such as 45s, or off`},
		{"step time", []string{"--step-time", "0s"}, nil, "",
			`step-time (from --step-time): "0s" is not allowed; give a time above 0 such as 20ms, or auto`},
		{"not YAML", nil, nil, "model: [", `read config file ingot.yaml: `},
		{"endless", []string{"--config", "/dev/zero"}, nil, "", `read config file /dev/zero: the file is larger than 1 MiB`},
		{"large", nil, nil, "#" + strings.Repeat("x", maxFile), `read config file ingot.yaml: the file is larger than 1 MiB`},
		{"missing file", []string{"--config", "none.yaml"}, nil, "", `read config file none.yaml: `},
	} {
		t.Run(c.name, func(t *testing.T) {
			isolate(t)
			for name, value := range c.env {
				t.Setenv(name, value)
			}
			if c.file != "" {
				write(t, "ingot.yaml", c.file)
			}
			_, err := load(t, c.args...)
			require.ErrorContains(t, err, c.want)
		})
	}
}

func TestSizes(t *testing.T) {
	isolate(t)
	for text, want := range map[string]engine.Options{
		"70%": {MemoryPercent: 70}, "1%": {MemoryPercent: 1}, "100%": {MemoryPercent: 100},
		"12GiB": {Memory: 12 << 30}, "1.5 GiB": {Memory: 3 << 29}, "2TiB": {Memory: 2 << 40}, "800MB": {Memory: 800e6}, "64KiB": {Memory: 64 << 10},
		"3TB": {Memory: 3e12}, "7GB": {Memory: 7e9}, "5MiB": {Memory: 5 << 20}, "9KB": {Memory: 9000}, "1048576B": {Memory: 1 << 20},
	} {
		c, err := load(t, "--memory", text)
		require.NoError(t, err)
		want.KV, want.Draft, want.Recommended = c.Engine.KV, c.Engine.Draft, c.Engine.Recommended
		require.Equal(t, want, c.Engine, text)
	}
}

func TestErrorsKeepThePassword(t *testing.T) {
	isolate(t)
	_, err := load(t, "--redis", "http://:hunter2@queue")
	require.ErrorContains(t, err, "redis (from --redis): not a Redis URL; give redis://")
	require.NotContains(t, err.Error(), "hunter2")
}

func TestTheLargestFile(t *testing.T) {
	isolate(t)
	const setting = "threads: 3\n#"
	write(t, "ingot.yaml", setting+strings.Repeat("x", maxFile-len(setting)))
	c, err := load(t)
	require.NoError(t, err)
	require.Equal(t, 3, c.Threads)
}

// TestExampleFile: the example file has all settings, with their defaults.
func TestExampleFile(t *testing.T) {
	example, err := filepath.Abs("../ingot.example.yaml")
	require.NoError(t, err)
	text, err := os.ReadFile(example)
	require.NoError(t, err)
	for _, s := range settings {
		require.Regexp(t, "(?m)^#?"+string(s.name)+": ", string(text))
	}
	isolate(t)
	want, err := load(t)
	require.NoError(t, err)
	got, err := load(t, "--config", example)
	require.NoError(t, err)
	require.Equal(t, want, got)
}

func TestRequire(t *testing.T) {
	isolate(t)
	c, err := load(t, "--model", "m.gguf")
	require.NoError(t, err)
	require.NoError(t, c.Require(Model))
	require.EqualError(t, c.Require(Model, Redis), "redis is missing: give --redis, set INGOT_REDIS, or write it in the config file")
}
