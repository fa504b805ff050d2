package pattern_test

import (
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/dlclark/regexp2/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/grammar/pattern"
	"github.com/ingot-run/ingot/engine/grammar/regex"
)

func builder() *regex.Builder { return regex.NewBuilder(regex.Limits{Nodes: 1e6, Work: 1e7}) }

// TestWhole has regular expressions with texts that they match as a whole, and others.
func TestWhole(t *testing.T) {
	for _, c := range []struct {
		text    string
		yes, no []string
	}{
		{`a|bc`, []string{"a", "bc"}, []string{"", "ab", "abc"}},
		{`^a$`, []string{"a"}, []string{"", "aa"}},
		{`(?:^|x)a(?:$|y)`, []string{"a", "xa", "ay", "xay"}, []string{"x", "xaya"}},
		{`a{2,3}?`, []string{"aa", "aaa"}, []string{"a", "aaaa"}},
		{`a{,2}b`, []string{"b", "ab", "aab"}, []string{"aaab", "a{,2}b"}},
		{`a{x}`, []string{"a{x}"}, []string{"ax"}},
		{`[a-c\d_-]+`, []string{"a-1_"}, []string{"", "d"}},
		{`[]a]`, []string{"]", "a"}, []string{"b"}},
		{`[^\s"]+`, []string{"é😀"}, []string{" ", `"`, "\u00a0"}},
		{`\s`, []string{"\u2003", "\x1c", "\x1f", "\u0085"}, []string{"\ufeff", "\x1b", "\u0084"}},
		{`[\S]`, []string{"\ufeff", "\x1b"}, []string{"\u2003", "\x1c", "\u0085"}},
		{`[[:alpha:][:^digit:]]`, []string{"x", "-"}, []string{"5"}},
		{`\p{Lu}\p{Ll}+\pN`, []string{"Éa1"}, []string{"éa1", "Éa"}},
		{`\P{L}`, []string{"1"}, []string{"a"}},
		{`\p{Script=Greek}+`, []string{"αβγ"}, []string{"abc"}},
		{`(?i)straße|K`, []string{"STRASSE"[:4] + "ßE", "k", "\u212a"}, []string{"x"}},
		{`(?i:a)b`, []string{"Ab", "ab"}, []string{"aB"}},
		{`(?s).`, []string{"\n"}, []string{""}},
		{`.`, []string{"\r", "é"}, []string{"\n", "ab"}},
		{`(?P<year>\d{4})-(?<m>\d\d)`, []string{"2026-11"}, []string{"2026-1"}},
		{`\u00e9\x41\U0001F600\n\t\.\/\-`, []string{"éA😀\n\t./-"}, nil},
		{`\bfoo\b.*\bbar\b`, []string{"foo bar", "foo-x bar"}, []string{"foobar", "foox bar"}},
		{`a\Bb`, []string{"ab"}, nil},
		{`a\bb`, nil, []string{"ab", "a b"}},
		{`(?=.*\d)(?=.*[a-z]).{3,}`, []string{"a1x", "xx9"}, []string{"a1", "abc", "123"}},
		{`(?!foo)\w+`, []string{"fo", "bar"}, []string{"foo", "foobar"}},
		{`x(?!$)\w*`, []string{"xy"}, []string{"x"}},
		{`^(?!^[-+.]*$)[+-]?0*\d*\.?\d*$`, []string{"1", "-0.5", "+12."}, []string{"", "-", "+.", "1e5"}},
		{`(?!\bfoo)\w+(?!^x)`, []string{"xfoo"}, []string{"foo"}},
		{`^(?!\.)(?!.*\.\.)([a-z.]*)[a-z]@(?:[a-z]+\.)+[a-z]{2,}$`, []string{"a.b@c.de"}, []string{".a@c.de", "a..b@c.de"}},
		{`\Aab\z`, []string{"ab"}, []string{"a"}},
		{`a(?#comment)b`, []string{"ab"}, nil},
		{`(?:ab){0}`, []string{""}, []string{"ab"}},
		{`日本(?:語)?`, []string{"日本", "日本語"}, []string{"日"}},
	} {
		b := builder()
		n, err := pattern.Whole(b, c.text, pattern.Python, pattern.UTF8{})
		require.NoError(t, err, c.text)
		for _, text := range c.yes {
			assert.True(t, b.Match(n, text), "%s: %q", c.text, text)
		}
		for _, text := range c.no {
			assert.False(t, b.Match(n, text), "%s: %q", c.text, text)
		}
	}
}

