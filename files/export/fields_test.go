package export_test

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/files/export"
	"github.com/ingot-run/ingot/files/table"
)

func cut(text string) choice { return choice{text, "", generation.FinishLength, len(text)} }

const notJSON = "unparsed_answer: the answer is not a JSON object"

// TestColumnsOfJSON: each property of an answer is a column, in the order of the schema if one is
// given. An answer that is not a complete object is a failed one, whose text stays in the table.
func TestColumnsOfJSON(t *testing.T) {
	t.Parallel()
	in := from(`{"q":1}`, `{"q":2}`, `{"q":3}`, `{"q":4}`, `{"q":5}`, `{"q":6}`)
	a := open(t,
		answer(t, 1, "line-1", stop(` {"score": 1, "tags": ["a", {"b": 2}], "error": "none", "score": 2} `)),
		answer(t, 2, "line-2", stop(`{"label":"x\n","score":2.5}`), cut(`{"label":"y"}`)),
		answer(t, 3, "line-3", cut(`{"label":"y","sco`)),
		answer(t, 4, "line-4", stop(`["label"]`)),
		answer(t, 5, "line-5"),
		answer(t, 6, "line-6", stop(``)),
	)
	const schema = `{"properties":{"label":{"type":"string"},"sure":{"type":"boolean"},"score":{"type":"integer"}}}`
	var failed bytes.Buffer
	for _, c := range []struct {
		name   string
		fields export.Fields
		failed *export.FailedRows
		want   []string // the part of each record between the input and finish_reason, and the error
		counts export.Counts
	}{
		{"found in the answers", export.Fields{JSON: true}, nil, []string{
			`"score":2,"tags":["a",{"b":2}],"answer_error":"none","label":null,"sample_index":0,"response":" {\"score\": 1, \"tags\": [\"a\", {\"b\": 2}], \"error\": \"none\", \"score\": 2} " null`,
			`"score":2.5,"tags":null,"answer_error":null,"label":"x\n","sample_index":0,"response":"{\"label\":\"x\\n\",\"score\":2.5}" null`,
			`"score":null,"tags":null,"answer_error":null,"label":"y","sample_index":1,"response":"{\"label\":\"y\"}" null`,
			`"score":null,"tags":null,"answer_error":null,"label":null,"sample_index":0,"response":"{\"label\":\"y\",\"sco" "` + notJSON + `, since it was cut at the maximum number of tokens: write failed rows to another file (--failed), and answer it with more max_tokens"`,
			`"score":null,"tags":null,"answer_error":null,"label":null,"sample_index":0,"response":"[\"label\"]" "` + notJSON + `"`,
			`"score":null,"tags":null,"answer_error":null,"label":null,"sample_index":null,"response":null "timeout: line 5: too slow"`,
			`"score":null,"tags":null,"answer_error":null,"label":null,"sample_index":0,"response":"" "` + notJSON + `"`,
		}, export.Counts{Records: 7, Dropped: map[export.Reason]int{}, Unparsed: 3}},
		{"of a schema", export.Fields{JSON: true, Schema: schema}, export.NewFailedRows(&failed, export.CSV), []string{
			`"label":null,"sure":null,"score":2,"tags":["a",{"b":2}],"answer_error":"none","sample_index":0,"response":" {\"score\": 1, \"tags\": [\"a\", {\"b\": 2}], \"error\": \"none\", \"score\": 2} " null`,
			`"label":"x\n","sure":null,"score":2.5,"tags":null,"answer_error":null,"sample_index":0,"response":"{\"label\":\"x\\n\",\"score\":2.5}" null`,
			`"label":"y","sure":null,"score":null,"tags":null,"answer_error":null,"sample_index":1,"response":"{\"label\":\"y\"}" null`,
		}, export.Counts{Records: 3, Dropped: map[export.Reason]int{export.Failed: 4}, Failed: 4, Unparsed: 3}},
	} {
		t.Run(c.name, func(t *testing.T) {
			lines, counts := write(t, export.Options{Input: in, Answers: []*export.Answers{a}, Fields: c.fields, Failed: c.failed})
			var got []string
			for _, line := range lines {
				m := regexp.MustCompile(`^\{"q":\d,(.*),"finish_reason":.*,"error":(.*)\}$`).FindStringSubmatch(line)
				require.NotNil(t, m, line)
				got = append(got, m[1]+" "+m[2])
			}
			require.Equal(t, c.want, got)
			require.Equal(t, c.counts, counts)
		})
	}
	require.Equal(t, `q,ingot_error
3,"`+notJSON+`, since it was cut at the maximum number of tokens: write failed rows to another file (--failed), and answer it with more max_tokens"
4,`+notJSON+`
5,timeout: line 5: too slow
6,`+notJSON+`
`, failed.String())
}

