package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/internal/bounded"
	"github.com/ingot-run/ingot/queue/redistest"
)

const questions = "id,text\n" +
	"a,Name the capital of Finland.\n" +
	"b,Which month comes after March?\n" +
	"c,\"Name the\ncapital of Japan.\"\n"

// readCSV returns the lines of a CSV file as maps by column.
func readCSV(t *testing.T, path string) []map[string]string {
	t.Helper()
	lines, err := csv.NewReader(strings.NewReader(readFile(t, path))).ReadAll()
	require.NoError(t, err)
	rows := make([]map[string]string, len(lines)-1)
	for i := range rows {
		rows[i] = map[string]string{}
		for j, cell := range lines[i+1] {
			rows[i][lines[0][j]] = cell
		}
	}
	return rows
}

func column(rows []map[string]string, name string) []string {
	cells := make([]string, len(rows))
	for i, r := range rows {
		cells[i] = r[name]
	}
	return cells
}

// TestRunWritesATable: the table has the order and the columns of the input. Another run with
// filters makes the table again from the same answers.
func TestRunWritesATable(t *testing.T) {
	t.Parallel()
	in := write(t, "in.csv", questions+"d\n")
	out := filepath.Join(t.TempDir(), "out.csv")
	args := []string{"run", in, "-o", out, "--model", tinyLlama, "--prompt", "{{.text}}", "--temperature", "0", "--max-tokens", "9"}
	r := ingot(t, "", args...)
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Contains(t, r.stderr, out+": 4 records\n")
	rows := readCSV(t, out)
	require.Equal(t, []string{"a", "b", "c", "d"}, column(rows, "id"), "also of the record that has only its id")
	require.Equal(t, []string{"Name the capital of Finland.", "Which month comes after March?", "Name the\ncapital of Japan.", ""}, column(rows, "text"))
	require.Equal(t, "Helsinki.", rows[0]["response"])
	require.Equal(t, []string{"stop", "stop", "stop", ""}, column(rows, "finish_reason"))
	require.Equal(t, []string{"tiny-llama.q4_0", "tiny-llama.q4_0", "tiny-llama.q4_0", ""}, column(rows, "model"))
	require.Contains(t, rows[3]["error"], "invalid_record: line 4: the header has 2 columns, and this record has 1")

	r = ingot(t, "", append(args, "--match", "^[A-Z]", "--column-prefix", "x_", "--not-match", "April")...)
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Contains(t, r.stderr, "0 rows done, 4 kept (1 failed)")
	require.Regexp(t, `out.csv: \d records?, \d dropped \(failed 1, (no match \d, )?match 1\)\n`, r.stderr)
	require.Equal(t, "Helsinki.", readCSV(t, out)[0]["x_response"])

	require.Len(t, readAnswers(t, readFile(t, out+".answers.jsonl")), 4)
	r = ingot(t, "", "show", out+".answers.jsonl")
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Contains(t, r.stdout, "Helsinki.")
}

// onWrite is a writer that keeps the text and passes each part of it to a function.
type onWrite struct {
	bytes.Buffer
	do func(part string)
}

func (w *onWrite) Write(p []byte) (int, error) {
	w.do(string(p))
	return w.Buffer.Write(p)
}

// TestRunContinuesATable: an interrupted run leaves no table. The next run makes the table that an
// uninterrupted run makes.
func TestRunContinuesATable(t *testing.T) {
	t.Parallel()
	const n = 200
	in := write(t, "in.jsonl", strings.Join(someRows(n), ""))
	folder := t.TempDir()
	args := func(out string) []string {
		return []string{"run", in, "-o", filepath.Join(folder, out), "--output-format", "simple", "--model", tinyLlama, "--concurrency", "2", "--threads", "1"}
	}
	r := ingot(t, "", args("whole.jsonl")...)
	require.Equal(t, exitOK, r.code, r.stderr)

	answers := filepath.Join(folder, "out.jsonl.answers.jsonl")
	cmd := program(t, args("out.jsonl")...)
	require.NoError(t, cmd.Start())
	waitForAnswers(t, answers)
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	require.Error(t, cmd.Wait())
	require.Equal(t, exitFailure, cmd.ProcessState.ExitCode())
	require.Contains(t, cmd.Stderr.(*bytes.Buffer).String(), "stopped before the end: run the same command again to continue and to make "+filepath.Join(folder, "out.jsonl"))
	require.NoFileExists(t, filepath.Join(folder, "out.jsonl"))
	kept := strings.Count(readFile(t, answers), "\n")
	require.Positive(t, kept)

	r = ingot(t, "", args("out.jsonl")...)
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Contains(t, r.stderr, fmt.Sprintf("%d rows done, %d kept", n-kept, kept))
	require.Equal(t, readFile(t, filepath.Join(folder, "whole.jsonl")), readFile(t, filepath.Join(folder, "out.jsonl")))
}

