package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/files/table"
	"github.com/ingot-run/ingot/queue/redistest"
)

// reviews is a table with an empty cell.
const reviews = "review,stars\n\"Great, really\",5\n,3\nBroke;soon,1\n"

// withoutTemplate returns the path of a bundled model without its chat template.
func withoutTemplate(t *testing.T) string {
	t.Helper()
	model, err := os.ReadFile(tinyLlama)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "base.gguf")
	require.NoError(t, os.WriteFile(path, bytes.Replace(model, []byte("tokenizer.chat_template"), []byte("tokenizer.chat_templatX"), 1), 0o600))
	return path
}

// TestMistakesAreRefusedBeforeWork: what can be known before the first answer is refused or said
// then, once, with what to do.
func TestMistakesAreRefusedBeforeWork(t *testing.T) {
	t.Parallel()
	in := write(t, "reviews.csv", reviews)
	semicolons := write(t, "semicolons.csv", "review;stars\nGreat;5\n")
	tabs := write(t, "tabs.csv", "review\tstars\nGreat\t5\n")
	folder := t.TempDir()
	for _, c := range []struct {
		args string // % is a space
		code int
		want string
	}{
		{in + " -o x.csv --prompt {{review}}", exitUsage, `--prompt:1: function "review" not defined: if it is a column, write {{.review}}; the functions are default, index, `},
		{in + " -o x.csv --prompt {review}", exitFailure, `the template names no column, since {review} is plain text: write {{.review}}`},
		{in + " -o x.csv --prompt {{.review}} --where review.matches.\"[\"", exitFailure, "the regular expression is wrong: missing closing ]: `[`"},
		{in + " -o x.csv --prompt {{.review}} --model nothere.gguf", exitFailure, `open nothere.gguf: no such file or directory; "ingot models list" shows the models on this machine, "ingot models" those to download`},
		{in + " -o x.csv --prompt {{.review}} --model " + filepath.Dir(tinyLlama) + "/none.gguf", exitFailure, `; its folder has "` + tinyGLM + `" or "` + tinyLlama + `"; "ingot models list"`},
		{in + " -o x.csv --prompt {{.review}} --model " + filepath.Dir(tinyLlama), exitFailure, `models is a folder: give the file of a model, such as "` + tinyGLM + `" or "`},
		{in + " -o x.csv --prompt {{.review}} --model help", exitFailure, `help is a folder: give the file of a model` + "\n"},
		{in + " -o x.csv --prompt {{.review-text}}", exitUsage, `write {{index . "NAME"}} for a column whose name has other characters`},
		{in + " -o x.csv --prompt {{.review}} --keep-finish stop,stopp", exitUsage, `--keep-finish: "stopp" is not known: use stop, length or tool_calls; did you mean "stop"?`},
		{in + " -o x.csv --prompt {{.review}} --unique answer", exitUsage, `--unique: the table has no column "answer": its columns are "review", "stars", "sample_index", "response"`},
		{in + " -o x.csv --prompt {{.review}} --columns stars,answer", exitUsage, `--columns: the table has no column "answer"`},
		{in + " -o x.csv --prompt {{.reviews}}", exitFailure, `there is no column "reviews": the columns are "review", "stars"; did you mean "review"?`},
		{in + " -o x.csv --prompt {{.review}} --where star>3", exitFailure, `unknown name star (1:1)`},
		{in + " -o x.csv --prompt {{.review}} --where star>3", exitFailure, `; the columns are "review", "stars"; did you mean "stars"?`},
		{in + " -o x.csv --prompt {{.review}} --where review=\"\"", exitFailure, `unexpected token Operator("=") (1:7); == compares; the columns are "review", "stars"`},
		{in + " -o " + filepath.Join(folder, "none", "x.csv") + " --prompt {{.review}}", exitFailure, "the folder " + filepath.Join(folder, "none") + " for the output does not exist: make it, or give another path"},
		{in + " -o x.xlsx --prompt {{.review}}", exitUsage, "-o x.xlsx: a spreadsheet (.xlsx) cannot be written: give a name that ends in .csv"},
		{in + " -o x.csv --prompt {{.review}} --types numbers", exitUsage, `--types: "numbers" is not known: use auto or text`},
		{in + " -o x.csv --prompt {{.review}} --fail-fast -1", exitUsage, "--fail-fast: -1 is negative"},
		{in + " -o x.csv --promt {{.review}}", exitUsage, "unknown flag: --promt; did you mean --prompt?"},
		{in + " -o x.csv --prompt {{.review}} --model " + strings.TrimSuffix(tinyLlama, "f"), exitFailure, `no such file or directory; did you mean "` + tinyLlama + `"?`},
		{in + " -o x.csv --prompt {{.review}} --model qwen3-4bb", exitFailure, `did you mean "qwen3-4b"?`},
		{semicolons + " -o x.csv --prompt {{.review}}", exitFailure, `the columns are "review;stars"; if the columns are separated by semicolons, give --delimiter ';'`},
		{semicolons + " -o x.csv", exitFailure, `; if the columns are separated by semicolons, give --delimiter ';'`},
		{tabs + " -o x.csv --where stars>3", exitFailure, "give --delimiter tab"},
		{in + " -o x.csv --prompt {{.review}} --delimiter ::", exitUsage, `--delimiter: "::" is not one character of ASCII`},
		{write(t, "a.txt", "Hi\n") + " -o x.csv --delimiter ;", exitFailure, "--delimiter is for CSV, but this file is read as text: give --format csv as well"},
		{write(t, "image.txt", "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR") + " -o x.jsonl", exitFailure, "the file is an image (PNG): give a file of prompts"},
		{tinyLlama + " -o x.jsonl", exitFailure, "the file is a model: give it with --model"},
		{write(t, "bytes.txt", "a\x00\xff\xfe\x00\x00b\n") + " -o x.jsonl", exitFailure, "the file is binary, since it has bytes that are zero"},
		{write(t, "wide.csv", "t\x00e\x00x\x00t\x00\n\x00") + " -o x.jsonl", exitFailure, "for UTF-16, give --encoding utf-16le"},
		{write(t, "head.csv", "review,stars\n") + " -o " + folder + "/head.csv --prompt {{.review}}", exitOK, "head.csv has no rows\n0 rows done, "},
		{write(t, "empty.jsonl", "") + " -o " + folder + "/empty.jsonl", exitOK, "empty.jsonl has no rows\n0 rows done, "},
		{in + " -o " + folder + "/none.csv --prompt {{.review}} --where stars==\"9\"", exitOK, `reviews.csv satisfies --where 'stars=="9"': check the spelling of values`},
		{in + " -o " + folder + "/skipped.csv --prompt {{.review}} --skip 3", exitOK, `reviews.csv has no more than 3 rows, which --skip leaves out`},
	} {
		args := strings.Fields("run " + c.args)
		for i := range args {
			args[i] = strings.ReplaceAll(args[i], ".matches.", " matches ")
		}
		if !strings.Contains(c.args, "--model") {
			args = append(args, "--model", tinyLlama)
		}
		r := ingot(t, "", args...)
		require.Equal(t, c.code, r.code, r.stderr)
		require.Equal(t, 1, strings.Count(r.stderr, c.want), "%s: %s", c.args, r.stderr)
		require.NotContains(t, r.stderr, "the model was loaded", c.args)
	}
	require.NoFileExists(t, "x.csv.answers.jsonl")
}

