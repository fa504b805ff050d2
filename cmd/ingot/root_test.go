package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/files/table"
)

func TestUsageErrors(t *testing.T) {
	t.Parallel()
	empty := write(t, "empty.jsonl", "")
	unknownKey := write(t, "ingot.yaml", "modle: x.gguf\n")
	for _, c := range []struct {
		args string
		want string // the error between "ingot: " and the hint
		help string // the command that the hint names
	}{
		{"frobnicate", `unknown command "frobnicate"`, "ingot"},
		{"enqeue", `unknown command "enqeue"; did you mean "enqueue"?`, "ingot"},
		{"--frobnicate", "unknown flag: --frobnicate", "ingot"},
		{"run", "IN is missing", "ingot run"},
		{"run a --frobnicate", "unknown flag: --frobnicate", "ingot run"},
		{"run a --model", "flag needs an argument: --model", "ingot run"},
		{"models lost", `unknown command "lost"; did you mean "list"?`, "ingot models"},
		{"models rm", "NAME is missing", "ingot models rm"},
		{"pull", "NAME is missing", "ingot pull"},
		{"pull user/repo:", `not a model name: "user/repo:": give a quantisation such as Q4_K_M, or a file, after the colon`, "ingot pull"},
		{"run a --model m", "-o OUT is missing", "ingot run"},
		{"run " + empty + " -o " + empty + " --model m", empty + " is an input and would be overwritten", "ingot run"},
		{"run a -o b --model m --concurrency none", `concurrency (from --concurrency): "none" is not allowed; give a whole number from 1 to 4096`, "ingot run"},
		{"run a -o b --model m --backend tpu", `backend (from --backend): "tpu" is not known: use auto, metal, `, "ingot run"},
		{"run a -o b --model m --checkpoints x:attn", `--checkpoints "x:attn": "x:attn" is not a point: use all, or a list such as 0,3:attn_out`, "ingot run"},
		{"run a -o b --model m --format xml", `--format: format "xml" is not known: use ` + table.FormatNames(), "ingot run"},
		{"run a -o b --config " + unknownKey, "read config file " + unknownKey + `: "modle" is not a setting; the settings are: `, "ingot run"},
		{"enqueue", "IN is missing", "ingot enqueue"},
		{"enqueue a", "redis is missing: give --redis, set INGOT_REDIS, or write it in the config file", "ingot enqueue"},
		{"enqueue a --redis http://x", "redis (from --redis): not a Redis URL; give redis://", "ingot enqueue"},
		{"enqueue a --redis redis://x --batch a:b", `"a:b" is not a valid batch id: use 1 to 128 letters`, "ingot enqueue"},
		{"enqueue a --redis redis://x --priority top", `priority (from --priority): "top" is not a priority: use critical, default or bulk`, "ingot enqueue"},
		{"worker --redis redis://x", "model is missing", "ingot worker"},
		{"worker --model m", "redis is missing", "ingot worker"},
		{"worker a", `unexpected argument "a"`, "ingot worker"},
		{"worker --model m --redis redis://x --listen 80", `listen (from --listen): "80" is not an address; give host:port or :port`, "ingot worker"},
		{"worker --model m --redis redis://x --name a:b", `alias (from --name): "a:b" is not a valid model name: use 1 to 128 letters`, "ingot worker"},
		{"results b --redis redis://x", "-o OUT is missing", "ingot results"},
		{"results --redis redis://x", "BATCH is missing", "ingot results"},
		{"status", "redis is missing", "ingot status"},
		{"status a b", `unexpected argument "b"`, "ingot status"},
		{"cancel", "BATCH is missing", "ingot cancel"},
		{"purge", "BATCH is missing", "ingot purge"},
		{"status a:b --redis redis://x", `"a:b" is not a valid batch id: use 1 to 128 letters`, "ingot status"},
		{"show", "ANSWERS is missing", "ingot show"},
		{"show a --input a", "a is both ANSWERS and ROWS", "ingot show"},
		{"show a --input b --format xml", `--format: format "xml" is not known: use ` + table.FormatNames(), "ingot show"},
		{"model", "a command is missing", "ingot model"},
		{"help rum", `unknown command "rum"; did you mean "run"?`, "ingot help"},
		{"help model inof", `unknown command "inof"; did you mean "info"?`, "ingot help"},
		{"completion", "a command is missing", "ingot completion"},
		{"completion tcsh", `unknown command "tcsh"`, "ingot completion"},
		{"bench --model m --shape smollm-135m", "--model and --shape cannot be combined: give one", "ingot bench"},
		{"bench kernels --sweep --model m --shape smollm-135m", "--model and --shape cannot be combined: give one", "ingot bench kernels"},
		{"model inof", `unknown command "inof"; did you mean "info"?`, "ingot model"},
		{"model info", "FILE is missing", "ingot model info"},
		{"bench --roofline M6 --shape smollm-135m", `chip "M6" is not known: use M1, M1-Pro, `, "ingot bench"},
		{"bench --roofline M5 --shape smollm-135m --batch 513", "--roofline predicts --batch 1 to 512", "ingot bench"},
		{"bench --roofline M5 --shape smollm-135m --mode full", "--roofline predicts --mode decode or prefill, not full", "ingot bench"},
		{"run a -o b --model m --kernels none", `kernels (from --kernels): "none" is not known: use release, debug or fast`, "ingot run"},
		{"bench kernels --sweep --backend cpu", "--sweep requires a GPU, but the backend is cpu", "ingot bench kernels"},
		{"bench kernels --shape smollm-135m", "--shape requires --sweep or --profile", "ingot bench kernels"},
		{"bench kernels --profile --backend cpu", "--profile requires a GPU, but the backend is cpu", "ingot bench kernels"},
		{"bench kernels --profile --sweep", "--sweep and --profile cannot be combined: give one", "ingot bench kernels"},
		{"doctor now", `unexpected argument "now"`, "ingot doctor"},
		{"tokenize", "model is missing", "ingot tokenize"},
		{"render", "--template FILE is missing", "ingot render"},
		{"render --template t --now yesterday", `--now "yesterday" is not a date: use 2026-01-02 or 2026-01-02T15:04:05Z`, "ingot render"},
		{"bench", "a model is missing: give --model FILE or --shape NAME", "ingot bench"},
		{"bench kernel", `unknown command "kernel"; did you mean "kernels"?`, "ingot bench"},
		{"bench --shape gpt-5", `shape "gpt-5" is not known: use `, "ingot bench"},
		{"bench --shape smollm-135m --quant q9_k", `--quant "q9_k" is not known: use f32, f16, `, "ingot bench"},
		{"bench --model m --quant q8_0", "--quant requires --shape: the weights of a --model are quantised already", "ingot bench"},
		{"bench --model m --write f", "--write requires --shape", "ingot bench"},
		{"bench --model m --mode fast", `mode "fast" is not known: use prefill, decode or full`, "ingot bench"},
		{"bench --model m --batch 1,x", `invalid argument "1,x" for "--batch" flag: "x" is not allowed; give whole numbers up to 16777216, such as 256 or 2k`, "ingot bench"},
		{"bench --model m --rows 9", "--rows is for --mode full", "ingot bench"},
		{"bench --model m --context 1k --no-sharing", "--context cannot be combined with --no-sharing, which turns prefix caching off", "ingot bench"},
		{"version now", `unexpected argument "now"`, "ingot version"},
	} {
		t.Run(c.args, func(t *testing.T) {
			t.Parallel()
			r := ingot(t, "", strings.Fields(c.args)...)
			require.Equal(t, exitUsage, r.code, r.stderr)
			require.Empty(t, r.stdout)
			require.True(t, strings.HasPrefix(r.stderr, "ingot: "+c.want), r.stderr)
			require.True(t, strings.HasSuffix(r.stderr, ` (see "`+c.help+` --help")`+"\n"), r.stderr)
			require.Equal(t, 1, strings.Count(r.stderr, "\n"), "one line")
		})
	}
}

