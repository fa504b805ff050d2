package tokenizer

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"golang.org/x/text/unicode/norm"
)

// In Phi-3's vocabulary, white space after most special tokens belongs to the token. llama.cpp and
// Hugging Face's tokenizers give the same ids.
func TestPhi3StripsSpaceAfterSpecialTokens(t *testing.T) {
	t.Parallel()
	tok := open(t, vectorFile(t, "phi-3.gguf"))
	for text, want := range map[string][]int32{
		"<s><|user|>\nSYS\nHI<|end|>\n<|assistant|>\n": {1, 32010, 317, 21554, 13, 17628, 32007, 32001},
		"<|user|> \t\u00a0\nHI<|end|>":                 {32010, 379, 29902, 32007},
		"<s> HI<|endoftext|> HI":                       {1, 29871, 379, 29902, 32000, 29871, 379, 29902},
		"<|user|>":                                     {32010},
		"<|user|>\n\n":                                 {32010},
	} {
		require.Equal(t, want, tok.Encode(text, EncodeOptions{Special: true}), "%q", text)
	}
	require.Equal(t, []int32{379, 29902, 2, 379, 29902}, tok.Encode("HI</s>  HI", EncodeOptions{}), "</s> is not a control token in this file")
	require.Zero(t, tok.MinTokens("\u00a0 \n"), "a token can represent any number of spaces")
	require.Equal(t, 3, tok.MinTokens(strings.Repeat(" a", 2*tok.MaxTokenBytes()+1)))
}

// Which special tokens take the white space beside them depends on the model.
func TestSpaceBesideSpecialTokens(t *testing.T) {
	t.Parallel()
	const text = "a \n<|user|> \nb <|im_sep|> c <|endoftext|> d"
	for name, c := range map[string]struct {
		arch, name string
		more       string // one more control token
		want       string
	}{
		"Phi-4":               {"phi3", "Phi 4", "<|im_sep|>", "a<|user|>b<|im_sep|>c<|endoftext|>d"},
		"Phi-4-mini":          {"phi3", "Phi 4 Mini Instruct", "<|end|>", "a \n<|user|>b <|im_sep|> c <|endoftext|> d"},
		"another family":      {"llama", "phi-like", "<|im_sep|>", text},
		"another by its name": {"qwen2", "Phi-3 data", "<|im_sep|>", text},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := byteLevel()
			for _, special := range []string{"<|user|>", "<|endoftext|>", c.more} {
				f.token(special, kindControl)
			}
			meta := f.meta()
			meta.Set("general.architecture", c.arch)
			meta.Set("general.name", c.name)
			tok, err := New(meta)
			require.NoError(t, err)
			got := ""
			for _, id := range tok.Encode(text, EncodeOptions{Special: true}) {
				if b := tok.Bytes(id); b != nil {
					got += string(b)
				} else {
					got += tok.Token(id)
				}
			}
			require.Equal(t, c.want, got)
			require.Equal(t, c.want == text, tok.MinTokens("   ") > 0)
			require.Equal(t, text, tok.Decode(tok.Encode(text, EncodeOptions{})), "the text of a user keeps its spaces")
		})
	}
}

// Phi-3 is recognised by the name in its file, as in llama.cpp, and by its architecture.
func TestPhi3IsRecognised(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		arch, name string
		strips     bool
	}{
		{"phi3", "", true},
		{"phi3", "Phi 3.5 Mini Instruct", true},
		{"llama", "Phi-3-mini-4k-instruct", true},
		{"llama", "my phi3", true},
		{"llama", "Llama 2", false},
	} {
		f := sentencePiece()
		f.scored("<|user|>", kindControl, 0)
		meta := f.meta()
		meta.Set("general.architecture", c.arch)
		meta.Set("general.name", c.name)
		tok, err := New(meta)
		require.NoError(t, err)
		special := EncodeOptions{Special: true}
		require.Equal(t, c.strips, len(tok.Encode("<|user|>\n", special)) == 1, "%+v", c)
	}
}

// Some vocabularies, such as Qwen's, have texts in Unicode's normalization form C.
func TestTextsAreNormalized(t *testing.T) {
	t.Parallel()
	for pre, normal := range map[string]bool{"qwen2": true, "deepseek-r1-qwen": true, "command-r": true, "llama-bpe": false, "starcoder": false} {
		f := byteLevel().set("pre", pre).set("add_bos_token", false)
		f.token("<|e\u0301|>", kindControl)
		tok := f.tokenizer(t)
		want := "cafe\u0301 \u212b"
		if normal {
			want = "café Å"
		}
		require.Equal(t, want, tok.Decode(tok.Encode("cafe\u0301 \u212b", EncodeOptions{})), pre)
		require.Equal(t, []int32{0xe9}, tok.Encode("\xe9", EncodeOptions{}), "invalid UTF-8 does not change")
		require.Len(t, tok.Encode("<|e\u0301|>", EncodeOptions{Special: true}), 1, "special tokens are found in the text as it is")
	}
}

// No normalized text is shorter than its original by more than the factor maxComposed.
func TestMaxComposed(t *testing.T) {
	t.Parallel()
	for r := range rune(utf8.MaxRune + 1) {
		composed := norm.NFC.String(string(r))
		for _, original := range []string{string(r), norm.NFD.String(composed)} {
			if len(original) > maxComposed*len(composed) {
				t.Errorf("%U: %d bytes become %d", r, len(original), len(composed))
			}
		}
	}
}
