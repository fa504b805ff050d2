package schema_test

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/engine/grammar"
	"github.com/ingot-run/ingot/engine/grammar/regex"
	"github.com/ingot-run/ingot/engine/grammar/schema"
)

// maker draws schemas and values in which the same few names and values occur again and again, so
// that keywords meet.
type maker struct{ *rand.Rand }

func (m maker) one(list ...string) string { return list[m.IntN(len(list))] }

func (m maker) name() string { return m.one("a", "b", "c", "d") }

func (m maker) count() json.Number { return json.Number(m.one("0", "1", "2", "3")) }

func (m maker) number() json.Number {
	return json.Number(m.one("0", "1", "-1", "2", "2.5", "-0.5", "10", "100", "0.25", "7", "1.0", "12.75", "-13"))
}

func (m maker) text() string {
	return m.one("", "a", "b", "ab", "abc", "é", "\n\"", "a1", "2020-02-29", "x_y")
}

func (m maker) scalar() any {
	switch m.IntN(6) {
	case 0:
		return nil
	case 1:
		return m.IntN(2) == 0
	case 2, 3:
		return m.number()
	default:
		return m.text()
	}
}

func (m maker) value(depth int) any {
	switch k := m.IntN(6); {
	case depth > 0 && k == 0:
		list := []any{}
		for range m.IntN(4) {
			list = append(list, m.value(depth-1))
		}
		return list
	case depth > 0 && k < 4:
		o := map[string]any{}
		for range m.IntN(4) {
			o[m.name()] = m.value(depth - 1)
		}
		return o
	}
	return m.scalar()
}

func (m maker) names() []any {
	list := []any{}
	for _, n := range []string{"a", "b", "c"} {
		if m.IntN(3) == 0 {
			list = append(list, n)
		}
	}
	return list
}

func (m maker) list(depth int) []any {
	list := []any{}
	for range 1 + m.IntN(3) {
		list = append(list, m.schema(depth))
	}
	return list
}

// schema draws a schema with a few keywords, most of them for one type.
func (m maker) schema(depth int) any {
	if m.IntN(12) == 0 {
		return m.IntN(4) != 0
	}
	s := map[string]any{}
	if m.IntN(3) > 0 {
		s["type"] = m.one("null", "boolean", "integer", "number", "string", "array", "object", "object", "object", "string")
		if m.IntN(5) == 0 {
			s["type"] = []any{"string", "object"}
		}
	}
	for range 1 + m.IntN(3) {
		m.keyword(s, depth)
	}
	return s
}

func (m maker) keyword(s map[string]any, depth int) {
	if depth == 0 || m.IntN(3) == 0 {
		m.scalarKeyword(s)
		return
	}
	switch depth--; m.IntN(19) {
	case 0, 1, 2:
		p := map[string]any{}
		for range 1 + m.IntN(3) {
			p[m.name()] = m.schema(depth)
		}
		s["properties"] = p
	case 3, 4:
		s["required"] = m.names()
	case 5, 6:
		s["additionalProperties"] = m.schema(depth)
	case 7:
		s["patternProperties"] = map[string]any{m.one("^a", "b", "[bc]", "^.$"): m.schema(depth), m.one("a", "d$"): m.schema(depth)}
	case 8:
		s["propertyNames"] = m.schema(0)
	case 9:
		s["minProperties"], s["maxProperties"] = json.Number("1"), m.count()
	case 10:
		s["items"] = m.schema(depth)
	case 11:
		s["prefixItems"] = m.list(depth)
	case 12:
		s["contains"], s["minContains"] = m.schema(depth), m.count()
	case 13:
		s["allOf"] = m.list(depth)
	case 14:
		s["anyOf"] = m.list(depth)
	case 15:
		s["oneOf"] = m.list(depth)
	case 16:
		s["not"] = m.schema(depth)
	case 17:
		s["if"], s["then"], s["else"] = m.schema(depth), m.schema(depth), m.schema(depth)
	case 18:
		if m.IntN(2) == 0 {
			s["dependentRequired"] = map[string]any{m.name(): m.names()}
		} else {
			s["dependentSchemas"] = map[string]any{m.name(): m.schema(depth)}
		}
	}
}

func (m maker) scalarKeyword(s map[string]any) {
	switch m.IntN(13) {
	case 0:
		s["enum"] = []any{m.value(1), m.scalar(), m.scalar()}
	case 1:
		s["const"] = m.value(2)
	case 2:
		s["minLength"] = m.count()
	case 3:
		s["maxLength"] = m.count()
	case 4:
		s["pattern"] = m.one("^a", "b$", "^[ab]*$", "[0-9]", "^$", "é|a", `\bab`, "^(?!ab)", `^\S*$`)
	case 5:
		s["format"] = m.one("date", "unknown")
	case 6:
		s["minimum"] = m.number()
	case 7:
		s["maximum"] = m.number()
	case 8:
		s["exclusiveMinimum"] = m.number()
	case 9:
		s["exclusiveMaximum"] = m.number()
	case 10:
		s["multipleOf"] = json.Number(m.one("1", "2", "0.5", "0.25", "3", "5", "2.5", "1.5"))
	case 11:
		s["minItems"], s["maxItems"] = m.count(), json.Number("3")
	case 12:
		s["uniqueItems"] = true
	}
}

func text(t testing.TB, v any) string {
	t.Helper()
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	require.NoError(t, e.Encode(v))
	return strings.TrimSpace(b.String())
}

// TestRandomSchemas compares what random schemas allow with another validator: on random values,
// and on texts that are drawn by mask.
func TestRandomSchemas(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	m := maker{random}
	c := grammar.NewCompiler(vocabulary(), grammar.Limits{})
	var kept, refused, valid, invalid, finished int
	for range 700 {
		document := text(t, m.schema(1+m.IntN(3)))
		v := validator(t, document)
		s, root, err := schema.New(regex.NewBuilder(regex.Limits{Nodes: 1e6, Work: 1e7}), document)
		require.NoError(t, err)
		if err := schema.ExpandAll(s, root); err != nil {
			refused++
			continue
		}
		kept++
		g, compileErr := c.Compile(t.Context(), &generation.Constraint{Schema: document})
		for range 12 {
			x := text(t, m.value(3))
			value, err := jsonschema.UnmarshalJSON(strings.NewReader(x))
			require.NoError(t, err)
			want := v.Validate(value)
			arranged, ok := schema.Arrange(s, root, x, false)
			require.Equal(t, want == nil, ok, "schema %s\nvalue %s\n%v", document, x, want)
			if !ok {
				invalid++
				continue
			}
			valid++
			if compileErr == nil {
				rest, ok := accepts(g, random, arranged)
				assert.True(t, ok, "schema %s\nvalue %s\nat %s", document, arranged, rest)
			}
		}
		for range 2 {
			if compileErr != nil {
				break
			}
			x, ok := walk(t, g, random, random.IntN(30), 600)
			if !ok {
				continue
			}
			finished++
			value, err := jsonschema.UnmarshalJSON(strings.NewReader(x))
			require.NoError(t, err, "schema %s\ntext %s", document, x)
			assert.NoError(t, v.Validate(value), "schema %s\ntext %s", document, x)
		}
	}
	t.Logf("%d schemas kept, %d refused; %d valid values, %d invalid; %d walks finished", kept, refused, valid, invalid, finished)
	assert.Greater(t, valid, 1000)
	assert.Greater(t, finished, 500)
}
