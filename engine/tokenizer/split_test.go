package tokenizer

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/dlclark/regexp2/v2"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// The expressions of the models' own tokenizer.json files.
const (
	gpt2Pattern   = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
	llama3Pattern = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	qwen2Pattern  = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
)

const caseStart, caseEnd = `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+`, `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*`

const caseRest = ` ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`

const gpt4oPattern = caseStart + `(?i:'s|'t|'re|'ve|'m|'ll|'d)?|` + caseEnd + `(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}|` + caseRest

var patterns = map[string][]string{
	"gpt-2":       {gpt2Pattern},
	"mpt":         {gpt2Pattern},
	"starcoder":   {`\p{N}`, gpt2Pattern},
	"smollm":      {`\p{N}`, gpt2Pattern},
	"refact":      {`\p{N}`, gpt2Pattern},
	"command-r":   {`\p{N}`, gpt2Pattern},
	"llama-bpe":   {llama3Pattern},
	"llama3":      {llama3Pattern},
	"llama-v3":    {llama3Pattern},
	"lfm2":        {llama3Pattern},
	"glm4":        {llama3Pattern},
	"chatglm-bpe": {llama3Pattern},
	"qwen2":       {qwen2Pattern},
	"qwen35":      {`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`},

	"dbrx":             {llama3Pattern},
	"smaug-bpe":        {llama3Pattern},
	"falcon3":          {llama3Pattern},
	"deepseek-r1-qwen": {qwen2Pattern},
	"gpt-4o":           {gpt4oPattern},
	"llama4":           {gpt4oPattern},
	"tekken":           {caseStart + `|` + caseEnd + `|\p{N}|` + caseRest},
	"pixtral":          {caseStart + `|` + caseEnd + `|\p{N}|` + caseRest},

	"falcon":  {"[\\p{P}\\$\\+<=>\\^~\\|`]+", gpt2Pattern, `[0-9][0-9][0-9]`},
	"default": {`[\p{P}\$\+<=>\^~\|]+`, gpt2Pattern, `\p{N}+`, `[0-9][0-9][0-9]`},
	"deepseek-llm": {
		`[\r\n]`,
		`\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝ\u1F5F-\u1F7Dᾀ-ᾴᾶ-ᾼ\u1FBEῂ-ῄῆ-ῌῐ-\u1FD3ῖ-\u1FDBῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤ\u2126ℨ\u212A-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+`,
		`\s?[!-/:-~！-／：-～‘-‟\u3000-。]+`,
		`\s+$`,
		`[一-龥ࠀ-一가-\uD7FF]+`,
		`\p{N}+`,
	},
	"deepseek-coder": {`[\r\n]`, `\s?\p{L}+`, `\s?\p{P}+`, `[一-龥ࠀ-一가-\uD7FF]+`, `\p{N}`},
	"deepseek-v3": {
		`\p{N}{1,3}`,
		`[一-龥\u3040-ゟ゠-ヿ]+`,
		"[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+",
	},
}

// splitByPatterns applies the expressions one after another. Each expression splits all pieces that
// the one before it left.
func splitByPatterns(t require.TestingT, expressions []*regexp2.Regexp, s string) []string {
	pieces := []string{s}
	for _, e := range expressions {
		var next []string
		for _, piece := range pieces {
			matches, err := e.FindAllStringIndex(piece, -1)
			require.NoError(t, err)
			at := 0
			for _, m := range matches {
				next = append(next, piece[at:m[0]], piece[m[0]:m[1]])
				at = m[1]
			}
			next = append(next, piece[at:])
		}
		pieces = pieces[:0:0]
		for _, piece := range next {
			if piece != "" {
				pieces = append(pieces, piece)
			}
		}
	}
	return pieces
}

func split(rule, s string) []string {
	var pieces []string
	splitRules[rule].passes.split(s, func(piece string) { pieces = append(pieces, piece) })
	return pieces
}

// texts draws texts of runs of characters that the rules treat differently, and of a few other
// characters.
func texts() *rapid.Generator[string] {
	interesting := []rune("   \t\n\r\n''''sStTrReEvVlLmMdD aAzZéßΩЖǅʰªº中文々かなカー한글ก้ាំ०१²½Ⅷ١٢0123456789..,!?-_$+<=>^~|`\"()[]{}#%&*/:;@\\" +
		"\u00a0\u2003\u3000\u2028\u0085\v\f，。！‘’“”…€©😀\u0301\u0300\u20dd\x00\x01\u200b\u200d\ufeff\ufffdſKꞐ\ua7f7")
	run := rapid.Custom(func(t *rapid.T) string {
		r := rapid.OneOf(rapid.SampledFrom(interesting), rapid.SampledFrom(interesting), rapid.Rune()).Draw(t, "rune")
		return strings.Repeat(string(r), rapid.SampledFrom([]int{1, 1, 1, 2, 3, 4, 7}).Draw(t, "times"))
	})
	return rapid.Map(rapid.SliceOfN(run, 0, 12), func(runs []string) string { return strings.Join(runs, "") })
}