// TestColumnsOfGroups: each named group of an expression is a column. A group that takes no part in
// the match is null.
func TestColumnsOfGroups(t *testing.T) {
	t.Parallel()
	a := open(t,
		answer(t, 1, "a", stop("Because.\nScore: 7/10")), answer(t, 2, "b", stop("Score: 8")), answer(t, 3, "c", stop("none")), answer(t, 4, "d", cut("Sco")),
	)
	got, counts := write(t, export.Options{Answers: []*export.Answers{a}, Prefix: "x_",
		Fields: export.Fields{Groups: regexp.MustCompile(`Score: (?P<score>\d+)(/(?P<model>\d+))?`)}})
	const figures = `"x_finish_reason":%q,"x_model":"tiny","x_prompt_tokens":7,"x_completion_tokens":%d,"x_error":%s}`
	require.Equal(t, []string{
		fmt.Sprintf(`{"custom_id":"a","x_score":"7","x_answer_model":"10","x_response":"Because.\nScore: 7/10",`+figures, "stop", 20, "null"),
		fmt.Sprintf(`{"custom_id":"b","x_score":"8","x_answer_model":null,"x_response":"Score: 8",`+figures, "stop", 8, "null"),
		fmt.Sprintf(`{"custom_id":"c","x_score":null,"x_answer_model":null,"x_response":"none",`+figures, "stop", 4, `"unparsed_answer: the answer does not match the expression"`),
		fmt.Sprintf(`{"custom_id":"d","x_score":null,"x_answer_model":null,"x_response":"Sco",`+figures, "length", 3,
			`"unparsed_answer: the answer does not match the expression, since it was cut at the maximum number of tokens: write failed rows to another file (--failed), and answer it with more max_tokens"`),
	}, got)
	require.Equal(t, export.Counts{Records: 4, Dropped: map[export.Reason]int{}, Unparsed: 2}, counts)
}