// TestFailedStartsLeaveNoFile: a run that ends before the first answer leaves no empty files, but
// an output of no rows exists, and the answers of earlier runs stay.
func TestFailedStartsLeaveNoFile(t *testing.T) {
	t.Parallel()
	in, folder := write(t, "reviews.csv", reviews), t.TempDir()
	noModel := write(t, "text.gguf", "no model")
	run := func(out string, flags ...string) int {
		return ingot(t, "", append([]string{"run", in, "-o", filepath.Join(folder, out), "--prompt", "{{.review}}", "--max-tokens", "1"}, flags...)...).code
	}
	files := func() (names []string) {
		entries, err := os.ReadDir(folder)
		require.NoError(t, err)
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return names
	}
	for _, out := range []string{"a.csv", "a.jsonl", "a.jsonl.gz"} {
		require.Equal(t, exitFailure, run(out, "--model", noModel))
		require.Equal(t, exitFailure, run(out, "--model", tinyLlama, "--memory", "1MiB"))
	}
	require.Empty(t, files())
	require.Equal(t, exitOK, run("none.jsonl", "--model", tinyLlama, "--skip", "3"))
	require.Equal(t, exitOK, run("b.csv", "--model", tinyLlama, "--limit", "1"))
	require.Equal(t, exitFailure, run("b.csv", "--model", noModel))
	require.Equal(t, []string{"b.csv", "b.csv.answers.jsonl", "none.jsonl"}, files())
}

