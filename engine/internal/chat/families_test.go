package chat

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/gguf"
	"github.com/ingot-run/ingot/engine/tokenizer"
	"github.com/ingot-run/ingot/internal/ordered"
)

// family is a file of testdata/families.py: a chat template or its name in the folder templates of
// INGOT_VECTORS, a vocabulary, and chats with their prompts.
type family struct {
	Architecture string    `json:"architecture"`
	Name         string    `json:"name"`
	Model        string    `json:"model"`
	Pre          string    `json:"pre"`
	BOS          int32     `json:"bos"` // -1 for none
	EOS          int32     `json:"eos"`
	SpacePrefix  bool      `json:"space_prefix"`
	Date         string    `json:"date"`
	Template     string    `json:"template"`
	TemplateFile string    `json:"template_file"`
	Tokens       []string  `json:"tokens"`
	Types        []int32   `json:"types"`
	Merges       []string  `json:"merges"`
	Scores       []float32 `json:"scores"`
	Cases        []struct {
		Messages json.RawMessage `json:"messages"`
		Text     string          `json:"text"`
		IDs      []int32         `json:"ids"`
	} `json:"cases"`
}

// eachFamily runs a parallel subtest for every family.
func eachFamily(t *testing.T, test func(t *testing.T, f *family)) {
	t.Helper()
	paths, err := filepath.Glob("testdata/families/*.json")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(paths), 14)
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".json"), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			var f family
			require.NoError(t, json.Unmarshal(text, &f))
			test(t, &f)
		})
	}
}

// needTemplate reads the template of a family from its file, if it has one. It skips the test if
// the file is not available.
func (f *family) needTemplate(t *testing.T) {
	t.Helper()
	if f.TemplateFile == "" {
		return
	}
	text, err := os.ReadFile(filepath.Join(needTemplates(t), f.TemplateFile))
	require.NoError(t, err)
	f.Template = string(text)
}

func (f *family) meta() *gguf.Metadata {
	m := gguf.NewMetadata()
	for key, v := range map[string]any{
		"general.architecture": f.Architecture, "general.name": f.Name,
		"tokenizer.ggml.model": f.Model, "tokenizer.ggml.pre": f.Pre,
		"tokenizer.ggml.tokens": f.Tokens, "tokenizer.ggml.token_type": f.Types, "tokenizer.ggml.merges": f.Merges, "tokenizer.ggml.scores": f.Scores,
		"tokenizer.ggml.eos_token_id": f.EOS, "tokenizer.ggml.add_bos_token": f.BOS >= 0, "tokenizer.ggml.add_space_prefix": f.SpacePrefix,
		TemplateKey: f.Template,
	} {
		m.Set(key, v)
	}
	if f.BOS >= 0 {
		m.Set("tokenizer.ggml.bos_token_id", f.BOS)
	}
	return m
}

// TestFamilies makes prompts with the template and the tokenizer of each family, and compares them
// with those of Hugging Face's transformers and tokenizers.
func TestFamilies(t *testing.T) {
	t.Parallel()
	eachFamily(t, func(t *testing.T, f *family) {
		require.NotEmpty(t, f.Cases)
		tokens, err := tokenizer.New(f.meta())
		require.NoError(t, err)
		for i, c := range f.Cases {
			require.Equal(t, c.IDs, tokens.Encode(c.Text, tokenizer.EncodeOptions{Special: true}), "chat %d", i)
		}
		t.Run("template", func(t *testing.T) {
			f.needTemplate(t)
			template := New(f.meta(), tokens)
			date, err := time.Parse(time.DateOnly, f.Date)
			require.NoError(t, err)
			for i, c := range f.Cases {
				messages, err := ordered.ParseJSON(c.Messages)
				require.NoError(t, err)
				vars := ordered.NewObject()
				vars.Set("messages", messages)
				prompt, err := template.Render(t.Context(), vars, nil, date)
				require.NoError(t, err)
				require.Equal(t, c.Text, prompt, "chat %d", i)
			}
		})
	})
}
