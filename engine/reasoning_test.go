package engine_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/engine/tokenizer"
	"github.com/ingot-run/ingot/internal/ordered"
)

// The reasoning of an answer to a chat is separated from its content, in the whole answer and in
// pieces. The text of a completion is not changed.
func TestReasoning(t *testing.T) {
	t.Parallel()
	e := open(t, filepath.Join("..", "models", "tiny-glm.q8_0.gguf"), engine.Options{})
	v, err := ordered.ParseJSON([]byte(`{"messages":[{"role":"user","content":"Hi"}]}`))
	require.NoError(t, err)
	ids := e.Tokenizer().Encode("<think>ab</think>cd", tokenizer.EncodeOptions{Special: true})
	thoughts := len(e.Tokenizer().Encode("<think>ab</think>", tokenizer.EncodeOptions{Special: true}))

	var pieces generation.Choice
	req := force(generation.Request{Chat: v.(*ordered.Object), MaxTokens: len(ids)}, ids...)
	req.Stream = func(p generation.Piece) error {
		pieces.Reasoning += p.Reasoning
		pieces.Text += p.Text
		return nil
	}
	done := generate(t, e, req)
	require.Equal(t, ids, done.Choices[0].Tokens)
	require.Equal(t, "ab", done.Choices[0].Reasoning)
	require.Equal(t, "cd", done.Choices[0].Text)
	require.Equal(t, generation.Choice{Reasoning: "ab", Text: "cd"}, pieces)
	require.Equal(t, thoughts, done.Stats.ReasoningTokens)

	// The line breaks around the tags belong neither to the reasoning nor to the content.
	whole, streamed, _ := answered(t, e, generation.Request{Chat: v.(*ordered.Object)}, "<think>\na\n\nb\n</think>\n\ncd\n")
	require.Equal(t, generation.Choice{Reasoning: "a\n\nb", Text: "cd\n", FinishReason: generation.FinishStop}, whole)
	require.Equal(t, whole, streamed)

	req = force(generation.Request{Tokens: done.PromptTokens, MaxTokens: len(ids)}, ids...)
	done = generate(t, e, req)
	require.Equal(t, "<think>ab</think>cd", done.Choices[0].Text)
	require.Zero(t, done.Stats.ReasoningTokens)
}