// TestModelsWithoutChatTemplate: such a model cannot answer chats. If all rows are chats, nothing
// is answered; otherwise one line warns of those that are.
func TestModelsWithoutChatTemplate(t *testing.T) {
	t.Parallel()
	model, folder := withoutTemplate(t), t.TempDir()
	in, lines := write(t, "in.csv", reviews), write(t, "in.txt", "one\ntwo\n")
	const advice = "give --shape completion, so that the model continues each prompt as text"
	for _, args := range [][]string{{in, "--prompt", "{{.review}}"}, {lines}, {write(t, "in.jsonl", askMarch)}} {
		r := ingot(t, "", append([]string{"run", "-o", filepath.Join(folder, "x.jsonl"), "--model", model, "--max-tokens", "1"}, args...)...)
		require.Equal(t, exitFailure, r.code)
		require.Contains(t, r.stderr, "the model has no chat template, so it cannot answer chats: "+advice)
	}
	for _, args := range [][]string{{in, "--prompt", "Review: {{.review}}"}, {lines}} {
		r := ingot(t, "", append([]string{"run", "-o", "-", "--model", model, "--max-tokens", "1", "--shape", "completion"}, args...)...)
		require.Equal(t, exitOK, r.code, r.stderr)
		require.NotContains(t, r.stderr, "failed")
	}
	mixed := askMarch + "\n" + `{"prompt":"Hi","max_tokens":1}` + "\n"
	for _, r := range []result{
		ingot(t, "", "run", write(t, "mixed.jsonl", mixed), "-o", "-", "--model", model),
		ingot(t, mixed, "run", "-", "-o", "-", "--model", model), // a pipe
	} {
		require.Equal(t, exitOK, r.code, r.stderr)
		require.Equal(t, 1, strings.Count(r.stderr, "1 row cannot be answered, since the model has no chat template: "+advice), r.stderr)
	}

	url := redistest.Start(t).URL
	w := startWorker(t, url, "base", "--model", model)
	require.Eventually(t, func() bool { return len(workerStates(t, url)) == 1 && workerStates(t, url)[0] == "live" }, time.Minute, time.Millisecond)
	for alias, n := range map[string]int{"base": 1, "other": 0} {
		r := ingot(t, mixed, "enqueue", "-", "--alias", alias, "--redis", url)
		require.Equal(t, exitOK, r.code, r.stderr)
		require.Equal(t, n, strings.Count(r.stderr, "1 row cannot be answered, since the model has no chat template: "+advice), r.stderr)
	}
	w.stop(t)
}

