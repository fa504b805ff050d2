package main

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/files/table"
	"github.com/ingot-run/ingot/internal/bounded"
)

// recipe returns the commands of a recipe in the README: those below the paragraph that begins with
// title.
func recipe(t *testing.T, title string) string {
	t.Helper()
	_, text, found := strings.Cut(readFile(t, "../../README.md"), "\n**"+title)
	require.True(t, found, title)
	_, text, found = strings.Cut(text, "\n```sh\n")
	require.True(t, found)
	text, _, found = strings.Cut(text, "\n```\n")
	require.True(t, found)
	return text
}

// follow runs a recipe's commands unchanged in a folder with bin/ingot, model.gguf and the given
// files. It returns the folder and the output.
func follow(t *testing.T, title string, files map[string]string) (dir, stdout string) {
	t.Helper()
	dir = t.TempDir()
	prepare(t, dir, "model.gguf", files)
	return dir, shell(t, dir, recipe(t, title))
}

// prepare makes bin/ingot, a model and the given files in a folder.
func prepare(t *testing.T, dir, modelName string, files map[string]string) {
	t.Helper()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "bin"), 0o700))
	program := fmt.Sprintf("#!/bin/sh\n%s=1 exec '%s' \"$@\"\n", asProgram, os.Args[0])
	require.NoError(t, os.WriteFile(filepath.Join(dir, "bin", "ingot"), []byte(program), 0o700))
	model, err := filepath.Abs(tinyLlama)
	require.NoError(t, err)
	require.NoError(t, os.Symlink(model, filepath.Join(dir, modelName)))
	for name, text := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
}

// shell runs commands in a folder and returns their output.
func shell(t *testing.T, dir, commands string) string {
	t.Helper()
	sh := bounded.Command(t, "sh", "-e")
	sh.Dir, sh.Stdin = dir, strings.NewReader(commands)
	var stderr strings.Builder
	sh.Stderr = &stderr
	out, err := sh.Output()
	require.NoError(t, err, stderr.String())
	return string(out)
}

func TestRecipeTranslateATable(t *testing.T) {
	t.Parallel()
	dir, stdout := follow(t, "Translate a column of a table.", map[string]string{
		"reviews.csv": "id,lang,text\n1,de,\"Sehr gut,\nimmer wieder.\"\n2,en,Good.\n3,fr,\"Il dit \"\"non\"\".\"\n4,de,\"{{.id}}\"\n5,de,Gut\n",
	})
	require.Equal(t, 3, strings.Count(stdout, "\n"), "three requests are printed")
	require.Contains(t, stdout, `"content":"Translate to English: Sehr gut,\nimmer wieder."`)
	require.Contains(t, stdout, `"content":"Translate to English: {{.id}}"`)
	rows, err := csv.NewReader(strings.NewReader(readFile(t, filepath.Join(dir, "translated.csv")))).ReadAll()
	require.NoError(t, err)
	require.Equal(t, []string{"id", "lang", "text"}, rows[0][:3])
	var ids []string
	for _, row := range rows[1:] {
		ids = append(ids, row[0])
	}
	require.Equal(t, []string{"1", "3", "4", "5"}, ids)
	require.Equal(t, []string{"1", "de", "Sehr gut,\nimmer wieder."}, rows[1][:3])
	require.Greater(t, len(rows[0]), 3, "and the answers")
}

