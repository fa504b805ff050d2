package main

import (
	"encoding/json"
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

// notRun says which commands of README.md and docs cannot be run in a test, and why. Those of ingot
// are parsed with all of their flags instead.
var notRun = []struct{ pattern, why string }{
	{`^(\w+=\w+ )*(git|make|go|docker|brew|pip|export \w+_BASE_URL|lm_eval|inspect|lighteval|for|done)\b`, "no command of ingot"},
	{`install\.sh|ingot pull `, "downloads"},
	{`^redis-server .*ADDRESS`, "needs the reader's address and password"},
	{`ingot bench\b`, "measures for minutes"},
	{`--backend (metal|cuda)\b`, "needs a GPU"},
	{`ingot eval schedule\b`, "waits for set times"},
}

// replaced are the parts of commands that are different on every machine: names of models that need
// a download, addresses and folders.
var replaced = strings.NewReplacer(
	"--model smollm2-1.7b", "--model model.gguf",
	"redis://localhost:6379/0", "$REDIS", "redis://queue:6379/0", "$REDIS", "redis://:PASSWORD@ADDRESS:6379/0", "$REDIS",
	"http://127.0.0.1:8080", "http://127.0.0.1:$port", " localhost:8080", " http://127.0.0.1:$port", "http://gpu:8000", "http://127.0.0.1:$port",
	"--listen :9090", "--listen 127.0.0.1:0", "/var/lib/ingot", "stored",
	`"file-…"`, `"'"$file"'"`, "file-…", "$file", "batch_…", "$batch",
)

// preamble has what scripts of pages need: the server that was started last answers, and everything
// in the background ends before the script does.
const preamble = `
server= background= port= file= batch=
trap 'kill $server $background 2> kill.txt || true; wait' EXIT
stop() {
	[ -z "$server" ] || { kill $server; wait $server || true; }
	server=
}
ready() {
	until [ -n "$port" ] && curl -sf "http://127.0.0.1:$port/readyz" > ready.txt; do
		kill -0 $server
		port=$(sed -n 's/.*127\.0\.0\.1:\([0-9][0-9]*\).*/\1/p' serve.txt | head -n 1)
		sleep 0.1
	done
}
# replied shows a server's answer, which must not be an error, and finds the names in it.
replied() {
	echo "$reply"
	! echo "$reply" | grep -q '"error": *{'
	file=$(echo "$reply" | grep -o 'file-[A-Za-z0-9_-]*' | tail -n 1 || true)
	batch=$(echo "$reply" | grep -o 'batch_[A-Za-z0-9_-]*' | head -n 1 || true)
}
# ended waits until a batch has an output file.
ended() {
	until echo "$reply" | grep -q '"output_file_id": *"file-'; do
		reply=$(curl -s "http://127.0.0.1:$port/v1/batches/$1")
		sleep 0.1
	done
	file=$(echo "$reply" | sed 's/.*"output_file_id": *"\(file-[A-Za-z0-9_-]*\)".*/\1/')
}
`

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

	"arc-easy-test.jsonl": `{"question":"What is wet?","choices":{"text":["water","sand"],"label":["A","B"]},"answerKey":"A"}` + "\n",
	"rows.jsonl":          `{"custom_id":"a","method":"POST","url":"/v1/chat/completions","body":{"model":"tiny","max_tokens":2,"messages":[{"role":"user","content":"Hi"}]}}` + "\n",
	"test.jsonl":          `{"question":"What is 2 + 3?","answer":"2 + 3 = 5\n#### 5"}` + "\n",
	"data/a.jsonl":        `{"text":"a","lang":"de"}` + "\n",
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
		script, left := docScript(readFile(t, page), used)
		for _, command := range left {
			t.Logf("%s: not run: %s", filepath.Base(page), command)
		}
		if script == "" {
			continue
		}
		t.Run(filepath.Base(page), func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "page")
			require.NoError(t, bounded.Command(t, "cp", "-R", base, dir).Run())
			sh := bounded.Command(t, "sh", "-e")
			sh.Dir, sh.Stdin = dir, strings.NewReader(script)
			sh.Env = append(os.Environ(), "PATH="+filepath.Join(dir, "bin")+":"+os.Getenv("PATH"), "INGOT_CONTEXT=512")
			if strings.Contains(script, "$REDIS") || strings.Contains(script, "ingot enqueue") {
				url := redistest.Start(t).URL
				sh.Env = append(sh.Env, "REDIS="+url, "INGOT_REDIS="+url)
			}
			out, err := sh.CombinedOutput()
			require.NoError(t, err, "%s", out)
			if check := outcomes[filepath.Base(page)]; check != nil {
				check(t, dir)
			}
		})
	}
	for i, yes := range used {
		require.True(t, yes, "no command matches %s any more", notRun[i].pattern)
	}
}

// outcomes check what the commands of a page have made in a folder.
var outcomes = map[string]func(t *testing.T, dir string){"synthetic-data.md": pairsBecomeChats}

