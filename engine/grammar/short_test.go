package grammar

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/generation"
)

func TestShortSchema(t *testing.T) {
	for short, properties := range map[string]string{
		"reason":                  `"properties":{"reason":{"type":"string"}},"required":["reason"]`,
		"label:positive|negative": `"properties":{"label":{"enum":["positive","negative"]}},"required":["label"]`,
		"score : number , n:integer, ok:boolean": `"properties":{"score":{"type":"number"},"n":{"type":"integer"},"ok":{"type":"boolean"}},` +
			`"required":["score","n","ok"]`,
		"tags:string[], name?":                                `"properties":{"tags":{"type":"array","items":{"type":"string"}},"name":{"type":"string"}},"required":["tags"]`,
		"colours:red|dark green[]":                            `"properties":{"colours":{"type":"array","items":{"enum":["red","dark green"]}}},"required":["colours"]`,
		"rating:1|2.5|true|none":                              `"properties":{"rating":{"enum":[1,2.5,true,"none"]}},"required":["rating"]`,
		"day:date|null|unknown":                               `"properties":{"day":{"anyOf":[{"enum":["unknown"]},{"type":"string","format":"date"},{"type":"null"}]}},"required":["day"]`,
		`"a, b":"string"|"x|y", z?:any`:                       `"properties":{"a, b":{"enum":["string","x|y"]},"z":{}},"required":["a, b"]`,
		"people:{name, age?:integer}[], n":                    `"properties":{"people":{"type":"array","items":{"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer"}},"required":["name"],"additionalProperties":false}},"n":{"type":"string"}},"required":["people","n"]`,
		"m:number[][]":                                        `"properties":{"m":{"type":"array","items":{"type":"array","items":{"type":"number"}}}},"required":["m"]`,
		"reason:string(200)|null, x:\"string(0)\"|strings(0)": `"properties":{"reason":{"anyOf":[{"type":"string","maxLength":200},{"type":"null"}]},"x":{"enum":["string(0)","strings(0)"]}},"required":["reason","x"]`,
		"größe:klein|groß":                                    `"properties":{"größe":{"enum":["klein","groß"]}},"required":["größe"]`,
	} {
		schema, err := ShortSchema(short)
		require.NoError(t, err, short)
		assert.Equal(t, `{"type":"object",`+properties+`,"additionalProperties":false}`, schema, short)
		assert.NoError(t, Check(&generation.Constraint{Schema: schema}), short)
	}
}

func TestShortSchemaErrors(t *testing.T) {
	for short, message := range map[string]string{
		"":                         `schema "": offset 0: it ends where a name is expected`,
		strings.Repeat("\x80", 61): `schema "` + strings.Repeat(`\x80`, 56) + `"...: offset 0: found "\x80" where a name is expected`,
		"a,":                       `schema "a,": offset 2: it ends where a name is expected`,
		"a:":                       `schema "a:": offset 2: it ends where a type or a value is expected`,
		"a:x||y":                   `schema "a:x||y": offset 4: found "|" where a type or a value is expected`,
		"a, a":                     `schema "a, a": offset 4: the name "a" occurs twice`,
		"a:{b":                     `schema "a:{b": offset 4: a closing brace is expected`,
		`a:"x`:                     `schema "a:\"x": offset 3: a quote is not closed`,
		"label good|bad":           `schema "label good|bad": offset 10: found "|" where a comma or, before the values of a property, a colon is expected`,
		"a b}":                     `schema "a b}": offset 3: found "}" where a comma is expected`,
		"a:x, b:string(0)":         `schema "a:x, b:string(0)": offset 16: "string(0)" is not a type, since only strings have a limit, from 1 to 9999999, as in string(200): put it in quotes if it is a value`,
		"a:integer (3)|null":       `schema "a:integer (3)|null": offset 13: "integer (3)" is not a type, since only strings have a limit, from 1 to 9999999, as in string(200): put it in quotes if it is a value`,
		"a:string[]?":              `schema "a:string[]?": offset 10: found "?" where a comma is expected`,
	} {
		_, err := ShortSchema(short)
		assert.EqualError(t, err, message, short)
	}
}
