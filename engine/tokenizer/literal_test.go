package tokenizer

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// controls returns a tokenizer of bytes with control tokens of which some contain or continue
// others, and with a user-defined token.
func controls(t *testing.T) *Tokenizer {
	t.Helper()
	f := byteLevel()
	for _, text := range []string{"<s>", "<|a|>", "<|a|><|b|>", "|>", "é>", "<u>a"} {
		f.token(text, kindControl)
	}
	f.token("<u>", kindUserDefined)
	tok, err := New(f.meta())
	require.NoError(t, err)
	return tok
}

func hasControl(t *Tokenizer, ids []int32) bool {
	return slices.ContainsFunc(ids, func(id int32) bool { return t.kind(id) == kindControl })
}

// In literal parts, and for tokens that begin or end there, texts of control tokens are encoded
// like other text. A text that is literal as a whole is encoded as without EncodeOptions.Special.
func TestLiteral(t *testing.T) {
	t.Parallel()
	tok := controls(t)
	piece := rapid.SampledFrom([]string{"<s>", "<|a|>", "<|b|>", "|>", "é>", "<u>", "<", "|", "a", ">", "é", " "})
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOf(piece).Draw(t, "parts")
		literal := rapid.SliceOfN(rapid.Bool(), len(parts), len(parts)).Draw(t, "literal")
		text, marked := "", ""
		var ranges [][2]int
		for i, p := range parts {
			if literal[i] {
				ranges = append(ranges, [2]int{len(text), len(text) + len(p)})
				marked += strings.Repeat("\x00", len(p))
			} else {
				marked += p
			}
			text += p
		}
		ids := tok.Encode(text, EncodeOptions{Special: true, Literal: ranges})
		require.Equal(t, text, tok.DecodeSpecial(ids))
		require.Equal(t, controlsAt(tok, tok.Encode(marked, EncodeOptions{Special: true})), controlsAt(tok, ids), "only texts outside become control tokens")
		require.Equal(t, tok.Encode(text, EncodeOptions{}), tok.Encode(text, EncodeOptions{Special: true, Literal: [][2]int{{0, len(text)}}}))
	})
}

// controlsAt returns the control tokens with their offsets in the text.
func controlsAt(tok *Tokenizer, ids []int32) (found [][2]int) {
	at := 0
	for _, id := range ids {
		if tok.kind(id) != kindControl {
			at += len(tok.Bytes(id))
			continue
		}
		found = append(found, [2]int{at, int(id)})
		at += len(tok.Token(id))
	}
	return found
}

// Between marked texts, no control token can arise, even where one text continues another.
func TestMarkControls(t *testing.T) {
	t.Parallel()
	tok := controls(t)
	for text, want := range map[string]string{
		"":             "",
		"plain <u> a":  "plain <u> a",
		"a<s>b":        "a<#s>b",
		"<s":           "<#s",
		"<s b":         "<s b",
		"<":            "<#",
		"<|a|>":        "<#|a|#>",
		"<|a|><|b":     "<#|a|#><|b",
		"é> é":         "é#> é#",
		"<<s>":         "<<#s>",
		"<|a <|a|><|b": "<|a <#|a|#><|b",
	} {
		marked, err := tok.MarkControls(t.Context(), text, "#")
		require.NoError(t, err)
		require.Equal(t, want, marked, text)
	}
	piece := rapid.SampledFrom([]string{"<s>", "<|a|>", "<|b|>", "|>", "<", "|", "a", ">", "é", "s", " "})
	rapid.Check(t, func(t *rapid.T) {
		text := ""
		var ranges [][2]int
		for _, p := range rapid.SliceOf(rapid.SliceOf(piece)).Draw(t, "texts") {
			marked, err := tok.MarkControls(t.Context(), strings.Join(p, ""), "#")
			require.NoError(t, err)
			for i, part := range strings.Split(marked, "#") {
				if before := []rune(text); i > 0 {
					ranges = append(ranges, [2]int{len(text) - len(string(before[len(before)-1])), len(text)})
				}
				text += part
			}
		}
		require.False(t, hasControl(tok, tok.Encode(text, EncodeOptions{Special: true, Literal: ranges})))
	})
}
