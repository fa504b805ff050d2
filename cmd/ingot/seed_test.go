package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/queue/redistest"
)

// seeded is the part of an answer that depends on its seed.
type seeded struct {
	Seed    int64 `json:"seed"`
	Choices []struct {
		Message struct {
			Content string `json:"content"`
		} `json:"message"`
	} `json:"choices"`
}

func readSeeded(t *testing.T, text string) map[string]seeded {
	t.Helper()
	all := map[string]seeded{}
	for line := range strings.Lines(text) {
		var l struct {
			CustomID string `json:"custom_id"`
			Response struct {
				Body seeded `json:"body"`
			} `json:"response"`
		}
		require.NoError(t, json.Unmarshal([]byte(line), &l), line)
		all[l.CustomID] = l.Response.Body
	}
	return all
}

// The seed of a run gives each row its own random numbers, which depend only on the seed and the
// row's number. The seed of a row is used as it is.
func TestEachRowHasItsOwnSeed(t *testing.T) {
	t.Parallel()
	const rows = 8
	one := `{"messages":[{"role":"user","content":"Tell me a story."}]}` + "\n"
	in := write(t, "in.jsonl", strings.Repeat(one, rows)+strings.Replace(one, "}\n", `,"seed":7}`+"\n", 1))
	flags := []string{"--seed", "7", "--temperature", "2", "--max-tokens", "12"}
	run := func(more ...string) map[string]seeded {
		r := ingot(t, "", append(append([]string{"run", in, "-o", "-", "--model", tinyLlama}, flags...), more...)...)
		require.Equal(t, exitOK, r.code, r.stderr)
		return readSeeded(t, r.stdout)
	}
	got := run()
	require.Len(t, got, rows+1)
	seeds, texts := map[int64]bool{}, map[string]bool{}
	for _, a := range got {
		seeds[a.Seed], texts[a.Choices[0].Message.Content] = true, true
	}
	require.Len(t, seeds, rows+1)
	require.Greater(t, len(texts), rows/2)
	require.Equal(t, int64(7), got[fmt.Sprintf("line-%d", rows+1)].Seed)

	require.Equal(t, got, run())
	for id, a := range run("--sample", "3", "--sample-seed", "2") {
		require.Equal(t, got[id], a, "a selection does not change the row")
	}

	url := redistest.Start(t).URL
	r := ingot(t, "", append([]string{"enqueue", in, "--redis", url, "--batch", "b", "--alias", "tiny"}, flags...)...)
	require.Equal(t, exitOK, r.code, r.stderr)
	w := startWorker(t, url, "tiny")
	r = ingot(t, "", "results", "b", "--redis", url, "-o", "-", "--follow")
	require.Equal(t, exitOK, r.code, r.stderr)
	w.stop(t)
	require.Equal(t, got, readSeeded(t, r.stdout), "a worker draws the same tokens")
}

// --seed does not change which rows --sample draws.
func TestTheSampleHasItsOwnSeed(t *testing.T) {
	t.Parallel()
	in := write(t, "in.txt", strings.Repeat("Hi\n", 200))
	sample := func(flags ...string) string {
		r := ingot(t, "", append([]string{"run", in, "-o", "-", "--model", tinyLlama, "--sample", "5", "--max-tokens", "1"}, flags...)...)
		require.Equal(t, exitOK, r.code, r.stderr)
		var ids []string
		for line := range strings.Lines(r.stdout) {
			_, rest, _ := strings.Cut(line, `"custom_id":"`)
			id, _, _ := strings.Cut(rest, `"`)
			ids = append(ids, id)
		}
		slices.Sort(ids) // answers come in any order
		return strings.Join(ids, " ")
	}
	first := sample()
	require.Equal(t, first, sample("--seed", "5"))
	require.NotEqual(t, first, sample("--sample-seed", "5"))
}

// Answers that an earlier version made with --seed, which gave each row the same seed, are not
// continued.
func TestAnswersWithOneSeedAreNotContinued(t *testing.T) {
	t.Parallel()
	in := write(t, "in.txt", "Hi\n")
	old := write(t, "old.jsonl", `{"body":{"messages":[{"role":"user","content":"Hi"}],"max_tokens":2,"seed":5}}`+"\n")
	out := filepath.Join(t.TempDir(), "out.jsonl")
	r := ingot(t, "", "run", old, "-o", out, "--model", tinyLlama)
	require.Equal(t, exitOK, r.code, r.stderr)
	before := readFile(t, out)
	r = ingot(t, "", "run", in, "-o", out, "--model", tinyLlama, "--max-tokens", "2", "--seed", "5")
	require.Equal(t, exitFailure, r.code, r.stderr)
	require.Contains(t, r.stderr, "answers that an earlier version made with --seed cannot be continued, because it gave all rows the same seed: start anew with another OUT (-o)")
	require.Equal(t, before, readFile(t, out))
}