// TestEmptyCellsAndConstantTemplates: cells without text are counted, and a template without a
// column is said, before rows are answered.
func TestEmptyCellsAndConstantTemplates(t *testing.T) {
	t.Parallel()
	in := write(t, "reviews.csv", reviews)
	for prompt, want := range map[string]string{
		"{{.review}}":                     `reviews.csv: "review" is empty in 1 of 3 rows; their prompts lack this text (--where 'review != ""' leaves such rows out)`,
		"{{.stars}}":                      "",
		"Good?":                           "the template names no column, so all rows have the same prompt: write {{.review}} to insert a column",
		"{{.review|trim|default \"no\"}}": `"review" is empty in 1 of 3 rows`,
	} {
		r := ingot(t, "", "run", in, "-o", "-", "--model", tinyLlama, "--max-tokens", "1", "--prompt", prompt)
		require.Equal(t, exitOK, r.code, r.stderr)
		notes, _, _ := strings.Cut(r.stderr, "3 rows done")
		if want == "" {
			require.Empty(t, notes)
		} else {
			require.Equal(t, 1, strings.Count(notes, want), notes)
		}
	}
}

// TestRunAgain: what a second command does with the results of a first one.
func TestRunAgain(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	out := filepath.Join(folder, "out.jsonl")
	rows := func(lines ...string) string { return write(t, "in.jsonl", strings.Join(lines, "\n")+"\n") }
	run := func(code int, want, in string, flags ...string) string {
		t.Helper()
		r := ingot(t, "", append([]string{"run", in, "-o", out, "--model", tinyLlama}, flags...)...)
		require.Equal(t, code, r.code, r.stderr)
		require.Contains(t, r.stderr, want)
		return r.stderr
	}
	const bad, worse = `{"messages":"Hi"}`, `{"messages":"Ho"}`
	finland := strings.Replace(askFinland, "{", `{"max_tokens":1,`, 1)

	// An output without an answer blocks nothing.
	run(exitRows, "2 rows done (2 failed)", rows(bad, bad))
	run(exitOK, "2 rows done (1 failed), ", rows(askMarch, bad))
	// A failed row that was corrected is answered, others stay.
	run(exitOK, "1 row done (1 failed), 1 kept, ", rows(askMarch, worse))
	run(exitOK, "0 rows done, 2 kept (1 failed), ", rows(askMarch, worse))
	run(exitOK, "1 row done (1 failed), 1 kept, ", rows(askMarch, worse), "--retry-failed")
	run(exitOK, "1 row done, 1 kept, ", rows(askMarch, finland))
	// Answered rows that have changed are refused in one line, unless they may be overwritten.
	stderr := run(exitFailure, "1 of 2 answers in "+out+" are of other rows than those of this command: line 1 of the input is the first that has changed: "+
		"choose another OUT (-o), or give --overwrite", rows(askFinland, finland))
	require.Equal(t, 1, strings.Count(stderr, "\n"), stderr)
	stderr = run(exitFailure, "2 of 2 answers in "+out+" are of other rows than those of this command: the input is the same, but a template such as --prompt, or a default",
		rows(askMarch, finland), "--top-p", "0.5")
	require.Equal(t, 1, strings.Count(stderr, "\n"), stderr)
	require.NotContains(t, stderr, "was loaded")
	run(exitOK, "1 row done, 1 kept, ", rows(askFinland, finland), "--overwrite")
	require.Equal(t, "Helsinki.", readAnswers(t, readFile(t, out))["line-1"].Response.Body.Choices[0].Message.Content)
}

// TestATableIsNotShrunk: a finished table keeps its rows if a later command selects fewer, unless
// it may be overwritten. Its answers are kept in any case.
func TestATableIsNotShrunk(t *testing.T) {
	t.Parallel()
	in, out := write(t, "in.csv", reviews), filepath.Join(t.TempDir(), "out.csv")
	args := []string{"run", in, "-o", out, "--model", tinyLlama, "--prompt", "Stars: {{.stars}}", "--max-tokens", "1"}
	require.Equal(t, exitOK, ingot(t, "", append(args, "--limit", "1")...).code)
	require.Equal(t, exitOK, ingot(t, "", args...).code, "a table may grow")
	r := ingot(t, "", append(args, "--limit", "1")...)
	require.Equal(t, exitFailure, r.code)
	require.Contains(t, r.stderr, out+" has 2 answered rows that this command leaves out (--where, --skip, --sample or --limit): choose another OUT (-o), or give --overwrite")
	require.Len(t, readCSV(t, out), 3)
	require.Equal(t, exitOK, ingot(t, "", append(args, "--limit", "1", "--overwrite")...).code)
	require.Len(t, readCSV(t, out), 1)
	r = ingot(t, "", args...)
	require.Contains(t, r.stderr, "0 rows done, 3 kept")
	require.Len(t, readCSV(t, out), 3)
}