// TestSeveralModels: a row that names a model is answered by that model. Other rows are answered by
// every model.
func TestSeveralModels(t *testing.T) {
	t.Parallel()
	const ask = `,"messages":[{"role":"user","content":"Name the capital of Finland."}],"temperature":0,"max_tokens":9`
	in := write(t, "in.jsonl", `{"id":"a"`+ask+"}\n"+`{"id":"b","model":"large"`+ask+"}\n"+`{"id":"c","model":"nobody's"`+ask+"}\n")
	out := filepath.Join(t.TempDir(), "out.csv")
	args := []string{"run", in, "-o", out, "--model", tinyLlama, "--model", "large=" + tinyGLM}
	r := ingot(t, "", args...)
	require.Equal(t, exitUsage, r.code)
	require.Contains(t, r.stderr, `the input has a column "model", which is also the name of a generated column: give the generated columns a prefix, such as --column-prefix=answer_`)
	require.NoFileExists(t, out)

	args = append(args, "--column-prefix=answer_")
	r = ingot(t, "", args...)
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Contains(t, r.stderr, "tiny-llama.q4_0: 2 rows done (1 failed), ")
	require.Contains(t, r.stderr, "large: 3 rows done (1 failed), ")
	rows := readCSV(t, out)
	require.Equal(t, []string{"a", "a", "b", "c", "c"}, column(rows, "id"))
	require.Equal(t, []string{"tiny-llama.q4_0", "large", "large", "tiny-llama.q4_0", "large"}, column(rows, "answer_model"))
	for _, r := range rows[:3] {
		require.Equal(t, "Helsinki.", r["answer_response"])
	}
	require.Contains(t, rows[3]["answer_error"], "model_not_found: ")

	r = ingot(t, "", args...)
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Contains(t, r.stderr, "tiny-llama.q4_0: 0 rows done, 2 kept (1 failed)")
	require.Equal(t, rows, readCSV(t, out))

	lines := filepath.Join(t.TempDir(), "lines.jsonl")
	r = ingot(t, "", "run", in, "-o", lines, "--model", tinyLlama, "--model", "large="+tinyGLM)
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Equal(t, 5, strings.Count(readFile(t, lines), "\n"), "batch lines are put together too")
}

// TestFailedRowsCanBeRunAgain: the file of failed rows has exactly these rows, and can be used as
// an input.
func TestFailedRowsCanBeRunAgain(t *testing.T) {
	t.Parallel()
	in := write(t, "in.csv", "id,text,limit\na,Name the capital of Finland.,1\nb,"+strings.Repeat("Name the capital of Finland. ", 400)+",2\n")
	folder := t.TempDir()
	again := filepath.Join(folder, "again.csv")
	args := []string{"--model", tinyLlama, "--prompt", "{{.text}}", "--max-tokens", "9", "--context", "128"}
	r := ingot(t, "", append([]string{"run", in, "-o", filepath.Join(folder, "out.parquet"), "--failed", again}, args...)...)
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Contains(t, r.stderr, "out.parquet: 1 record, 1 dropped (failed 1); 1 row in "+again+"\n")
	rows := readCSV(t, again)
	require.Equal(t, []string{"b"}, column(rows, "id"))
	require.Len(t, rows[0], 4, "the columns of the input, and the reason")
	r = ingot(t, "", append([]string{"run", again, "-o", filepath.Join(folder, "second.csv")}, args...)...)
	require.Equal(t, exitRows, r.code, r.stderr)
	require.Contains(t, r.stderr, "second.csv: 1 record\n")
}

// TestSummariesPrintNoEscapes: control characters in the names of files are escaped.
func TestSummariesPrintNoEscapes(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	in := write(t, "in.csv", "id,text\na,Name the capital of Finland.\nb\n")
	out, failed := folder+"/out\x1b[31m.csv", folder+"/failed\u009b31m.csv"
	r := ingot(t, "", answering(in, out, "--failed", failed)...)
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Contains(t, r.stderr, `out\x1b[31m.csv: 1 record, 1 dropped (failed 1); 1 row in `+folder+`/failed\u009b31m.csv`)
	require.NotContains(t, r.stderr, "\x1b")
	require.NotContains(t, r.stderr, "\u009b")
}

