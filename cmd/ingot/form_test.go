package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/queue/redistest"
	"github.com/ingot-run/ingot/worker/local"
)

const (
	sixReviews  = "id,review\n1,Great\n2,Broken\n3,\"Good, but late\"\n4,Never again\n5,Fine\n6,It works\n"
	shortSchema = "label:positive|negative, score:integer, reason"
	fullSchema  = `{"type":"object","properties":{"b":{"enum":["x","y"]},"a":{"type":"boolean"}},"required":["b","a"],"additionalProperties":false}`
)

// TestFlagsGiveRowsAForm: --dry-run shows the form that a flag gives to rows that have none.
func TestFlagsGiveRowsAForm(t *testing.T) {
	t.Parallel()
	schema, choices := write(t, "schema.json", "\ufeff"+fullSchema+"\n"), write(t, "choices.list", "new\r\nold, used\r\n\r\n")
	grammar := write(t, "g.lark", "start: \"a\" | \"b\"\n")
	in := write(t, "in.jsonl", strings.Join([]string{
		`{"id":"free","messages":[{"role":"user","content":"Hi"}]}`,
		`{"id":"text","messages":[{"role":"user","content":"Hi"}],"response_format":{"type":"text"}}`,
		`{"id":"own","messages":[{"role":"user","content":"Hi"}],"guided_choice":["a","b"]}`,
		`{"id":"completion","prompt":"Hi"}`,
	}, "\n"))
	full := `"response_format":{"type":"json_schema","json_schema":{"name":"answer","strict":true,"schema":` + fullSchema + `}}`
	for _, c := range []struct{ flag, value, want string }{
		{"--schema", schema, full},
		{"--schema", fullSchema, full},
		{"--schema", "good:yes|no", `"good":{"enum":["yes","no"]}`},
		{"--choices", choices, `"structured_outputs":{"choice":["new","old, used"]}`},
		{"--choices", "a<b, c", `"structured_outputs":{"choice":["a<b","c"]}`},
		{"--regex", `\d{3}`, `"structured_outputs":{"regex":"\\d{3}"}`},
		{"--grammar", grammar, `"structured_outputs":{"grammar":"start: \"a\" | \"b\"\n"}`},
	} {
		for _, command := range []string{"run", "enqueue"} {
			r := ingot(t, "", command, in, "--dry-run", "9", c.flag, c.value)
			require.Equal(t, exitOK, r.code, r.stderr)
			lines := strings.Split(strings.TrimSuffix(r.stdout, "\n"), "\n")
			require.Len(t, lines, 4)
			for i, line := range lines {
				require.NotContains(t, line, `"error"`)
				require.Equal(t, i == 0 || i == 3, strings.Contains(line, c.want), "%s: %s", c.flag, line)
			}
		}
	}
}

// TestFlagsOfFormsAreRefused: flags that cannot be used are errors before anything is answered.
func TestFlagsOfFormsAreRefused(t *testing.T) {
	t.Parallel()
	in := write(t, "in.csv", sixReviews)
	open := write(t, "open.json", `{"type":"object","properties":{"a":{"type":"array","items":{"type":"string"},"uniqueItems":true}}}`)
	empty := write(t, "empty.lark", " \n")
	for _, c := range []struct {
		flags []string
		want  string
	}{
		{[]string{"--schema", "a:b|c", "--choices", "a,b"}, "--schema and --choices both give the form of the answers: give one"},
		{[]string{"--regex", "a", "--grammar", empty}, "--regex and --grammar both give the form of the answers: give one"},
		{[]string{"--grammar", empty}, "--grammar: " + empty + " is empty"},
		{[]string{"--schema", "missing.json"}, "--schema: open missing.json"},
		{[]string{"--schema", `{"type":`}, "--schema: the schema is not a JSON object"},
		{[]string{"--schema", open}, "/properties/a/uniqueItems"},
		{[]string{"--schema", "a:b|"}, "--schema: "},
		{[]string{"--choices", "good"}, `--choices: "good" has fewer than two choices`},
		{[]string{"--choices", "missing.txt"}, "--choices: open missing.txt"},
		{[]string{"--regex", ""}, "--regex: the expression is empty"},
		{[]string{"--regex", "(a"}, "--regex: "},
		{[]string{"--grammar", "missing"}, "--grammar: open missing"},
		{[]string{"--choices", "a,b", "--ignore-eos"}, "--choices and --ignore-eos cannot be combined"},
		{[]string{"--columns-from", "xml"}, `--columns-from: "xml" is not known: use json or none`},
		{[]string{"--columns-from", "json", "--extract", "(?P<a>.)"}, "--extract and --columns-from json cannot be combined"},
		{[]string{"--extract", "(a)"}, "--extract: the expression has no named group"},
		{[]string{"--extract", "(a"}, "--extract: "},
		{[]string{"--schema", "review, b"}, `the input has a column "review", which is also the name of a generated column`},
	} {
		out := filepath.Join(t.TempDir(), "out.csv")
		r := ingot(t, "", append([]string{"run", in, "-o", out, "--model", tinyLlama, "--prompt", "{{.review}}"}, c.flags...)...)
		require.Equal(t, exitUsage, r.code, "%v: %s", c.flags, r.stderr)
		require.Contains(t, r.stderr, c.want)
		require.NoFileExists(t, out+".answers.jsonl")
	}
	r := ingot(t, "", "run", in, "-o", filepath.Join(t.TempDir(), "out.jsonl"), "--model", tinyLlama, "--prompt", "{{.review}}", "--columns-from", "json")
	require.Equal(t, exitUsage, r.code)
	require.Contains(t, r.stderr, "--columns-from is for tables")
}

