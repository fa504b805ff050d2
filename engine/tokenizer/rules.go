package tokenizer

import (
	"maps"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// splitRule is one of the rules by which a text is split into pieces before encoding. The metadata
// tokenizer.ggml.pre names the rule.
type splitRule struct {
	passes passes
	// wholeWords reports whether a piece that is a token is encoded as this token without merging.
	wholeWords bool
	// addBOS is the value of add_bos_token for files that do not have this key.
	addBOS bool
	// nfc reports whether a text is converted to Unicode's normalization form C first.
	nfc bool
}

// splitRules has the split rules by their names, as in llama.cpp's llama-vocab.cpp. The expressions
// come from the models' tokenizer.json files.
var splitRules = func() map[string]splitRule {
	rules := map[string]splitRule{
		"llama-bpe": {passes: passes{llama3(3)}, wholeWords: true, addBOS: true},
		"glm4":      {passes: passes{llama3(3)}},
		"qwen2":     {passes: passes{llama3(1)}, nfc: true},
		"qwen35":    {passes: passes{qwen35}, nfc: true},
		"gpt-4o":    {passes: passes{caseSplit(3, true)}},
		"tekken":    {passes: passes{caseSplit(1, false)}, wholeWords: true, addBOS: true},
		"gpt-2":     {passes: passes{gpt2}},
		"starcoder": {passes: passes{runOf(isNumber, 1), gpt2}},
		"falcon": {passes: passes{
			runOf(punctOr("$+<=>^~|`"), unlimited), gpt2, threeDigits,
		}},
		"default": {passes: passes{
			runOf(punctOr("$+<=>^~|"), unlimited), gpt2, runOf(isNumber, unlimited), threeDigits,
		}},
		"deepseek-llm": {passes: passes{
			runOf(isLineEnd, 1),
			spaceAnd(inTable(casedLetters)),
			spaceAnd(inTable(widePunct)),
			trailingSpaces,
			runOf(inTable(eastAsian), unlimited),
			runOf(isNumber, unlimited),
		}},
		"deepseek-coder": {passes: passes{
			runOf(isLineEnd, 1),
			spaceAnd(inClass(letter)),
			spaceAnd(inClass(punct)),
			runOf(inTable(eastAsian), unlimited),
			runOf(isNumber, 1),
		}},
		"deepseek-v3": {passes: passes{
			runOf(isNumber, 3), runOf(inTable(hanAndKana), unlimited), deepSeek3,
		}},
	}
	for alias, name := range map[string]string{
		"llama3": "llama-bpe", "llama-v3": "llama-bpe", "falcon3": "llama-bpe", "lfm2": "llama-bpe",
		"llama4": "gpt-4o", "pixtral": "tekken", "chatglm-bpe": "glm4", "mpt": "gpt-2",
		"dbrx": "glm4", "smaug-bpe": "glm4", "deepseek-r1-qwen": "qwen2",
		"smollm": "starcoder", "refact": "starcoder", "command-r": "starcoder",
	} {
		rules[alias] = rules[name]
	}
	for _, name := range []string{"command-r", "mpt"} {
		rule := rules[name]
		rule.nfc = true
		rules[name] = rule
	}
	return rules
}()

func splitRuleNames() string {
	return strings.Join(slices.Sorted(maps.Keys(splitRules)), ", ")
}

const unlimited = math.MaxInt

type set func(r rune) bool

func inClass(c class) set               { return func(r rune) bool { return classes()[r]&c != 0 } }
func inTable(t *unicode.RangeTable) set { return func(r rune) bool { return unicode.Is(t, r) } }
func isNumber(r rune) bool              { return classes()[r]&number != 0 }
func isLineEnd(r rune) bool             { return r == '\r' || r == '\n' }

func punctOr(more string) set {
	return func(r rune) bool { return classes()[r]&punct != 0 || strings.ContainsRune(more, r) }
}

// runOf returns a matcher for C{1,maxRunes}, where C stands for any character of the given set.
func runOf(in set, maxRunes int) matcher {
	return func(s string, i int) (int, bool) {
		end := i
		for range maxRunes {
			r, width := utf8.DecodeRuneInString(s[end:])
			if width == 0 || !in(r) {
				break
			}
			end += width
		}
		if end > i {
			return end, true
		}
		return i + runeWidth(s, i), false
	}
}

// spaceAnd returns a matcher for \s?C+, where C stands for any character of the given set.
func spaceAnd(in set) matcher {
	run := runOf(in, unlimited)
	return func(s string, i int) (int, bool) {
		if c, width := classes().at(s, i); c&space != 0 && i+width < len(s) {
			if end, ok := run(s, i+width); ok {
				return end, true
			}
		}
		return run(s, i)
	}
}

// threeDigits is a matcher for [0-9][0-9][0-9].
func threeDigits(s string, i int) (int, bool) {
	for k := i; k < i+3; k++ {
		if k >= len(s) || s[k] < '0' || s[k] > '9' {
			return i + runeWidth(s, i), false
		}
	}
	return i + 3, true
}

func trailingSpaces(s string, i int) (int, bool) {
	end := classes().run(s, i, space)
	if end == i {
		return i + runeWidth(s, i), false
	}
	return end, end == len(s)
}

func runeWidth(s string, i int) int {
	_, n := utf8.DecodeRuneInString(s[i:])
	return n
}

// ranges makes a table of ranges of code points. pairs has the first and the last code point of
// each range, in ascending order.
func ranges(pairs ...rune) *unicode.RangeTable {
	t := new(unicode.RangeTable)
	for i := 0; i < len(pairs); i += 2 {
		t.R32 = append(t.R32, unicode.Range32{Lo: uint32(pairs[i]), Hi: uint32(pairs[i+1]), Stride: 1})
	}
	return t
}

// The character sets of the DeepSeek tokenizers. The first set lists only some of the letters with
// case.
var (
	casedLetters = ranges(
		0x41, 0x5A, 0x61, 0x7A, 0xB5, 0xB5, 0xC0, 0xD6, 0xD8, 0xF6, 0xF8, 0x1BA, 0x1BC, 0x1BF, 0x1C4, 0x293,
		0x295, 0x2AF, 0x370, 0x373, 0x376, 0x377, 0x37B, 0x37D, 0x37F, 0x37F, 0x386, 0x386, 0x388, 0x38A,
		0x38C, 0x38C, 0x38E, 0x3A1, 0x3A3, 0x3F5, 0x3F7, 0x481, 0x48A, 0x52F, 0x531, 0x556, 0x10A0, 0x10C5,
		0x13A0, 0x13F5, 0x13F8, 0x13FD, 0x1C90, 0x1CBA, 0x1CBD, 0x1CBF, 0x1D00, 0x1D2B, 0x1D6B, 0x1D77,
		0x1D79, 0x1D9A, 0x1E00, 0x1F15, 0x1F18, 0x1F1D, 0x1F20, 0x1F45, 0x1F48, 0x1F4D, 0x1F50, 0x1F57,
		0x1F59, 0x1F59, 0x1F5B, 0x1F5B, 0x1F5D, 0x1F5D, 0x1F5F, 0x1F7D, 0x1F80, 0x1FB4, 0x1FB6, 0x1FBC,
		0x1FBE, 0x1FBE, 0x1FC2, 0x1FC4, 0x1FC6, 0x1FCC, 0x1FD0, 0x1FD3, 0x1FD6, 0x1FDB, 0x1FE0, 0x1FEC,
		0x1FF2, 0x1FF4, 0x1FF6, 0x1FFC, 0x2102, 0x2102, 0x2107, 0x2107, 0x210A, 0x2113, 0x2115, 0x2115,
		0x2119, 0x211D, 0x2124, 0x2124, 0x2126, 0x2126, 0x2128, 0x2128, 0x212A, 0x212D, 0x212F, 0x2134,
		0x2139, 0x2139, 0x213C, 0x213F, 0x2145, 0x2149, 0x214E, 0x214E, 0x2183, 0x2184, 0x2C00, 0x2C7B,
		0x2C7E, 0x2CE4, 0x2CEB, 0x2CEE, 0x2CF2, 0x2CF3, 0xA640, 0xA66D, 0xA680, 0xA69B, 0xA722, 0xA76F,
		0xA771, 0xA787, 0xA78B, 0xA78E, 0xAB70, 0xABBF, 0xFB00, 0xFB06, 0xFB13, 0xFB17, 0xFF21, 0xFF3A,
		0xFF41, 0xFF5A, 0x10400, 0x1044F, 0x104B0, 0x104D3, 0x104D8, 0x104FB, 0x10C80, 0x10CB2,
		0x10CC0, 0x10CF2, 0x118A0, 0x118DF, 0x1E900, 0x1E943,
	)
	widePunct  = ranges('!', '/', ':', '~', 0x2018, 0x201F, 0x3000, 0x3002, 0xFF01, 0xFF0F, 0xFF1A, 0xFF5E)
	eastAsian  = ranges(0x800, 0x9FA5, 0xAC00, 0xD7FF)
	hanAndKana = ranges(0x3040, 0x30FF, 0x4E00, 0x9FA5)
)
