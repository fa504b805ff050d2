package shape

import (
	"fmt"

	"github.com/ingot-run/ingot/engine/gguf"
)

// GGUF's token types.
const (
	normalToken  = 1
	controlToken = 3
)

// vocabulary sets a byte-level vocabulary of n tokens: the 256 bytes, some merges, unused tokens,
// and a token that ends a text.
func vocabulary(meta *gguf.Metadata, n int) {
	tokens, types := make([]string, 0, n), make([]int32, n)
	for b := range 256 {
		tokens = append(tokens, string(byteRune(b)))
	}
	merges := []string{"t h", "th e", "a n", "an d", "Ġ t", "Ġ a", "i n", "e r"}
	for _, m := range merges {
		var left, right string
		_, _ = fmt.Sscan(m, &left, &right)
		tokens = append(tokens, left+right)
	}
	for len(tokens) < n-1 {
		tokens = append(tokens, fmt.Sprintf("<token %d>", len(tokens)))
	}
	tokens = append(tokens, "<|endoftext|>")
	for i := range types {
		types[i] = normalToken
	}
	types[n-1] = controlToken

	meta.Set("tokenizer.ggml.model", "gpt2")
	meta.Set("tokenizer.ggml.pre", "llama-bpe")
	meta.Set("tokenizer.ggml.tokens", tokens)
	meta.Set("tokenizer.ggml.token_type", types)
	meta.Set("tokenizer.ggml.merges", merges)
	meta.Set("tokenizer.ggml.bos_token_id", uint32(n-1))
	meta.Set("tokenizer.ggml.eos_token_id", uint32(n-1))
	meta.Set("tokenizer.ggml.add_bos_token", false)
}

// byteRune returns the character that represents a byte in GPT-2's vocabulary. A printable byte is
// represented by its own Latin-1 character, the other bytes by the characters from U+0100 on.
func byteRune(b int) rune {
	printable := func(b int) bool { return b >= '!' && b <= '~' || b >= 0xa1 && b <= 0xac || b >= 0xae }
	if printable(b) {
		return rune(b)
	}
	next := 256
	for other := range b {
		if !printable(other) {
			next++
		}
	}
	return rune(next)
}