// TestAnswersHaveTheFormOfFlags: with a schema, each answer of a small model at temperature 1 is
// valid, and its properties are columns. Workers give the same answers.
func TestAnswersHaveTheFormOfFlags(t *testing.T) {
	t.Parallel()
	in, folder := write(t, "in.csv", sixReviews), t.TempDir()
	flags := []string{"--prompt", "{{.review}}", "--seed", "7", "--max-tokens", "200", "--schema", shortSchema}
	out, failed := filepath.Join(folder, "out.csv"), filepath.Join(folder, "failed.csv")
	r := ingot(t, "", append([]string{"run", in, "-o", out, "--failed", failed, "--model", tinyLlama}, flags...)...)
	require.Equal(t, exitOK, r.code, r.stderr)
	head, _, _ := strings.Cut(readFile(t, out), "\n")
	require.Equal(t, "id,review,label,score,reason,response,finish_reason,model,prompt_tokens,completion_tokens,error", head)
	schema := jsonSchemaOf(t, in, flags...)
	rows := readCSV(t, out)
	require.Len(t, append(column(rows, "id"), column(readCSV(t, failed), "id")...), 6, "each row is answered or has failed")
	require.NotEmpty(t, rows)
	for _, row := range rows {
		require.Contains(t, []string{"positive", "negative"}, row["label"])
		require.Regexp(t, `^-?[0-9]+$`, row["score"])
		answer, err := jsonschema.UnmarshalJSON(strings.NewReader(row["response"]))
		require.NoError(t, err)
		require.NoError(t, schema.Validate(answer))
	}

	url := redistest.Start(t).URL
	redis := withRedis(t, url, "")
	redis(exitOK, append([]string{"enqueue", in, "--batch", "b"}, flags...)...)
	w := startWorker(t, url, "default")
	defer w.stop(t)
	queued := filepath.Join(folder, "queued.csv")
	redis(exitOK, "results", "b", "--follow", "-o", queued, "--input", in, "--columns-from", "json", "--failed", filepath.Join(folder, "again.csv"))
	require.Equal(t, column(rows, "response"), column(readCSV(t, queued), "response"))
	require.Equal(t, column(rows, "label"), column(readCSV(t, queued), "label"))

	other := filepath.Join(folder, "other.csv")
	r = ingot(t, "", "export", out+".answers.jsonl", "--input", in, "-o", other, "--extract", `"label": *"(?P<word>\w+)"`)
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Subset(t, column(readCSV(t, other), "word"), column(rows, "label"))
}

// jsonSchemaOf returns the schema that a run shows with --dry-run, as an independent validator
// reads it.
func jsonSchemaOf(t *testing.T, in string, flags ...string) *jsonschema.Schema {
	t.Helper()
	r := ingot(t, "", append([]string{"run", in, "--dry-run", "1"}, flags...)...)
	require.Equal(t, exitOK, r.code, r.stderr)
	var line struct {
		Body struct {
			Format struct {
				Schema struct{ Schema json.RawMessage } `json:"json_schema"`
			} `json:"response_format"`
		}
	}
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &line))
	document, err := jsonschema.UnmarshalJSON(strings.NewReader(string(line.Body.Format.Schema.Schema)))
	require.NoError(t, err)
	compiler := jsonschema.NewCompiler()
	require.NoError(t, compiler.AddResource("answer.json", document))
	schema, err := compiler.Compile("answer.json")
	require.NoError(t, err)
	return schema
}

