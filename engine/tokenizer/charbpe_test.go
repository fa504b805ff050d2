package tokenizer

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// gemma4Vectors is the content of testdata/gemma4.json, which testdata/gemma4.py writes.
type gemma4Vectors struct {
	Tokens, Merges, Texts []string
	IDs                   [][]int32
	Decoded               []string
}

func readGemma4(t *testing.T) (v gemma4Vectors, f *file) {
	t.Helper()
	data, err := os.ReadFile("testdata/gemma4.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &v))
	f = &file{more: map[string]any{
		"model": "gemma4", "bos_token_id": uint32(2), "eos_token_id": uint32(1), "unknown_token_id": uint32(3), "merges": v.Merges,
	}}
	special := []string{"<pad>", "<eos>", "<bos>", "<mask>", "<|turn>", "<turn|>"}
	for _, text := range v.Tokens {
		switch {
		case slices.Contains(special, text):
			f.token(text, kindControl)
		case text == "<unk>":
			f.token(text, kindUnknown)
		case strings.HasPrefix(text, "<0x") && len(text) == len("<0x00>"):
			f.token(text, kindByte)
		default:
			f.token(text, kindNormal)
		}
	}
	return v, f
}

// TestLibraryGemma4 compares ids and texts with Hugging Face's tokenizers library. The vocabulary
// has runs of newlines, and lacks some characters of the texts.
func TestLibraryGemma4(t *testing.T) {
	t.Parallel()
	v, f := readGemma4(t)
	tok := f.tokenizer(t)
	compareWithLibrary(t, tok, v.Texts, v.IDs)
	bytes := 0
	for i, ids := range v.IDs {
		require.Equal(t, v.Decoded[i], tok.Decode(ids))
		for _, id := range ids {
			if strings.HasPrefix(v.Tokens[id], "<0x") {
				bytes++
			}
		}
	}
	require.Positive(t, bytes, "some characters have no token")
	require.True(t, tok.AddsBOS())
	turn, ok := tok.Lookup("<turn|>")
	require.True(t, ok)
	require.Contains(t, tok.StopIDs(), turn)
	require.Equal(t, []int32{2}, tok.Encode("", EncodeOptions{BOS: true}))
}

// TestNewlinesOfGemma4 checks that a run of newlines that is a token becomes this token, even if no
// merges lead to it.
func TestNewlinesOfGemma4(t *testing.T) {
	t.Parallel()
	_, f := readGemma4(t)
	f.token("\n\n\n\n\n\n\n", kindNormal)
	tok := f.tokenizer(t)
	seven, _ := tok.Lookup("\n\n\n\n\n\n\n")
	require.Equal(t, []int32{seven}, tok.Encode("\n\n\n\n\n\n\n", EncodeOptions{}))
	require.NotContains(t, tok.Encode("\n\n\n\n\n\n\n\n", EncodeOptions{}), seven)
}

// TestGemma4WithoutBytes checks that characters without tokens become one unknown token if the
// vocabulary has no byte tokens, and that bytes that are not UTF-8 are encoded otherwise.
func TestGemma4WithoutBytes(t *testing.T) {
	t.Parallel()
	_, f := readGemma4(t)
	require.Equal(t, f.idsOf("<0xFF>"), f.tokenizer(t).Encode("\xff", EncodeOptions{}))
	f.tokens[f.id("<0x41>")] = "<no byte>"
	f.kinds[f.id("<no byte>")] = int32(kindUnused)
	require.Equal(t, f.idsOf("<unk>"), f.tokenizer(t).Encode("𒀀𒀁", EncodeOptions{}))
	require.Zero(t, f.tokenizer(t).MaxTokenBytes())
}

// The token with which the result of a tool begins ends an answer, although it is not a control
// token.
func TestToolResponseEndsAnAnswerOfGemma4(t *testing.T) {
	t.Parallel()
	_, f := readGemma4(t)
	f.token("<|tool_response>", kindUserDefined)
	tok := f.tokenizer(t)
	id, _ := tok.Lookup("<|tool_response>")
	require.Contains(t, tok.StopIDs(), id)
}
