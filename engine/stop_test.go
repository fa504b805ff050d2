package engine_test

import (
	"testing"

	"github.com/ingot-run/ingot/engine/generation"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine"
)

func TestStopStrings(t *testing.T) {
	t.Parallel()
	e := open(t, microLlama, engine.Options{})
	// "é" has the bytes C3 A9, and "Ĥ" the bytes C4 A4. In this answer, each of these bytes is a
	// token.
	answer := ids(t, e, "c", "a", "f", "\xc3", "\xa9", "s", " ", "end", "\xc4")
	for name, c := range map[string]struct {
		stop   []string
		min    int // minimum number of tokens before a stop is allowed
		text   string
		tokens int // number of tokens of the answer
		reason string
	}{
		"none":                                {text: "cafés end\uFFFD", tokens: 9},
		"no stop string occurs":               {stop: []string{"cafe", "nd "}, text: "cafés end\uFFFD", tokens: 9},
		"one token":                           {stop: []string{"end"}, text: "cafés ", tokens: 8, reason: "end"},
		"inside a token":                      {stop: []string{"nd"}, text: "cafés e", tokens: 8, reason: "nd"},
		"across tokens":                       {stop: []string{"s e"}, text: "café", tokens: 8, reason: "s e"},
		"a character of two tokens":           {stop: []string{"é"}, text: "caf", tokens: 5, reason: "é"},
		"ends in a character of two tokens":   {stop: []string{"fé"}, text: "ca", tokens: 5, reason: "fé"},
		"begins in a character of two tokens": {stop: []string{"és "}, text: "caf", tokens: 7, reason: "és "},
		"the first to be complete":            {stop: []string{"afés", "f"}, text: "ca", tokens: 3, reason: "f"},
		"the first of two in one token":       {stop: []string{"nd", "en"}, text: "cafés ", tokens: 8, reason: "en"},
		"the whole text":                      {stop: []string{"c"}, text: "", tokens: 1, reason: "c"},
		"with the last token":                 {stop: []string{"\uFFFD"}, text: "cafés end\uFFFD", tokens: 9},
		"before the minimum of tokens":        {stop: []string{"a"}, min: 2, text: "cafés end\uFFFD", tokens: 9},
		"at the minimum of tokens":            {stop: []string{"a"}, min: 1, text: "c", tokens: 2, reason: "a"},
		"begun before the minimum of tokens":  {stop: []string{"fés"}, min: 4, text: "ca", tokens: 6, reason: "fés"},
		"complete with the minimum of tokens": {stop: []string{"é"}, min: 5, text: "cafés end\uFFFD", tokens: 9},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := streamed(t, e, force(generation.Request{
				Tokens: randomTokens(1, 4), MaxTokens: len(answer), Stop: c.stop, MinTokens: c.min, Logprobs: true,
			}, answer...)).Choices[0]
			require.Equal(t, c.text, got.Text)
			require.Equal(t, answer[:c.tokens], got.Tokens)
			require.Len(t, got.Logprobs, c.tokens)
			require.Equal(t, c.reason, got.StopReason)
			if c.reason == "" {
				require.Equal(t, generation.FinishLength, got.FinishReason)
			} else {
				require.Equal(t, generation.FinishStop, got.FinishReason)
			}
		})
	}
}

func TestStopIDs(t *testing.T) {
	t.Parallel()
	e := open(t, microGLM, engine.Options{})
	eos, ok := e.Tokenizer().EOS()
	require.True(t, ok)
	words := ids(t, e, "a", "b", "c", "d")
	half := ids(t, e, "\xc3")[0]
	prompt := randomTokens(1, 4)
	for name, c := range map[string]struct {
		answer []int32 // the tokens that the bias forces
		req    generation.Request
		want   []int32
		text   string
		finish generation.FinishReason
	}{
		"the model's stop id":                        {[]int32{words[0], eos}, generation.Request{MaxTokens: 4}, []int32{words[0], eos}, "a", generation.FinishStop},
		"the request's stop id":                      {words, generation.Request{MaxTokens: 4, StopIDs: words[2:3]}, words[:3], "ab", generation.FinishStop},
		"as the last token":                          {words, generation.Request{MaxTokens: 3, StopIDs: words[2:3]}, words[:3], "ab", generation.FinishStop},
		"as the first token":                         {words, generation.Request{MaxTokens: 3, StopIDs: words[:1]}, words[:1], "", generation.FinishStop},
		"after half a character":                     {[]int32{half, eos}, generation.Request{MaxTokens: 4}, []int32{half, eos}, "\uFFFD", generation.FinishStop},
		"EOS is ignored":                             {[]int32{eos, words[0]}, generation.Request{MaxTokens: 2, IgnoreEOS: true}, []int32{eos, words[0]}, "a", generation.FinishLength},
		"stop ids are not ignored with EOS":          {words, generation.Request{MaxTokens: 3, IgnoreEOS: true, StopIDs: words[:1]}, words[:1], "", generation.FinishStop},
		"EOS is forbidden before the minimum":        {append([]int32{eos}, words...), generation.Request{MaxTokens: 4, MinTokens: 2}, []int32{words[0], words[1], eos}, "ab", generation.FinishStop},
		"stop ids are forbidden before the minimum":  {words, generation.Request{MaxTokens: 4, MinTokens: 2, StopIDs: words[:1]}, []int32{words[1], words[2], words[0]}, "bc", generation.FinishStop},
		"stop ids are forbidden in the whole answer": {words, generation.Request{MaxTokens: 2, MinTokens: 2, StopIDs: words[:1]}, words[1:3], "bc", generation.FinishLength},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.req.Tokens = prompt
			c.req.Logprobs, c.req.PromptLogprobs = true, true
			all := streamed(t, e, force(c.req, c.answer...))
			got := all.Choices[0]
			require.Len(t, all.PromptLogprobs, len(prompt))
			require.Len(t, got.Logprobs, len(c.want), "a stop id has a log-probability too")
			require.Equal(t, c.want, got.Tokens)
			require.Equal(t, c.text, got.Text)
			require.Equal(t, c.finish, got.FinishReason)
			require.Empty(t, got.StopReason)
		})
	}
}