// TestFormsInRows: rows of one file have different forms. One that cannot be kept is an error line
// of its row, which names the field and the keyword, whoever reads the file.
func TestFormsInRows(t *testing.T) {
	t.Parallel()
	row := func(id, fields string) string {
		return fmt.Sprintf(`{"id":%q,"messages":[{"role":"user","content":"Hi"}],%s}`, id, fields)
	}
	in := write(t, "in.jsonl", strings.Join([]string{
		row("choice", `"guided_choice":["yes","no"]`),
		row("regex", `"structured_outputs":{"regex":"[0-9]{4}-[0-9]{2}"}`),
		row("grammar", `"grammar":"root ::= \"a\" | \"b\"\n"`),
		row("object", `"response_format":{"type":"json_object"},"max_tokens":60,"temperature":0`),
		row("lost", `"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"object","properties":{"a":{"type":"array","items":{},"uniqueItems":true}}}}}`),
	}, "\n")+"\n")
	r := ingot(t, "", "run", in, "-o", "-", "--model", tinyLlama)
	require.Equal(t, exitOK, r.code, r.stderr)
	got := readAnswers(t, r.stdout)
	require.Contains(t, []string{"yes", "no"}, got["choice"].text())
	require.Regexp(t, `^[0-9]{4}-[0-9]{2}$`, got["regex"].text())
	require.Contains(t, []string{"a", "b"}, got["grammar"].text())
	require.True(t, strings.HasPrefix(got["object"].text(), "{"), got["object"].text())
	const want = `"response_format.json_schema.schema" cannot be kept: `
	require.Contains(t, got["lost"].Error.Message, want)
	require.Contains(t, got["lost"].Error.Message, "/properties/a/uniqueItems")
	require.Equal(t, "invalid_value", got["lost"].Error.Code)

	r = ingot(t, "", "enqueue", in, "--redis", redistest.Start(t).URL)
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Contains(t, r.stderr, "5 rows: 4 queued, 1 cannot be used")
}

// TestAnotherFormIsAnotherRun: answers of another schema are not continued.
func TestAnotherFormIsAnotherRun(t *testing.T) {
	t.Parallel()
	in, out := write(t, "in.csv", sixReviews), filepath.Join(t.TempDir(), "out.csv")
	run := func(flags ...string) result {
		return ingot(t, "", append([]string{"run", in, "-o", out, "--model", tinyLlama, "--prompt", "{{.review}}", "--max-tokens", "40"}, flags...)...)
	}
	r := run("--choices", "good,bad", "--limit", "3")
	require.Equal(t, exitOK, r.code, r.stderr)
	for _, flags := range [][]string{{"--choices", "good,bad,neither"}, nil} {
		r = run(flags...)
		require.Equal(t, exitFailure, r.code, "%v: %s", flags, r.stderr)
		require.Contains(t, r.stderr, "a default such as --max-tokens or --schema, has changed")
	}
	r = run("--choices", "good,bad")
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Contains(t, r.stderr, "3 rows done, 3 kept")
	for _, text := range column(readCSV(t, out), "response") {
		require.Contains(t, []string{"good", "bad"}, text)
	}
	require.Len(t, readCSV(t, out), 6)
}

// TestCutAnswersFail: an answer that was cut before its JSON was complete is a failed row with the
// reason, which can be answered again, and counts for --fail-on-error.
func TestCutAnswersFail(t *testing.T) {
	t.Parallel()
	in, folder := write(t, "in.csv", sixReviews), t.TempDir()
	out, failed := filepath.Join(folder, "out.parquet"), filepath.Join(folder, "failed.csv")
	flags := []string{"--model", tinyLlama, "--prompt", "{{.review}}", "--schema", shortSchema, "--failed", failed}
	r := ingot(t, "", append([]string{"run", in, "-o", out, "--max-tokens", "3"}, flags...)...)
	require.Equal(t, exitRows, r.code, r.stderr)
	require.Contains(t, r.stderr, "6 answers without the columns of their text")
	rows := readCSV(t, failed)
	require.Equal(t, []string{"1", "2", "3", "4", "5", "6"}, column(rows, "id"))
	require.Contains(t, rows[0]["ingot_error"], "unparsed_answer: the answer is not a JSON object, since it was cut at the maximum number of tokens")
	r = ingot(t, "", append([]string{"run", in, "-o", out, "--json", "--max-tokens", "4", "--retry-failed"}, flags...)...)
	require.Equal(t, exitRows, r.code, r.stderr)
	require.Contains(t, r.stderr, "6 rows done, ")
	var sum local.Totals
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &sum))
	require.Equal(t, []int{6, 0, 6, 6}, []int{sum.Answered, sum.Failed, sum.Unparsed, sum.Errors["unparsed_answer"]})
	require.NoError(t, os.Rename(failed, filepath.Join(folder, "again.csv")))
	r = ingot(t, "", append([]string{"run", filepath.Join(folder, "again.csv"), "-o", filepath.Join(folder, "good.csv"), "--max-tokens", "300"}, flags...)...)
	require.Equal(t, exitOK, r.code, r.stderr)
	all := slices.Concat(column(readCSV(t, filepath.Join(folder, "good.csv")), "id"), column(readCSV(t, failed), "id"))
	slices.Sort(all)
	require.Equal(t, []string{"1", "2", "3", "4", "5", "6"}, all)
}

