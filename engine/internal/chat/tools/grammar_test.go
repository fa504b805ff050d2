package tools

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/engine/grammar"
)

// testVocabulary has a token for each byte, tokens for frequent texts, and control tokens.
type testVocabulary struct {
	tokens   []string // by id
	controls []string // the last tokens, of which the very last ends an answer
}

func newTestVocabulary(controls []string) *testVocabulary {
	v := &testVocabulary{controls: append(slices.Clone(controls), "<|eos|>")}
	for b := range 256 {
		v.tokens = append(v.tokens, string([]byte{byte(b)}))
	}
	v.tokens = append(v.tokens, "</arg_value>", "</parameter>\n", "</atem:parameter>\n", "\n</parameter>\n", "</tool_call>", "<tool_call>", `"}`, `", "`, `": "`, "é", "ab")
	for _, mark := range formats {
		for _, m := range mark.marks {
			if !slices.Contains(controls, m) {
				v.tokens = append(v.tokens, m)
			}
		}
	}
	v.tokens = append(v.tokens, v.controls...)
	return v
}

func (v *testVocabulary) Special(text string) (string, bool) {
	return Reference(text), slices.Contains(v.controls, text)
}

func (v *testVocabulary) end() int32 { return int32(len(v.tokens) - 1) }

func (v *testVocabulary) compile(t testing.TB, c *generation.Constraint) *grammar.Grammar {
	t.Helper()
	first := len(v.tokens) - len(v.controls)
	isControl := func(id int32) bool { return int(id) >= first }
	g, err := grammar.NewCompiler(grammar.NewVocabulary(len(v.tokens),
		func(id int32) []byte {
			if isControl(id) {
				return nil
			}
			return []byte(v.tokens[id])
		},
		func(id int32) string {
			if isControl(id) {
				return Reference(v.tokens[id])
			}
			return ""
		}, []int32{v.end()}), grammar.Limits{}).Compile(t.Context(), c)
	require.NoError(t, err, c.Grammar)
	return g
}

// walk returns a random text of a grammar. Tokens that are longer than a byte are preferred, so
// that the text ends.
func (v *testVocabulary) walk(t testing.TB, g *grammar.Grammar, r *rand.Rand) (parts []string) {
	t.Helper()
	m := g.NewMatcher()
	mask := make([]uint32, (len(v.tokens)+31)/32)
	for range 5000 {
		require.NoError(t, m.Mask(mask))
		var long, short []int32
		for id := range int32(len(v.tokens)) {
			if mask[id/32]>>(id%32)&1 == 0 {
				continue
			}
			if id >= 256 || strings.IndexByte(`"}]<,`, byte(id)) >= 0 {
				long = append(long, id)
			} else {
				short = append(short, id)
			}
		}
		require.NotEmpty(t, append(long, short...), "after %q", parts)
		list := short
		if len(short) == 0 || len(long) > 0 && r.IntN(3) == 0 {
			list = long
		}
		id := list[r.IntN(len(list))]
		if slices.Contains(list, v.end()) && r.IntN(2) == 0 {
			id = v.end()
		}
		require.NoError(t, m.Accept(id))
		if id == v.end() {
			return parts
		}
		parts = append(parts, v.tokens[id])
	}
	t.Fatalf("the text does not end: %q", strings.Join(parts, ""))
	return nil
}

const strictParameters = `{"type":"object","properties":{
	"s":{"type":"string"},
	"e":{"type":"string","enum":["one","two words","3"]},
	"short":{"type":"string","minLength":2,"maxLength":4},
	"code":{"type":"string","pattern":"^[A-C]{2}/\\d.$|x","maxLength":9},
	"day":{"type":"string","format":"date"},
	"n":{"type":"integer","minimum":1,"maximum":40},
	"b":{"type":"boolean"},
	"m":{"anyOf":[{"type":"string","maxLength":3},{"type":"null"},{"$ref":"#/$defs/P"}]},
	"t":{"type":["string","null"]},
	"list":{"type":"array","items":{"$ref":"#/$defs/P"},"maxItems":2},
	"opt":{"type":"object","properties":{"x":{"type":"number","minimum":0,"maximum":1}},"additionalProperties":false}},
	"required":["s","e","short","code","day","n","b","m","t","list"],"additionalProperties":false,
	"$defs":{"P":{"type":"object","properties":{"k":{"enum":["a",1,null]}},"required":["k"],"additionalProperties":false}}}`

