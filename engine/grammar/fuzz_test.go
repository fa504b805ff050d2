package grammar

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/generation"
)

// FuzzConstraint checks that no text of a schema, an expression, a grammar or a short form causes a
// panic, that what is refused is an *Error, and that what is not refused can be generated: after
// any tokens that a mask allows, something may follow.
func FuzzConstraint(f *testing.F) {
	for kind, texts := range map[uint8][]string{
		0: {
			`{"type":"object","properties":{"a":{"type":"integer","minimum":3}},"required":["a"],"patternProperties":{"^b":{}},"minProperties":1}`,
			`{"$ref":"#/$defs/a","$defs":{"a":{"anyOf":[{"$ref":"#/$defs/b"},{"not":{"const":1.50}}]},"b":{"type":"array","items":{"$ref":"#/$defs/a"},"contains":{}}}}`,
			`{"oneOf":[{"type":"string","pattern":"^\\d+$","maxLength":3},{"enum":["a",null,[1]]}],"if":{"multipleOf":0.3},"then":false,"else":true}`,
			`{"allOf":[{"dependentRequired":{"a":["b"]}},{"uniqueItems":true,"items":{"enum":[1,2]}}],"unevaluatedProperties":false,"format":"date"}`,
		},
		1: {`(?i)[^a-z\d]{2,3}?(?:x|\p{Lu})*$`, `(?=.*\bfoo)(?!bar)\w+`, `[[:alpha:]]|\u{1F600}`},
		2: {"start: (a | B)+ \"x\"i\na: %json {\"type\": \"null\"} <|call|>\nB: /[a-z]+/ & ~/no/\n%ignore \" \"", "root ::= [^a]+ x{2,3} | \"\\n\" .\nx ::= \"y\" root?", "root ::= [^a]*+x{2,9} | \"\\!BAC\". \nx ::= \"y\"*root*"},
		3: {`label:positive|negative, "a b"?:{x:number[], y}|null`},
	} {
		for _, text := range texts {
			f.Add(kind, text)
		}
	}
	v := testVocabulary()
	f.Fuzz(func(t *testing.T, kind uint8, text string) {
		if len(text) > 4_000 {
			return
		}
		c := &generation.Constraint{}
		switch kind % 4 {
		case 0:
			c.Schema = text
		case 1:
			c.Regex = text
		case 2:
			c.Grammar = text
		case 3:
			schema, err := ShortSchema(text)
			if err != nil {
				return
			}
			c.Schema = schema
		}
		g, err := NewCompiler(v, Limits{}).Compile(t.Context(), c)
		if err != nil {
			var refused *Error
			require.ErrorAs(t, err, &refused)
			return
		}
		walkBytes(t, g, text)
	})
}

// walkBytes draws tokens that the mask allows, as the bytes of seed say.
func walkBytes(t *testing.T, g *Grammar, seed string) {
	t.Helper()
	m := g.NewMatcher()
	mask := make([]uint32, g.vocabulary.words())
	for i := range min(len(seed), 40) {
		if m.Mask(mask) != nil {
			return // over the budget
		}
		var allowed []int32
		for id := range int32(g.vocabulary.Size()) {
			if mask[id/32]>>(id%32)&1 != 0 {
				allowed = append(allowed, id)
			}
		}
		require.NotEmpty(t, allowed)
		id := allowed[int(seed[i])%len(allowed)]
		err := m.Accept(id)
		if overBudget(err) {
			return
		}
		require.NoError(t, err)
		if id == 256 {
			return
		}
	}
}
