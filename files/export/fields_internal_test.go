package export

import (
	"encoding/json"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/files/table"
)

// A property that an answer repeats is one column, with the last value.
func TestPropertiesThatRepeat(t *testing.T) {
	t.Parallel()
	f := Fields{JSON: true}
	got, ok := f.properties([]byte(`{"a":1,"b":2,"a":3,"a":4}`))
	require.True(t, ok)
	require.Equal(t, []table.Field{{Name: "a", Value: json.RawMessage("4")}, {Name: "b", Value: json.RawMessage("2")}}, got)
}

// Groups have the text that they match, also an empty one at the start; others have none.
func TestValuesOfGroups(t *testing.T) {
	t.Parallel()
	f := Fields{Groups: regexp.MustCompile(`^(?P<e>)(?P<a>a)(b)(?P<c>c)?`)}
	got, ok := f.groups("abd")
	require.True(t, ok)
	require.Equal(t, []table.Field{{Name: "e", Value: json.RawMessage(`""`)}, {Name: "a", Value: json.RawMessage(`"a"`)}, {Name: "c"}}, got)
}

// An answer without tokens has 0 of them; their number can also be unknown.
func TestNumbersOfTokens(t *testing.T) {
	t.Parallel()
	for tokens, want := range map[int]json.RawMessage{-1: nil, 0: json.RawMessage("0"), 5: json.RawMessage("5")} {
		require.Equal(t, want, (&sample{completion: tokens}).value(completionTokens), tokens)
	}
}

// A schema that refers to itself is read once, so that the schemas after it are read too.
func TestSchemasThatReferToThemselves(t *testing.T) {
	t.Parallel()
	const schema = `{"allOf":[{"$ref":"#/$defs/a"},{"properties":{"z":{"type":"string"}}}],
		"$defs":{"a":{"anyOf":[{"$ref":"#/$defs/a"},{"$ref":"#/$defs/a"},{"$ref":"#/$defs/a"}]}}}`
	require.Equal(t, []table.Column{{Name: "z", Kind: table.String}}, (&Fields{JSON: true, Schema: schema}).Known())
}