// TestKindsOfASchema: the columns have the kinds of the schema, and in Parquet its types. A value
// that does not fit widens the kind.
func TestKindsOfASchema(t *testing.T) {
	t.Parallel()
	const schema = `{"$ref":"#/$defs/answer","$defs":{
		"level":{"enum":["low","high",null]},
		"answer":{"type":"object","properties":{
			"text":{"type":"string"}, "level":{"$ref":"#/$defs/level"}, "n":{"type":["integer","null"]}, "x":{"type":"number"}, "wide":{"type":"integer"},
			"sure":{"anyOf":[{"type":"boolean"},{"type":"null"}]}, "one":{"const":1}, "either":{"oneOf":[{"type":"integer"},{"enum":[0.5]}]},
			"list":{"type":"array","items":{"type":"string"}}, "mixed":{"type":["string","integer"]}, "free":{}, "unseen":{"$ref":"#/$defs/none"},
			"loop":{"$ref":"#/$defs/answer/properties/loop"}, "any":true}}}}`
	fields := export.Fields{JSON: true, Schema: schema}
	known := fields.Known()
	kinds := map[string]table.Kind{}
	for _, c := range known {
		kinds[c.Name] = c.Kind
	}
	require.Equal(t, []string{"text", "level", "n", "x", "wide", "sure", "one", "either", "list", "mixed", "free", "unseen", "loop", "any"}, table.Names(known))
	require.Equal(t, map[string]table.Kind{
		"text": table.String, "level": table.String, "n": table.Integer, "x": table.Number, "wide": table.Integer, "sure": table.Boolean, "one": table.Integer,
		"either": table.Number, "list": table.JSON, "mixed": table.JSON, "free": "", "unseen": "", "loop": "", "any": "",
	}, kinds)

	a := open(t,
		answer(t, 1, "a", stop(`{"text":"t","level":null,"n":7,"x":1,"wide":1e30,"sure":true,"one":1,"either":2,"list":["a", "b"],"mixed":"m","free":3,"any":false}`)),
		answer(t, 2, "b", stop(`{}`)))
	var b bytes.Buffer
	_, err := export.WriteTable(t.Context(), &b, export.Options{Answers: []*export.Answers{a}, Fields: fields, Format: export.Parquet})
	require.NoError(t, err)
	file, err := parquet.OpenFile(bytes.NewReader(b.Bytes()), int64(b.Len()))
	require.NoError(t, err)
	types := map[string]string{}
	for _, f := range file.Schema().Fields() {
		types[f.Name()] = f.Type().String()
	}
	for name, want := range map[string]string{
		"text": "STRING", "level": "STRING", "n": "INT(64,true)", "x": "DOUBLE", "wide": "DOUBLE", "sure": "BOOLEAN", "one": "INT(64,true)", "either": "DOUBLE",
		"list": "JSON", "mixed": "JSON", "free": "INT(64,true)", "unseen": "STRING", "any": "BOOLEAN",
	} {
		require.Equal(t, want, types[name], name)
	}
	rows := []map[string]any{{}, {}}
	n, err := parquet.NewGenericReader[map[string]any](bytes.NewReader(b.Bytes()), file.Schema()).Read(rows)
	if err != nil {
		require.ErrorIs(t, err, io.EOF)
	}
	require.Equal(t, 2, n)
	require.Equal(t, []any{int64(7), 1.0, 1e30, true, nil}, []any{rows[0]["n"], rows[0]["x"], rows[0]["wide"], rows[0]["sure"], rows[1]["n"]})
}

// TestColumnsOfCombinedSchemas: the properties of all schemas that a schema combines are columns.
func TestColumnsOfCombinedSchemas(t *testing.T) {
	t.Parallel()
	const a, b = `{"type":"object","properties":{"a":{"type":"integer"},"c":{"type":"integer"}}}`, `{"type":"object","properties":{"b":{"type":"string"},"c":{"type":"number"}}}`
	for schema, want := range map[string]struct {
		columns []table.Column
		objects bool
	}{
		`{"allOf":[` + a + `,` + b + `]}`:                                    {[]table.Column{{Name: "a", Kind: table.Integer}, {Name: "c", Kind: table.Number}, {Name: "b", Kind: table.String}}, true},
		`{"anyOf":[` + b + `,{"$ref":"#/$defs/a"}],"$defs":{"a":` + a + `}}`: {[]table.Column{{Name: "b", Kind: table.String}, {Name: "c", Kind: table.Number}, {Name: "a", Kind: table.Integer}}, true},
		`{"oneOf":[` + a + `,{"type":"string"}]}`:                            {[]table.Column{{Name: "a", Kind: table.Integer}, {Name: "c", Kind: table.Integer}}, false},
		`{"type":"object"}`:                                                  {nil, true},
		`{"allOf":[{"$ref":"#"}]}`:                                           {nil, false},
		`{"type":["object","null"]}`:                                         {nil, false},
		`{"enum":["a"]}`:                                                     {nil, false},
		`not JSON`:                                                           {nil, false},
		`{"properties":{}}`:                                                  {nil, true},
		`{"type":["object"]}`:                                                {nil, true},
		`{"type":["object","object"]}`:                                       {nil, false},
		`{"type":["string"]}`:                                                {nil, false},
		`{"properties":{"a":{"anyOf":[{"type":"string"},{}]}}}`:              {[]table.Column{{Name: "a"}}, true},
		`{"anyOf":[]}`:                                                       {nil, false},
		`{"anyOf":[{"type":"string"}],"oneOf":[{"type":"object"}]}`:          {nil, true},
		`{"allOf":[{"type":"string"},{"type":"object"}]}`:                    {nil, true},
		`{"$ref":"other.json#/a","a":` + a + `}`:                             {nil, false},
		`{"$ref":"#/x~1y/~0z","x/y":{"~z":` + a + `}}`:                       {[]table.Column{{Name: "a", Kind: table.Integer}, {Name: "c", Kind: table.Integer}}, true},
		`{"$ref":"#/none/none"}`:                                             {nil, false},
		`{"allOf":[{"properties":{"a":{},"b":{"type":"string"},"c":{}}},{"properties":{"a":{"type":"string"},"b":{},"c":true}}]}`: {
			[]table.Column{{Name: "a", Kind: table.String}, {Name: "b", Kind: table.String}, {Name: "c"}}, true},
		`{"properties":{"a":{"enum":[true]},"b":{"enum":[[1]]},"c":{"enum":[{}]},"d":{"enum":[1,0.5]},"e":{"enum":[0.5,1]},"f":{"enum":["a",1]},"g":{"const":null},
			"h":{"type":["integer","number"]},"i":{"type":["null","object"]},"j":{"type":"null"},"k":{"enum":[null,true]},"l":{"type":["boolean","string","integer"]},"m":{"type":"other"}}}`: {
			[]table.Column{{Name: "a", Kind: table.Boolean}, {Name: "b", Kind: table.JSON}, {Name: "c", Kind: table.JSON}, {Name: "d", Kind: table.Number}, {Name: "e", Kind: table.Number},
				{Name: "f", Kind: table.JSON}, {Name: "g"}, {Name: "h", Kind: table.Number}, {Name: "i", Kind: table.JSON}, {Name: "j"}, {Name: "k", Kind: table.Boolean},
				{Name: "l", Kind: table.JSON}, {Name: "m"}}, true},
		chain(14): {[]table.Column{{Name: "a", Kind: table.String}}, true},
		chain(15): {[]table.Column{{Name: "a"}}, true},
	} {
		require.Equal(t, want.columns, (&export.Fields{JSON: true, Schema: schema}).Known(), schema)
		require.Equal(t, want.objects, export.HasObjects(schema), schema)
	}
}

