package generation_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/generation"
)

func named(names ...string) (tools []generation.Tool) {
	for _, name := range names {
		tools = append(tools, generation.Tool{Name: name})
	}
	return tools
}

// Each setting is accepted at the ends of its range, and the error names what is beyond it.
func TestRequestsAreValidated(t *testing.T) {
	t.Parallel()
	choose := func(mode generation.ToolMode, names ...string) generation.ToolChoice {
		return generation.ToolChoice{Mode: mode, Names: names}
	}
	for name, c := range map[string]struct {
		request generation.Request
		want    string // in the error; empty for a valid request
	}{
		"nothing is set":              {},
		"one choice":                  {request: generation.Request{N: 1}},
		"all choices":                 {request: generation.Request{N: 128}},
		"too many choices":            {request: generation.Request{N: 129}, want: "n is 129; it must be from 1 to 128"},
		"a negative number":           {request: generation.Request{N: -1}, want: "n is -1"},
		"negative max_tokens":         {request: generation.Request{MaxTokens: -1}, want: "max_tokens is -1"},
		"negative min_tokens":         {request: generation.Request{MinTokens: -1}, want: "min_tokens is -1"},
		"as many as the maximum":      {request: generation.Request{MinTokens: 5, MaxTokens: 5}},
		"more than the maximum":       {request: generation.Request{MinTokens: 6, MaxTokens: 5}, want: "min_tokens is 6, which is more than max_tokens (5)"},
		"more than no maximum":        {request: generation.Request{MinTokens: 6}},
		"the whole vocabulary":        {request: generation.Request{TopLogprobs: 10}},
		"more than the vocabulary":    {request: generation.Request{TopLogprobs: 11}, want: "top_logprobs is 11; it must be from 0 to 10"},
		"negative top_logprobs":       {request: generation.Request{TopLogprobs: -1}, want: "top_logprobs is -1"},
		"stop strings":                {request: generation.Request{Stop: []string{"a", "b"}}},
		"an empty stop string":        {request: generation.Request{Stop: []string{"a", ""}}, want: "string 2 of stop is empty"},
		"stop ids":                    {request: generation.Request{StopIDs: []int32{0, 9}}},
		"a stop id too high":          {request: generation.Request{StopIDs: []int32{0, 10}}, want: "stop_token_ids has id 10, but the vocabulary has ids 0 to 9"},
		"a negative stop id":          {request: generation.Request{StopIDs: []int32{-1}}, want: "stop_token_ids has id -1"},
		"sampling":                    {request: generation.Request{Sampling: generation.Sampling{TopP: 2}}, want: "top_p is 2"},
		"a constraint":                {request: generation.Request{Constraint: &generation.Constraint{Regex: "a"}}},
		"only EOS is ignored":         {request: generation.Request{IgnoreEOS: true}},
		"a constraint without EOS":    {request: generation.Request{Constraint: &generation.Constraint{Regex: "a"}, IgnoreEOS: true}, want: "ignore_eos"},
		"an empty constraint":         {request: generation.Request{Constraint: &generation.Constraint{}}, want: "the constraint is empty"},
		"a schema":                    {request: generation.Request{Constraint: &generation.Constraint{Schema: "{}"}}},
		"choices":                     {request: generation.Request{Constraint: &generation.Constraint{Choices: []string{"a"}}}},
		"a grammar":                   {request: generation.Request{Constraint: &generation.Constraint{Grammar: "a"}}},
		"a schema and choices":        {request: generation.Request{Constraint: &generation.Constraint{Schema: "{}", Choices: []string{"a"}}}, want: "more than one"},
		"tools":                       {request: generation.Request{Tools: named("a", "b")}},
		"two tools of a name":         {request: generation.Request{Tools: named("a", "b", "a")}, want: `two tools have the name "a"`},
		"a tool without a name":       {request: generation.Request{Tools: named("a", "")}, want: "the name of tool 2 is empty"},
		"a tool is named":             {request: generation.Request{Tools: named("a", "b"), ToolChoice: choose(generation.ToolsNamed, "b")}},
		"no tool is named":            {request: generation.Request{Tools: named("a", "b"), ToolChoice: choose(generation.ToolsNamed)}, want: "0 tools are chosen where one must be named"},
		"two tools are named":         {request: generation.Request{Tools: named("a", "b"), ToolChoice: choose(generation.ToolsNamed, "a", "b")}, want: "2 tools are chosen"},
		"another tool is named":       {request: generation.Request{Tools: named("a"), ToolChoice: choose(generation.ToolsNamed, "b")}, want: `the tool "b" is chosen, but there is no such tool`},
		"some tools may be called":    {request: generation.Request{Tools: named("a", "b"), ToolChoice: choose(generation.ToolsAuto, "a", "b")}},
		"another tool may be called":  {request: generation.Request{Tools: named("a"), ToolChoice: choose(generation.ToolsAuto, "b")}, want: `the tool "b" is chosen`},
		"a call is required":          {request: generation.Request{Tools: named("a"), ToolChoice: choose(generation.ToolsRequired)}},
		"no tool can be called":       {request: generation.Request{ToolChoice: choose(generation.ToolsRequired)}, want: "there are no tools"},
		"no tool can be named":        {request: generation.Request{ToolChoice: choose(generation.ToolsNamed)}, want: "there are no tools"},
		"another mode of tool choice": {request: generation.Request{ToolChoice: choose("never")}, want: `the mode of the choice among tools is "never"`},
	} {
		err := c.request.Validate(10)
		if c.want == "" {
			require.NoError(t, err, name)
			continue
		}
		require.ErrorContains(t, err, c.want, name)
		require.ErrorIs(t, err, generation.ErrBadRequest, name)
	}
	require.Equal(t, []int{1, 1, 2}, []int{(&generation.Request{}).NumChoices(), (&generation.Request{N: 1}).NumChoices(), (&generation.Request{N: 2}).NumChoices()})
}