// TestConstrainedCalls walks at random through the grammar of each format and of each choice, with
// marks as text and as control tokens. The calls that a parser finds keep the schemas, as another
// validator judges.
func TestConstrainedCalls(t *testing.T) {
	t.Parallel()
	tools := []generation.Tool{{Name: "f", Parameters: strictParameters, Strict: true}, {Name: "now"}, {Name: "any_thing", Parameters: `{"type":"object"}`}}
	validators := map[string]*jsonschema.Schema{}
	for _, tool := range tools {
		text := tool.Parameters
		if text == "" {
			text = `{"type":"object","maxProperties":0}`
		}
		doc, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
		require.NoError(t, err)
		c := jsonschema.NewCompiler()
		c.AssertFormat()
		require.NoError(t, c.AddResource("s.json", doc))
		validators[tool.Name], err = c.Compile("s.json")
		require.NoError(t, err)
	}
	for _, f := range formats {
		for name, c := range map[string]struct {
			choice   generation.ToolChoice
			low, max int
		}{
			"auto":     {generation.ToolChoice{}, 0, 99},
			"single":   {generation.ToolChoice{Single: true}, 0, 1},
			"required": {generation.ToolChoice{Mode: generation.ToolsRequired}, 1, 99},
			"one":      {generation.ToolChoice{Mode: generation.ToolsRequired, Single: true}, 1, 1},
			"named":    {generation.ToolChoice{Mode: generation.ToolsNamed, Names: []string{"f"}}, 1, 1},
		} {
			for _, controls := range [][]string{nil, f.marks} {
				if f.harmony && controls == nil || !f.harmony && controls != nil && name != "required" {
					continue // harmony's marks are always control tokens
				}
				if (f.Name == "GLM-4.5" || f.Name == "Qwen3-Coder") && name != "required" && name != "auto" {
					continue // the same grammars as for GLM-4.7, except for the texts between the values
				}
				t.Run(fmt.Sprintf("%s/%s/%d controls", f.Name, name, len(controls)), func(t *testing.T) {
					t.Parallel()
					v := newTestVocabulary(controls)
					set := NewSet(&generation.Request{Tools: tools, ToolChoice: c.choice})
					constraint, err := f.Constraint(set, nil, v, func(string) error { return nil })
					require.NoError(t, err)
					g := v.compile(t, constraint)
					r := rand.New(rand.NewPCG(1, 2))
					seen := 0
					for range 4 {
						text := strings.Join(v.walk(t, g, r), "")
						out := parse(f, set, true, append(strings.Split(text, ""), "")...)
						require.Equal(t, out, parse(f, set, false, text), text)
						require.GreaterOrEqual(t, len(out.Calls), c.low, text)
						require.LessOrEqual(t, len(out.Calls), c.max, text)
						seen += len(out.Calls)
						if c.low > 0 {
							require.Empty(t, strings.TrimSpace(out.Text), text)
						}
						for _, call := range out.Calls {
							arguments, err := jsonschema.UnmarshalJSON(strings.NewReader(call.Arguments))
							require.NoError(t, err, text)
							require.NoError(t, validators[call.Name].Validate(arguments), text)
							if len(c.choice.Names) > 0 {
								require.Contains(t, c.choice.Names, call.Name)
							}
						}
					}
					if name != "single" && name != "auto" {
						require.Positive(t, seen)
					}
				})
			}
		}
	}
}

// An answer that must have a form of its own has it instead of calls. In gpt-oss, the form is that
// of the final message.
func TestConstrainedContent(t *testing.T) {
	t.Parallel()
	forms := map[string]struct {
		constraint *generation.Constraint
		want       string // a regular expression
	}{
		"schema":  {&generation.Constraint{Schema: `{"type":"object","properties":{"a":{"enum":[1,2]}},"required":["a"],"additionalProperties":false}`}, `^\{\s*"a"\s*:\s*[12]\s*\}$`},
		"regex":   {&generation.Constraint{Regex: "[ab]/c{2}\\/[/]\n"}, "^[ab]/cc//\n$"},
		"choices": {&generation.Constraint{Choices: []string{"y/es", "n\"o"}}, `^(y/es|n"o)$`},
	}
	for _, f := range formats {
		for name, form := range forms {
			for _, tools := range [][]generation.Tool{nil, {{Name: "now"}}} {
				if tools == nil && !f.harmony {
					continue
				}
				v := newTestVocabulary(f.marks)
				set := NewSet(&generation.Request{Tools: tools})
				constraint, err := f.Constraint(set, form.constraint, v, func(string) error { return nil })
				require.NoError(t, err)
				g := v.compile(t, constraint)
				r := rand.New(rand.NewPCG(3, 4))
				for range 3 {
					out := parse(f, set, true, strings.Join(v.walk(t, g, r), ""))
					if len(out.Calls) == 0 {
						require.Regexp(t, form.want, out.Text, "%s, %s", f.Name, name)
					}
				}
			}
		}
		free, err := f.Constraint(NewSet(someTools), nil, newTestVocabulary(f.marks), nil)
		require.NoError(t, err)
		require.Nil(t, free, "tools that are not strict, and may be called, leave the answer free")
		_, err = f.Constraint(NewSet(someTools), &generation.Constraint{Grammar: `start: "a"`}, newTestVocabulary(f.marks), func(string) error { return nil })
		require.ErrorContains(t, err, "a grammar cannot be combined with tools")
	}
	c := &generation.Constraint{Regex: "a"}
	same, err := Hermes.Constraint(NewSet(&generation.Request{}), c, newTestVocabulary(nil), nil)
	require.NoError(t, err)
	require.Same(t, c, same, "without tools, the form is that of the whole answer")
}
