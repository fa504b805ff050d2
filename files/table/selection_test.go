package table_test

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ingot-run/ingot/files/table"
)

// TestSelection compares a selection with the same choice from a list of all records.
func TestSelection(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		rows := rapid.IntRange(0, 60).Draw(rt, "rows")
		s := table.Selection{
			Skip: rapid.IntRange(0, 20).Draw(rt, "skip"), Sample: rapid.IntRange(0, 20).Draw(rt, "sample"),
			Seed: rapid.Int64().Draw(rt, "seed"), Limit: rapid.IntRange(0, 20).Draw(rt, "limit"),
		}
		least := rapid.IntRange(0, 40).Draw(rt, "least")
		if rapid.Bool().Draw(rt, "where") {
			s.Where = fmt.Sprintf("n >= %d and odd", least)
		}
		var text strings.Builder
		var all []string
		for n := range rows {
			fmt.Fprintf(&text, "{\"n\":%d,\"odd\":%t}\n", n, n%2 == 1)
			if s.Where == "" || n >= least && n%2 == 1 {
				all = append(all, fmt.Sprintf(`%d: {"n":%d,"odd":%t}`, n+1, n, n%2 == 1))
			}
		}
		got := select1(t, text.String(), s)
		require.Equal(t, got, select1(t, text.String(), s), "the same seed draws the same sample")
		all = all[min(s.Skip, len(all)):]
		want := len(all)
		if s.Sample > 0 {
			want = min(want, s.Sample)
		}
		if s.Limit > 0 {
			want = min(want, s.Limit)
		}
		require.Len(t, got, want)
		if s.Sample == 0 {
			require.Equal(t, append([]string{}, all[:want]...), append([]string{}, got...))
			return
		}
		at := -1
		for _, g := range got { // got is a part of all, in the same order
			i := slices.Index(all, g)
			require.Greater(t, i, at)
			at = i
		}
	})
}

func select1(t *testing.T, text string, s table.Selection) []string {
	got, err := readInput(t, table.Options{Format: table.Lines, Stdin: strings.NewReader(text), Select: s}, "-")
	require.NoError(t, err)
	return got
}

// TestSamplesAreUniform: all records are drawn equally often.
func TestSamplesAreUniform(t *testing.T) {
	t.Parallel()
	const rows, size, draws = 50, 10, 2000
	text := strings.Repeat("{}\n", rows)
	var drawn [rows + 1]int
	for seed := range int64(draws) {
		for _, g := range select1(t, text, table.Selection{Sample: size, Seed: seed}) {
			var n int
			_, err := fmt.Sscanf(g, "%d:", &n)
			require.NoError(t, err)
			drawn[n]++
		}
	}
	for n := 1; n <= rows; n++ { // 400 expected, with a standard deviation of 17.9
		require.InDelta(t, draws*size/rows, drawn[n], 6*17.9, "record %d", n)
	}
}

// Records that cannot be read are drawn like others.
func TestSamplesHaveDamagedRecords(t *testing.T) {
	t.Parallel()
	require.Len(t, select1(t, strings.Repeat("damaged\n", 5), table.Selection{Sample: 3}), 3)
}

func TestConditions(t *testing.T) {
	t.Parallel()
	const csv = "lang,score,First Name\nde,3,A\nfr,x,B\nde,,\n"
	for _, c := range []struct{ where, want, err string }{
		{`lang == "de"`, "1 3", ""},
		{`lang in ["de", "fr"] and score matches "^[0-9]+$" and int(score) > 2`, "1", ""},
		{`$env["First Name"] == "B"`, "2", ""},
		{`len(score) == 0`, "3", ""},
		{`lnag == "de"`, "", `unknown name lnag (1:1); the columns are "lang", "score", "First Name"`},
		{`scores == "3"`, "", `the columns are "lang", "score", "First Name"; did you mean "score"?`},
		{`lang ==`, "", `condition "lang ==": unexpected token EOF`},
		{`lang`, "", `invalid operation: bool(string)`},
		{`score > 2`, "", `record 1: condition "score > 2": invalid operation: string > int (1:7) (values in CSV are strings: use int(x) or float(x)`},
	} {
		got, err := readInput(t, table.Options{Format: table.CSV, Stdin: strings.NewReader(csv), Select: table.Selection{Where: c.where}}, "-")
		if c.err != "" {
			require.ErrorContains(t, err, c.err, c.where)
			continue
		}
		require.NoError(t, err, c.where)
		var numbers []string
		for _, g := range got {
			numbers = append(numbers, g[:1])
		}
		require.Equal(t, c.want, strings.Join(numbers, " "), c.where)
	}
}

// TestConditionsOnRecordsWithDifferentColumns: a condition can use the names in the first records,
// and an absent value is nil.
func TestConditionsOnRecordsWithDifferentColumns(t *testing.T) {
	t.Parallel()
	path := put(t, t.TempDir(), "a.jsonl", `{"a":1}`+"\n"+`{"b":2}`+"\nnot JSON\n"+`{"a":null,"b":3.5}`+"\n")
	for where, want := range map[string]string{`a == nil`: "2! 3! 4", `(b ?? 0) > 1`: "2! 3! 4", `a == 1`: "1 3!"} {
		got, err := readInput(t, table.Options{Select: table.Selection{Where: where}}, path)
		require.NoError(t, err)
		var numbers []string
		for _, g := range got {
			numbers = append(numbers, strings.TrimSuffix(strings.Fields(g)[0], ":"))
		}
		require.Equal(t, strings.Replace(want, "2!", "2", 1), strings.Join(numbers, " "), where)
	}
	_, err := readInput(t, table.Options{Select: table.Selection{Where: `c == 1`}}, path)
	require.ErrorContains(t, err, `unknown name c (1:1); the columns are "a", "b"`)
	_, err = readInput(t, table.Options{Select: table.Selection{Where: `a > 0`}}, path)
	require.ErrorContains(t, err, `record 2: condition "a > 0": `)
}

// An input that cannot be read to its end has no sample, and one that cannot be opened has none.
func TestSamplesOfInputsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	gzipPart(&b, "{\"a\":1}\n{\"a\":2}\n{\"a\":3}\n")
	path := put(t, t.TempDir(), "in.jsonl.gz", b.String()[:b.Len()-4])
	for _, s := range []table.Selection{{Sample: 1}, {Sample: 2, Skip: 1}, {Sample: 1, Where: "a > 1"}} {
		in, err := table.Open([]string{path}, table.Options{Select: s})
		require.NoError(t, err)
		for range 2 {
			_, err = in.Records()
			require.ErrorContains(t, err, "the file is incomplete", "%+v", s)
		}
		require.NoError(t, in.Close())
	}
	require.NoError(t, os.Remove(path))
	in, err := table.Open([]string{path}, table.Options{Select: table.Selection{Sample: 1}})
	if err == nil {
		_, err = in.Records()
	}
	require.ErrorIs(t, err, os.ErrNotExist)
}