// TestSplitRules compares the matchers with the expressions that they implement.
func TestSplitRules(t *testing.T) {
	t.Parallel()
	require.Len(t, patterns, len(splitRules))
	for rule, list := range patterns {
		t.Run(rule, func(t *testing.T) {
			t.Parallel()
			require.Contains(t, splitRules, rule)
			var expressions []*regexp2.Regexp
			for _, p := range list {
				expressions = append(expressions, regexp2.MustCompile(p, regexp2.None))
			}
			rapid.Check(t, func(t *rapid.T) {
				s := strings.ToValidUTF8(texts().Draw(t, "text"), "?")
				if want := splitByPatterns(t, expressions, s); len(want) > 0 || s != "" {
					require.Equal(t, want, split(rule, s), "%q", s)
				}
			})
		})
	}
}

// TestCharacterSets compares each set with its bracket expression, for all code points that Unicode
// assigns.
func TestCharacterSets(t *testing.T) {
	t.Parallel()
	var all strings.Builder
	for r := range rune(0xe1000) {
		if utf8.ValidRune(r) && (r < 0x33000 || r >= 0xe0000) { // no code points between these are assigned
			all.WriteRune(r)
		}
	}
	bracket := func(rule string, pass int) string {
		return strings.TrimSuffix(strings.TrimPrefix(patterns[rule][pass], `\s?`), "+")
	}
	for expression, in := range map[string]set{
		`\p{L}`: inClass(letter), `\p{N}`: inClass(number), `\s`: inClass(space),
		`\p{P}`: inClass(punct), `\p{S}`: inClass(symbol), `\p{M}`: inClass(mark),
		bracket("deepseek-llm", 1): inTable(casedLetters),
		bracket("deepseek-llm", 2): inTable(widePunct),
		bracket("deepseek-llm", 4): inTable(eastAsian),
		bracket("deepseek-v3", 1):  inTable(hanAndKana),
		bracket("falcon", 0):       punctOr("$+<=>^~|`"),
		bracket("default", 0):      punctOr("$+<=>^~|"),
	} {
		matches, err := regexp2.MustCompile(expression, regexp2.None).FindAllStringIndex(all.String(), -1)
		require.NoError(t, err)
		want := make(map[rune]bool, len(matches))
		for _, m := range matches {
			r, _ := utf8.DecodeRuneInString(all.String()[m[0]:])
			want[r] = true
		}
		for _, r := range all.String() {
			if in(r) != want[r] {
				t.Errorf("%s: %U: got %v, want %v", expression, r, in(r), want[r])
			}
		}
	}
}

func TestSplitExamples(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rule, text string
		want       []string
	}{
		{"gpt-2", "Hello  world, it's 2024!\n\n x", []string{"Hello", " ", " world", ",", " it", "'s", " 2024", "!", "\n\n", " x"}},
		{"gpt-2", "tabs\t\tend  ", []string{"tabs", "\t", "\t", "end", "  "}},
		{"gpt-2", "I'LL 'll", []string{"I", "'", "LL", " '", "ll"}},
		{"smollm", "in 1999", []string{"in", " ", "1", "9", "9", "9"}},
		{"llama-bpe", "I'LL pay 12345$\n\n ok", []string{"I", "'LL", " pay", " ", "123", "45", "$\n\n", " ok"}},
		{"glm4", "a \n \n  b", []string{"a", " \n \n", " ", " b"}},
		{"qwen2", "x=12", []string{"x", "=", "1", "2"}},
		{"deepseek-llm", "价格 100%", []string{"价格", " ", "100", "%"}},
		{"deepseek-coder", "def f(x):\n", []string{"def", " f", "(", "x", "):", "\n"}},
		{"deepseek-v3", "#include <a>", []string{"#include", " <", "a", ">"}},
		{"falcon", "$1234 a", []string{"$", "123", "4", " a"}},
	} {
		require.Equal(t, c.want, split(c.rule, c.text), "%s: %q", c.rule, c.text)
	}
}

// TestSplitKeepsEveryByte checks that pieces are never empty and that, concatenated, they are the
// text, even if it is not valid UTF-8.
func TestSplitKeepsEveryByte(t *testing.T) {
	t.Parallel()
	for rule := range splitRules {
		rapid.Check(t, func(t *rapid.T) {
			s := texts().Draw(t, "text") + string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes"))
			pieces := split(rule, s)
			require.Equal(t, s, strings.Join(pieces, ""))
			require.NotContains(t, pieces, "")
			for _, p := range pieces {
				require.True(t, utf8.ValidString(p) || !utf8.ValidString(s), "%q cuts a character of %q", p, s)
			}
		})
	}
}

// TestSplitIsLinear checks that no text takes a rule long. Other programs can slow a try, so one
// fast try of several is enough.
func TestSplitIsLinear(t *testing.T) {
	t.Parallel()
	const n = 50_000
	for rule := range splitRules {
		for _, unit := range []string{" ", "\n", "\u3000", "a", "1", "'", "$", "中", "\x01", " \n", "\xff"} {
			s := strings.Repeat(unit, n/len(unit)) + "5"
			took := time.Second
			for try := 0; took >= time.Second; try++ {
				require.Less(t, try, 5, "%s: %q", rule, unit)
				start := time.Now()
				split(rule, s)
				took = time.Since(start)
			}
		}
	}
}
