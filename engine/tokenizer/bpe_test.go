package tokenizer

import (
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ingot-run/ingot/engine/gguf"
)

// file has the metadata of a small vocabulary.
type file struct {
	tokens []string
	kinds  []int32
	merges []string
	scores []float32
	more   map[string]any
}

// byteLevel returns a vocabulary with the 256 bytes as ids 0 to 255.
func byteLevel() *file {
	f := &file{more: map[string]any{"model": "gpt2", "pre": "gpt-2"}}
	for _, r := range &byteRunes {
		f.token(string(r), kindNormal)
	}
	return f
}

func (f *file) token(text string, k kind) int32 {
	f.tokens = append(f.tokens, text)
	f.kinds = append(f.kinds, int32(k))
	return int32(len(f.tokens) - 1)
}

// merge adds a merge and the token that it makes.
func (f *file) merge(left, right string) int32 {
	f.merges = append(f.merges, left+" "+right)
	return f.token(left+right, kindNormal)
}

func (f *file) set(key string, v any) *file {
	f.more[key] = v
	return f
}

func (f *file) meta() *gguf.Metadata {
	m := gguf.NewMetadata()
	m.Set("tokenizer.ggml.tokens", f.tokens)
	m.Set("tokenizer.ggml.token_type", f.kinds)
	m.Set("tokenizer.ggml.merges", f.merges)
	if f.scores != nil {
		m.Set("tokenizer.ggml.scores", f.scores)
	}
	for key, v := range f.more {
		if v == nil {
			continue
		}
		m.Set("tokenizer.ggml."+key, v)
	}
	return m
}

func (f *file) tokenizer(t require.TestingT) *Tokenizer {
	tok, err := New(f.meta())
	require.NoError(t, err)
	return tok
}

func TestBPE(t *testing.T) {
	t.Parallel()
	f := byteLevel()
	ll := f.merge("l", "l")
	he := f.merge("h", "e")
	hell := f.merge("he", "ll")
	el := f.merge("e", "l")
	space := f.merge("Ġ", "h")
	euro := f.merge("â", "Ĥ")
	tok := f.tokenizer(t)
	require.Equal(t, []int32{hell, 'o'}, tok.Encode("hello", EncodeOptions{}))
	require.Equal(t, []int32{'e', ll}, tok.Encode("ell", EncodeOptions{}), "the merge with the lowest rank is first, not the leftmost")
	require.Equal(t, []int32{el}, tok.Encode("el", EncodeOptions{}))
	require.Equal(t, []int32{ll}, tok.Encode("ll", EncodeOptions{}))
	require.Equal(t, []int32{'a', ' ', he}, tok.Encode("a he", EncodeOptions{}))
	require.Equal(t, []int32{space, 'i'}, tok.Encode(" hi", EncodeOptions{}))
	require.Equal(t, []int32{euro, 0xAC}, tok.Encode("€", EncodeOptions{}))
	require.Equal(t, []int32{0xff, 0}, tok.Encode("\xff\x00", EncodeOptions{}), "any byte can be encoded")
	require.Empty(t, tok.Encode("", EncodeOptions{}))
	require.Equal(t, " hello €", tok.Decode(tok.Encode(" hello €", EncodeOptions{})))
	require.Equal(t, []byte(" h"), tok.Bytes(space))
	require.Equal(t, "Ġh", tok.Token(space))
}

// TestBPEMergeToNoToken checks merges that make a string that is not a token. If no further merge
// makes a token of it, the string is encoded as bytes.
func TestBPEMergeToNoToken(t *testing.T) {
	t.Parallel()
	f := byteLevel()
	f.merges = append(f.merges, "a b", "ab c", "x y")
	abc := f.token("abc", kindNormal)
	tok := f.tokenizer(t)
	require.Equal(t, []int32{abc}, tok.Encode("abc", EncodeOptions{}))
	require.Equal(t, []int32{'a', 'b', 'd'}, tok.Encode("abd", EncodeOptions{}))
	require.Equal(t, []int32{'x', 'y'}, tok.Encode("xy", EncodeOptions{}))
}

// TestBPEMissingByte checks a vocabulary that lacks the token of a byte. The byte becomes the
// unknown token, but never a control token that the file names as the unknown token.
func TestBPEMissingByte(t *testing.T) {
	t.Parallel()
	f := byteLevel()
	f.tokens[0xff], f.tokens[0x04] = "something else", "another"
	end := f.token("<|endoftext|>", kindControl)
	plain := f.tokenizer(t)
	require.Equal(t, []int32{'a', 'b'}, plain.Encode("a\xffb", EncodeOptions{}))
	f.set("unknown_token_id", uint32(end))
	for _, o := range []EncodeOptions{{}, {Special: true}} {
		control := f.tokenizer(t)
		require.Equal(t, []int32{'a', 'b'}, control.Encode("a\xffb", o))
		require.Equal(t, []int32{'a', 'b'}, control.Encode("a\x04b", o))
		require.Empty(t, control.Encode("\x04\x04", o))
	}
	unk := f.token("<unk>", kindUnknown)
	f.set("unknown_token_id", uint32(unk))
	require.Equal(t, []int32{'a', unk, 'b'}, f.tokenizer(t).Encode("a\xffb", EncodeOptions{}))
}

