package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/internal/bounded"
	"github.com/ingot-run/ingot/queue/redistest"
)

// answering are the flags of a run over a table with a column text.
func answering(in, out string, flags ...string) []string {
	return append([]string{"run", in, "-o", out, "--model", tinyLlama, "--prompt", "{{.text}}", "--temperature", "0", "--max-tokens", "4"}, flags...)
}

// afterAnswer runs a command, and calls do when a row has been answered.
func afterAnswer(t *testing.T, do func(), args ...string) result {
	t.Helper()
	var stdout strings.Builder
	done := false
	stderr := onWrite{do: func(part string) {
		if !done && strings.Contains(part, "recorded a job") {
			done = true
			do()
		}
	}}
	code := run(bounded.Context(t), append(args, "--log-level", "debug"), strings.NewReader(""), &stdout, &stderr)
	require.True(t, done, stderr.String())
	return result{code, stdout.String(), stderr.String()}
}

// TestRunRefusesAnInputThatChanged: the input is replaced while its rows are answered. The table
// must not have answers to other rows.
func TestRunRefusesAnInputThatChanged(t *testing.T) {
	t.Parallel()
	const before = "text,label\nName the capital of Finland.,1\nWhich month comes after March?,2\n"
	for name, after := range map[string]string{
		"other order":        "text,label\nWhich month comes after March?,2\nName the capital of Finland.,1\n",
		"another row":        "text,label\nName the capital of Finland.,1\nWhich month comes after May?,2\n",
		"a new row":          "text,label\nName the capital of Finland.,1\nWhich month comes after March?,2\nHow many?,3\n",
		"a row less":         "text,label\nName the capital of Finland.,1\n",
		"another column":     "text,label\nName the capital of Finland.,1\nWhich month comes after March?,3\n",
		"a record is broken": "text,label\nName the capital of Finland.,1\nWhich month comes after March?\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := write(t, "in.csv", before)
			out := filepath.Join(t.TempDir(), "out.csv")
			r := afterAnswer(t, func() {
				require.NoError(t, os.WriteFile(in+".new", []byte(after), 0o644))
				require.NoError(t, os.Rename(in+".new", in))
			}, answering(in, out)...)
			require.Equal(t, exitFailure, r.code, r.stderr)
			require.Contains(t, r.stderr, "made from a different input file")
			require.NoFileExists(t, out)

			require.NoError(t, os.WriteFile(in, []byte(before), 0o644))
			r = ingot(t, "", answering(in, out)...)
			require.Equal(t, exitOK, r.code, r.stderr)
			require.Contains(t, r.stderr, "0 rows done, 2 kept")
			require.Equal(t, "Helsinki.", readCSV(t, out)[0]["response"])
		})
	}
	t.Run("fewer lines", func(t *testing.T) {
		t.Parallel()
		in := write(t, "in.jsonl", strings.Join(someRows(3), ""))
		out := filepath.Join(t.TempDir(), "out.csv")
		r := afterAnswer(t, func() { require.NoError(t, os.WriteFile(in, []byte(someRows(1)[0]), 0o644)) },
			"run", in, "-o", out, "--model", tinyLlama)
		require.Equal(t, exitFailure, r.code, r.stderr)
		require.Contains(t, r.stderr, "made from a different input file")
	})
}

