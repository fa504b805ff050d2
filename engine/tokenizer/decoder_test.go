package tokenizer

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestDecoderSteps feeds bytes one by one. The number of U+FFFD for an ill-formed sequence is from
// the Unicode standard, section 3.9, tables 3-8 to 3-11.
func TestDecoderSteps(t *testing.T) {
	t.Parallel()
	tok := byteLevel().tokenizer(t)
	for _, c := range []struct {
		bytes string
		want  []string // results of Next for each byte, then of Flush
	}{
		{"aé", []string{"a", "", "é", ""}},
		{"€", []string{"", "", "€", ""}},
		{"😀!", []string{"", "", "", "😀", "!", ""}},
		{"\xe2\x82", []string{"", "", "\ufffd"}},
		{"\xf0\x9f\x98", []string{"", "", "", "\ufffd"}},
		{"\xe2\x82a", []string{"", "", "\ufffda", ""}},
		{"\x80a", []string{"\ufffd", "a", ""}},
		{"\xc3\xc3\xa9", []string{"", "\ufffd", "é", ""}},
		{"\xff\xfe", []string{"\ufffd", "\ufffd", ""}},
		{"\xc0\xaf\xe0\x80\xbf", []string{"\ufffd", "\ufffd", "", "\ufffd\ufffd", "\ufffd", ""}},
		{"\xed\xa0\x80", []string{"", "\ufffd\ufffd", "\ufffd", ""}},
		{"\xf4\x91\x92\x93\xffA", []string{"", "\ufffd\ufffd", "\ufffd", "\ufffd", "\ufffd", "A", ""}},
		{"\xe1\x80\xe2\xf0\x91\x92\xf1\xbfA", []string{"", "", "\ufffd", "\ufffd", "", "", "\ufffd", "", "\ufffdA", ""}},
	} {
		d := tok.NewDecoder()
		var got []string
		for _, b := range []byte(c.bytes) {
			got = append(got, d.Next(int32(b)))
		}
		got = append(got, d.Flush())
		require.Equal(t, c.want, got, "%q", c.bytes)
		require.Equal(t, "b", d.Next('b'), "a decoder can decode another text after Flush")
	}
}

// TestDecoderStreams checks for random ids that the parts are valid UTF-8 and that, concatenated,
// they are the result of Decode.
func TestDecoderStreams(t *testing.T) {
	t.Parallel()
	tokenizers := byteLevelFiles(t)
	tokenizers["sentencepiece"] = sentencePiece().tokenizer(t)
	for name, tok := range tokenizers {
		rapid.Check(t, func(t *rapid.T) {
			ids := rapid.SliceOf(rapid.Int32Range(-1, int32(tok.Size()))).Draw(t, "ids")
			d := tok.NewDecoder()
			var parts strings.Builder
			var bytes []byte
			for _, id := range ids {
				part := d.Next(id)
				require.True(t, utf8.ValidString(part), name)
				require.LessOrEqual(t, len(d.pending), 3)
				parts.WriteString(part)
				bytes = append(bytes, tok.Bytes(id)...)
			}
			parts.WriteString(d.Flush())
			require.Equal(t, parts.String(), tok.Decode(ids))
			if utf8.Valid(bytes) {
				require.Equal(t, len(bytes), parts.Len()+droppedSpaces(tok, bytes, parts.String()))
			}
		})
	}
}

func droppedSpaces(tok *Tokenizer, bytes []byte, text string) int {
	if tok.dropSpace && strings.HasPrefix(string(bytes), " ") && string(bytes[1:]) == text {
		return 1
	}
	return 0
}

func TestDecoderLeadingSpace(t *testing.T) {
	t.Parallel()
	f := sentencePiece()
	f.scored(" user", kindUserDefined, 0)
	tok := f.tokenizer(t)
	require.Equal(t, "the the", tok.Decode(f.idsOf("▁the", "▁the")))
	require.Equal(t, "the", tok.Decode(f.idsOf("<s>", "▁the")), "control tokens add no text")
	require.Equal(t, " the", tok.Decode(f.idsOf("▁▁", "the")), "only one space is dropped")
	require.Equal(t, " user", tok.Decode(f.idsOf(" user")), "the space of a token that is not normal is not dropped")

	d := tok.NewDecoder() // for the text after a prompt that ends in "the"
	d.Next(f.id("▁the"))
	require.Equal(t, " the", d.Next(f.id("▁the")))
	require.Empty(t, d.Flush())
	require.Equal(t, "the", d.Next(f.id("▁the")))

	bytes := byteLevel()
	space := bytes.merge("Ġ", "t")
	require.Equal(t, " t", bytes.tokenizer(t).Decode([]int32{space}), "byte-level text has no added space")
}