// TestOrdered: with --ordered, batch lines have the order of the input, and a run can continue
// them.
func TestOrdered(t *testing.T) {
	t.Parallel()
	in := write(t, "in.jsonl", strings.Join(someRows(20), ""))
	out := filepath.Join(t.TempDir(), "out.jsonl")
	args := []string{"run", in, "-o", out, "--model", tinyLlama, "--concurrency", "8", "--ordered"}
	r := ingot(t, "", args...)
	require.Equal(t, exitOK, r.code, r.stderr)
	names := func() (names []string) {
		for line := range strings.Lines(readFile(t, out)) {
			var a answer
			require.NoError(t, json.Unmarshal([]byte(line), &a))
			names = append(names, a.CustomID)
		}
		return names
	}
	want := names()
	require.Len(t, want, 20)
	for i, name := range want {
		require.Equal(t, fmt.Sprintf("r%d", i), name)
	}
	r = ingot(t, "", args...)
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Contains(t, r.stderr, "0 rows done, 20 kept")
	require.Equal(t, want, names())
}

func TestOutputsThatAreRefused(t *testing.T) {
	t.Parallel()
	in := write(t, "in.csv", questions)
	precious := write(t, "precious.csv", "years of work\n")
	for _, c := range []struct {
		flags []string
		want  string
	}{
		{nil, "-o OUT is missing"},
		{[]string{"-o", in}, "is an input and would be overwritten"},
		{[]string{"-o", precious}, "precious.csv was not made by this command, since " + precious + ".answers.jsonl does not exist: choose another OUT, or remove "},
		{[]string{"-o", "x.parquet.gz"}, "-o x.parquet.gz: a Parquet file has its own compression: leave out the extension .gz"},
		{[]string{"-o", "x.csv", "--output-format", "xlsx"}, `--output-format: "xlsx" is not known: use batch, simple, json, csv, tsv or parquet`},
		{[]string{"-o", "x.jsonl", "--keep-finish", "stop"}, "--keep-finish is for tables: end the name of OUT in .csv, .parquet or .json, or give --output-format simple"},
		{[]string{"-o", "-", "--ordered"}, "--ordered needs a file as OUT"},
		{[]string{"-o", "x.csv", "--failed", in}, "is an input and would be overwritten"},
		{[]string{"-o", "x.csv", "--failed", "x.csv"}, "--failed: give a file other than OUT"},
		{[]string{"-o", "x.csv", "--failed", "./x.csv"}, "--failed: give a file other than OUT"},
		{[]string{"-o", "x.csv", "--failed", "./x.csv.answers.jsonl"}, "--failed: ./x.csv.answers.jsonl is the name of a file of answers"},
		{[]string{"-o", "x.csv", "--columns", "text,response,text"}, `--columns: column "text" is there twice: name it once`},
		{[]string{"-o", "x.csv", "--match", "("}, "--match: \"(\" is not a regular expression: missing closing ): `(`"},
		{[]string{"-o", "x.csv", "--min-chars", "9", "--max-chars", "3"}, "--min-chars is 9 and --max-chars is 3: give no negative numbers, and a maximum that is not below the minimum"},
		{[]string{"-o", "x.csv", "--model", "a/m.gguf", "--model", "b/m.gguf"}, `two models have the alias "m": give them different ones as ALIAS=FILE`},
	} {
		r := ingot(t, "", append([]string{"run", in, "--model", "nowhere.gguf", "--prompt", "{{.text}}"}, c.flags...)...)
		require.NotEqual(t, exitOK, r.code)
		require.Contains(t, r.stderr, c.want)
	}
	require.Equal(t, "years of work\n", readFile(t, precious))
	r := ingot(t, questions, "run", "-", "--format", "csv", "-o", filepath.Join(t.TempDir(), "x.csv"), "--model", tinyLlama, "--prompt", "{{.text}}")
	require.Equal(t, exitUsage, r.code)
	require.Contains(t, r.stderr, "but a pipe can be read only once: write IN to a file first")
}

