package tokenizer

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// libraryVectors is the content of testdata/vectors.json, which testdata/vectors.mjs writes.
type libraryVectors struct {
	Texts         []string
	Splits        map[string][][]int // [split rule][text] the lengths in bytes of the text's pieces
	IDs           [][]int32          // [text] ids with the bundled models' vocabulary and its split rule, glm4
	Pieces        []string           // tokens of a SentencePiece vocabulary after <unk>, <s>, </s> and the bytes, best score first
	SentencePiece [][]int32          // [text] ids with this vocabulary
}

func readLibraryVectors(t *testing.T) libraryVectors {
	t.Helper()
	data, err := os.ReadFile("testdata/vectors.json")
	require.NoError(t, err)
	var v libraryVectors
	require.NoError(t, json.Unmarshal(data, &v))
	require.Greater(t, len(v.Texts), 50)
	return v
}

// TestLibrarySplits compares every split rule with Hugging Face's tokenizers library.
func TestLibrarySplits(t *testing.T) {
	t.Parallel()
	v := readLibraryVectors(t)
	aliases := map[string]string{
		"llama3": "llama-bpe", "llama-v3": "llama-bpe", "lfm2": "llama-bpe", "pixtral": "tekken", "llama4": "gpt-4o", "chatglm-bpe": "glm4", "mpt": "gpt-2",
		"smollm": "starcoder", "refact": "starcoder", "command-r": "starcoder",
		"dbrx": "glm4", "smaug-bpe": "glm4", "falcon3": "llama-bpe", "deepseek-r1-qwen": "qwen2",
	}
	for name, rule := range splitRules {
		if aliases[name] != "" {
			name = aliases[name]
		}
		require.Len(t, v.Splits[name], len(v.Texts), "no vectors of rule %s", name)
		for i, text := range v.Texts {
			lengths := []int{}
			rule.passes.split(text, func(piece string) { lengths = append(lengths, len(piece)) })
			require.Equal(t, v.Splits[name][i], lengths, "%s: %q", name, text)
		}
	}
}

// TestLibraryBPE compares ids with the bundled models' vocabulary. Some texts have special tokens.
func TestLibraryBPE(t *testing.T) {
	t.Parallel()
	v := readLibraryVectors(t)
	compareWithLibrary(t, open(t, "../model/testdata/micro-llama.gguf"), v.Texts, v.IDs)
}

// TestLibrarySentencePiece compares the encoder for vocabularies such as Llama 2's and Mistral's
// with the same library.
func TestLibrarySentencePiece(t *testing.T) {
	t.Parallel()
	v := readLibraryVectors(t)
	f := &file{more: map[string]any{
		"model": "llama", "bos_token_id": uint32(1), "eos_token_id": uint32(2), "unknown_token_id": uint32(0),
	}}
	f.scored("<unk>", kindUnknown, 0)
	f.scored("<s>", kindControl, 0)
	f.scored("</s>", kindControl, 0)
	for b := range 256 {
		f.scored(fmt.Sprintf("<0x%02X>", b), kindByte, 0)
	}
	for i, piece := range v.Pieces {
		f.scored(piece, kindNormal, -float32(i))
	}
	compareWithLibrary(t, f.tokenizer(t), v.Texts, v.SentencePiece)
}

func compareWithLibrary(t *testing.T, tok *Tokenizer, texts []string, want [][]int32) {
	t.Helper()
	for i, text := range texts {
		require.Equal(t, want[i], append([]int32{}, tok.Encode(text, EncodeOptions{Special: true})...), "%q", text)
	}
}
