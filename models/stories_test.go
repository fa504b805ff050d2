package models_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/ingot-run/ingot/engine/generation"

	"github.com/stretchr/testify/require"
)

// story is the text of 200 greedy tokens after BOS. The programs of the model's author, in C and in
// PyTorch, generated it (github.com/karpathy/llama2.c, test_all.py).
const story = `Once upon a time, there was a little girl named Lily. She loved to play outside in the park. ` +
	`One day, she saw a big, red ball. She wanted to play with it, but it was too high.
Lily's mom said, "Lily, let's go to the park." Lily was sad and didn't know what to do. ` +
	`She said, "I want to play with your ball, but I can't find it."
Lily was sad and didn't know what to do. She said, "I'm sorry, Lily. I didn't know what to do."
Lily didn't want to help her mom, so she`

// TestStory generates a story with a public model of 260 thousand parameters: a Llama with a
// SentencePiece vocabulary, trained on children's stories.
func TestStory(t *testing.T) {
	dir := os.Getenv("INGOT_VECTORS")
	if dir == "" {
		t.Skip("the public model stories260K is not tested: set INGOT_VECTORS to the folder that has stories260K.gguf")
	}
	eng := open(t, filepath.Join(dir, "stories260K.gguf"))
	bos, ok := eng.Tokenizer().BOS()
	require.True(t, ok)
	c, err := eng.Generate(t.Context(), generation.Request{Tokens: []int32{bos}, MaxTokens: 200})
	require.NoError(t, err)
	require.Equal(t, story, c.Choices[0].Text)
	require.Len(t, c.Choices[0].Tokens, 200)
}