// TestEmptyNamesAreRefused: a flag that got the value of an unset variable does not count as left
// out.
func TestEmptyNamesAreRefused(t *testing.T) {
	t.Parallel()
	for flag, args := range map[string][]string{
		"batch":       {"enqueue", "a", "--redis", "redis://x"},
		"code":        {"retry", "b", "--redis", "redis://x"},
		"columns":     {"export", "a", "-o", "b.csv"},
		"encoding":    {"run", "a", "-o", "b.csv"},
		"delimiter":   {"run", "a", "-o", "b.csv"},
		"keep-finish": {"export", "a", "-o", "b.csv"},
		"unique":      {"export", "a", "-o", "b.csv"},
		"extract":     {"export", "a", "-o", "b.csv"},
		"failed":      {"run", "a", "-o", "b.csv", "--model", "m"},
		"input":       {"results", "b", "--redis", "redis://x", "-o", "b.csv"},
		"template":    {"run", "a", "-o", "b", "--model", "m"},
	} {
		r := ingot(t, "", append(args, "--"+flag, "")...)
		require.Equal(t, exitUsage, r.code, r.stderr)
		require.Contains(t, r.stderr, "--"+flag+": the value is empty: give one, or leave out the flag")
	}
}

func TestFailures(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "missing")
	text := write(t, "text", "not a model")
	for _, c := range []struct {
		args, stdin, want string
	}{
		{"run " + missing + " -o - --model " + tinyLlama, "", "ingot: open " + missing},
		{"run " + text + " -o - --model " + missing, "", "ingot: open " + missing},
		{"run " + text + " -o " + text + "/out --model " + tinyLlama, "", "ingot: open " + text + "/out"},
		{"show " + missing, "", "ingot: open " + missing},
		{"model info " + missing, "", "ingot: open " + missing},
		{"pull " + missing, "", missing + ": no such file or directory; to download a model, give user/repo, an https:// address"},
		{"model info " + text, "", text + " is not a GGUF file: "},
		{"tokenize --model " + text, "", text + " is not a GGUF file: "},
		{"tokenize --model " + tinyLlama, "\"a\"\n{}\n", "read stdin: line 2: the line is not a JSON string"},
		{"render --template " + missing, "{}", "read template: open " + missing},
		{"render --template " + text, "[]", "read context from stdin: the text is not a JSON object"},
		{"render --template " + text, "{", "read context from stdin: parse JSON: "},
		{"status b --redis redis://127.0.0.1:1/0", "", "reach redis at 127.0.0.1:1: "},
		{"enqueue " + missing + " --redis redis://127.0.0.1:1/0", "", "ingot: open " + missing},
	} {
		t.Run(c.args, func(t *testing.T) {
			t.Parallel()
			r := ingot(t, c.stdin, strings.Fields(c.args)...)
			require.Equal(t, exitFailure, r.code, r.stderr)
			require.Contains(t, r.stderr, "ingot: ")
			require.Contains(t, r.stderr, c.want)
			require.Equal(t, 1, strings.Count(r.stderr, "\n"), "one line: %q", r.stderr)
		})
	}
}

