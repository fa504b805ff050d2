package tokenizer

import (
	"context"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/gguf"
)

func TestSpecialTokens(t *testing.T) {
	t.Parallel()
	f := byteLevel()
	user := f.token("<|user|>", kindControl)
	userName := f.token("<|user|>name", kindControl)
	think := f.token("<think>", kindUserDefined)
	unk := f.token("<unk>", kindUnknown)
	f.token("", kindControl)
	f.token("", kindUserDefined)
	tok := f.tokenizer(t)

	special := EncodeOptions{Special: true}
	require.Equal(t, []int32{user, 'h', 'i', think}, tok.Encode("<|user|>hi<think>", special))
	require.Equal(t, []int32{userName, user}, tok.Encode("<|user|>name<|user|>", special), "the longest special token at a position is used")
	require.Equal(t, []int32{unk, unk}, tok.Encode("<unk><unk>", special))
	require.Equal(t, []int32{'<', user, '>'}, tok.Encode("<<|user|>>", special))
	require.Equal(t, []int32{'<', '|', 'u', 's', 'e', 'r', '|'}, tok.Encode("<|user|", special))

	plain := tok.Encode("<|user|><think>a", EncodeOptions{})
	require.Equal(t, []int32{think, 'a'}, plain[len(plain)-2:], "user-defined tokens are always encoded as tokens")
	require.NotContains(t, plain, user, "text from a user does not become a control token")
	require.Equal(t, "<|user|><think>a", tok.Decode(plain))

	require.Empty(t, tok.Bytes(user))
	require.Empty(t, tok.Bytes(unk))
	require.Equal(t, []byte("<think>"), tok.Bytes(think))
	require.Equal(t, "<|user|>", tok.Token(user))
	id, ok := tok.Lookup("<|user|>")
	require.True(t, ok)
	require.Equal(t, user, id)
	_, ok = tok.Lookup("<|nobody|>")
	require.False(t, ok)
	_, ok = tok.Lookup("")
	require.False(t, ok)
	for _, id := range []int32{-1, int32(tok.Size()), math.MaxInt32, math.MinInt32} {
		require.Empty(t, tok.Token(id))
		require.Nil(t, tok.Bytes(id))
	}
}

func TestBOSAndEOS(t *testing.T) {
	t.Parallel()
	f := byteLevel()
	_, ok := f.tokenizer(t).BOS()
	require.False(t, ok)
	_, ok = f.tokenizer(t).EOS()
	require.False(t, ok)
	require.Empty(t, f.tokenizer(t).StopIDs())

	bos, eos := f.token("<s>", kindControl), f.token("</s>", kindControl)
	f.set("bos_token_id", uint32(bos)).set("eos_token_id", eos)
	tok := f.tokenizer(t)
	got, ok := tok.BOS()
	require.True(t, ok)
	require.Equal(t, bos, got)
	got, ok = tok.EOS()
	require.True(t, ok)
	require.Equal(t, eos, got)
	require.False(t, tok.AddsBOS())
	require.Equal(t, []int32{'a'}, tok.Encode("a", EncodeOptions{BOS: true}), "the file does not require a BOS token")

	tok = f.set("add_bos_token", true).set("add_eos_token", true).tokenizer(t)
	require.Equal(t, []int32{bos, 'a', eos}, tok.Encode("a", EncodeOptions{BOS: true}))
	require.Equal(t, []int32{'a'}, tok.Encode("a", EncodeOptions{}))
	require.Equal(t, []int32{bos, 'a', eos}, tok.Encode("<s>a", EncodeOptions{BOS: true, Special: true}))
	require.Equal(t, []int32{bos, 'a', bos, eos}, tok.Encode("a<s>", EncodeOptions{BOS: true, Special: true}))
}

// TestHarmonyStopIDs checks that <|end|> does not end an answer of gpt-oss, even if the file names
// it as an end: it ends a message within the answer.
func TestHarmonyStopIDs(t *testing.T) {
	t.Parallel()
	f := byteLevel()
	end := f.token("<|end|>", kindControl)
	f.set("eot_token_id", uint32(end))
	require.Equal(t, []int32{end}, f.tokenizer(t).StopIDs())
	done := f.token("<|return|>", kindControl)
	call := f.token("<|call|>", kindControl)
	require.Equal(t, []int32{done, call}, f.tokenizer(t).StopIDs())
}

