package grammar

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/generation"
)

// TestKeywords has, by keyword, a schema with texts that it allows and texts that it does not.
func TestKeywords(t *testing.T) {
	compiler := NewCompiler(testVocabulary(), Limits{})
	for _, c := range []struct {
		name, schema string
		yes, no      []string
	}{
		{"true", `true`, []string{`1`, `{"a": 1, "b": [1, 2]}`, `{"a":[null,{"b":1e5}]}`, `"\u00e9"`}, []string{``, ` 1`, `{"a" :1}`, `{"a":  1}`, `[ 1]`, `"\ud800"`, "\"\n\""}},
		{"no keyword", `{}`, []string{`[]`, `-0.5`}, []string{`01`, `.5`, `1.`}},
		{"type", `{"type":["integer","null","boolean"]}`, []string{`0`, `-12`, `null`, `true`, `false`}, []string{`1.0`, `1e2`, `-0`, `"a"`, `[]`}},
		{"type number", `{"type":"number"}`, []string{`1`, `-1.50`, `2E+10`, `1e307`, `0.0`}, []string{`1e400`, `12e307`, `+1`, `NaN`}},
		{"integers have at most 20 digits", `{"type":"integer"}`, []string{`-18446744073709551615`, `99999999999999999999`}, []string{`100000000000000000000`, `-100000000000000000000`}},
		{"numbers have at most 20 digits twice", `{"type":"number"}`, []string{`18446744073709551615.12345678901234567890`, `1.7976931348623157e307`}, []string{`100000000000000000000`, `0.123456789012345678901`}},
		{"digits beside one bound", `{"type":"number","minimum":5}`, []string{`18446744073709551615`, `5.12345678901234567890`}, []string{`100000000000000000000`, `5.1234567890123456789012345678`}},
		{"digits of a large bound", `{"type":"integer","minimum":1e30}`, []string{`1000000000000000000000000000001`}, []string{`100000000000000000000`, `10000000000000000000000000000000000`}},
		{"multiples above a large bound", `{"type":"number","minimum":1e25,"multipleOf":0.5}`, []string{`10000000000000000000000000.5`}, []string{`10000000000000000000000000.25`}},
		{"nullable", `{"type":"string","nullable":true}`, []string{`null`, `"a"`}, []string{`1`}},
		{"enum", `{"enum":["a\"é\n",1,1.50,null,[1,{"b":2}],{"x":true}]}`,
			[]string{`"a\"é\n"`, `1`, `1.5`, `null`, `[1,{"b":2}]`, `{"x":true}`}, []string{`"a"`, `2`, `1.0`, `[1]`, `{"x":false}`, `{}`, `{"x":true,"y":1}`}},
		{"const", `{"const":{"a":1,"b":[]}}`, []string{`{"a":1,"b":[]}`}, []string{`{"b":[],"a":1}`, `{"a":1}`}},
		{"const that is whole", `{"const":2.0}`, []string{`2`}, []string{`2.0`, `3`}},
		{"minLength, maxLength", `{"type":"string","minLength":2,"maxLength":3}`,
			[]string{`"ab"`, `"é😀x"`, `"\n\u00e9"`, `"\ud83d\ude00a"`}, []string{`"a"`, `"abcd"`, `""`, `"\ud83d\ude00"`}},
		{"pattern", `{"type":"string","pattern":"b+$"}`, []string{`"b"`, `"a\"bb"`}, []string{`"ba"`, `""`}},
		{"pattern on the decoded string", `{"type":"string","pattern":"^\"\\n[\\\\]\\u0001$"}`, []string{`"\"\n\\\u0001"`}, []string{`"\"\u000a\\\u0001"`, `""`}},
		{"pattern and length", `{"type":"string","pattern":"^(ab)*$","minLength":3,"maxLength":5}`, []string{`"abab"`}, []string{`"ab"`, `"ababab"`, `""`}},
		{"format date", `{"type":"string","format":"date"}`, []string{`"2024-02-29"`, `"2026-12-31"`, `"2000-02-29"`}, []string{`"2026-02-29"`, `"1900-02-29"`, `"2026-04-31"`, `"26-01-01"`}},
		{"format date-time", `{"format":"date-time","type":"string"}`, []string{`"2026-11-24T09:30:00Z"`, `"2026-11-24T09:30:00.5+05:30"`}, []string{`"2026-11-24"`, `"2026-11-24T24:00:00Z"`, `"2026-11-24T09:30:00"`}},
		{"format ipv6", `{"format":"ipv6","type":"string"}`, []string{`"::1"`, `"2001:db8::8a2e:370:7334"`, `"::ffff:1.2.3.4"`}, []string{`":::"`, `"1::2::3"`, `"1.2.3.4"`}},
		{"format that is not known", `{"format":"colour","type":"string"}`, []string{`"anything"`}, nil},
		{"formats are of strings", `{"format":"email"}`, []string{`1`, `"a@example.org"`}, []string{`"a"`}},
		{"minimum, maximum", `{"type":"integer","minimum":-5,"maximum":120}`, []string{`-5`, `-1`, `0`, `99`, `120`}, []string{`-6`, `121`, `1000`, `-10`}},
		{"bounds of numbers", `{"type":"number","minimum":0.25,"maximum":10}`, []string{`0.25`, `0.250`, `0.3`, `1`, `9.99`, `10`, `10.0`}, []string{`0.2`, `0`, `10.01`, `11`, `-1`}},
		{"exclusive bounds", `{"type":"number","exclusiveMinimum":0,"exclusiveMaximum":1}`, []string{`0.1`, `0.9999999999999999`, `0.00001`}, []string{`0`, `0.0`, `1`, `1.0`, `0.99999999999999999`, `-0.1`}},
		{"exclusive bounds of draft 4", `{"type":"integer","minimum":1,"exclusiveMinimum":true,"maximum":3,"exclusiveMaximum":false}`, []string{`2`, `3`}, []string{`1`, `4`}},
		{"bounds below zero", `{"type":"number","maximum":-1.5}`, []string{`-1.5`, `-1.51`, `-2`, `-20`}, []string{`-1`, `-1.49`, `0`, `1`}},
		{"multipleOf", `{"type":"number","multipleOf":0.05}`, []string{`0.05`, `0.1`, `1`, `-2.15`, `3.0`, `0.30`}, []string{`0.01`, `1.001`, `0.12`}},
		{"multipleOf a whole number", `{"type":"integer","multipleOf":7,"minimum":20}`, []string{`21`, `28`, `700`, `7007`}, []string{`14`, `22`, `0`}},
		{"properties and required", `{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"null"},"c":{}},"required":["b"],"additionalProperties":false}`,
			[]string{`{"b":null}`, `{"a":1,"b":null}`, `{"a":1,"b":null,"c":"x"}`}, []string{`{}`, `{"a":1}`, `{"b":null,"a":1}`, `{"b":null,"d":1}`, `{"b":1}`}},
		{"open objects", `{"type":"object","properties":{"a":{"type":"integer"}}}`, []string{`{}`, `{"a":1}`, `{"a":1,"b":"x","aa":[]}`, `{"b":1}`}, []string{`{"a":"x"}`, `{"b":1,"a":2}`, `{"\u0061":"x"}`}},
		{"additionalProperties", `{"type":"object","properties":{"a":{}},"additionalProperties":{"type":"integer"}}`, []string{`{"a":"x","b":1}`, `{"b":1,"c":2}`}, []string{`{"b":"x"}`}},
		{"required without a property", `{"type":"object","required":["x","y"],"properties":{"y":{"type":"null"}},"additionalProperties":{"type":"integer"}}`,
			[]string{`{"y":null,"x":1}`, `{"y":null,"x":1,"z":2}`}, []string{`{"x":1,"y":null}`, `{"y":null}`, `{"y":null,"x":"s"}`}},
		{"patternProperties", `{"type":"object","patternProperties":{"^s":{"type":"string"},"n$":{"type":"null"}},"additionalProperties":false}`,
			[]string{`{"s":"x","n":null}`, `{"an":null}`}, []string{`{"s":1}`, `{"sn":"x"}`, `{"sn":null}`, `{"x":1}`}},
		{"propertyNames", `{"type":"object","propertyNames":{"pattern":"^[a-z]+$"},"properties":{"A":{},"b":{}}}`, []string{`{}`, `{"b":1,"abc":2}`}, []string{`{"A":1}`, `{"b":1,"B":2}`}},
		{"minProperties, maxProperties", `{"type":"object","properties":{"a":{},"b":{},"c":{}},"additionalProperties":false,"minProperties":1,"maxProperties":2}`,
			[]string{`{"a":1}`, `{"a":1,"c":2}`, `{"b":1,"c":2}`}, []string{`{}`, `{"a":1,"b":2,"c":3}`}},
		{"minProperties of an open object", `{"type":"object","minProperties":1}`, []string{`{"x":1}`}, []string{`{}`}},
		{"dependentRequired", `{"type":"object","properties":{"a":{},"b":{}},"additionalProperties":false,"dependentRequired":{"a":["b"]}}`, []string{`{}`, `{"b":1}`, `{"a":1,"b":2}`}, []string{`{"a":1}`}},
		{"dependencies", `{"type":"object","properties":{"a":{},"b":{}},"additionalProperties":false,"dependencies":{"a":{"properties":{"b":{"type":"null"}}}}}`,
			[]string{`{"b":1}`, `{"a":1}`, `{"a":1,"b":null}`}, []string{`{"a":1,"b":1}`}},
		{"items", `{"type":"array","items":{"type":"integer"},"minItems":1,"maxItems":2}`, []string{`[1]`, `[1,2]`}, []string{`[]`, `[1,2,3]`, `["a"]`, `[1,]`}},
		{"prefixItems", `{"type":"array","prefixItems":[{"type":"integer"},{"type":"null"}],"items":{"type":"boolean"}}`, []string{`[]`, `[1]`, `[1,null]`, `[1,null,true,false]`}, []string{`[null]`, `[1,null,1]`}},
		{"items as a list", `{"type":"array","items":[{"type":"integer"}],"additionalItems":false}`, []string{`[]`, `[1]`}, []string{`[1,2]`, `["a"]`}},
		{"many scalars", `{"type":"array","items":{"type":"integer","minimum":0,"maximum":9},"minItems":70,"maxItems":80}`, nil, []string{`[]`, `[1,2]`}},
		{"contains", `{"type":"array","items":{"type":["integer","string"]},"contains":{"type":"string"},"minContains":2}`, []string{`["a","b"]`, `[1,"a",2,"b",3]`}, []string{`[]`, `["a"]`, `[1,"a",2]`, `["a","b",null]`}},
		{"uniqueItems of few values", `{"type":"array","items":{"enum":["a","b",1]},"uniqueItems":true,"minItems":1}`, []string{`["a"]`, `["b","a",1]`}, []string{`[]`, `["a","a"]`, `[1,"a",1]`}},
		{"allOf", `{"allOf":[{"type":"object","properties":{"a":{"type":"integer"}}},{"properties":{"b":{"type":"null"},"a":{"minimum":3}},"required":["a"]}]}`,
			[]string{`{"a":3}`, `{"a":4,"b":null}`}, []string{`{}`, `{"a":2}`, `{"b":null,"a":3}`}},
		{"the order of properties", `{"type":"object","required":["y","b"],"allOf":[{"properties":{"a":{},"b":{}}},{"required":["c"],"properties":{"d":{},"c":{}}}],"properties":{"z":{}}}`,
			[]string{`{"a":1,"b":2,"d":3,"c":4,"z":5,"y":6}`, `{"b":2,"c":4,"y":6,"x":7}`}, []string{`{"y":6,"b":2,"c":4}`, `{"b":2,"y":6,"c":4}`, `{"b":2,"c":4,"d":3,"y":6}`}},
		{"anyOf", `{"type":"object","properties":{"k":{}},"anyOf":[{"required":["k"]},{"properties":{"m":{"type":"null"}},"required":["m"]}],"additionalProperties":{}}`,
			[]string{`{"k":1}`, `{"k":1,"m":null}`, `{"m":null}`}, []string{`{}`, `{"m":1}`}},
		{"oneOf", `{"oneOf":[{"type":"integer"},{"minimum":5}]}`, []string{`4`, `5.5`, `"a"`}, []string{`6`, `5`}},
		{"not", `{"type":"string","not":{"enum":["a","b"]}}`, []string{`"c"`, `""`, `"ab"`}, []string{`"a"`, `"b"`}},
		{"not, of an object", `{"type":"object","properties":{"a":{"type":["integer","string"]}},"additionalProperties":false,"not":{"properties":{"a":{"type":"integer"}}}}`, []string{`{"a":"x"}`}, []string{`{}`, `{"a":1}`}},
		{"if, then, else", `{"type":"object","properties":{"kind":{"enum":["a","b"]},"x":{"type":"integer"}},"required":["kind"],"additionalProperties":false,"if":{"properties":{"kind":{"const":"a"}}},"then":{"required":["x"]},"else":{"properties":{"x":false}}}`,
			[]string{`{"kind":"a","x":1}`, `{"kind":"b"}`}, []string{`{"kind":"a"}`, `{"kind":"b","x":1}`}},
		{"$ref and $defs", `{"$ref":"#/$defs/a~1b%25","$defs":{"a/b%":{"type":"integer"}}}`, []string{`1`}, []string{`"a"`}},
		{"$ref with what is beside it", `{"$ref":"#/definitions/n","maximum":3,"definitions":{"n":{"type":"integer"}}}`, []string{`3`}, []string{`4`}},
		{"$ref of draft 7", `{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"a":{"$ref":"#/definitions/n","maximum":3}},"definitions":{"n":{"type":"integer"}}}`, []string{`{"a":4}`}, []string{`{"a":"x"}`}},
		{"$id and $anchor", `{"$id":"https://example.org/root","type":"array","prefixItems":[{"$ref":"other#x"},{"$ref":"#y"},{"$ref":"https://example.org/other"}],"$defs":{"o":{"$id":"other","type":"null","$defs":{"x":{"$anchor":"x","type":"integer"}}},"y":{"$anchor":"y","type":"string"}}}`,
			[]string{`[1,"a",null]`}, []string{`["a"]`, `[1,1]`, `[1,"a",1]`}},
		{"recursion", `{"type":"object","properties":{"v":{"type":"integer"},"next":{"$ref":"#"}},"required":["v"],"additionalProperties":false}`, []string{`{"v":1}`, `{"v":1,"next":{"v":2,"next":{"v":3}}}`}, []string{`{"next":{"v":1}}`, `{"v":1,"next":{}}`}},
		{"recursion in lists", `{"$ref":"#/$defs/t","$defs":{"t":{"type":"array","items":{"$ref":"#/$defs/t"}}}}`, []string{`[]`, `[[],[[]]]`}, []string{`[1]`}},
		{"$dynamicRef with one target", `{"$dynamicAnchor":"n","type":"array","items":{"$dynamicRef":"#n"}}`, []string{`[[]]`}, []string{`[1]`}},
		{"unevaluatedProperties alone", `{"type":"object","properties":{"a":{}},"unevaluatedProperties":false}`, []string{`{"a":1}`}, []string{`{"b":1}`}},
		{"unevaluatedProperties and allOf", `{"allOf":[{"properties":{"a":{"type":"null"}}},{"$ref":"#/$defs/b"}],"properties":{"c":{}},"required":["a"],"unevaluatedProperties":false,"type":"object","anyOf":[{"required":["c"]},{"required":["b"]}],"$defs":{"b":{"patternProperties":{"^b":{"type":"integer"}}}}}`,
			[]string{`{"a":null,"c":1}`, `{"a":null,"b":1}`, `{"a":null,"b":1,"bb":2}`}, []string{`{"a":null}`, `{"a":null,"c":1,"d":1}`, `{"a":null,"b":"x"}`}},
		{"a property that cannot be", `{"type":"object","properties":{"a":false,"b":{"allOf":[{"type":"string"},{"type":"null"}]},"c":{}},"additionalProperties":false}`, []string{`{}`, `{"c":1}`}, []string{`{"a":1}`, `{"b":null}`}},
		{"an option without a base", `{"anyOf":[{"$ref":"#/$defs/endless"},{"type":"null"}],"$defs":{"endless":{"type":"object","required":["a"],"properties":{"a":{"$ref":"#/$defs/endless"}}}}}`, []string{`null`}, []string{`{"a":{"a":1}}`, `{`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.NoError(t, Check(&generation.Constraint{Schema: c.schema}))
			g, err := compiler.Compile(t.Context(), &generation.Constraint{Schema: c.schema})
			require.NoError(t, err)
			for _, text := range c.yes {
				assert.True(t, accepted(g, text), "%s", text)
			}
			for _, text := range c.no {
				assert.False(t, accepted(g, text), "%s", text)
			}
		})
	}
}

