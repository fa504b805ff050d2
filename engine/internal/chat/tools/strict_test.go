package tools

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/engine/grammar"
)

// formsWithoutQuotes are the formats whose strings have neither quotes nor escapes.
var formsWithoutQuotes = []string{"GLM-4.5", "GLM-4.7", "Qwen3-Coder"}

func keepsSchema(schema string) error {
	return grammar.Check(&generation.Constraint{Schema: schema})
}

// strictForm returns the grammar of a call of a strict tool, and the set of that tool.
func strictForm(t testing.TB, f *Format, v *testVocabulary, parameters string) (*Set, *generation.Constraint, error) {
	t.Helper()
	set := NewSet(&generation.Request{
		Tools:      []generation.Tool{{Name: "f", Strict: true, Parameters: parameters}},
		ToolChoice: generation.ToolChoice{Mode: generation.ToolsNamed, Names: []string{"f"}},
	})
	c, err := f.Constraint(set, nil, v, keepsSchema)
	return set, c, err
}

// What a form without quotes cannot keep is refused with the path of the keyword.
func TestStrictRefusals(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ property, want string }{
		{`{"anyOf":[{"type":"string","minLength":1}],"maxLength":3}`, "/properties/p/maxLength: "},
		{`{"oneOf":[{"type":"string"},{"type":"string","maxLength":3}]}`, "/properties/p/oneOf: "},
		{`{"anyOf":[{"type":"null"},{"type":"string","allOf":[{"maxLength":3}]}]}`, "/properties/p/anyOf/1/allOf: "},
		{`{"$ref":"#/$defs/t","maxLength":3}`, "/properties/p/maxLength: "},
		{`{"enum":["1",2]}`, `/properties/p/enum: without quotes, the string "1" looks like another value`},
		{`{"enum":["None",null]}`, `/properties/p/enum: `},
		{`{"enum":["a</arg_value></parameter>"]}`, `/properties/p/enum: `},
		{`{"type":"string","enum":["abc","abd"],"pattern":"c"}`, `/properties/p/pattern: `},
		{`{"type":"array","items":{"$ref":"#/properties/other"}}`, `/properties/p/items/$ref: `},
		{`{"type":"string","not":{"const":"a"}}`, `/properties/p/not: `},
	} {
		for _, name := range formsWithoutQuotes {
			parameters := `{"type":"object","properties":{"p":` + c.property + `,"other":{"type":"string"}},"required":["p"],"$defs":{"t":{"type":"string"}}}`
			_, _, err := strictForm(t, format(t, name), newTestVocabulary(nil), parameters)
			require.ErrorContains(t, err, c.want, "%s: %s", name, c.property)
		}
	}
	for name, c := range map[string]struct{ parameters, want string }{
		"a mark in a name":            {`{"type":"object","properties":{"a</arg_key>b>c":{"type":"string"}}}`, "/properties/a<~1arg_key>b>c: the name"},
		"a keyword for all arguments": {`{"type":"object","properties":{"a":{"type":"string"}},"minProperties":1}`, "/minProperties: "},
		"a property that cannot be":   {`{"type":"object","properties":{"a":{"type":"string","minLength":3,"maxLength":2}}}`, ""},
	} {
		for _, form := range formsWithoutQuotes {
			_, _, err := strictForm(t, format(t, form), newTestVocabulary(nil), c.parameters)
			require.ErrorContains(t, err, c.want, "%s: %s", form, name)
		}
	}
}

// TestSchemasThatReferToThemselves: a value with several properties of its own kind has an
// unlimited number of nested values, for which the grammar does not write rules one by one.
func TestSchemasThatReferToThemselves(t *testing.T) {
	t.Parallel()
	var properties []string
	for i := range 8 {
		properties = append(properties, fmt.Sprintf(`"p%d":{"$ref":"#/$defs/t"}`, i))
	}
	kind := `{"type":"object","properties":{` + strings.Join(properties, ",") + `}}`
	parameters := `{"type":"object","properties":{"p":{"$ref":"#/$defs/t"}},"required":["p"],"$defs":{"t":` + kind + `}}`
	for _, f := range formats {
		_, c, err := strictForm(t, f, newTestVocabulary(f.marks), parameters)
		if err == nil {
			require.Less(t, len(c.Grammar), 1<<20, f.Name)
		}
	}
}