func TestRefused(t *testing.T) {
	for text, message := range map[string]string{
		`(a`:            `offset 0: a parenthesis is not closed`,
		`a)`:            `offset 1: an opening parenthesis is missing`,
		`[a`:            `offset 0: a bracket is not closed`,
		`a**`:           `offset 2: nothing to repeat: a quantifier follows a quantifier`,
		`*a`:            `offset 0: nothing to repeat before '*'`,
		`{2}`:           `offset 0: nothing to repeat before a count`,
		`a{3,2}`:        `offset 1: a repetition has a minimum of 3 and a maximum of 2`,
		`a{100001}`:     `offset 1: a repetition has the count 100001; at most 100000 is allowed`,
		`(a)\1`:         `offset 3: references to groups are not supported`,
		`(?<=a)b`:       `offset 0: look-behind is not supported`,
		`(?>a)`:         `offset 0: atomic groups are not supported`,
		`a++`:           `offset 2: possessive quantifiers are not supported`,
		`[b-a]`:         `offset 1: the range 'b'-'a' is empty`,
		`\p{Nothing}`:   `offset 0: the property "Nothing" is not known`,
		`(?m)^a`:        `offset 0: the flag 'm' is not supported; i and s are`,
		`(?:\bab)*`:     `offset 8: a repetition of an anchor or a word boundary is not supported`,
		`(?:(?=a)b)*`:   `offset 3: look-ahead within a repetition is not supported`,
		`\q`:            `offset 0: the escape \q is not supported`,
		`\ud800`:        `offset 0: it has half of a surrogate pair`,
		`(?<a>x)(?<a>)`: `offset 7: two groups have the name "a"`,
	} {
		_, err := pattern.Whole(builder(), text, pattern.Python, pattern.UTF8{})
		require.Error(t, err, text)
		assert.Contains(t, err.Error(), message, text)
	}
}

// expression draws a regular expression in which the same few characters meet.
func expression(r *rand.Rand, depth int, anchors bool) string {
	if depth == 0 {
		list := []string{"a", "b", "1", ".", `\w`, `\d`, "[ab]", "[^a]", `\s`, " ", "é", "", `\W`, "[a-c1]", `\n`}
		if anchors {
			list = append(list, "^", "$", `\b`, `\B`)
		}
		return list[r.IntN(len(list))]
	}
	one := func(anchors bool) string { return expression(r, depth-1, anchors) }
	switch r.IntN(6) {
	case 0, 1, 2:
		return one(anchors) + one(anchors)
	case 3:
		return "(" + one(anchors) + "|" + one(anchors) + ")"
	case 4:
		return "(?:" + one(false) + ")" + []string{"*", "+", "?", "{2}", "{1,2}", "{0,1}", "*?"}[r.IntN(7)]
	default:
		return "(?:" + one(anchors) + ")"
	}
}

func randomText(r *rand.Rand) string {
	var b strings.Builder
	for range r.IntN(6) {
		b.WriteString([]string{"a", "b", "1", " ", "é", "\n", "c", "_"}[r.IntN(8)])
	}
	return b.String()
}

// TestRandom compares random expressions on random texts with the standard library's and with one
// that has the syntax of ECMAScript.
func TestRandom(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	matches := 0
	for range 1500 {
		text := expression(r, 1+r.IntN(4), true)
		b := builder()
		whole, err := pattern.Whole(b, text, pattern.Python, pattern.UTF8{})
		require.NoError(t, err, text)
		search, err := pattern.Search(b, text, pattern.ECMA, pattern.UTF8{})
		require.NoError(t, err, text)
		// In RE2, \s is ASCII; the texts have no other space.
		re2 := regexp.MustCompile(`^(?:` + text + `)$`)
		ecma := regexp2.MustCompile(text, regexp2.ECMAScript)
		for range 20 {
			s := randomText(r)
			require.Equal(t, re2.MatchString(s), b.Match(whole, s), "%s on %q", text, s)
			found, err := ecma.MatchString(s)
			require.NoError(t, err)
			require.Equal(t, found, b.Match(search, s), "search for %s in %q", text, s)
			if found {
				matches++
			}
		}
	}
	assert.Greater(t, matches, 3000)
}

// TestRandomLookAhead compares random expressions that have look-aheads.
func TestRandomLookAhead(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	matches := 0
	for range 800 {
		text := expression(r, r.IntN(3), true)
		for range 1 + r.IntN(2) {
			text += []string{"(?=", "(?!"}[r.IntN(2)] + expression(r, r.IntN(3), true) + ")" + expression(r, r.IntN(3), true)
		}
		if r.IntN(2) == 0 {
			text = "(?:" + text + "|" + expression(r, 2, true) + ")" + expression(r, 1, true)
		}
		b := builder()
		search, err := pattern.Search(b, text, pattern.ECMA, pattern.UTF8{})
		require.NoError(t, err, text)
		ecma := regexp2.MustCompile(text, regexp2.ECMAScript)
		for range 15 {
			s := randomText(r)
			found, err := ecma.MatchString(s)
			require.NoError(t, err)
			require.Equal(t, found, b.Match(search, s), "search for %s in %q", text, s)
			if found {
				matches++
			}
		}
	}
	assert.Greater(t, matches, 1000)
}