// The limits of numbers that no other test reaches.
func TestLimitsOfSampling(t *testing.T) {
	t.Parallel()
	for name, p := range map[string]generation.Sampling{
		"top_k": {TopK: math.MaxInt32}, "penalty": {RepetitionPenalty: 1e-6},
		"bias": {LogitBias: map[int32]float64{0: 1e6, 9: -1e6}},
	} {
		require.NoError(t, p.Validate(10), name)
	}
	for want, p := range map[string]generation.Sampling{
		"top_k is 2147483648":     {TopK: math.MaxInt32 + 1},
		`"logit_bias" of token 0`: {LogitBias: map[int32]float64{0: 1e6 + 1}},
	} {
		require.ErrorContains(t, p.Validate(10), want)
	}
}

// The names of tools are those of OpenAI's API, and names with a dot.
func TestNamesOfTools(t *testing.T) {
	t.Parallel()
	valid := "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-."
	for c := rune(0); c < 300; c++ {
		require.Equal(t, strings.ContainsRune(valid, c), generation.CheckToolName("a"+string(c)+"b") == nil, "%q", c)
	}
	require.NoError(t, generation.CheckToolName(strings.Repeat("a", 64)))
	require.ErrorContains(t, generation.CheckToolName(strings.Repeat("a", 65)), "has 65 characters, more than 64")
	require.ErrorContains(t, generation.CheckToolName(""), "is empty")
}

// A request whose result has more than tokens cannot continue from tokens.
func TestWhichRequestsAreResumable(t *testing.T) {
	t.Parallel()
	require.True(t, (&generation.Request{Interactive: true, IgnoreEOS: true}).Resumable())
	for name, r := range map[string]generation.Request{
		"logprobs": {Logprobs: true}, "prompt_logprobs": {PromptLogprobs: true}, "times": {Timed: true}, "prompt only": {PromptOnly: true},
	} {
		require.False(t, r.Resumable(), name)
	}
}

// Progress fits only the request that it came from.
func TestProgressOfARequest(t *testing.T) {
	t.Parallel()
	prompt := []int32{1, 2, 0x01020304}
	p := generation.Progress{Prompt: generation.HashPrompt(prompt), Choices: [][]int32{{0, 9}, {3}}}
	require.Equal(t, 3, p.Tokens())
	require.True(t, p.Fits(prompt, 2, 10))
	require.False(t, p.Fits(prompt, 2, 9), "an id is outside the vocabulary")
	require.False(t, p.Fits(prompt, 1, 10))
	require.False(t, p.Fits(prompt[:2], 2, 10))
	p.Choices[1][0] = -1
	require.False(t, p.Fits(prompt, 2, 10))

	// FNV-1a of the ids in little-endian order. Stored progress has it, so it must not change.
	require.Equal(t, uint64(0xcbf29ce484222325), generation.HashPrompt(nil))
	want := uint64(0xcbf29ce484222325)
	for _, b := range []byte{1, 0, 0, 0, 2, 0, 0, 0, 4, 3, 2, 1} {
		want = (want ^ uint64(b)) * 0x100000001b3
	}
	require.Equal(t, want, generation.HashPrompt(prompt))
}

// An error matches what it means, and what it wraps.
func TestKindsOfErrors(t *testing.T) {
	t.Parallel()
	cause := errors.New("cause")
	kinds := []error{generation.ErrBadRequest, generation.ErrPrompt, generation.ErrForm, generation.ErrTooLong, cause, generation.ErrClosed}
	for name, c := range map[string]struct {
		err  error
		want []bool
	}{
		"request":  {generation.BadRequest("the %w", cause), []bool{true, false, false, false, true, false}},
		"prompt":   {generation.BadPrompt("the %w", cause), []bool{true, true, false, false, true, false}},
		"form":     {generation.BadForm("the %w", cause), []bool{true, false, true, false, true, false}},
		"too long": {generation.TooLong("the %w", cause), []bool{true, true, false, true, true, false}},
	} {
		for i, kind := range kinds {
			require.Equal(t, c.want[i], errors.Is(c.err, kind), "%s: %v", name, kind)
		}
		require.EqualError(t, c.err, "the cause", name)
	}
}