func TestStopIDs(t *testing.T) {
	t.Parallel()
	f := byteLevel()
	text := f.token("<|endoftext|>", kindControl)
	end := f.token("<|im_end|>", kindControl)
	user := f.token("<|user|>", kindControl)
	observation := f.token("<|observation|>", kindControl)
	f.token("<|eot_id|>", kindNormal) // a normal token
	plain := f.token("stop", kindNormal)
	require.Equal(t, []int32{text, end}, f.tokenizer(t).StopIDs())
	f.set("eos_token_id", uint32(plain)).set("eot_token_id", uint32(end)).set("eom_token_id", uint32(math.MaxUint32))
	require.Equal(t, []int32{text, end, plain}, f.tokenizer(t).StopIDs())
	require.Nil(t, f.tokenizer(t).Bytes(plain), "an end token is a control token, whatever its type in the file")

	f.token("[gMASK]", kindControl)
	tok := f.tokenizer(t)
	require.Equal(t, []int32{text, end, user, observation, plain}, tok.StopIDs())
	tok.StopIDs()[0] = 0
	require.Equal(t, text, tok.StopIDs()[0], "the caller gets a copy of the slice")
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	with := func(f *file, change func(f *file)) *gguf.Metadata {
		change(f)
		return f.meta()
	}
	without := func(key string) *gguf.Metadata {
		full, m := byteLevel().meta(), gguf.NewMetadata()
		for _, k := range full.Keys() {
			if v, _ := full.Any(k); k != "tokenizer.ggml."+key {
				m.Set(k, v)
			}
		}
		return m
	}
	for name, c := range map[string]struct {
		meta *gguf.Metadata
		want string
	}{
		"no model":       {without("model"), "tokenizer.ggml.model: missing"},
		"model":          {with(byteLevel(), func(f *file) { f.set("model", "bert") }), `"bert" is not supported (supported: gemma4, gpt2, llama)`},
		"a long model":   {with(byteLevel(), func(f *file) { f.set("model", strings.Repeat("b", 1<<20)) }), `bbb" is not supported (supported: gemma4, gpt2, llama)`},
		"a long rule":    {with(byteLevel(), func(f *file) { f.set("pre", strings.Repeat("b", 1<<20)) }), `bbb" is not supported (supported: chatglm-bpe,`},
		"a long merge":   {with(byteLevel(), func(f *file) { f.merges = []string{strings.Repeat("b", 1<<20)} }), `bbb", does not consist of two parts`},
		"no tokens":      {without("tokens"), "tokenizer.ggml.tokens: missing"},
		"empty":          {with(byteLevel(), func(f *file) { f.tokens = []string{} }), "has 0 tokens"},
		"no merges":      {without("merges"), "tokenizer.ggml.merges: missing"},
		"rule":           {with(byteLevel(), func(f *file) { f.set("pre", "future-bpe") }), `split rule "future-bpe" is not supported (supported: chatglm-bpe, command-r, dbrx, deepseek-coder`},
		"rule type":      {with(byteLevel(), func(f *file) { f.set("pre", uint8(1)) }), "the type is uint8, but must be string"},
		"types":          {with(byteLevel(), func(f *file) { f.kinds = f.kinds[1:] }), "has 255 types for 256 tokens"},
		"types type":     {with(byteLevel(), func(f *file) { f.set("token_type", "x") }), "must be an array of integers"},
		"twice":          {with(byteLevel(), func(f *file) { f.token("a", kindNormal) }), `tokens 97 and 256 are both "a"`},
		"merge":          {with(byteLevel(), func(f *file) { f.merges = []string{"a b", "ab"} }), `merge 1, "ab", does not consist of two parts`},
		"merge half":     {with(byteLevel(), func(f *file) { f.merges = []string{"a "} }), `merge 0, "a ", does not consist of two parts`},
		"merge empty":    {with(byteLevel(), func(f *file) { f.merges = []string{""} }), `merge 0, "", does not consist of two parts`},
		"byte token":     {with(byteLevel(), func(f *file) { f.token("<0xZZ>", kindByte) }), `byte token 256, "<0xZZ>", is not of the form <0x00>`},
		"eos":            {with(byteLevel(), func(f *file) { f.set("eos_token_id", uint32(256)) }), "eos_token_id: 256 is not the id of a token; the vocabulary has 256 tokens"},
		"bos type":       {with(byteLevel(), func(f *file) { f.set("bos_token_id", "1") }), "bos_token_id: the type is string, but must be an integer"},
		"bos not there":  {with(byteLevel(), func(f *file) { f.set("add_bos_token", true) }), "needs a BOS token before each text, but the file names none"},
		"llama3, no bos": {with(byteLevel(), func(f *file) { f.set("pre", "llama-bpe") }), "the file names none"},
		"eos not there":  {with(byteLevel(), func(f *file) { f.set("add_eos_token", true) }), "needs an EOS token after each text"},
		"flag type":      {with(byteLevel(), func(f *file) { f.set("add_bos_token", uint32(1)) }), "add_bos_token: the type is uint32, but must be bool"},
		"scores":         {with(sentencePiece(), func(f *file) { f.scores = f.scores[1:] }), "scores: has"},
		"no scores":      {with(sentencePiece(), func(f *file) { f.scores = nil }), "scores: missing"},
		"score NaN":      {with(sentencePiece(), func(f *file) { f.scores[5] = float32(math.NaN()) }), "score 5 is NaN, but must be a number"},
		"prefix type":    {with(sentencePiece(), func(f *file) { f.set("add_space_prefix", "yes") }), "add_space_prefix: the type is string, but must be bool"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := New(c.meta)
			require.ErrorContains(t, err, c.want)
			require.ErrorContains(t, err, "load tokenizer: metadata tokenizer.ggml.")
			require.Less(t, len(err.Error()), 1000)
		})
	}
}