// TestSchemasOfEveryShape: --schema makes columns also where the schema combines others or lists no
// properties, and an answer that was cut is a failed row even if there are no columns.
func TestSchemasOfEveryShape(t *testing.T) {
	t.Parallel()
	in := write(t, "in.csv", sixReviews)
	const label = `{"type":"object","properties":{"label":{"enum":["a","b"]}},"required":["label"],"additionalProperties":false}`
	for _, c := range []struct {
		schema, tokens string
		code           int
		column         string
		flags          []string
	}{
		{`{"anyOf":[` + label + `]}`, "200", exitOK, "label", []string{"--columns", "id,label"}},
		{`{"type":"object"}`, "3", exitRows, "", nil},
		{`{"type":"array","items":{"type":"string"}}`, "1", exitRows, "", nil},
		{`{"enum":["a long text","b long text"]}`, "200", exitOK, "", nil},
		{`{"enum":["a long text","b long text"]}`, "2", exitRows, "", []string{"--columns-from", "none"}},
	} {
		out := filepath.Join(t.TempDir(), "out.csv")
		r := ingot(t, "", append([]string{"run", in, "-o", out, "--model", tinyLlama, "--prompt", "{{.review}}", "--schema", c.schema, "--max-tokens", c.tokens}, c.flags...)...)
		require.Equal(t, c.code, r.code, "%s: %s", c.schema, r.stderr)
		records := readCSV(t, out)
		require.Len(t, records, 6)
		for _, record := range records {
			if c.column != "" {
				require.Contains(t, []string{"a", "b"}, record[c.column], c.schema)
			}
			if c.code != exitOK {
				require.Contains(t, record["error"], "unparsed_answer: ", c.schema)
			}
		}
	}
}

// TestRowsWithTheirOwnFormDoNotFail: a table with --schema has rows of another form, and calls.
func TestRowsWithTheirOwnFormDoNotFail(t *testing.T) {
	t.Parallel()
	row := func(id, fields string) string {
		return fmt.Sprintf(`{"id":%q,"messages":[{"role":"user","content":"Hi"}],"seed":1%s}`, id, fields)
	}
	const tool = `{"type":"function","function":{"name":"f","strict":true,"parameters":{"type":"object","properties":{"a":{"enum":["x","y"]}},"required":["a"],"additionalProperties":false}}}`
	in := write(t, "in.jsonl", strings.Join([]string{
		row("schema", ""), row("own", `,"guided_choice":["yes","no"]`), row("call", `,"tools":[`+tool+`],"tool_choice":"required"`), row("cut", `,"max_tokens":2`),
	}, "\n")+"\n")
	out := filepath.Join(t.TempDir(), "out.csv")
	r := ingot(t, "", "run", in, "-o", out, "--model", tinyLlama, "--schema", fullSchema, "--max-tokens", "200", "--columns", "id,b,response,tool_calls,error")
	require.Equal(t, exitOK, r.code, r.stderr)
	got := map[string]map[string]string{}
	for _, record := range readCSV(t, out) {
		got[record["id"]] = record
	}
	require.Len(t, got, 4)
	require.Contains(t, []string{"x", "y"}, got["schema"]["b"])
	require.Contains(t, []string{"yes", "no"}, got["own"]["response"])
	require.Contains(t, got["call"]["tool_calls"], `"name":"f"`)
	require.Contains(t, got["cut"]["error"], "unparsed_answer: ")
	for _, id := range []string{"schema", "own", "call"} {
		require.Empty(t, got[id]["error"], id)
	}
	r = ingot(t, "", "run", in, "-o", out, "--model", tinyLlama, "--schema", fullSchema, "--max-tokens", "200", "--retry-failed")
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Contains(t, r.stderr, "1 row done, 3 kept")
}

// text returns the text of the first choice; empty if the row failed.
func (a answer) text() string {
	if a.Response == nil {
		return ""
	}
	c := a.Response.Body.Choices[0]
	return c.Text + c.Message.Content
}

// TestHelpOfColumnsFrom: the help names --schema only for the command that has it.
func TestHelpOfColumnsFrom(t *testing.T) {
	t.Parallel()
	for command, want := range map[string]string{"run": "default json with a --schema of objects, else none", "results": "default none", "export": "default none"} {
		text := strings.Join(strings.Fields(ingot(t, "", command, "--help").stdout), " ")
		require.Contains(t, text, want, command)
		require.Equal(t, command == "run", strings.Contains(text, "--schema"), command)
	}
}
