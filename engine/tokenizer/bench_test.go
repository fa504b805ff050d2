package tokenizer

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/gguf"
)

// prose returns 200 KB of text: questions, code and other languages.
func prose(b *testing.B) string {
	b.Helper()
	questions, err := os.ReadFile("../../models/heldout.jsonl")
	require.NoError(b, err)
	code, err := os.ReadFile("bpe.go")
	require.NoError(b, err)
	text := string(questions) + string(code) + strings.Repeat("Съешь ещё этих мягких французских булок. 我能吞下玻璃而不伤身体。 ", 40)
	return strings.Repeat(text, 1+200_000/len(text))[:200_000]
}

func BenchmarkEncode(b *testing.B) {
	text := prose(b)
	long := strings.Repeat("abcdefghij", 10_000)
	for _, name := range []string{"gpt-2.gguf", "llama-spm.gguf"} {
		tok := open(b, vectorFile(b, name))
		for kind, s := range map[string]string{"prose": text, "one-word": long} {
			b.Run(name+"/"+kind, func(b *testing.B) {
				b.SetBytes(int64(len(s)))
				for b.Loop() {
					tok.Encode(s, EncodeOptions{Special: true})
				}
			})
		}
	}
}

func BenchmarkSplit(b *testing.B) {
	text := prose(b)
	for _, name := range []string{"gpt-2", "llama-bpe", "deepseek-v3", "default"} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				splitRules[name].passes.split(text, func(string) {})
			}
		})
	}
}

func BenchmarkNew(b *testing.B) {
	for _, name := range []string{"gpt-2.gguf", "llama-spm.gguf"} {
		f, err := gguf.Open(vectorFile(b, name))
		require.NoError(b, err)
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := New(f.Meta()); err != nil {
					b.Fatal(err)
				}
			}
		})
		require.NoError(b, f.Close())
	}
}
