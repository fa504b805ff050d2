package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTokenizeVectors encodes public texts with public vocabularies. The expected ids come from the
// models' own libraries.
func TestTokenizeVectors(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(vectors(t), "tokenizers")
	for _, name := range []string{"gpt-2", "llama-spm", "phi-3", "starcoder"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			model := filepath.Join(dir, name+".gguf")
			in, err := os.ReadFile(model + ".inp")
			require.NoError(t, err)
			out, err := os.ReadFile(model + ".out")
			require.NoError(t, err)

			const separator = "\n__ggml_vocab_test__\n"
			var lines bytes.Buffer
			for text := range strings.SplitSeq(strings.TrimSuffix(string(in), separator), separator) {
				require.NoError(t, json.NewEncoder(&lines).Encode(text))
			}
			r := ingot(t, lines.String(), "tokenize", "--model", model)
			require.Equal(t, exitOK, r.code, r.stderr)
			want := ""
			for line := range strings.Lines(string(out)) {
				want += "[" + strings.Join(strings.Fields(line), ",") + "]\n"
			}
			require.Equal(t, want, r.stdout)
		})
	}
}

func TestTokenize(t *testing.T) {
	t.Parallel()
	const text = `"<|user|>Hi"` + "\n"
	call := func(stdin string, flags ...string) []int {
		t.Helper()
		r := ingot(t, stdin, append([]string{"tokenize", "--model", tinyLlama}, flags...)...)
		require.Equal(t, exitOK, r.code, r.stderr)
		var ids []int
		require.NoError(t, json.Unmarshal([]byte(r.stdout), &ids), r.stdout)
		return ids
	}
	hi := call(`"Hi"`)
	plain, special := call(text), call(text, "--special")
	require.Greater(t, len(plain), len(special))
	require.Equal(t, hi, special[1:], "one token, then the text")
	require.Equal(t, "[]\n", ingot(t, `""`, "tokenize", "--model", tinyLlama).stdout)
}

// TestTokenizeAddsBOS uses a vocabulary that has a BOS token.
func TestTokenizeAddsBOS(t *testing.T) {
	t.Parallel()
	model := filepath.Join(vectors(t), "tokenizers", "llama-spm.gguf")
	require.Equal(t, "[15043]\n", ingot(t, `"Hello"`, "tokenize", "--model", model).stdout)
	require.Equal(t, "[1,15043]\n", ingot(t, `"Hello"`, "tokenize", "--model", model, "--bos").stdout)
}

// TestTokenizeAnswersUpToABadLine: the ids of the lines before an invalid line are printed.
func TestTokenizeAnswersUpToABadLine(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"", "null", "7", `"a" "b"`, `"a`, `["a"]`, "\"\x01\""} {
		r := ingot(t, "\"a\"\n\"b\"\n"+bad+"\n\"c\"\n", "tokenize", "--model", tinyLlama)
		require.Equal(t, exitFailure, r.code, bad)
		require.Equal(t, 2, strings.Count(r.stdout, "\n"), bad)
		require.Contains(t, r.stderr, "ingot: read stdin: line 3: the line is not a JSON string", bad)
	}
}

func TestTokenizeLargeInput(t *testing.T) {
	t.Parallel()
	const lines = 20_000
	long := `"` + strings.Repeat("word ", 50_000) + `"` + "\n"
	r := ingot(t, strings.Repeat("\"one line\"\n", lines)+long, "tokenize", "--model", tinyLlama)
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Equal(t, lines+1, strings.Count(r.stdout, "\n"))
}

type templateCases struct {
	inputs map[string]json.RawMessage
	want   map[string]map[string]struct {
		Out *string
		Err *string
	}
}

func readTemplateCases(t *testing.T, dir string) templateCases {
	t.Helper()
	var c templateCases
	for name, into := range map[string]any{"cases.json": &c.inputs, "expected.json": &c.want} {
		raw, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(raw, into))
	}
	return c
}

// TestRenderVectors compares prompts of published models' templates with those of Python's jinja2.
// Both must refuse the same cases.
func TestRenderVectors(t *testing.T) {
	t.Parallel()
	renderAll(t, filepath.Join(vectors(t), "templates"), 27)
}

// TestRenderTemplates compares prompts of small templates in the same way. These use the constructs
// of published templates, and their expected prompts are in this repository.
func TestRenderTemplates(t *testing.T) {
	t.Parallel()
	renderAll(t, "../../engine/jinja/testdata/templates", 5)
}

// renderAll renders every template in a folder with every case, and compares the results with the
// expected prompts.
func renderAll(t *testing.T, dir string, templates int) {
	t.Helper()
	cases := readTemplateCases(t, dir)
	require.Len(t, cases.want, templates)
	for template, byCase := range cases.want {
		for name, want := range byCase {
			t.Run(template+"/"+name, func(t *testing.T) {
				t.Parallel()
				r := ingot(t, string(cases.inputs[name]), "render", "--template", filepath.Join(dir, template), "--now", "2026-01-02")
				if want.Out == nil {
					require.Equal(t, exitFailure, r.code)
					return
				}
				require.Equal(t, exitOK, r.code, r.stderr)
				require.Equal(t, *want.Out, r.stdout)
			})
		}
	}
}

func TestRenderNow(t *testing.T) {
	t.Parallel()
	template := write(t, "now.jinja", "{{ strftime_now('%Y-%m-%d %H:%M') }}")
	for now, want := range map[string]string{
		"2026-01-02":                "2026-01-02 00:00",
		"2026-01-02T15:04:05Z":      "2026-01-02 15:04",
		"2026-01-02T15:04:05+02:00": "2026-01-02 15:04",
	} {
		require.Equal(t, result{exitOK, want, ""}, ingot(t, "{}", "render", "--template", template, "--now", now))
	}
}

// TestRenderRefusal: an exception that a template raises is the error.
func TestRenderRefusal(t *testing.T) {
	t.Parallel()
	template := write(t, "strict.jinja", "{{ raise_exception('roles must alternate') }}")
	r := ingot(t, "{}", "render", "--template", template)
	require.Equal(t, exitFailure, r.code)
	require.Regexp(t, "^ingot: render template: "+regexp.QuoteMeta(template)+`:1:\d+: roles must alternate\n$`, r.stderr)
}