// TestResultsRefuseAnotherInput: results and export join answers with the rows that were answered,
// and never replace the input.
func TestResultsRefuseAnotherInput(t *testing.T) {
	t.Parallel()
	const table = "text,n\nName the capital of Finland.,1\nWhich month comes after March?,2\n"
	url := redistest.Start(t).URL
	in, lines := write(t, "in.csv", table), write(t, "in.jsonl", strings.Join(someRows(2), ""))
	redis := withRedis(t, url, "")
	redis(exitOK, "enqueue", in, "--batch", "b", "--prompt", "{{.text}}", "--max-tokens", "4")
	redis(exitOK, "enqueue", lines, "--batch", "lines")
	w := startWorker(t, url, "default")
	defer w.stop(t)
	folder := t.TempDir()
	out := filepath.Join(folder, "out.csv")
	redis(exitOK, "results", "b", "-o", out, "--input", in, "--follow")
	require.Equal(t, []string{"1", "2"}, column(readCSV(t, out), "n"))
	redis(exitOK, "results", "lines", "-o", filepath.Join(folder, "lines.csv"), "--input", lines, "--follow")

	for _, other := range []string{
		"text,n\nWhich month comes after March?,2\nName the capital of Finland.,1\n",
		"text,n\nName the capital of Finland.,1\nWhich month comes after March?,3\n",
		"text,n\nName the capital of Finland.,1\nWhich month comes after March?\n",
	} {
		other := write(t, "other.csv", other)
		r := redis(exitFailure, "results", "b", "-o", out, "--input", other)
		require.Contains(t, r.stderr, "made from a different input file")
		r = ingot(t, "", "export", out+".answers.jsonl", "-o", filepath.Join(folder, "x.csv"), "--input", other)
		require.Equal(t, exitFailure, r.code)
		require.Contains(t, r.stderr, "made from a different input file")
		require.NoFileExists(t, filepath.Join(folder, "x.csv"))
	}
	swapped := write(t, "swapped.jsonl", someRows(2)[1]+someRows(2)[0])
	require.Contains(t, redis(exitFailure, "results", "lines", "-o", filepath.Join(folder, "lines.csv"), "--input", swapped).stderr, "made from a different input file")
	require.Equal(t, []string{"1", "2"}, column(readCSV(t, out), "n"), "the table stays")

	require.Contains(t, redis(exitUsage, "results", "b", "-o", filepath.Join(folder, "y.csv"), "--input", in, "--failed", in).stderr, in+" is an input and would be overwritten")
	require.NoError(t, os.WriteFile(in+".answers.jsonl", nil, 0o644))
	require.Contains(t, redis(exitUsage, "results", "b", "-o", in, "--input", in).stderr, in+" is an input and would be overwritten")
	require.Equal(t, table, readFile(t, in))

	z := filepath.Join(folder, "z.csv")
	redis(exitFailure, "results", "b", "-o", z, "--input", swapped, "--forget")
	redis(exitOK, "results", "b", "-o", z, "--input", in, "--forget")
	require.Equal(t, []string{"1", "2"}, column(readCSV(t, z), "n"), "the batch is deleted after the table was made")
	redis(exitFailure, "status", "b")
}

// TestFailedReplacesOnlyItsFile: a file that is not an earlier file of failed rows stays.
func TestFailedReplacesOnlyItsFile(t *testing.T) {
	t.Parallel()
	in := write(t, "in.csv", "id,text\na,Name the capital of Finland.\nb\n")
	folder := t.TempDir()
	out, failed := filepath.Join(folder, "out.csv"), filepath.Join(folder, "failed.csv")
	for _, precious := range []string{"years of work\n", "id,text\na,b\n", "{\"id\":1}\n", "\x00\x01\x02"} {
		require.NoError(t, os.WriteFile(failed, []byte(precious), 0o644))
		r := ingot(t, "", answering(in, out, "--failed", failed)...)
		require.Equal(t, exitFailure, r.code, r.stderr)
		require.Contains(t, r.stderr, failed+" exists and is not a file of failed rows")
		require.Equal(t, precious, readFile(t, failed))
		require.NoFileExists(t, out+".answers.jsonl", "no row is answered before")
	}
	require.NoError(t, os.Remove(failed))
	for range 2 {
		r := ingot(t, "", answering(in, out, "--failed", failed)...)
		require.Equal(t, exitOK, r.code, r.stderr)
		require.Equal(t, []string{"b"}, column(readCSV(t, failed), "id"))
	}
	for range 2 {
		r := ingot(t, "", answering(write(t, "good.csv", questions), filepath.Join(folder, "good.csv"), "--failed", filepath.Join(folder, "none.jsonl.gz"))...)
		require.Equal(t, exitOK, r.code, "an earlier file without rows: %s", r.stderr)
	}
	r := ingot(t, "", "export", out+".answers.jsonl", "--input", in, "-o", filepath.Join(folder, "x.csv"), "--failed", in+".answers.jsonl")
	require.Equal(t, exitOK, r.code, r.stderr)
	r = ingot(t, "", "export", out+".answers.jsonl", "--input", in, "-o", filepath.Join(folder, "x.csv"), "--failed", out)
	require.Equal(t, exitFailure, r.code)
	require.Contains(t, r.stderr, out+" exists and is not a file of failed rows")
	r = ingot(t, "", answering(in, out, "--failed", out+".answers.jsonl")...)
	require.Equal(t, exitUsage, r.code)
	require.Contains(t, r.stderr, "is the name of a file of answers")
	r = ingot(t, "", answering(in, filepath.Join(folder, "y.csv"), "--failed", filepath.Join(folder, "missing", "f.csv"))...)
	require.Equal(t, exitFailure, r.code)
	require.Contains(t, r.stderr, "f.csv: no such file or directory")
	require.NoFileExists(t, filepath.Join(folder, "y.csv.answers.jsonl"), "no row is answered before")
}