// TestBPEMissingByteBetweenMerges checks that the neighbours of a dropped byte are merged, as in
// Hugging Face's tokenizers.
func TestBPEMissingByteBetweenMerges(t *testing.T) {
	t.Parallel()
	f := byteLevel()
	f.tokens[0x04] = "something else"
	both := f.merge("!", "?")
	tok := f.tokenizer(t)
	require.Equal(t, []int32{both}, tok.Encode("!\x04?", EncodeOptions{}))
	require.Equal(t, []int32{both, '!'}, tok.Encode("\x04!\x04\x04?\x04!\x04", EncodeOptions{}))
}

// TestBPEWholeWords checks that llama-bpe encodes a piece that is a token as this token, even if no
// merges make it.
func TestBPEWholeWords(t *testing.T) {
	t.Parallel()
	f := byteLevel()
	word := f.token("Ġhello", kindNormal)
	control := f.token("bye", kindControl)
	f.set("bos_token_id", uint32(f.token("<|begin_of_text|>", kindControl)))
	plain := f.tokenizer(t)
	require.Len(t, plain.Encode(" hello", EncodeOptions{}), 6)
	for _, pre := range []string{"llama-bpe", "llama3", "llama-v3"} {
		tok := f.set("pre", pre).tokenizer(t)
		require.Equal(t, []int32{word}, tok.Encode(" hello", EncodeOptions{}))
		require.Equal(t, []int32{'b', 'y', 'e'}, tok.Encode("bye", EncodeOptions{}), "text from a user does not become a control token")
		require.Equal(t, []int32{control}, tok.Encode("bye", EncodeOptions{Special: true}))
		require.True(t, tok.AddsBOS())
	}
}

// byteLevelFiles returns the tokenizers of the published vocabularies that are available.
func byteLevelFiles(tb testing.TB) map[string]*Tokenizer {
	tb.Helper()
	files := map[string]*Tokenizer{"micro-llama": open(tb, "../model/testdata/micro-llama.gguf")}
	for _, name := range []string{"gpt-2", "starcoder"} {
		if os.Getenv("INGOT_VECTORS") != "" {
			files[name] = open(tb, vectorFile(tb, name+".gguf"))
		}
	}
	return files
}

// TestByteLevelRoundTrip checks that decoding the ids of a text returns the text.
func TestByteLevelRoundTrip(t *testing.T) {
	t.Parallel()
	for name, tok := range byteLevelFiles(t) {
		rapid.Check(t, func(t *rapid.T) {
			s := strings.ToValidUTF8(texts().Draw(t, "text"), "?")
			ids := tok.Encode(s, EncodeOptions{})
			require.Equal(t, s, tok.Decode(ids), name)
			for _, id := range ids {
				require.NotEmpty(t, tok.Bytes(id))
			}
		})
	}
}

// TestConcurrentUse checks that ids do not depend on concurrent calls.
func TestConcurrentUse(t *testing.T) {
	t.Parallel()
	tok := open(t, "../model/testdata/micro-llama.gguf")
	lines := strings.Split(strings.Repeat("Name the capital of Finland.\nSort: pear, apple, fig\n<|user|> 12 + 30 = ?\n", 20), "\n")
	want := make([][]int32, len(lines))
	for i, line := range lines {
		want[i] = tok.Encode(line, EncodeOptions{Special: true})
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i, line := range lines {
				if got := tok.Encode(line, EncodeOptions{Special: true}); !slices.Equal(got, want[i]) {
					t.Errorf("%q: got %v, want %v", line, got, want[i])
				}
				tok.Decode(want[i])
			}
		})
	}
	wg.Wait()
}

func FuzzEncode(f *testing.F) {
	for _, s := range []string{"", "Hello, world", "<|user|>hi<|assistant|>", "\xff\xfe", "é€😀", " \n\t ", "<|us", "a\u0301"} {
		f.Add(s, true, true)
		f.Add(s, false, false)
	}
	byteLevel, sentence := open(f, "../model/testdata/micro-llama.gguf"), sentencePiece().tokenizer(f)
	f.Fuzz(func(t *testing.T, s string, special, bos bool) {
		o := EncodeOptions{Special: special, BOS: bos}
		for _, tok := range []*Tokenizer{byteLevel, sentence} {
			ids := tok.Encode(s, o)
			for _, id := range ids {
				require.Less(t, int(id), tok.Size())
				require.GreaterOrEqual(t, id, int32(0))
			}
			require.LessOrEqual(t, len(ids), 3*len(s)+3)
			tok.Decode(ids)
		}
		if !special {
			var back []byte
			for _, id := range byteLevel.Encode(s, EncodeOptions{}) {
				back = append(back, byteLevel.Bytes(id)...)
			}
			require.Equal(t, s, string(back))
		}
	})
}

// If a file has a merge twice, the first occurrence determines the rank.
func TestTheFirstOfEqualMergesCounts(t *testing.T) {
	t.Parallel()
	f := byteLevel()
	ab := f.merge("a", "b")
	f.merge("b", "c")
	f.merges = append(f.merges, "a b")
	require.Equal(t, []int32{ab, 'c'}, f.tokenizer(t).Encode("abc", EncodeOptions{}))
}
