package grammar

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/generation"
)

// Tokens of the vocabulary of these tests: the bytes, and special tokens.
var specials = []string{"<end>", "<|call|>", "<think>", "</think>"}

func testVocabulary() *Vocabulary {
	return NewVocabulary(256+len(specials), func(id int32) []byte {
		if id < 256 {
			return []byte{byte(id)}
		}
		return nil
	}, func(id int32) string {
		if id >= 256 {
			return specials[id-256]
		}
		return ""
	}, []int32{256})
}

// accepted reports whether a grammar has a text, in which special tokens stand as their name.
func accepted(g *Grammar, text string) bool {
	m := g.NewMatcher()
	for len(text) > 0 {
		id, n := int32(text[0]), 1
		for i, s := range specials {
			if len(text) >= len(s) && text[:len(s)] == s {
				id, n = int32(256+i), len(s)
			}
		}
		if m.Accept(id) != nil {
			return false
		}
		text = text[n:]
	}
	return m.Accepting()
}

func TestGrammars(t *testing.T) {
	compiler := NewCompiler(testVocabulary(), Limits{})
	for _, c := range []struct {
		name, text string
		yes, no    []string
	}{
		{"a rule and a terminal", "start: \"a\" B+\nB: \"b\" | /[cd]/", []string{"ab", "acdb"}, []string{"a", "b", "abx"}},
		{"alternatives on lines", "start: a\n  | b // or b\n# a comment\na: \"x\"\nb: \"y\" -> why\n", []string{"x", "y"}, []string{"xy", ""}},
		{"optional, groups and counts", `start: ["-"] ("a" | "b"){2,3} "c"~2 "d"~0..1 "e"?`, []string{"-abcc", "aabccde"}, []string{"acc", "abc", "aaaacc"}},
		{"flags", `start: "yes"i /no/i "é"i /a.b/s`, []string{"yEsNOÉa\nb", "YESnoéaxb"}, []string{"yesno", "yEsNOéab"}},
		{"a range", `start: "a".."c" "0".."9"+`, []string{"a1", "c09"}, []string{"d1", "a"}},
		{"recursion", "start: list\nlist: \"(\" list* \")\"", []string{"()", "(()())", "((()))"}, []string{"(", ")(", "(()"}},
		{"recursion on the left", "start: sum\nsum: sum \"+\" N | N\nN: /[0-9]+/", []string{"1", "1+22+3"}, []string{"+1", "1+"}},
		{"an empty alternative", "start: \"a\" b \"c\"\nb: \"b\" |", []string{"ac", "abc"}, []string{"abbc"}},
		{"marks and priorities", "?start: a\n!a.2: B\nB.-1: \"b\"", []string{"b"}, []string{"a"}},
		{"what is ignored", "start: \"a\" b* \"c\"\nb: /b+/\n%ignore /[ \\n]+/\n%ignore \"#\"", []string{"abbc", " a b # b c\n"}, []string{"a b", "abx"}},
		{"terminals ignore nothing", "start: AB\nAB: \"a\" \"b\"\n%ignore \" \"", []string{"ab", " ab "}, []string{"a b"}},
		{"common terminals", "start: INT \",\" N \",\" S\n%import common.INT\n%import common.SIGNED_NUMBER -> N\n%import common.ESCAPED_STRING -> S",
			[]string{`12,-1.5e3,"a\"b"`, `0,+1,""`}, []string{`-1,1,""`, `1,1,"`}},
		{"a list of imports", "start: WORD WS_INLINE DIGIT\n%import common (WORD, WS_INLINE, DIGIT)", []string{"ab 1"}, []string{"ab1"}},
		{"and, not", "start: A\nA: /[a-z]+/ & ~/.*foo.*/", []string{"bar", "fo"}, []string{"foo", "xfoox"}},
		{"lazy", "start: text \"!\" | \"!\"\ntext[lazy]: /(.|\\n)*<end/", []string{"x<end!", "!"}, []string{"<end<end!", "x!"}},
		{"a suffix", "start: text rest\ntext[capture, suffix=\"b\"]: /[ab]*/\nrest: \"c\"", []string{"aabc", "bc"}, []string{"abbc", "c"}},
		{"substrings", `start: %regex {"substring_words": "one two three"}`, []string{"", "two", "one two", " two ", "two three"}, []string{"on", "one three"}},
		{"chunks", `start: %regex {"substring_chunks": ["abc", "de"]} "!"`, []string{"!", "de!", "abcde!"}, []string{"ab!"}},
		{"a schema", "start: \"=\" %json {\n \"type\": \"object\", \"properties\": {\"a\": {\"type\": \"integer\"}}, \"additionalProperties\": false\n} \".\"",
			[]string{`={"a":1}.`, `={}.`}, []string{`={"a":1}`, `={"b":1}.`}},
		{"special tokens", "start: /[^<]*/ | call\ncall: <|call|> %json {\"type\":\"boolean\"} <end>", []string{"text", "<|call|>true<end>"}, []string{"<|call|>", "<|call|>true"}},
		{"thinking", "start: <think> /(.|\\n)*/ </think> \"a\"", []string{"<think>x\n</think>a", "<think></think>a"}, []string{"a", "<think>a"}},
		{"names with hyphens", "start: a-b\na-b: \"x\"", []string{"x"}, nil},
		{"a class with a slash", `start: /[/a]+\/b/`, []string{"/a/b"}, nil},
		{"characters of several bytes", `start: /[à-ü]日?/ "😀"`, []string{"é日😀", "ü😀"}, []string{"e😀"}},

		{"GBNF", "root ::= item+ # items\nitem ::= \"- \" [^\\n]+ \"\\n\"", []string{"- a\n", "- a\n- é[\n"}, []string{"", "- a"}},
		{"GBNF on several lines", "root ::= (\n  # a comment\n  \"a\" |\n  \"b\"\n) rest\nrest ::= [0-9]{2,} | \"\"\n", []string{"a", "b12"}, []string{"a1", ""}},
		{"GBNF escapes", `root ::= "\"\\\x41\u00e9\U0001F600" [\x41-\x43\]\-]+ .`, []string{"\"\\Aé😀AB]-\n"}, []string{"\"\\Aé😀A"}},
		{"GBNF recursion", "root ::= \"(\" root? \")\"", []string{"()", "(())"}, []string{"(()"}},
		{"GBNF prefixes", "root ::= (\"a\" | \"ab\") (\"c\" | \"bc\")", []string{"ac", "abc", "abbc"}, []string{"ab"}},
		{"GBNF special tokens", "root ::= <think> [a-z]* </think>", []string{"<think>ab</think>"}, []string{"ab"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.NoError(t, Check(&generation.Constraint{Grammar: c.text}))
			g, err := compiler.Compile(t.Context(), &generation.Constraint{Grammar: c.text})
			require.NoError(t, err)
			for _, text := range c.yes {
				assert.True(t, accepted(g, text), "%q", text)
			}
			for _, text := range c.no {
				assert.False(t, accepted(g, text), "%q", text)
			}
		})
	}
}

