package engine_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/internal/ordered"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/engine/gguf"
)

func TestBadRequestsNameTheReason(t *testing.T) {
	t.Parallel()
	e := open(t, microLlama, engine.Options{Context: 10})
	ok := []int32{1, 2, 3}
	for want, req := range map[string]generation.Request{
		"the prompt is empty":                            {},
		"more than one of messages, a text":              {Text: "a", Tokens: ok},
		"token 2 of the prompt has id 2048":              {Tokens: []int32{0, 2048}},
		"token 1 of the prompt has id -1":                {Tokens: []int32{-1}},
		"the prompt has 11 tokens; the context holds 10": {Tokens: randomTokens(1, 11)},
		"the prompt has 10 tokens and fills the context": {Tokens: randomTokens(1, 10)},
		"the prompt has 12 tokens; the context holds":    {Tokens: randomTokens(1, 12), PromptOnly: true},
		"n is -1":          {Tokens: ok, N: -1},
		"n is 1000000":     {Tokens: ok, N: 1000000},
		"max_tokens is -1": {Tokens: ok, MaxTokens: -1},
		"min_tokens is -1": {Tokens: ok, MinTokens: -1},
		"min_tokens is 3, which is more than max_tokens (2)": {Tokens: ok, MinTokens: 3, MaxTokens: 2},
		"string 2 of stop is empty":                          {Tokens: ok, Stop: []string{"a", ""}},
		"stop_token_ids has id 2048":                         {Tokens: ok, StopIDs: []int32{2048}},
		"top_logprobs is -1":                                 {Tokens: ok, TopLogprobs: -1},
		"top_logprobs is 2049":                               {Tokens: ok, TopLogprobs: 2049},
		"temperature is NaN":                                 {Tokens: ok, Sampling: generation.Sampling{Temperature: math.NaN()}},
		`"logit_bias" names token 2048`:                      {Tokens: ok, Sampling: generation.Sampling{LogitBias: map[int32]float64{2048: 1}}},
	} {
		_, err := e.Generate(t.Context(), req)
		require.ErrorIs(t, err, generation.ErrBadRequest, want)
		require.ErrorContains(t, err, want)
	}
	require.Zero(t, e.Snapshot().Steps)
}

func messages(t *testing.T, json string) *ordered.Object {
	t.Helper()
	v, err := ordered.ParseJSON([]byte(json))
	require.NoError(t, err)
	return v.(*ordered.Object)
}

func TestChatUsesTheTemplate(t *testing.T) {
	t.Parallel()
	e := open(t, microGLM, engine.Options{})
	ctx := messages(t, `{"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Name the capital of Finland."}]}`)
	before := ctx.Keys()
	rendered := "[gMASK]<sop><|system|>Be brief.<|user|>Name the capital of Finland."
	greedy := generation.Request{MaxTokens: 8, IgnoreEOS: true}

	asText, asChat := greedy, greedy
	asText.Text = rendered + "<|assistant|></think>"
	asChat.Chat = ctx
	want, got := generate(t, e, asText), generate(t, e, asChat)
	same(t, want, got, "a chat and its rendered text as the prompt")
	require.Equal(t, before, ctx.Keys(), "the caller's object does not change")
	for _, name := range []string{"[gMASK]", "<sop>", "<|system|>", "<|user|>", "<|assistant|>"} {
		id, ok := e.Tokenizer().Lookup(name)
		require.True(t, ok)
		require.Contains(t, got.PromptTokens, id, "%s is one token", name)
	}

	ctx = messages(t, `{"add_generation_prompt": false, "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Name the capital of Finland."}]}`)
	asText.Text, asChat.Chat = rendered, ctx
	same(t, generate(t, e, asText), generate(t, e, asChat), "without the generation prompt")
}

func TestDevelopersInstructAsSystem(t *testing.T) {
	t.Parallel()
	asked := `{"messages": [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": "Name the capital of Finland."}]}`
	for name, c := range map[string]struct{ source, want string }{
		"a template without the role": {"{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}", "<system>Be brief.<user>Name the capital of Finland."},
		"a template with it": {
			"{% for m in messages %}{% if m.role == 'developer' %}!{% endif %}{{ m.content }}{% endfor %}",
			"!Be brief.Name the capital of Finland.",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := open(t, withTemplate(t, c.source), engine.Options{})
			ctx := messages(t, asked)
			got := generate(t, e, generation.Request{Chat: ctx, MaxTokens: 1})
			require.Equal(t, c.want, e.Tokenizer().Decode(got.PromptTokens))
			require.Equal(t, messages(t, asked), ctx, "the caller's object does not change")
		})
	}
}