// TestEveryRecordIsInOneFile: records that cannot be read are in the file of failed rows, with what
// can be read of them and the reason.
func TestEveryRecordIsInOneFile(t *testing.T) {
	t.Parallel()
	in := write(t, "in.csv", "id,text,note\na,Name the capital of Finland.,plain\nb,Which month comes after March?,caf\xe9 noir\nc,Name the capital of Japan.\nd,\"x\"y,z\ne,Name the capital of Peru.,last\n")
	folder := t.TempDir()
	out, failed := filepath.Join(folder, "out.csv"), filepath.Join(folder, "failed.csv")
	r := ingot(t, "", answering(in, out, "--failed", failed)...)
	require.Equal(t, exitRows, r.code, r.stderr)
	require.Contains(t, r.stderr, "row 2 cannot be used, since column \"note\" is not UTF-8: if the file has another encoding, give --encoding, such as windows-1252\n")
	require.Contains(t, r.stderr, "; 3 rows in "+failed)
	require.Equal(t, []string{"a", "e"}, column(readCSV(t, out), "id"))
	rows := readCSV(t, failed)
	require.Equal(t, []string{"b", "c", "d"}, column(rows, "id"))
	require.Equal(t, []string{"Which month comes after March?", "Name the capital of Japan.", ""}, column(rows, "text"))
	require.Equal(t, "caf\uFFFD noir", rows[0]["note"])
	for i, want := range []string{`column "note" is not UTF-8`, "the header has 3 columns, and this record has 2", "extraneous"} {
		require.Contains(t, rows[i]["ingot_error"], "invalid_record: line ")
		require.Contains(t, rows[i]["ingot_error"], want)
	}

	second, again := filepath.Join(folder, "second.csv"), failed
	for i, next := range []string{"1.csv", "2.csv"} {
		r = ingot(t, "", answering(again, filepath.Join(folder, next), "--failed", filepath.Join(folder, "failed"+next))...)
		require.Equal(t, exitRows, r.code, i)
		again = filepath.Join(folder, "failed"+next)
		require.Equal(t, 1, strings.Count(readCSV(t, again)[0]["ingot_error"], "could not be used before"))
		require.Contains(t, readCSV(t, again)[0]["ingot_error"], "is not UTF-8")
	}
	r = ingot(t, "", answering(failed, second)...)
	require.Equal(t, exitRows, r.code, "no record is answered before somebody has corrected it")
	require.NotContains(t, readFile(t, second), "ingot_error,", "the reason is not a column")
	fixed := strings.Replace(readFile(t, failed), rows[0]["ingot_error"], "", 1)
	fixed = strings.Replace(fixed, strings.ReplaceAll(rows[0]["ingot_error"], `"`, `""`), "", 1)
	r = ingot(t, "", answering(write(t, "fixed.csv", fixed), filepath.Join(folder, "third.csv"))...)
	require.Equal(t, exitRows, r.code, r.stderr)
	require.Contains(t, r.stderr, "(2 failed)")

	whole := filepath.Join(folder, "whole.csv")
	r = ingot(t, "", answering(in, whole)...)
	require.Equal(t, exitRows, r.code, r.stderr)
	require.Equal(t, []string{"a", "b", "c", "d", "e"}, column(readCSV(t, whole), "id"))

	latin := filepath.Join(folder, "latin.csv")
	r = ingot(t, "", answering(in, latin, "--encoding", "latin1", "--failed", filepath.Join(folder, "f.csv"))...)
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Equal(t, []string{"a", "b", "e"}, column(readCSV(t, latin), "id"))
	require.Equal(t, "café noir", readCSV(t, latin)[1]["note"])
	r = ingot(t, "", "export", latin+".answers.jsonl", "--input", in, "-o", filepath.Join(folder, "x.csv"))
	require.Equal(t, exitFailure, r.code)
	require.Contains(t, r.stderr, "row 2 of the input is not the row that was answered")
	require.Contains(t, r.stderr, `(column "note" is not UTF-8: if the file has another encoding, give --encoding, such as windows-1252)`)
}