// TestRefusedSchemas has schemas that cannot be kept, or are not well formed, with the places that
// the errors name.
func TestRefusedSchemas(t *testing.T) {
	for schema, message := range map[string]string{
		`{"type":"object"`:              `the schema is not JSON: offset 16: the text ends too early`,
		`{"const":"\ud800"}`:            `the schema has half of a surrogate pair at offset 10, which no answer can have: remove it`,
		`{"properties":{"a\ude00":{}}}`: `the schema has half of a surrogate pair at offset 17, which no answer can have: remove it`,
		`{} {}`:                         `the schema is not JSON: offset 4: something follows the JSON value`,
		`[]`:                            `/: a schema must be an object, true or false`,
		`{"properties":{"a":1}}`:        `/properties/a: a schema must be an object, true or false`,
		`{"properties":[]}`:             `/properties: must be an object whose values are schemas`,
		`{"anyOf":{}}`:                  `/anyOf: must be an array of schemas`,
		`{"type":"text"}`:               `/type: "text" is not a type of JSON; null, boolean, integer, number, string, array and object are`,
		`{"items":{"type":3}}`:          `/items/type: 3 is not a type of JSON; null, boolean, integer, number, string, array and object are`,
		`{"required":"a"}`:              `/required: must be an array of the names of properties`,
		`{"properties":{"a":{"type":"object","required":true}}}`: `/properties/a/required: must be an array of the names of properties`,
		`{"minLength":-1}`:      `/minLength: must be a whole number that is not negative`,
		`{"minLength":"1"}`:     `/minLength: must be a number`,
		`{"maxItems":1e30}`:     `/maxItems: is more than 16777216, the largest count that is supported`,
		`{"multipleOf":0}`:      `/multipleOf: must be above 0`,
		`{"multipleOf":23.456}`: `/multipleOf: cannot be kept for this number, whose multiples have digits after the point and remainders above 1000`,
		`{"multipleOf":12347}`:  `/multipleOf: cannot be kept for this number, whose multiples have remainders above 10000`,
		`{"properties":{"x":{"multipleOf":99.7,"minimum":5}}}`: `/properties/x/multipleOf: cannot be kept with these bounds, since its multiples have remainders above 100: use a smaller divisor, a whole one with its bounds in the same schema, or no bounds`,
		`{"minimum":1e999}`:              `/minimum: the number has more than 400 digits`,
		`{"enum":1}`:                     `/enum: must be an array`,
		`{"pattern":"(?<=a)b"}`:          `/pattern: regular expression "(?<=a)b": offset 0: look-behind is not supported`,
		`{"patternProperties":{"(":{}}}`: `/patternProperties: regular expression "(": offset 0: a parenthesis is not closed`,
		`{"format":"regex"}`:             `/format: the format "regex" cannot be kept; date, date-time, duration, email, hostname, ipv4, ipv6, iri, iri-reference, json-pointer, relative-json-pointer, time, uri, uri-reference, uuid can`,
		`{"properties":{"a/b~c":{"contains":{},"maxContains":2}}}`:          `/properties/a~1b~0c/maxContains: cannot be kept; leave it out`,
		`{"type":"array","uniqueItems":true}`:                               `/uniqueItems: can be kept only if an item is one of at most 8 scalars, as of enum`,
		`{"type":"object","minProperties":2}`:                               `/minProperties: cannot be kept: more than one property without a name would have to differ in their names; name them in properties`,
		`{"anyOf":[{"properties":{"a":{}}}],"unevaluatedProperties":false}`: `/unevaluatedProperties: cannot be kept, since properties are in /anyOf; use additionalProperties in schemas that have all properties`,
		`{"$ref":"#"}`:                   `/: a schema refers to itself without a property or an item in between`,
		`{"$ref":"#/$defs/x"}`:           `/$ref: nothing is at "#/$defs/x"`,
		`{"$ref":"other.json"}`:          `/$ref: "other.json" is not in this schema; other documents are not loaded, so put it into $defs`,
		`{"$ref":"#x"}`:                  `/$ref: no schema has the anchor "x"`,
		`{"$ref":"#/title","title":"x"}`: `/$ref: what is at "#/title" is not a schema`,
		`{"type":"array","maxItems":100000,"items":{"type":"object"}}`: `/maxItems: has too large a count of items that are no scalars`,
		`false`: `no text satisfies the constraint`,
		`{"type":"string","minLength":3,"maxLength":2}`:                                                                                          `/minLength: no value satisfies it together with the rest of its schema`,
		`{"type":"object","required":["x"],"properties":{"x":{"type":"string","minLength":5,"maxLength":2}}}`:                                    `/properties/x/minLength: no value satisfies it together with the rest of its schema`,
		`{"type":"object","required":["x"],"properties":{"x":{"type":"number","minimum":5,"maximum":4}}}`:                                        `/properties/x/minimum: no value satisfies it together with the rest of its schema`,
		`{"type":"object","required":["x"],"properties":{"x":{"type":"integer","exclusiveMinimum":5,"maximum":5,"multipleOf":2}}}`:               `/properties/x/exclusiveMinimum: no value satisfies it together with the rest of its schema`,
		`{"type":"object","required":["x"],"properties":{"x":{"type":"integer","minimum":5,"maximum":8,"multipleOf":9}}}`:                        `/properties/x/multipleOf: no value satisfies it together with the rest of its schema`,
		`{"type":"object","required":["x"],"properties":{"x":{"enum":[]}}}`:                                                                      `/properties/x/enum: no value satisfies it together with the rest of its schema`,
		`{"type":"object","required":["x"],"properties":{"x":{"type":"string","enum":[1,2]}}}`:                                                   `/properties/x/enum: no value satisfies it together with the rest of its schema`,
		`{"type":"object","required":["x"],"properties":{"x":{"const":"abc","maxLength":2}}}`:                                                    `/properties/x/const: no value satisfies it together with the rest of its schema`,
		`{"type":"array","minItems":1,"prefixItems":[{"type":"array","minItems":2,"maxItems":1}]}`:                                               `/prefixItems/0/minItems: no value satisfies it together with the rest of its schema`,
		`{"type":"object","required":["a"],"properties":{"a":{"$ref":"#/$defs/s"}},"$defs":{"s":{"type":"string","minLength":3,"maxLength":1}}}`: `/properties/a/$ref: no value satisfies it together with the rest of its schema`,
		`{"type":"object","required":["x"],"properties":{"x":{"anyOf":[{"enum":[]},{"type":"string","minLength":2,"maxLength":1}]}}}`:            `/properties/x/anyOf: no value satisfies it together with the rest of its schema`,
		`{"type":"object","required":["x"],"properties":{"x":{"type":"string","pattern":"^a$","minLength":2}}}`:                                  `/properties/x/pattern: no value satisfies it together with the rest of its schema`,
		`{"allOf":[{"const":1},{"const":2}]}`: `/allOf: no value satisfies it together with the rest of its schema`,
		`{"type":"object","required":["ab"],"properties":{"ab":{"type":"null"}},"patternProperties":{"b":{"type":"string"}}}`: `/required: no value satisfies it together with the rest of its schema`,
		`{"$ref":"#/$defs/a","$defs":{"a":{"type":"object","required":["a"],"properties":{"a":{"$ref":"#/$defs/a"}}}}}`:       `no text satisfies the constraint`,
	} {
		err := Check(&generation.Constraint{Schema: schema})
		assert.EqualError(t, err, message, schema)
	}
}

// TestTooManyChoices shows that the error of too many choices speaks of them.
func TestTooManyChoices(t *testing.T) {
	choices := make([]string, 100_000)
	for i := range choices {
		choices[i] = fmt.Sprintf("%d is a choice", i*7919%1_000_003)
	}
	require.NoError(t, Check(&generation.Constraint{Choices: choices[:10_000]}))
	require.ErrorContains(t, Check(&generation.Constraint{Choices: choices}), "100000 choices with ")
	require.ErrorContains(t, Check(&generation.Constraint{Choices: choices}), "give fewer or shorter ones")
}