func TestGrammarErrors(t *testing.T) {
	for text, message := range map[string]string{
		"\n":                               "the grammar has no rule start, with which it begins",
		"a: \"b\"":                         "the grammar has no rule start, with which it begins",
		"start: b":                         "line 1, column 8: the rule b is not defined",
		"start: \"a\"\nstart: \"b\"":       "line 2, column 1: start is defined twice",
		"start: (\"a\"\n\nx: \"b\"":        "line 3, column 2: ':' is not expected here",
		"start: \"é\" )":                   "line 1, column 12: ')' is not expected here",
		"start: \"a":                       "line 1, column 8: a quote is not closed",
		"start: /a":                        "line 1, column 8: a regular expression is not closed with /",
		"start: /a/m":                      "line 1, column 11: the flag 'm' of a regular expression is not supported; i and s are",
		"start: A\nA: b\nb: \"x\"":         "line 2, column 4: the terminal A must not refer to the rule b",
		"start: A\nA: \"x\" A | \"y\"":     "line 2, column 8: the terminal A refers to itself; write it as a rule, in lower case",
		"start: A\nA: <think>":             "line 2, column 4: the terminal A must not have %json or a special token; write its name in lower case to make it a rule",
		"start: a\na: \"x\" & \"y\"":       "line 2, column 4: & and ~ are for terminals, whose names are in upper case",
		"start: \"x\"{3,2}":                "line 1, column 11: a repetition has a minimum of 3 and a maximum of 2",
		"start: \"x\"{200000}":             `line 1, column 11: "200000" is not a count from 0 to 100000`,
		"start: <[12]>":                    "line 1, column 8: special tokens by their number are not supported; use the name",
		"start: \"x\"\n%declare A":         "line 2, column 1: %declare is not supported; %ignore and %import are",
		"start: %json {\"type\":\"bool\"}": `line 1, column 8: %json: /type: "bool" is not a type of JSON; null, boolean, integer, number, string, array and object are`,
		"start: X\n%import common.NOTHING": `line 2, column 16: common has no terminal "NOTHING"`,
		"start[temperature=0.5]: /a/":      "line 1, column 19: a text, a regular expression or a name is expected",
		"start: a{\"x\"}":                  `line 1, column 9: "\"x\"" is not a count from 0 to 100000`,
		"start: /(?<=a)b/":                 `line 1, column 8: regular expression "(?<=a)b": offset 0: look-behind is not supported`,
		"start: start \"a\"":               "no text satisfies the constraint",
		"root ::= [a":                      "line 1, column 10: a bracket is not closed",
		"root ::= \"a\" |\n  b\nb = \"c\"": "line 3, column 3: ::= is expected after the name of a rule",
		"root ::= \"\\q\"":                 `line 1, column 11: the escape \q is not known`,
	} {
		err := Check(&generation.Constraint{Grammar: text})
		assert.EqualError(t, err, message, text)
	}
}

// Terminals with & and ~ are not joined with their neighbours, so that a grammar with many of them
// costs their sum.
func TestIntersectionsStayApart(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	text.WriteString("start:")
	for i := range 8 {
		fmt.Fprintf(&text, ` "<%d>" VALUE_%d "</value>"`, i, i)
	}
	for i := range 8 {
		fmt.Fprintf(&text, "\nVALUE_%d: LENGTH_%d & ~/(?s:.*)<\\/value>(?s:.*)/\nLENGTH_%d: /(?s:.{2,%d})/", i, i, i, 9+i)
	}
	g, err := NewCompiler(testVocabulary(), Limits{CompileWork: 20_000}).Compile(t.Context(), &generation.Constraint{Grammar: text.String()})
	require.NoError(t, err)
	whole := ""
	for i := range 8 {
		whole += fmt.Sprintf("<%d>ab</valu</value>", i)
	}
	require.True(t, accepted(g, whole))
	require.False(t, accepted(g, strings.Replace(whole, "ab</valu", "a</value>", 1)))
}