// withTemplate copies micro-glm with another template; without a template if source is empty.
func withTemplate(t *testing.T, source string) string {
	t.Helper()
	return rewrite(t, microGLM, func(m *gguf.Metadata) *gguf.Metadata {
		m = without(m, "tokenizer.chat_template")
		if source != "" {
			m.Set("tokenizer.chat_template", source)
		}
		return m
	})
}

// without returns a copy of metadata without the keys that begin with a prefix.
func without(m *gguf.Metadata, prefix string) *gguf.Metadata {
	out := gguf.NewMetadata()
	for _, key := range m.Keys() {
		if v, ok := m.Any(key); ok && !strings.HasPrefix(key, prefix) {
			out.Set(key, v)
		}
	}
	return out
}

func TestTemplatesThatCannotAnswer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ source, want string }{
		"none":    {"", "the model file has no chat template"},
		"broken":  {"{% if %}", "the model file's chat template cannot be used: tokenizer.chat_template:1:"},
		"refuses": {"{{ raise_exception('roles must alternate') }}", "the chat template refuses the messages: roles must alternate"},
		"fails":   {"{{ messages.x.y }}", "render the chat template"},
		"empty":   {"{# nothing #}", "the prompt is empty"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := open(t, withTemplate(t, c.source), engine.Options{})
			_, err := e.Generate(t.Context(), generation.Request{Chat: messages(t, `{"messages": []}`)})
			require.ErrorIs(t, err, generation.ErrBadRequest)
			require.ErrorContains(t, err, c.want)
			generate(t, e, generation.Request{Text: "a text", MaxTokens: 1})
		})
	}
}

func TestTemplateVariables(t *testing.T) {
	t.Parallel()
	e := open(t, withTemplate(t, "{{ bos_token }}{{ eos_token }}{{ strftime_now('%d %B %Y') }}"), engine.Options{})
	date := time.Date(2024, 7, 26, 12, 0, 0, 0, time.UTC)
	got := generate(t, e, generation.Request{Chat: ordered.NewObject(), Date: date, PromptOnly: true})
	bos, _ := e.Tokenizer().BOS()
	eos, _ := e.Tokenizer().EOS()
	require.Equal(t, []int32{bos, eos}, got.PromptTokens[:2])
	require.Equal(t, "26 July 2024", e.Tokenizer().Decode(got.PromptTokens[2:]))
}

// SentencePiece adds a space before a text, which decoding drops again. A space at the beginning of
// an answer is kept.
func TestAnAnswerKeepsItsFirstSpace(t *testing.T) {
	t.Parallel()
	e := open(t, rewrite(t, microLlama, func(m *gguf.Metadata) *gguf.Metadata {
		tokens, scores, kinds := []string{"<unk>", "<s>", "</s>"}, make([]float32, 2048), make([]int32, 2048)
		kinds[0], kinds[1], kinds[2] = 2, 3, 3
		for i := 3; i < 2048; i++ {
			kinds[i], scores[i] = 1, -float32(i)
			tokens = append(tokens, fmt.Sprintf("\u2581w%d", i))
			if i < 3+256 {
				kinds[i], tokens[i] = 6, fmt.Sprintf("<0x%02X>", i-3)
			}
		}
		m = without(m, "tokenizer.")
		m.Set("tokenizer.ggml.model", "llama")
		m.Set("tokenizer.ggml.tokens", tokens)
		m.Set("tokenizer.ggml.scores", scores)
		m.Set("tokenizer.ggml.token_type", kinds)
		m.Set("tokenizer.ggml.bos_token_id", uint32(1))
		m.Set("tokenizer.ggml.eos_token_id", uint32(2))
		return m
	}), engine.Options{})
	for _, req := range []generation.Request{{Tokens: []int32{1, 900}}, {Text: "any"}} {
		req.MaxTokens = 2
		c := generate(t, e, force(req, 1000, 1001))
		require.Equal(t, " w1000 w1001", c.Choices[0].Text)
		require.Equal(t, int32(1), c.PromptTokens[0], "the BOS token is added if the file requires it")
	}
}

// leaving is the context of a client that leaves after the first look at it.
type leaving struct {
	context.Context
	looks atomic.Int32
}

func (l *leaving) Err() error {
	if l.looks.Add(1) > 1 {
		return context.Canceled
	}
	return nil
}

// The template stops when its client has gone, however long it would take.
func TestRenderingStopsWithItsClient(t *testing.T) {
	t.Parallel()
	e := open(t, withTemplate(t, "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}"), engine.Options{})
	req := generation.Request{Chat: ordered.NewObject()}
	_, err := e.Generate(t.Context(), req)
	require.ErrorContains(t, err, "the template needs more steps than allowed")
	ctx := &leaving{Context: t.Context()}
	_, err = e.Generate(ctx, req)
	require.Equal(t, context.Canceled, err)
	require.LessOrEqual(t, ctx.looks.Load(), int32(3))
}
