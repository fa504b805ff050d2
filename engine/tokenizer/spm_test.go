package tokenizer

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// sentencePiece returns a small vocabulary: <unk>, <s> and </s>, then the bytes, then tokens with
// scores.
func sentencePiece() *file {
	f := &file{more: map[string]any{
		"model": "llama", "bos_token_id": uint32(1), "eos_token_id": uint32(2), "unknown_token_id": uint32(0),
	}}
	f.scored("<unk>", kindUnknown, 0)
	f.scored("<s>", kindControl, 0)
	f.scored("</s>", kindControl, 0)
	for b := range 256 {
		f.scored(fmt.Sprintf("<0x%02X>", b), kindByte, 0)
	}
	for i, text := range []string{"▁t", "he", "▁the", "▁▁", "en", "the", "▁▁▁▁", "▁", "t", "h", "e", "n", "é", "<", "s", ">", "<s"} {
		f.scored(text, kindNormal, -float32(i))
	}
	return f
}

func (f *file) scored(text string, k kind, score float32) {
	f.scores = append(f.scores, score)
	f.token(text, k)
}

func (f *file) id(text string) int32 { return int32(slices.Index(f.tokens, text)) }

func (f *file) idsOf(texts ...string) []int32 {
	ids := []int32{}
	for _, text := range texts {
		ids = append(ids, f.id(text))
	}
	return ids
}

func TestSPM(t *testing.T) {
	t.Parallel()
	f := sentencePiece()
	tok := f.tokenizer(t)
	for text, want := range map[string][]string{
		"":       {},
		"the":    {"▁the"},
		"then":   {"▁the", "n"}, // "he" has a better score than "en"
		"hen":    {"▁", "he", "n"},
		"en the": {"▁", "en", "▁the"},
		" the":   {"▁", "▁the"}, // "▁t" before "▁▁"
		"né":     {"▁", "n", "é"},
		"tö":     {"▁t", "<0xC3>", "<0xB6>"},
		"\n":     {"▁", "<0x0A>"},
		"\xff":   {"▁", "<0xFF>"},
		"<s>":    {"▁", "<s", ">"},                                        // text from a user does not become a control token
		"<0x0A>": {"▁", "<", "<0x30>", "<0x78>", "<0x30>", "<0x41>", ">"}, // and does not become a byte token
	} {
		require.Equal(t, f.idsOf(want...), tok.Encode(text, EncodeOptions{}), "%q", text)
		require.Equal(t, strings.ToValidUTF8(text, "\ufffd"), tok.Decode(tok.Encode(text, EncodeOptions{})))
	}
	require.Equal(t, f.idsOf("<s>", "▁the"), tok.Encode("the", EncodeOptions{BOS: true}))
	require.Equal(t, f.idsOf("<s>"), tok.Encode("", EncodeOptions{BOS: true}))
	require.Equal(t, f.idsOf("▁the", "</s>", "▁the"), tok.Encode("the</s>the", EncodeOptions{Special: true}))
	require.Equal(t, f.idsOf("<s>", "▁the"), tok.Encode("<s>the", EncodeOptions{Special: true, BOS: true}), "BOS is not doubled")
	require.Equal(t, f.idsOf("the", "</s>", "▁the"), tok.Encode("the</s>the", EncodeOptions{Special: true, Continues: true}))
	require.Equal(t, "the", tok.Decode(f.idsOf("<s>", "▁the")))
	require.Equal(t, []byte(" the"), tok.Bytes(f.id("▁the")))
	require.Equal(t, []byte{0x0A}, tok.Bytes(f.id("<0x0A>")))
}

func TestSPMKeys(t *testing.T) {
	t.Parallel()
	f := sentencePiece().set("add_space_prefix", false).set("add_bos_token", false).set("add_eos_token", true)
	tok := f.tokenizer(t)
	require.False(t, tok.AddsBOS())
	require.Equal(t, f.idsOf("the", "</s>"), tok.Encode("the", EncodeOptions{BOS: true}))
	require.Equal(t, f.idsOf("the"), tok.Encode("the", EncodeOptions{}))
	require.Equal(t, " the", tok.Decode(f.idsOf("▁the")), "the encoder added no space, so none is dropped")
}

// TestSPMWithoutBytes checks that characters become the unknown token if the vocabulary has no byte
// tokens.
func TestSPMWithoutBytes(t *testing.T) {
	t.Parallel()
	f := sentencePiece()
	f.tokens[f.id("<0x41>")] = "<no byte>"
	f.kinds[3+0x41] = int32(kindUnused)
	require.Equal(t, f.idsOf("▁", "<unk>", "n"), f.tokenizer(t).Encode("ön", EncodeOptions{}))
	require.Equal(t, f.idsOf("▁", "<unk>", "n", "<unk>"), f.tokenizer(t).Encode("öÄnÄ", EncodeOptions{}), "as SentencePiece, which joins unknown characters")
	f.kinds[f.id("<unk>")] = int32(kindControl)
	require.Equal(t, f.idsOf("▁", "n"), f.tokenizer(t).Encode("ön", EncodeOptions{}))
	f.set("unknown_token_id", nil)
	require.Equal(t, f.idsOf("▁", "n"), f.tokenizer(t).Encode("ön", EncodeOptions{}))
}

// TestSPMAgainstDefinition compares the encoder with the definition: of all neighbours that
// together are a token, join those with the best score, or the leftmost of several; repeat until
// there are none.
func TestSPMAgainstDefinition(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		f := sentencePiece()
		part := rapid.StringOfN(rapid.SampledFrom([]rune("abc▁")), 1, 4, -1)
		scores := map[string]float32{}
		for i, text := range f.tokens {
			if kind(f.kinds[i]) == kindNormal {
				scores[text] = f.scores[i]
			}
		}
		for _, text := range rapid.SliceOfNDistinct(part, 0, 12, rapid.ID[string]).Draw(t, "tokens") {
			if _, ok := scores[text]; !ok {
				scores[text] = float32(rapid.IntRange(-8, 0).Draw(t, "score"))
				f.scored(text, kindNormal, scores[text])
			}
		}
		tok := f.tokenizer(t)
		text := rapid.StringOfN(rapid.SampledFrom([]rune("abcthe  ▁é\xff")), 0, 20, -1).Draw(t, "text")

		var want []int32
		parts := strings.Split("▁"+strings.ReplaceAll(text, " ", "▁"), "")
		if text == "" {
			parts = nil
		}
		for {
			best := -1
			for i := 1; i < len(parts); i++ {
				score, ok := scores[parts[i-1]+parts[i]]
				if ok && (best < 0 || score > scores[parts[best]+parts[best+1]]) {
					best = i - 1
				}
			}
			if best < 0 {
				break
			}
			parts = slices.Replace(parts, best, best+2, parts[best]+parts[best+1])
		}
		for _, p := range parts {
			if _, ok := scores[p]; ok {
				want = append(want, f.id(p))
				continue
			}
			for _, b := range []byte(p) {
				want = append(want, 3+int32(b))
			}
		}
		require.True(t, slices.Equal(want, tok.Encode(text, EncodeOptions{})), "%q", text)
	})
}

func TestSpansWords(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{"▁": false, "▁▁a": false, "a": false, "a▁": true, "▁a▁b": true, "": false} {
		require.Equal(t, want, spansWords(text), text)
	}
	for text, want := range map[string]int{"": 0, "▁": 3, "▁▁ab": 8, "▁a▁b": 4, "a▁": 1, "▁a▁▁b": 4} {
		require.Equal(t, want, wordEnd(text), text)
	}
}