// pairsBecomeChats: the chats that docs/synthetic-data.md makes have the questions and the answers
// of pairs with a good grade. The grades of the bundled model are replaced.
func pairsBecomeChats(t *testing.T, dir string) {
	t.Helper()
	_, command, found := strings.Cut(readFile(t, "../../docs/synthetic-data.md"), "```sh\njq ")
	require.True(t, found)
	command, _, _ = strings.Cut(command, "\n```")
	path := filepath.Join(dir, "judged.json")
	var pairs []map[string]any
	require.NoError(t, json.Unmarshal([]byte(readFile(t, path)), &pairs))
	require.NotEmpty(t, pairs)
	for grade, good := range map[string]bool{"1": false, "3": false, "4": true, "5": true} {
		want := ""
		for _, pair := range pairs {
			require.NotEmpty(t, pair["answer_response"])
			require.Regexp(t, "^[1-5]$", pair["judge_response"], "every pair has a grade")
			pair["judge_response"] = grade
			if good {
				want += fmt.Sprintf(`{"messages":[{"role":"user","content":%q},{"role":"assistant","content":%q}]}`, pair["response"], pair["answer_response"]) + "\n"
			}
		}
		text, err := json.Marshal(pairs)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path, text, 0o600))
		shell(t, dir, "jq "+command)
		require.Equal(t, want, readFile(t, filepath.Join(dir, "chats.jsonl")))
	}
}

// TestDocsStateTheTask: a command of the documentation that chooses between texts tells the model
// the task, and takes the most probable text.
func TestDocsStateTheTask(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("../../docs/*.md")
	require.NoError(t, err)
	examples, err := filepath.Glob("help/*.txt")
	require.NoError(t, err)
	choosing := 0
	for _, page := range append(append(pages, examples...), "../../README.md") {
		for line := range strings.Lines(strings.ReplaceAll(readFile(t, page), "\\\n", " ")) {
			if !strings.Contains(line, "ingot ") || !regexp.MustCompile(`--choices [a-z0-9]+,`).MatchString(line) {
				continue
			}
			choosing++
			require.Contains(t, line, "--temperature 0", page)
			require.Regexp(t, `--system '|--template `, line, page)
		}
	}
	require.Greater(t, choosing, 4)
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
	for _, name := range []string{"small.gguf", "large.gguf", "SmolLM2-135M-Instruct.Q4_1.gguf", "glm-4.7-flash.gguf"} {
		require.NoError(t, os.Symlink(model, filepath.Join(dir, name)))
	}
	other, err := filepath.Abs(tinyGLM)
	require.NoError(t, err)
	require.NoError(t, os.Symlink(other, filepath.Join(dir, "candidate.gguf")))
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

// docScript returns a shell script of the commands in a page, and those that are left out. The
// script is empty if there is nothing to run.
func docScript(text string, used []bool) (script string, left []string) {
	var b strings.Builder
	for _, block := range strings.Split(text, "\n```sh\n")[1:] {
		block, _, _ = strings.Cut(block, "\n```")
		block = strings.ReplaceAll(block, "\\\n", " ")
		for line := range strings.Lines(block) {
			line = strings.TrimSpace(line)
			if line == "" || strings.HasPrefix(line, "#") {
				continue
			}
			command, why := runnable(line), ""
			for i, n := range notRun {
				if regexp.MustCompile(n.pattern).MatchString(line) {
					used[i] = true
					command, why = parsed(line), n.why
				}
			}
			if why != "" {
				left = append(left, line+" ("+why+")")
			}
			if command != "" {
				fmt.Fprintf(&b, "echo '%s'\n%s\n", strings.ReplaceAll(line, "'", `'\''`), command)
			}
		}
	}
	if b.Len() == 0 {
		return "", left
	}
	return preamble + b.String() + "for p in $server $background; do kill -0 $p; done\n", left
}

// runnable returns what a script runs for a command. Workers and servers run in the background, and
// what a command needs comes before it.
func runnable(line string) string {
	command, line := replaced.Replace(line), bare(line)
	switch {
	case strings.Contains(line, "ingot results"):
		return answeredFirst(command)
	case strings.Contains(line, "ingot worker"):
		return bare(command) + " 2> worker.txt &\nbackground=\"$background $!\""
	case strings.Contains(line, "ingot serve --redis"): // the server is ready when there is a worker
		return "stop\ningot worker --redis $REDIS --model model.gguf --alias model 2> worker.txt &\nbackground=\"$background $!\"\n" + served(command)
	case strings.Contains(line, "ingot serve"):
		return "stop\n" + served(command)
	case strings.Contains(line, "/content >"):
		return "ended $batch\n" + command
	case strings.HasPrefix(line, "curl "):
		return "reply=$(" + command + ")\nreplied"
	case strings.Contains(line, "--base-url"):
		return "rm -rf runs/tonight\n" + served("ingot serve --model model.gguf") + "\n" + command
	case strings.Contains(line, "eval baseline set"):
		return "cp -R runs/tonight runs/2026-01-02\n" + command
	}
	return command
}

func served(command string) string {
	return "port=\nINGOT_LISTEN=127.0.0.1:0 " + bare(command) + " 2> serve.txt &\nserver=$!\nready"
}

// bare returns a command without a comment and without the sign that it runs in the background.
func bare(line string) string {
	line, _, _ = strings.Cut(line, " #")
	return strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(line), "&"))
}

// parsed returns a command that checks the flags of a command of ingot; empty for other commands.
func parsed(line string) string {
	line, _, _ = strings.Cut(bare(line), " > ")
	line, _, _ = strings.Cut(line, " 2> ")
	if !regexp.MustCompile(`^(\w+=\S+ )*(bin/)?ingot `).MatchString(line) {
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