// TestOldFiles checks files without token types, in which all tokens are normal, and files without
// a split rule, which have the default rule.
func TestOldFiles(t *testing.T) {
	t.Parallel()
	m := gguf.NewMetadata()
	f := byteLevel()
	eos := f.token("<|end|>", kindNormal)
	m.Set("tokenizer.ggml.model", "gpt2")
	m.Set("tokenizer.ggml.tokens", f.tokens)
	m.Set("tokenizer.ggml.merges", []string{})
	m.Set("tokenizer.ggml.eos_token_id", uint32(eos))
	tok, err := New(m)
	require.NoError(t, err)
	require.Equal(t, []int32{'a', eos}, tok.Encode("a<|end|>", EncodeOptions{Special: true}))
	require.Len(t, tok.Encode("a<|end|>", EncodeOptions{}), 8)
}

// expiring is a context that is done after a number of checks.
type expiring struct {
	context.Context
	looks int
}

func (e *expiring) Err() error {
	if e.looks--; e.looks <= 0 {
		return context.Canceled
	}
	return nil
}

// Encoding ends soon after the context is done: for a text of many words, for a text of a single
// word, and for a text of special tokens.
func TestEncodingIsCancelled(t *testing.T) {
	t.Parallel()
	f := byteLevel()
	f.merge("a", "b")
	f.token("<|x|>", kindControl)
	spm := sentencePiece()
	for name, c := range map[string]struct {
		file *file
		text string
	}{
		"words":        {f, strings.Repeat("ab ", 100_000)},
		"a word":       {f, strings.Repeat("ab", 100_000)},
		"special":      {f, strings.Repeat("<|x|>", 100_000)},
		"almost":       {f, strings.Repeat("<|x", 100_000)},
		"piece, words": {spm, strings.Repeat("the ", 100_000)},
		"piece, word":  {spm, strings.Repeat("the", 100_000)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tok := c.file.tokenizer(t)
			want := tok.Encode(c.text, EncodeOptions{Special: true})
			got, err := tok.EncodeContext(t.Context(), c.text, EncodeOptions{Special: true})
			require.NoError(t, err)
			require.Equal(t, want, got)
			for _, looks := range []int{1, 5} {
				ctx := &expiring{t.Context(), looks}
				got, err := tok.EncodeContext(ctx, c.text, EncodeOptions{Special: true})
				require.ErrorIs(t, err, context.Canceled)
				require.NotEqual(t, want, got, "encoding must end early")
				require.Zero(t, ctx.looks)
				if strings.Contains(c.text, " ") {
					require.Less(t, len(got), len(want)/2, "further words must not be encoded")
				}
			}
		})
	}
}

// No id represents more bytes than MaxTokenBytes.
func TestMaxTokenBytes(t *testing.T) {
	t.Parallel()
	f := byteLevel()
	require.Equal(t, 4, f.tokenizer(t).MaxTokenBytes())
	f.token("<|special|>", kindControl)
	require.Equal(t, 11, f.tokenizer(t).MaxTokenBytes())
	lacking := byteLevel()
	lacking.tokens[int('x')] = "?x?"
	require.Zero(t, lacking.tokenizer(t).MaxTokenBytes(), "x becomes no token, so there is no maximum")
	require.Zero(t, lacking.tokenizer(t).MinTokens("xxxxx"))
	require.Equal(t, 2, lacking.tokenizer(t).MinTokens("axbxcdxe"), "five bytes that have tokens, of at most four each")
}

// DecodeSpecial gives the texts of control tokens. A character that they interrupt is replaced.
func TestDecodeSpecial(t *testing.T) {
	t.Parallel()
	f := sentencePiece()
	tok := f.tokenizer(t)
	require.Equal(t, "<s> the</s>", tok.DecodeSpecial(f.idsOf("<s>", "▁the", "</s>")), "as Hugging Face's Llama tokenizer")
	require.Equal(t, "the<unk>\n", tok.DecodeSpecial(f.idsOf("▁the", "<unk>", "<0x0A>")))
	require.Equal(t, "\ufffd<s>\ufffd", tok.DecodeSpecial(f.idsOf("<0xC3>", "<s>", "<0xB6>")))
	require.Equal(t, "the", tok.DecodeSpecial(append(f.idsOf("▁the"), -1, 1<<30)))
}