// TestResultsWriteATable writes a batch on Redis as a table, and exports other tables of the same
// answers.
func TestResultsWriteATable(t *testing.T) {
	t.Parallel()
	url := redistest.Start(t).URL
	in := write(t, "in.csv", questions)
	out := filepath.Join(t.TempDir(), "out.csv")
	r := ingot(t, "", "enqueue", in, "--redis", url, "--batch", "nightly", "--prompt", "{{.text}}", "--temperature", "0", "--max-tokens", "9", "--n", "2")
	require.Equal(t, exitOK, r.code, r.stderr)
	w := startWorker(t, url, "default")
	r = ingot(t, "", "results", "nightly", "--redis", url, "-o", out, "--input", in, "--follow")
	w.stop(t)
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Contains(t, r.stderr, "out.csv: 6 records\n")
	rows := readCSV(t, out)
	require.Equal(t, []string{"a", "a", "b", "b", "c", "c"}, column(rows, "id"))
	require.Equal(t, []string{"0", "1", "0", "1", "0", "1"}, column(rows, "sample_index"))
	require.Equal(t, "Helsinki.", rows[1]["response"])

	r = ingot(t, "", "export", out+".answers.jsonl", "-o", "-", "--output-format", "simple", "--unique", "custom_id")
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Contains(t, r.stderr, "stdout: 3 records, 3 dropped (duplicate 3)\n")
	require.Contains(t, r.stdout, `{"custom_id":"a","sample_index":0,"response":"Helsinki.","finish_reason":"stop","model":"tiny-llama.q4_0",`)
	r = ingot(t, "", "export", out+".answers.jsonl", "--input", write(t, "other.csv", "id,text\nb,x\n"), "-o", "-", "--output-format", "csv")
	require.Equal(t, exitFailure, r.code)
	require.Contains(t, r.stderr, `made from a different input file: row 1 has the id "a" in the answers, but "b" in the input`)
}

// TestTablesOfOtherSoftware answers CSV and Parquet files that Node's libraries wrote. The same
// libraries read the answers, with the input's columns unchanged in type and value.
func TestTablesOfOtherSoftware(t *testing.T) {
	t.Parallel()
	const questions = `{"text":"Name the capital of Finland.","count":"9223372036854775807","share":0.1,"flag":true,"nested":{"b":[1,"x"],"a":null}}
{"text":"a, \"b\"\nand\r\nc\td","count":"-9223372036854775808","share":-2.5e-7,"flag":false,"nested":[{"role":"user","content":"a,\n\"b\""}]}
{"text":" é 😀 {{.text}} ","count":"0","share":1e300,"nested":"text"}
{"text":"=1+1","nested":1.5}
`
	node := func(program, path string) string {
		cmd := bounded.Command(t, "node", program, path)
		cmd.Dir, cmd.Stdin = filepath.Join("..", "..", "files", "table", "node"), strings.NewReader(questions)
		text, err := cmd.CombinedOutput()
		require.NoError(t, err, string(text))
		return string(text)
	}
	if _, err := exec.LookPath("node"); err != nil {
		t.Skip("files of other software are not tested: install Node and run npm ci in files/table/node")
	}
	if _, err := os.Stat(filepath.Join("..", "..", "files", "table", "node", "node_modules")); err != nil {
		t.Skip("files of other software are not tested: run npm ci in files/table/node")
	}
	for _, extension := range []string{".csv", ".tsv", ".parquet"} {
		t.Run(extension, func(t *testing.T) {
			t.Parallel()
			in, out := filepath.Join(t.TempDir(), "in"+extension), filepath.Join(t.TempDir(), "out"+extension)
			node("write.mjs", in)
			r := ingot(t, "", "run", in, "-o", out, "--model", tinyLlama, "--prompt", "{{.text}}", "--temperature", "0", "--max-tokens", "9")
			require.Equal(t, exitOK, r.code, r.stderr)
			before, after := strings.Split(node("read.mjs", in), "\n"), strings.Split(node("read.mjs", out), "\n")
			require.Len(t, after, len(before))
			require.Len(t, before, 1+4+1, "columns, rows and nothing")
			for i := 1; i < len(before)-1; i++ {
				var want, got map[string]any
				require.NoError(t, json.Unmarshal([]byte(before[i]), &want))
				require.NoError(t, json.Unmarshal([]byte(after[i]), &got))
				for name := range want {
					require.Equal(t, want[name], got[name], "row %d, column %s", i, name)
				}
			}
			require.Contains(t, after[1], `"response":"Helsinki."`)
			if extension == ".parquet" {
				require.Contains(t, after[1], `"completion_tokens":{"int64":"3"}`)
				require.Contains(t, after[0], `["text","BYTE_ARRAY","STRING","OPTIONAL"],["count","INT64","INTEGER","OPTIONAL"],["share","DOUBLE",null,"OPTIONAL"],`+
					`["flag","BOOLEAN",null,"OPTIONAL"],["nested","BYTE_ARRAY","JSON","OPTIONAL"],["response","BYTE_ARRAY","STRING",`)
			}
		})
	}
}