// TestColumnsOfUnreadableLines: fields of a line that cannot be used are columns of both tables,
// also if no other line has them.
func TestColumnsOfUnreadableLines(t *testing.T) {
	t.Parallel()
	in := write(t, "in.jsonl", `{"id":"a","text":"Hi"}`+"\n"+`{"id":"b","text":"Hi","meta":"caf`+"\xe9"+`"}`+"\n"+
		`{"id":"c","size":3,"text":"Hi`+"\n"+`{"id":"d","text":"Hi"}}`+"\nno JSON\n")
	folder := t.TempDir()
	out, failed := filepath.Join(folder, "out.csv"), filepath.Join(folder, "failed.csv")
	r := ingot(t, "", answering(in, out, "--failed", failed)...)
	require.Equal(t, exitRows, r.code, r.stderr)
	require.Equal(t, []string{"a"}, column(readCSV(t, out), "id"))
	rows := readCSV(t, failed)
	require.Equal(t, []string{"b", "c", "d", ""}, column(rows, "id"))
	require.Equal(t, []string{"caf\uFFFD", "", "", ""}, column(rows, "meta"))
	require.Equal(t, []string{"", "3", "", ""}, column(rows, "size"))
	require.Equal(t, []string{"Hi", "", "Hi", ""}, column(rows, "text"))

	whole, lines := filepath.Join(folder, "whole.csv"), filepath.Join(folder, "failed.jsonl")
	r = ingot(t, "", answering(in, whole)...)
	require.Equal(t, exitRows, r.code, r.stderr)
	require.Equal(t, []string{"a", "b", "c", "d", ""}, column(readCSV(t, whole), "id"))
	require.NoError(t, os.Remove(out))
	r = ingot(t, "", answering(in, out, "--failed", lines)...)
	require.Equal(t, exitRows, r.code, r.stderr)
	require.Contains(t, readFile(t, lines), `{"id":"c","size":3,"line":"{\"id\":\"c\",\"size\":3,\"text\":\"Hi","ingot_error":`, "the line is kept")
}

// TestFailedLines: the lines of failed requests have the reason, and can be used as an input.
func TestFailedLines(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("Name the capital of Finland. ", 400)
	in := write(t, "in.jsonl", `{"custom_id":"a","messages":[{"role":"user","content":"Hi"}],"max_tokens":2}`+"\n"+
		`{"custom_id":"b","messages":[{"role":"user","content":"`+long+`"}]}`+"\n"+
		`{"custom_id":"c","messages":[{"role":"user","content":"caf`+"\xe9"+`"}]}`+"\nno JSON\n"+
		`{"custom_id":"e","method":"POST","url":"/v1/chat/completions","body":{"messages":[{"role":"user","content":"`+long+`"}],"max_tokens":2}}`+"\n")
	folder := t.TempDir()
	failed := filepath.Join(folder, "failed.jsonl")
	r := ingot(t, "", "run", in, "-o", filepath.Join(folder, "out.csv"), "--failed", failed, "--model", tinyLlama, "--context", "128")
	require.Equal(t, exitRows, r.code, r.stderr)
	require.Contains(t, r.stderr, "row 3 cannot be used, since the record is not UTF-8: if the file has another encoding, give --encoding, such as windows-1252\n")
	lines := strings.Split(strings.TrimSuffix(readFile(t, failed), "\n"), "\n")
	require.Len(t, lines, 4)
	for i, want := range []struct{ id, reason string }{{"b", "line 2: "}, {"c", "not UTF-8"}, {"", "line 4: "}, {"e", "line 5: "}} {
		var row map[string]any
		require.NoError(t, json.Unmarshal([]byte(lines[i]), &row))
		require.Contains(t, row["ingot_error"], want.reason)
		if want.id != "" {
			require.Equal(t, want.id, row["custom_id"])
		} else {
			require.Equal(t, "no JSON", row["line"])
		}
	}
	r = ingot(t, "", "run", failed, "-o", filepath.Join(folder, "second.jsonl"), "--model", tinyLlama, "--context", "4096")
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Contains(t, r.stderr, "4 rows done (2 failed)")
}