// TestFailFast: a run stops if the first rows of the file all fail in the same way, and not because
// bad rows end sooner than good ones.
func TestFailFast(t *testing.T) {
	t.Parallel()
	bad := strings.Repeat(`{"messages":"Hi"}`+"\n", 30)
	out := filepath.Join(t.TempDir(), "out.jsonl")
	r := ingot(t, "", "run", write(t, "in.jsonl", bad+bad), "-o", out, "--model", tinyLlama, "--concurrency", "1")
	require.Equal(t, exitFailure, r.code)
	require.Contains(t, r.stderr, "ingot: stopped, since the first 20 rows all failed with the code invalid_type (such as line ")
	require.Contains(t, r.stderr, ": correct the cause and run the command again, or give --fail-fast 0")
	require.GreaterOrEqual(t, strings.Count(readFile(t, out), "\n"), 20, "nothing that ended is lost")
	for name, in := range map[string]string{
		"a good row comes first": askMarch + "\n" + bad, "two codes": strings.Replace(bad, `{"messages":"Hi"}`, `{"messages":`, 1), "few rows": strings.Repeat(`{"messages":"Hi"}`+"\n", 19),
	} {
		r := ingot(t, "", "run", write(t, "in.jsonl", in), "-o", "-", "--model", tinyLlama)
		require.NotEqual(t, exitFailure, r.code, name+r.stderr)
	}
	r = ingot(t, "", "run", write(t, "in.jsonl", bad), "-o", "-", "--model", tinyLlama, "--fail-fast", "0")
	require.Equal(t, exitRows, r.code, r.stderr)
	require.Contains(t, r.stderr, "30 rows done (30 failed)")
}

// TestTablesAsPeopleExpect: other delimiters, JSON, chosen columns, and numbers of CSV in Parquet.
func TestTablesAsPeopleExpect(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	in := write(t, "in.csv", "id;name;score;zip\n1;Ada;0.5;00123\n2;Bob;;90210\n")
	answer := func(name string, flags ...string) string {
		t.Helper()
		out := filepath.Join(folder, name)
		r := ingot(t, "", append([]string{"run", in, "--delimiter", ";", "-o", out, "--model", tinyLlama, "--max-tokens", "1", "--prompt", "{{.name | upper | replace \"A\" \"4\" | truncate 2}}"}, flags...)...)
		require.Equal(t, exitOK, r.code, r.stderr)
		return out
	}
	r := ingot(t, "", "run", in, "--delimiter", "semicolon", "--dry-run", "2", "--prompt", "{{.name | upper | replace \"A\" \"4\" | truncate 2}} {{.score | default \"none\"}} {{lower .name}}")
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Contains(t, r.stdout, `"content":"4D 0.5 ada"`)
	require.Contains(t, r.stdout, `"content":"BO none bob"`)

	csv := readCSV(t, answer("out.csv", "--columns", "response,id,reasoning"))
	require.Equal(t, []string{"1", "2"}, column(csv, "id"))
	require.NotContains(t, csv[0], "name")
	text := readFile(t, answer("out.json", "--columns", "zip"))
	require.JSONEq(t, `[{"zip":"00123"},{"zip":"90210"}]`, text)

	kinds := func(path string) (kinds []table.Kind) {
		in, err := table.Open([]string{path}, table.Options{})
		require.NoError(t, err)
		columns, err := table.ColumnsOf(in.Records)
		require.NoError(t, err)
		for _, c := range columns[:4] {
			kinds = append(kinds, c.Kind)
		}
		return kinds
	}
	parquet := answer("out.parquet")
	require.NoError(t, program(t, "export", parquet, "-o", filepath.Join(folder, "again.parquet")).Run())
	require.Contains(t, readFile(t, filepath.Join(folder, "again.parquet")), "ingot version "+version+"(build )")
	require.Equal(t, []table.Kind{table.Integer, table.String, table.Number, table.String}, kinds(parquet))
	require.Equal(t, []table.Kind{table.String, table.String, table.String, table.String}, kinds(answer("text.parquet", "--types", "text")))

	r = ingot(t, "", "export", parquet, "--input", in, "--delimiter", ";", "-o", "-", "--output-format", "simple", "--columns", "id,score")
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Equal(t, []string{`{"id":"1","score":"0.5"}`, `{"id":"2","score":""}`}, strings.Fields(r.stdout), "export finds the answers of the table")
}

