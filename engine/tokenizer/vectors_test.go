package tokenizer

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/gguf"
	"github.com/ingot-run/ingot/engine/model/modeltest"
)

func open(tb testing.TB, path string) *Tokenizer {
	tb.Helper()
	f, err := gguf.Open(path)
	require.NoError(tb, err)
	tok, err := New(f.Meta())
	require.NoError(tb, err)
	require.NoError(tb, f.Close()) // the tokenizer does not need the open file
	return tok
}

// vectorFile returns the path of a public vocabulary. It skips the test if INGOT_VECTORS is not
// set.
func vectorFile(tb testing.TB, name string) string {
	tb.Helper()
	dir := os.Getenv("INGOT_VECTORS")
	if dir == "" {
		tb.Skipf("%s is not tested: set INGOT_VECTORS to the folder that holds tokenizers/%s", name, name)
	}
	return filepath.Join(dir, "tokenizers", name)
}

// TestVectors encodes llama.cpp's test texts with public vocabularies. The expected ids are from
// the models' original libraries.
func TestVectors(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"gpt-2", "starcoder", "llama-spm", "phi-3"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := vectorFile(t, name+".gguf")
			tok := open(t, path)
			in, err := os.ReadFile(path + ".inp")
			require.NoError(t, err)
			out, err := os.ReadFile(path + ".out")
			require.NoError(t, err)
			const separator = "\n__ggml_vocab_test__\n"
			texts := strings.Split(strings.TrimSuffix(string(in), separator), separator)
			lines := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
			require.Greater(t, len(texts), 30)
			require.Len(t, lines, len(texts))
			for i, text := range texts {
				want := []int32{}
				for _, field := range strings.Fields(lines[i]) {
					id, err := strconv.ParseInt(field, 10, 32)
					require.NoError(t, err)
					want = append(want, int32(id))
				}
				got := tok.Encode(text, EncodeOptions{})
				require.Equal(t, want, got, "%q", text)
				require.Equal(t, text, tok.Decode(got))
			}
		})
	}
}

// TestReferencePrompts encodes the rendered prompts of the bundled models' reference runs.
func TestReferencePrompts(t *testing.T) {
	t.Parallel()
	tok := open(t, "../../models/tiny-llama.q4_0.gguf")
	for _, c := range modeltest.Cases(t, "../model/testdata/tiny-llama.gguf") {
		require.Equal(t, c.PromptTokens, tok.Encode(c.Text, EncodeOptions{Special: true, BOS: true}), "%q", c.Text)
		require.Equal(t, c.GreedyText, tok.Decode(c.GreedyTokens))
	}
}

// TestBundledModel encodes one of these prompts with the bundled files alone.
func TestBundledModel(t *testing.T) {
	t.Parallel()
	tok := open(t, "../../models/tiny-llama.q4_0.gguf")
	const prompt = "[gMASK]<sop><|user|>Name the capital of Finland.<|assistant|></think>"
	want := []int32{2038, 2040, 2043, 899, 259, 426, 302, 1923, 13, 2044, 2047}
	require.Equal(t, want, tok.Encode(prompt, EncodeOptions{Special: true, BOS: true}))
	require.Equal(t, "Helsinki.", tok.Decode([]int32{1635, 13, 2043}))
	end, _ := tok.Lookup("<|endoftext|>")
	user, _ := tok.Lookup("<|user|>")
	observation, _ := tok.Lookup("<|observation|>")
	require.ElementsMatch(t, []int32{end, user, observation}, tok.StopIDs())
}