// TestBytesThatAreNotText: in every format, a byte that is not text is an error and not replaced.
func TestBytesThatAreNotText(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"in.csv": "id,text\na,caf\xe9\n", "in.tsv": "id\ttext\na\tcaf\xe9\n",
		"in.json": "[{\"id\":\"a\",\"text\":\"caf\xe9\"}]", "in.jsonl": "{\"id\":\"a\",\"text\":\"caf\xe9\"}\n", "in.txt": "caf\xe9\n",
	} {
		r := ingot(t, "", "run", write(t, name, text), "-o", "-", "--prompt", "{{.text}}", "--dry-run", "1")
		require.Equal(t, exitRows, r.code, r.stderr)
		require.Empty(t, r.stdout, "requests alone")
		require.Contains(t, r.stderr, "line 1: invalid_record: ")
		require.Contains(t, r.stderr, "is not UTF-8\n", name)
		require.Contains(t, r.stderr, "--encoding, such as windows-1252", name)
	}
	r := ingot(t, "", "run", write(t, "in.json", "[{\"text\":\"\x93\"}]"), "-o", "-", "--prompt", "{{.text}}", "--dry-run", "1", "--encoding", "shift_jis")
	require.Contains(t, r.stderr, "is not shift_jis")
	r = ingot(t, "", "run", write(t, "in.csv", "text\nx\n\"open\nb\nc\n"), "-o", "-", "--prompt", "{{.text}}", "--dry-run", "9")
	require.Equal(t, exitOK, r.code, "one row can be answered")
	require.Equal(t, 1, strings.Count(r.stdout, "\n"))
	require.Contains(t, r.stderr, "; all lines from line 3, where the record begins, are this record")
}

func TestEncodings(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, flag, text, want string }{
		{"in.csv", "windows-1252", "text\ncaf\xe9 \x80\n", "café €"},
		{"in.tsv", "Shift_JIS", "text\n\x93\xfa\x96\x7b\n", "日本"},
		{"in.jsonl", "cp1251", "{\"text\":\"\xcf\xf0\xe8\xe2\xe5\xf2\"}\n", "Привет"},
		{"in.csv", "utf-16le", "\xff\xfet\x00e\x00x\x00t\x00\n\x00\xe9\x00\n\x00", "é"},
		{"in.json", "iso-8859-15", "[{\"text\":\"\xa4\"}]", "€"},
		{"in.csv", "utf8", "text\né\n", "é"},
	} {
		r := ingot(t, "", "run", write(t, c.name, c.text), "-o", "-", "--prompt", "{{.text}}", "--dry-run", "1", "--encoding", c.flag)
		require.Equal(t, exitOK, r.code, r.stderr)
		require.Contains(t, r.stdout, `"content":"`+c.want+`"`)
	}
	in := write(t, "in.csv", "text\n\x93\n")
	r := ingot(t, "", "run", in, "-o", "-", "--prompt", "{{.text}}", "--dry-run", "1", "--encoding", "shift_jis")
	require.Equal(t, exitRows, r.code, r.stderr)
	require.Contains(t, r.stderr, `column "text" is not shift_jis`, "a byte that is not Shift JIS is not replaced silently")
	for name, near := range map[string]string{"windows1252": "windows-1252", "latin-1": "latin1", "shift-jiss": "shift_jis", "utf16": "utf-16le", "windws-1251": "windows-1251"} {
		r := ingot(t, "", "run", in, "-o", "-", "--prompt", "{{.text}}", "--dry-run", "1", "--encoding", name)
		require.Equal(t, exitUsage, r.code, r.stderr)
		require.Contains(t, r.stderr, "is not known: similar names are ")
		require.Contains(t, r.stderr, near)
	}
}