// TestShowFindsTheAnswersOfATable: show needs neither the name of the answers' file nor the prompt.
func TestShowFindsTheAnswersOfATable(t *testing.T) {
	t.Parallel()
	in, out := write(t, "in.csv", reviews), filepath.Join(t.TempDir(), "out.csv")
	r := ingot(t, "", "run", in, "-o", out, "--model", tinyLlama, "--prompt", "Stars: {{.stars}}", "--max-tokens", "1")
	require.Equal(t, exitOK, r.code, r.stderr)
	lines := strings.SplitAfter(readFile(t, out+".answers.jsonl"), "\n")
	require.NoError(t, os.WriteFile(out+".answers.jsonl", []byte(lines[2]+lines[0]+lines[1]), 0o600))
	inOrder := regexp.MustCompile(`\nline-\d`).FindAllString
	r = ingot(t, "", "show", out)
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Equal(t, []string{"\nline-1", "\nline-2", "\nline-3"}, inOrder(r.stdout, -1))
	require.Equal(t, "These are the answers from which "+out+" was made, also those that its filters dropped. To see the questions too, give the input with --input.\n", r.stderr)
	r = ingot(t, "", "show", out, "--limit", "1")
	require.Equal(t, []string{"\nline-1"}, inOrder(r.stdout, -1))
	for flag, want := range map[string]string{"": "  ? review: Great, really\n    stars: 5\n  > ", "Stars: {{.stars}}": "  ? Stars: 5\n  > "} {
		args := []string{"show", out, "--input", in}
		if flag != "" {
			args = append(args, "--prompt", flag)
		}
		r = ingot(t, "", args...)
		require.Equal(t, exitOK, r.code, r.stderr)
		require.Contains(t, r.stdout, want)
		require.Equal(t, 3, strings.Count(r.stdout, "\nline-"))
		r = ingot(t, "", append(args, "--limit", "2")...)
		require.Equal(t, exitOK, r.code, r.stderr)
		require.Equal(t, 2, strings.Count(r.stdout, "\nline-"))
	}
	other := write(t, "other.csv", strings.Replace(reviews, "Great", "Poor", 1))
	r = ingot(t, "", "show", out, "--input", other)
	require.Equal(t, exitFailure, r.code)
	require.Contains(t, r.stderr, "line 1 of ROWS is not the row that was answered")

	prompts := write(t, "in.jsonl", `{"prompt":"Hi"}`+"\n")
	answers := filepath.Join(t.TempDir(), "out.jsonl")
	require.Equal(t, exitOK, ingot(t, "", "run", prompts, "-o", answers, "--model", tinyLlama, "--max-tokens", "1").code)
	r = ingot(t, "", "show", answers, "--input", prompts)
	require.Empty(t, r.stderr)
	require.Equal(t, exitOK, r.code, "a default is not needed again: "+r.stderr)
}