func TestRecipeADataSet(t *testing.T) {
	t.Parallel()
	dir, _ := follow(t, "Generate a data set with five answers per row.", map[string]string{"topics.csv": "topic,level\ncapitals of Europe,1\nmonths of the year,2\nprime numbers,3\n"})
	r := ingot(t, "", "export", filepath.Join(dir, "data.parquet.answers.jsonl"), "--input", filepath.Join(dir, "topics.csv"), "-o", filepath.Join(dir, "all.csv"))
	require.Equal(t, exitOK, r.code, r.stderr)
	all := readCSV(t, filepath.Join(dir, "all.csv"))
	require.Len(t, all, 15)
	seen, want := map[string]bool{}, []string{}
	for _, a := range all {
		text := strings.Join(strings.Fields(a["response"]), " ")
		if a["finish_reason"] == "stop" && len([]rune(a["response"])) >= 8 && !seen[text] {
			seen[text] = true
			want = append(want, a["topic"]+" "+a["sample_index"]+": "+a["response"])
		}
	}
	in, err := table.Open([]string{filepath.Join(dir, "data.parquet")}, table.Options{})
	require.NoError(t, err)
	records, err := in.Records()
	require.NoError(t, err)
	defer func() { require.NoError(t, errors.Join(records.Close(), in.Close())) }()
	var got []string
	for {
		record, err := records.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		values := map[string]string{}
		for _, f := range record.Fields {
			var text string
			if json.Unmarshal(f.Value, &text) != nil {
				text = string(f.Value)
			}
			values[f.Name] = text
		}
		got = append(got, values["topic"]+" "+values["sample_index"]+": "+values["response"])
	}
	require.NotEmpty(t, got)
	require.Less(t, len(got), 15)
	require.Equal(t, want, got)
	require.Equal(t, "topic,level,ingot_error\n", readFile(t, filepath.Join(dir, "again.csv")), "no row failed")
}

func TestRecipeClassify(t *testing.T) {
	t.Parallel()
	dir, _ := follow(t, "Classify.", map[string]string{"reviews.csv": "review\nGreat\nBroken\nFine\n"})
	sentiment, details := readCSV(t, filepath.Join(dir, "sentiment.csv")), readCSV(t, filepath.Join(dir, "details.csv"))
	require.Equal(t, []string{"Great", "Broken", "Fine"}, column(sentiment, "review"))
	require.Equal(t, []string{"Great", "Broken", "Fine"}, column(details, "review"))
	for i := range sentiment {
		require.Contains(t, []string{"positive", "negative"}, sentiment[i]["response"])
		require.Empty(t, details[i]["error"], "every answer is whole")
		require.Contains(t, []string{"positive", "negative"}, details[i]["label"])
		require.Regexp(t, "^[1-5]$", details[i]["score"])
		require.NotEmpty(t, details[i]["reason"])
	}
}

func TestRecipeClassifyWithSeveralModels(t *testing.T) {
	t.Parallel()
	small, err := os.ReadFile(tinyLlama)
	require.NoError(t, err)
	large, err := os.ReadFile(tinyGLM)
	require.NoError(t, err)
	dir, _ := follow(t, "Classify with several models.", map[string]string{
		"reviews.csv": "review,stars\n\"Great, would buy again\",5\nBroke after a day,1\n", "small.gguf": string(small), "large.gguf": string(large),
	})
	rows := readCSV(t, filepath.Join(dir, "labels.csv"))
	require.Equal(t, []string{"Great, would buy again", "Great, would buy again", "Broke after a day", "Broke after a day"}, column(rows, "review"))
	require.Equal(t, []string{"5", "5", "1", "1"}, column(rows, "stars"))
	require.Equal(t, []string{"small", "large", "small", "large"}, column(rows, "model"))
	for _, r := range rows {
		require.Contains(t, []string{"positive", "negative", "neutral"}, r["response"])
		require.Empty(t, r["error"])
	}
}

// TestREADMEsRealModel runs the three commands of README's "A real model" as they stand there, with
// a bundled model in place of the file that they name.
func TestREADMEsRealModel(t *testing.T) {
	t.Parallel()
	_, text, found := strings.Cut(readFile(t, "../../README.md"), "\n## A real model\n")
	require.True(t, found)
	text, _, found = strings.Cut(text, "\n`--model` takes the path")
	require.True(t, found)
	dir := t.TempDir()
	prepare(t, dir, "SmolLM2-135M-Instruct.Q4_1.gguf", map[string]string{"countries.csv": "country\nFinland\nJapan\n"})
	var outputs []string
	for _, part := range strings.Split(text, "\n```sh\n")[1:] {
		command, _, found := strings.Cut(part, "\n```\n")
		require.True(t, found)
		outputs = append(outputs, shell(t, dir, command))
	}
	require.Len(t, outputs, 3)
	require.Regexp(t, `(?m)^answer +\S`, outputs[0])
	require.Len(t, readAnswers(t, outputs[1]), 1)
	require.Equal(t, []string{"Finland", "Japan"}, column(readCSV(t, filepath.Join(dir, "capitals.csv")), "country"))
}
