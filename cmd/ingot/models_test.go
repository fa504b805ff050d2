package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/hub"
	"github.com/ingot-run/ingot/hub/hubtest"
)

// TestModels: the catalog shows which models are on disk, list shows pulled models, and rm deletes
// a model.
func TestModels(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	model := m.addTinyLlama(t)
	short := hub.Catalog[0]
	n, err := hub.ParseName(short.Name)
	require.NoError(t, err)
	m.Add(n.ID(), &hubtest.Repo{Files: map[string][]byte{"small-" + n.Select + ".gguf": model}})

	require.Contains(t, m.ingot(t, "", "models", "list").stdout, "There are no models yet.")
	for _, name := range []string{short.Name, "maker/tiny-GGUF:Q4_0"} {
		r := m.ingot(t, "", "pull", name)
		require.Equal(t, exitOK, r.code, r.stderr)
	}
	r := m.ingot(t, "", "models")
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Regexp(t, `(?m)^NAME +DOWNLOAD +MEMORY +LICENCE +HERE +GOOD FOR$`, r.stdout)
	require.Regexp(t, `(?m)^`+short.Name+` +1\.1 GB +\S+ GB +Apache-2\.0 +on disk`, r.stdout)
	for _, e := range hub.Catalog[1:] {
		require.Regexp(t, `(?m)^`+e.Name+` +\S+ GB +\S+ GB +\S+ +(fits|too large) +`, r.stdout)
	}
	r = m.ingot(t, "", "models", "list")
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Regexp(t, `(?m)^maker/tiny-GGUF:Q4_0 +\S+ MB +cache$`, r.stdout)

	// Every command accepts a short name for --model.
	require.NotEmpty(t, m.ingot(t, `"Hi"`, "tokenize", "--model", short.Name).stdout)

	r = m.ingot(t, "", "models", "rm", "maker/tiny-GGUF:Q4_0")
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Contains(t, r.stderr, "maker/tiny-GGUF:Q4_0 is deleted: ")
	var list []hub.Model
	require.NoError(t, json.Unmarshal([]byte(m.ingot(t, "", "models", "list", "--json").stdout), &list))
	require.Len(t, list, 1)
	require.Equal(t, n.ID()+":"+n.Select, list[0].Name)
	require.FileExists(t, list[0].Path)
	r = m.ingot(t, "", "models", "rm", "maker/tiny-GGUF:Q4_0")
	require.Equal(t, exitFailure, r.code)
	require.Contains(t, r.stderr, "the model is not on this machine")
}

// TestRunWithoutAModel checks that the error names models that fit into this machine's memory, and
// how to get them.
func TestRunWithoutAModel(t *testing.T) {
	t.Parallel()
	r := ingot(t, "", "run", "a", "-o", "b")
	require.Equal(t, exitUsage, r.code)
	require.Empty(t, r.stdout)
	require.Regexp(t, `(?m)^Models for this machine's memory and cores; download one, then give its name with --model:\n(  ingot pull \S+ +\S+ GB +.*\n){1,3}"ingot models" lists more`, r.stderr)
	require.Contains(t, r.stderr, "ingot: model is missing: give --model, set INGOT_MODEL, or write it in the config file")
}

// TestServedName: the alias of a pulled model is its short name, or else its file's name.
func TestServedName(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "m-Q8_0-00001-of-00002.gguf")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for lines, want := range map[string]map[string]string{
		file:                {"m-Q8_0": file},
		"a=" + file:         {"a": file},
		"qwen3-4b":          {"qwen3-4b": "qwen3-4b"},
		"a=user/repo:Q4_0":  {"a": "user/repo:Q4_0"},
		"m=models/m.gguf\n": {"m": "models/m.gguf"},
	} {
		all, err := aliasedModels(lines)
		require.NoError(t, err)
		got := map[string]string{}
		for _, m := range all {
			got[m.Alias] = m.Model
		}
		require.Equal(t, want, got)
	}
	_, err := aliasedModels("user/repo:Q4_0")
	require.ErrorIs(t, err, hub.ErrNotHere)
}