// TestFailedLinesAreShown: a line from which no columns can be read is in the file of failed rows
// as a whole.
func TestFailedLinesAreShown(t *testing.T) {
	t.Parallel()
	in := write(t, "in.jsonl", `{"id":"a","text":"Name the capital of Finland."}`+"\nnot JSON\n[1, 2]\n"+`{"id":"b"}`+"\n")
	folder := t.TempDir()
	failed := filepath.Join(folder, "failed.csv")
	r := ingot(t, "", answering(in, filepath.Join(folder, "out.csv"), "--failed", failed)...)
	require.Equal(t, exitRows, r.code, r.stderr)
	rows := readCSV(t, failed)
	require.Equal(t, []string{"not JSON", "[1, 2]", ""}, column(rows, "line"))
	require.Equal(t, []string{"", "", "b"}, column(rows, "id"))

	whole := write(t, "whole.jsonl", `{"id":"b"}`+"\n"+`{"id":"a","text":"Name the capital of Finland."}`+"\n")
	r = ingot(t, "", answering(whole, filepath.Join(folder, "whole.csv"), "--failed", failed)...)
	require.Equal(t, exitOK, r.code, r.stderr)
	require.NotContains(t, readCSV(t, failed)[0], "line", "every row has columns")

	array := write(t, "in.json", `[{"text":"Name the capital of Finland."},17,["x"]]`)
	r = ingot(t, "", answering(array, filepath.Join(folder, "array.csv"), "--failed", failed)...)
	require.Equal(t, exitRows, r.code, r.stderr)
	require.Equal(t, []string{"17", `["x"]`}, column(readCSV(t, failed), "line"))
	japanese := write(t, "japanese.jsonl", `{"text":"Name the capital of Finland."}`+"\nno JSON\x93\n")
	r = ingot(t, "", answering(japanese, filepath.Join(folder, "japanese.csv"), "--encoding", "shift_jis", "--failed", failed)...)
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Equal(t, []string{"no JSON\uFFFD"}, column(readCSV(t, failed), "line"))
}

// TestFailedLinesAreJSON: also those of records with a field whose name is empty.
func TestFailedLinesAreJSON(t *testing.T) {
	t.Parallel()
	failed := filepath.Join(t.TempDir(), "failed.jsonl")
	in := write(t, "in.jsonl", `{"text":"Name the capital of Finland."}`+"\n"+`{"":2,"x":`+"\n")
	r := ingot(t, "", answering(in, filepath.Join(t.TempDir(), "out.csv"), "--failed", failed)...)
	require.Equal(t, exitOK, r.code, r.stderr)
	var row map[string]any
	require.NoError(t, json.Unmarshal([]byte(readFile(t, failed)), &row))
	require.InDelta(t, 2, row[""], 0)
}

// TestControlTokensInColumns: the text of a control token in a column stays text, in chats and in
// prompts to continue, unless the flag says otherwise. enqueue makes the same requests as run.
func TestControlTokensInColumns(t *testing.T) {
	t.Parallel()
	in := write(t, "in.csv", "text\nHi<|user|>Ho\n")
	tokens := func(flags ...string) int {
		t.Helper()
		args := append([]string{in, "--model", tinyLlama, "--prompt", "<{{.text}}", "--dry-run", "1"}, flags...)
		r := ingot(t, "", append([]string{"run", "-o", "x.csv"}, args...)...)
		require.Equal(t, exitOK, r.code, r.stderr)
		queued := ingot(t, "", append([]string{"enqueue", in}, args[3:]...)...)
		require.Equal(t, exitOK, queued.code, queued.stderr)
		var line struct {
			Body   json.RawMessage `json:"body"`
			Tokens int             `json:"prompt_tokens"`
		}
		require.NoError(t, json.Unmarshal([]byte(r.stdout), &line))
		require.Contains(t, queued.stdout, string(line.Body))
		require.Positive(t, line.Tokens)
		return line.Tokens
	}
	require.Greater(t, tokens(), tokens("--no-special-in-content=false"))
	require.Greater(t, tokens("--shape", "completion"), tokens("--shape", "completion", "--no-special-in-content=false"))
	require.Equal(t, tokens(), tokens("--no-special-in-content"))
}
