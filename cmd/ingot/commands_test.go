package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/internal/bounded"
	"github.com/ingot-run/ingot/queue/redistest"
)

// notRun says which commands of README.md and docs are not run, and why. Those of ingot are parsed
// with all of their flags instead.
var notRun = []struct{ pattern, why string }{
	{`^(\w+=\w+ )*(git|make|go|docker|brew|lm_eval|for|done)\b`, "no command of ingot"},
	{`^(curl|redis-server|export)\b`, "needs another program or port"},
	{`ingot pull |smollm2-1\.7b`, "needs a download"},
	{`ingot (bench|eval run gsm8k)\b|--backend metal`, "takes minutes, or needs a GPU or a server"},
	{`ingot (serve|worker|eval schedule)\b`, "does not end by itself"},
	{`ingot eval run arc_easy`, "needs the data of the benchmark"},
	{`ingot eval gate|ingot eval diff|ingot eval baseline|ingot eval report`, "needs the runs that commands above would make"},
	{`ingot (errors|retry) \$BATCH`, "needs a batch of a command above"},
	{`--base-url http://gpu`, "needs a server"},
	{`candidate\.gguf`, "is a second run of the same kind"},
}

// inputs are the files that commands of README.md and docs read.
var inputs = map[string]string{
	"prompts.jsonl":   `{"messages":[{"role":"user","content":"Name the capital of Finland."}],"max_tokens":4}` + "\n",
	"batch.jsonl":     `{"custom_id":"a","method":"POST","url":"/v1/chat/completions","body":{"model":"gpt-4o-mini","max_tokens":2,"messages":[{"role":"user","content":"Hi"}]}}` + "\n",
	"questions.jsonl": `{"prompt":"Hi","max_tokens":2}` + "\n",
	"one.jsonl":       `{"prompt":"Hi","max_tokens":1}` + "\n",
	"in.jsonl":        `{"prompt":"Hi","max_tokens":1}` + "\n",
	"questions.txt":   "Which month comes after March?\n",
	"countries.csv":   "country\nFinland\n",
	"reviews.csv":     "id,lang,text,review,stars\n1,de,Sehr gut,Sehr gut,5\n2,en,Bad,Bad,1\n",
	"topics.csv":      "topic,level\nprimes,child\n",
	"german.csv":      "Bewertung;Sterne\nsch\xf6n;5\n",
	"judge.txt":       "--- system\nGrade.\n--- user\n{{.response}} {{.answer_response}}\n",
	"prompt.txt":      "{{.text}}",
	"data/a.jsonl":    `{"text":"a","lang":"de"}` + "\n",
}

// TestCommandsOfDocs runs the commands of README.md and of every page in docs as they stand there,
// in the order of the page, with a bundled model under all names of models. A command that cannot
// be run in a test is parsed: its flags must exist.
func TestCommandsOfDocs(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("../../docs/*.md")
	require.NoError(t, err)
	used := make([]bool, len(notRun))
	base := t.TempDir()
	prepareDocs(t, base)
	for _, page := range append(pages, "../../README.md") {
		script, commands := docScript(readFile(t, page), used)
		if commands == 0 {
			continue
		}
		t.Run(filepath.Base(page), func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "page")
			require.NoError(t, bounded.Command(t, "cp", "-R", base, dir).Run())
			server := ""
			if strings.Contains(script, "ingot enqueue") {
				server = redistest.Start(t).URL
			}
			sh := bounded.Command(t, "sh", "-e")
			sh.Dir, sh.Stdin = dir, strings.NewReader(script)
			sh.Env = append(os.Environ(), "PATH="+filepath.Join(dir, "bin")+":"+os.Getenv("PATH"), "INGOT_REDIS="+server, "INGOT_CONTEXT=512")
			out, err := sh.CombinedOutput()
			require.NoError(t, err, "%s", out)
		})
	}
	for i, yes := range used {
		require.True(t, yes, "no command matches %s any more", notRun[i].pattern)
	}
}

// prepareDocs makes the files that the commands of docs read.
func prepareDocs(t *testing.T, dir string) {
	t.Helper()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "data"), 0o700))
	prepare(t, dir, "model.gguf", inputs)
	model, err := filepath.Abs(tinyLlama)
	require.NoError(t, err)
	models, err := filepath.Abs("../../models")
	require.NoError(t, err)
	for _, name := range []string{"small.gguf", "large.gguf", "SmolLM2-135M-Instruct.Q4_1.gguf"} {
		require.NoError(t, os.Symlink(model, filepath.Join(dir, name)))
	}
	require.NoError(t, os.Symlink(models, filepath.Join(dir, "models")))
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, args := range [][]string{
		{at("prompts.jsonl"), "-o", at("answers.jsonl")},
		{at("data/a.jsonl"), "-o", at("more.parquet"), "--prompt", "{{.text}}", "--max-tokens", "1", "--columns", "text,lang"},
	} {
		r := ingot(t, "", append([]string{"run", "--model", tinyLlama, "--context", "512"}, args...)...)
		require.Equal(t, exitOK, r.code, r.stderr)
	}
	require.NoError(t, os.Link(at("more.parquet"), at("data/a.parquet")))
}

// docScript returns a shell script of the commands in a page, and their number. A worker answers
// the batches that the page queues.
func docScript(text string, used []bool) (script string, commands int) {
	var b strings.Builder
	for _, block := range strings.Split(text, "\n```sh\n")[1:] {
		block, _, _ = strings.Cut(block, "\n```")
		block = strings.ReplaceAll(block, "\\\n", " ")
		for line := range strings.Lines(block) {
			line = strings.TrimSpace(line)
			if line == "" || strings.HasPrefix(line, "#") {
				continue
			}
			command := line
			for i, n := range notRun {
				if regexp.MustCompile(n.pattern).MatchString(line) {
					used[i] = true
					command = parsed(line)
				}
			}
			if command == "" {
				continue
			}
			commands++
			if strings.Contains(command, "ingot results") && !strings.HasSuffix(command, "--help") {
				command = answeredFirst(command)
			}
			fmt.Fprintf(&b, "echo '%s'\n%s\n", strings.ReplaceAll(line, "'", `'\''`), command)
		}
	}
	return b.String(), commands
}

// parsed returns a command that checks the flags of a command of ingot; empty for other commands.
func parsed(line string) string {
	line, _, _ = strings.Cut(line, " #")
	line = strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(line), "&"))
	line, _, _ = strings.Cut(line, " > ")
	line, _, _ = strings.Cut(line, " 2> ")
	if !regexp.MustCompile(`^(MTL_\S+ )*(bin/)?ingot `).MatchString(line) {
		return ""
	}
	return line + " --help > help.txt"
}

// answeredFirst returns a command of ingot results that a worker has answered rows for.
func answeredFirst(command string) string {
	batch := regexp.MustCompile(`ingot results (\S+)`).FindStringSubmatch(command)[1]
	enqueue := ""
	if !strings.HasPrefix(batch, "$") {
		enqueue = "ingot enqueue prompts.jsonl --batch " + batch + "\n"
	}
	return enqueue + "ingot worker --model model.gguf 2> worker.txt &\n" + command + "\nkill $!\nwait $! || true"
}
