package engine_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/engine/gguf"
	"github.com/ingot-run/ingot/engine/tokenizer"
	"github.com/ingot-run/ingot/internal/ordered"
)

// thinker returns the path of a model whose chat template ends prompts with the given text.
func thinker(t testing.TB, end string) string {
	t.Helper()
	return rewrite(t, microGLM, func(m *gguf.Metadata) *gguf.Metadata {
		m.Set("tokenizer.chat_template", "[gMASK]<sop>{% for m in messages %}<|user|>{{ m.content }}{% endfor %}<|assistant|>"+end+"{# </think> #}")
		return m
	})
}

func chatOf(t testing.TB, text string) *ordered.Object {
	t.Helper()
	chat, message := ordered.NewObject(), ordered.NewObject()
	message.Set("role", "user")
	message.Set("content", text)
	chat.Set("messages", []ordered.Value{message})
	return chat
}

// The constraint begins after the reasoning, whether steps are in flight, tokens are drafted or
// neither. The reasoning is free, but does not end the answer.
func TestConstraintsBeginAfterReasoning(t *testing.T) {
	t.Parallel()
	t.Run("begun by the model", func(t *testing.T) {
		t.Parallel()
		reasoning(t, "", "<think>")
	})
	t.Run("begun by the template", func(t *testing.T) {
		t.Parallel()
		reasoning(t, "<think>", "")
	})
}

func reasoning(t *testing.T, prompt, begin string) {
	path := thinker(t, prompt)
	plain := open(t, path, engine.Options{Context: 256, Draft: engine.DraftOff})
	drafting := open(t, path, engine.Options{Context: 256, Draft: engine.DraftNGram, DraftTokens: 6})
	several := newSeveral(t)
	engines := map[string]*engine.Engine{
		"n-grams":   drafting,
		"MTP":       open(t, path, engine.Options{Context: 256, Draft: engine.DraftMTP, DraftTokens: 3}),
		"in flight": openOn(t, path, several, engine.Options{Context: 256, Draft: engine.DraftOff}),
	}
	encode := func(text string) []int32 {
		return plain.Tokenizer().Encode(text, tokenizer.EncodeOptions{Special: true})
	}
	eos, ok := plain.Tokenizer().EOS()
	require.True(t, ok)
	for _, c := range []struct {
		name      string
		forced    string // tokens with a bias, in this order, unless the constraint excludes them
		biased    map[int32]float64
		reasoning string
		text      string
		reason    generation.FinishReason
	}{
		{"reasoning", begin + "ab</think>yes", nil, "ab", "yes", generation.FinishStop},
		{"a line break", begin + "ab</think>\nno", nil, "ab", "no", generation.FinishStop},
		{"content that is not allowed", begin + "ab</think>cd\nyes", nil, "ab", "yes", generation.FinishStop},
		{"no end within reasoning", begin + "ab", map[int32]float64{eos: 5e5, encode("</think>")[0]: -5e5}, "ab", "", generation.FinishLength},
	} {
		// The prompt has the answer, so that n-grams draft it, and another one that is not allowed.
		for _, text := range []string{"<think>ab</think>cd or <think>ab</think>yes", "<think>ab</think>yes or <think>ab</think>cd"} {
			req := force(generation.Request{Chat: chatOf(t, text), MaxTokens: 40, Constraint: &generation.Constraint{Choices: []string{"yes", "no", "perhaps"}}}, encode(c.forced)...)
			for id, bias := range c.biased {
				req.Sampling.LogitBias[id] = bias
			}
			want := generate(t, plain, req)
			choice := want.Choices[0]
			require.Equal(t, c.reason, choice.FinishReason, c.name)
			require.Equal(t, c.text, choice.Text, c.name)
			if c.reason == generation.FinishStop {
				require.Equal(t, c.reasoning, choice.Reasoning, c.name)
				if !strings.Contains(c.forced, "cd") {
					require.Equal(t, encode(c.forced), choice.Tokens[:len(choice.Tokens)-1], c.name)
				}
			} else {
				require.Contains(t, choice.Reasoning, c.reasoning, c.name)
			}
			for name, e := range engines {
				same(t, want, generate(t, e, req), c.name+", "+name)
			}
		}
	}
	require.Positive(t, drafting.Snapshot().AcceptedTokens)
	require.Less(t, several.waits.Load(), int64(engines["in flight"].Snapshot().Steps), "reasoning needs no wait for each step")
}

// Without reasoning, the constraint holds from the first token: after a prompt whose template has
// closed the reasoning, and for a model that does not begin any.
func TestConstraintsWithoutReasoning(t *testing.T) {
	t.Parallel()
	for _, end := range []string{"</think>", "<think></think>\n", ""} {
		e := open(t, thinker(t, end), engine.Options{Context: 64, Draft: engine.DraftOff})
		bias := map[int32]float64{e.Tokenizer().Encode("<think>", tokenizer.EncodeOptions{Special: true})[0]: 100}
		if end == "" {
			bias = map[int32]float64{ids(t, e, "y")[0]: 100}
		}
		c := generate(t, e, generation.Request{
			Chat: chatOf(t, "hi"), MaxTokens: 20, Constraint: &generation.Constraint{Choices: []string{"yes", "no"}}, Sampling: generation.Sampling{LogitBias: bias},
		})
		require.Contains(t, []string{"yes", "no"}, c.Choices[0].Text, end)
		require.Empty(t, c.Choices[0].Reasoning)
	}
}

// An answer whose text begins like the opening tag is content: the tag cannot follow a part of
// itself, however likely the model finds it. Before any text, it can.
func TestConstraintsThatBeginLikeATag(t *testing.T) {
	t.Parallel()
	e := open(t, thinker(t, ""), engine.Options{Context: 64, Draft: engine.DraftOff})
	tag := e.Tokenizer().Encode("<think>", tokenizer.EncodeOptions{Special: true})[0]
	req := generation.Request{
		Chat: chatOf(t, "hi"), MaxTokens: 40, Constraint: &generation.Constraint{Choices: []string{"<table>", "<th>"}},
	}
	c := generate(t, e, force(req, ids(t, e, "<")[0], tag)).Choices[0]
	require.Contains(t, []string{"<table>", "<th>"}, c.Text)
	require.Empty(t, c.Reasoning)
	require.NotContains(t, c.Tokens, tag)
}