// drawProperty draws the schema of an argument in which a few keywords and values meet.
func drawProperty(r *rand.Rand, depth int) map[string]any {
	one := func(list ...any) any { return list[r.IntN(len(list))] }
	s := map[string]any{}
	if r.IntN(4) > 0 {
		s["type"] = one("string", "string", "string", "integer", "boolean", "null", []any{"string", "integer"}, []any{"string", "null"},
			[]any{"string", "boolean", "object"}, []any{"string", "array"}, []any{"string", "number"})
	}
	for range r.IntN(3) {
		switch r.IntN(12) {
		case 0, 1:
			s["minLength"] = one(json.Number("1"), json.Number("2.0"), 5)
		case 2, 3:
			s["maxLength"] = one(json.Number("3"), json.Number("6.0"), json.Number("4"))
		case 4:
			s["pattern"] = one("^[0-9]{3}$", "^[a-z\"<]+$", "^.$", "1|x", "^(tru?e|nul?l|\\d\\d)$")
		case 5:
			s["enum"] = []any{one("a", "1", "ab", "null", ""), one(2, "bbb", true), one(nil, "x y", " é\"")}
		case 6:
			s["const"] = one("a", "12", 12, nil, "true")
		case 7, 8:
			s[one("anyOf", "anyOf", "oneOf").(string)] = []any{drawNested(r, depth), drawNested(r, depth)}
		case 9:
			s["$ref"] = one("#/$defs/t", "#/$defs/n", "#/$defs/o")
		case 10:
			s["maximum"] = 10
		case 11:
			s["format"] = one("date", "ipv4")
		}
	}
	return s
}

func drawNested(r *rand.Rand, depth int) map[string]any {
	if depth == 0 {
		return map[string]any{"type": []any{"string", "integer", "null"}[r.IntN(3)]}
	}
	return drawProperty(r, depth-1)
}

// TestStrictArguments draws strict tools at random. The schema is refused with the place, or a
// random answer that the grammar allows has arguments that another validator accepts.
func TestStrictArguments(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(5, 6))
	kept, refused := 0, 0
	for n := range 150 {
		doc := map[string]any{
			"type": "object", "required": []any{"p"},
			"properties": map[string]any{"p": drawProperty(r, 2)},
			"$defs": map[string]any{
				"t": map[string]any{"type": "string", "maxLength": 4}, "n": map[string]any{"type": []any{"integer", "null"}, "minimum": 7},
				"o": map[string]any{"type": []any{"string", "object"}, "properties": map[string]any{"k": map[string]any{"type": "string"}}, "required": []any{"k"}, "maxProperties": 1},
			},
		}
		if r.IntN(3) == 0 {
			doc["required"], doc["additionalProperties"] = []any{"p", "q"}, drawProperty(r, 1)
		}
		text, err := json.Marshal(doc)
		require.NoError(t, err)
		if keepsSchema(string(text)) != nil {
			continue
		}
		f := format(t, formsWithoutQuotes[n%len(formsWithoutQuotes)])
		v := newTestVocabulary(nil)
		set, c, err := strictForm(t, f, v, string(text))
		if err != nil {
			require.Regexp(t, `: /(properties|additionalProperties)[^ ]*: `, err.Error())
			refused++
			continue
		}
		kept++
		requireStrict(t, f, v, set, c, string(text), r)
	}
	require.Greater(t, kept, 50, "the schemas test little")
	require.Greater(t, refused, 10, "the schemas test little")
}

// requireStrict requires that random calls of a grammar have arguments of a schema.
func requireStrict(t *testing.T, f *Format, v *testVocabulary, set *Set, c *generation.Constraint, schema string, r *rand.Rand) {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(schema))
	require.NoError(t, err)
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	require.NoError(t, compiler.AddResource("s.json", doc))
	validator, err := compiler.Compile("s.json")
	require.NoError(t, err)
	g := v.compile(t, c)
	for range 4 {
		answer := strings.Join(v.walk(t, g, r), "")
		out := parse(f, set, true, answer)
		about := fmt.Sprintf("%s\n%s\n%q", f.Name, schema, answer)
		require.Len(t, out.Calls, 1, about)
		require.Equal(t, out, parse(f, set, true, append(strings.Split(answer, ""), "")...), about)
		arguments, err := jsonschema.UnmarshalJSON(strings.NewReader(out.Calls[0].Arguments))
		require.NoError(t, err, about)
		require.NoError(t, validator.Validate(arguments), about)
	}
}