// chain is a schema whose property is a string behind a number of references.
func chain(n int) string {
	var links strings.Builder
	for i := range n {
		fmt.Fprintf(&links, `"%d":{"$ref":"#/%d"},`, i, i+1)
	}
	return fmt.Sprintf(`{"type":"object","properties":{"a":{"$ref":"#/0"}},%s"%d":{"type":"string"}}`, links.String(), n)
}

// TestSchemaThatRepeatsItself: a schema whose references multiply is read in bounded time.
func TestSchemaThatRepeatsItself(t *testing.T) {
	t.Parallel()
	twice := strings.Repeat(`{"$ref":"#/$defs/a"},`, 9) + `{"$ref":"#/$defs/a"}`
	fields := export.Fields{JSON: true, Schema: `{"properties":{"a":{"$ref":"#/$defs/a"}},"$defs":{"a":{"anyOf":[` + twice + `]}}}`}
	require.Equal(t, []table.Column{{Name: "a"}}, fields.Known())
}

func TestColumnsOfAnswersAreRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fields export.Fields
		text   string
		want   string
	}{
		"known":   {export.Fields{JSON: true, Schema: `{"properties":{"id":{}}}`}, `{}`, `the input has a column "id", which is also the name of a generated column`},
		"found":   {export.Fields{JSON: true}, `{"id":7}`, "--column-prefix=answer_"},
		"group":   {export.Fields{Groups: regexp.MustCompile(`(?P<id>.)`)}, `a`, `the input has a column "id"`},
		"columns": {export.Fields{JSON: true}, manyProperties(table.MaxColumns + 1), "more than 10000 different columns, which is the maximum: leave out --columns-from json"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := export.WriteTable(t.Context(), io.Discard, export.Options{
				Format: export.CSV, Input: from(`{"id":"a"}`), Answers: []*export.Answers{open(t, answer(t, 1, "a", stop(c.text)))}, Fields: c.fields,
			})
			require.ErrorContains(t, err, c.want)
		})
	}
}

func manyProperties(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"p%d":0`, i)
	}
	return "{" + b.String()[1:] + "}"
}