func TestNoArgumentsShowsHelp(t *testing.T) {
	t.Parallel()
	r := ingot(t, "")
	require.Equal(t, exitUsage, r.code)
	require.Empty(t, r.stdout)
	require.Contains(t, r.stderr, "Available Commands:")
}

func TestHelpOfACommand(t *testing.T) {
	t.Parallel()
	for _, topic := range []string{"", "run", "model info", "completion bash"} {
		r := ingot(t, "", strings.Fields("help "+topic)...)
		require.Equal(t, exitOK, r.code, r.stderr)
		require.Equal(t, ingot(t, "", append(strings.Fields(topic), "--help")...).stdout, r.stdout)
	}
	r := ingot(t, "", "completion", "bash")
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Contains(t, r.stdout, "complete ")
}

// TestHelp checks that the help of every command has examples and no line of more than 140
// characters.
func TestHelp(t *testing.T) {
	t.Parallel()
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		r := ingot(t, "", strings.Fields(cmd.CommandPath() + " --help")[1:]...)
		require.Equal(t, exitOK, r.code, r.stderr)
		require.Contains(t, r.stdout, "Examples:\n", cmd.CommandPath())
		require.Contains(t, r.stdout, cmd.CommandPath())
		for line := range strings.Lines(r.stdout) {
			require.LessOrEqual(t, len(strings.TrimRight(line, "\n")), 140, line)
		}
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
	}
	visit(newRoot())
}

// TestExamplesParse: the examples in the help have valid flags and arguments.
func TestExamplesParse(t *testing.T) {
	t.Parallel()
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		for line := range strings.Lines(cmd.Example) {
			for part := range strings.SplitSeq(line, "|") {
				_, call, ok := strings.Cut(part, "ingot ")
				if !ok {
					continue
				}
				call, _, _ = strings.Cut(strings.TrimSuffix(strings.TrimSpace(call), ")"), " <")
				call, _, _ = strings.Cut(call, " >")
				found, rest, err := newRoot().Find(strings.Fields(call))
				require.NoError(t, err, call)
				require.NoError(t, found.ParseFlags(rest), call)
				require.NoError(t, found.ValidateArgs(found.Flags().Args()), call)
			}
		}
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
	}
	visit(newRoot())
}

// TestSettingsFromOutside: settings are also read from the environment and from a file.
func TestSettingsFromOutside(t *testing.T) {
	t.Parallel()
	want := ingot(t, `"Hi"`, "tokenize", "--model", tinyLlama).stdout
	require.NotEmpty(t, want)
	file := write(t, "any.yaml", "model: "+tinyLlama+"\n")
	require.Equal(t, want, ingot(t, `"Hi"`, "tokenize", "--config", file).stdout)

	cmd := program(t, "tokenize")
	cmd.Env = append(cmd.Env, "INGOT_MODEL="+tinyLlama)
	cmd.Stdin = strings.NewReader(`"Hi"`)
	out, err := cmd.Output()
	require.NoError(t, err)
	require.Equal(t, want, string(out))

	cmd = program(t, "tokenize", "--model", tinyLlama)
	cmd.Env = append(cmd.Env, "INGOT_THREADS=all")
	require.ErrorContains(t, cmd.Run(), "exit status 2")
	require.Contains(t, cmd.Stderr.(*bytes.Buffer).String(), `ingot: threads (from INGOT_THREADS): "all" is not allowed`)
}

func TestVersion(t *testing.T) {
	t.Parallel()
	r := ingot(t, "", "version")
	require.Equal(t, exitOK, r.code)
	require.Regexp(t, `^ingot \S+ \(go\S+, \w+/\w+\)\n$`, r.stdout)
	require.Equal(t, programVersion()+"\n", ingot(t, "", "--version").stdout)
}
