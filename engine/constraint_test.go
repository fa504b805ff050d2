package engine_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	"pgregory.net/rapid"

	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/engine/tokenizer"
)

// constraints are of all kinds. Their texts are short enough for tests with small contexts.
var constraints = []*generation.Constraint{
	{Choices: []string{"yes", "no", "perhaps the answer is not known"}},
	{Choices: []string{"the cat sat on the mat", "the cat sat on the roof", "dogs"}},
	{Choices: []string{"a single text that is forced as a whole"}},
	{Regex: `(the|a) (cat|dog)s? [a-z]{3,9} on [0-9]+ mats`},
	{Regex: `[^é]{0,12}ünïté`},
	{Regex: `[a-f]{20,30}!`},
	{Schema: `{"type": "object", "properties": {"name": {"type": "string", "maxLength": 9}, "n": {"type": "integer", "minimum": 0, "maximum": 99}}, "required": ["name", "n"], "additionalProperties": false}`},
	{Schema: `{"enum": ["red", 1.5, null, [true]]}`},
	{Grammar: `start: "(" (start | /[a-c]{1,3}/) ")"`},
}

// constrain gives a request a constraint, and changes settings that contradict it.
func constrain(req *generation.Request, c *generation.Constraint) {
	req.Constraint, req.IgnoreEOS, req.MinTokens = c, false, 0
}

// requireForm requires that a finished answer satisfies the request's constraint, by independent
// implementations.
func requireForm(t require.TestingT, req generation.Request, c generation.Choice) {
	if req.Constraint == nil || c.FinishReason != generation.FinishStop || c.StopReason != "" || slices.Contains(req.StopIDs, c.Tokens[len(c.Tokens)-1]) {
		return
	}
	text := strings.TrimPrefix(c.Text, "\uFFFD") // random prompts end within characters
	switch {
	case req.Constraint.Choices != nil:
		require.Contains(t, req.Constraint.Choices, text)
	case req.Constraint.Regex != "":
		require.Regexp(t, "^(?:"+req.Constraint.Regex+")$", text)
	case req.Constraint.Schema != "":
		requireValid(t, req.Constraint.Schema, text)
	}
}

// requireValid requires that a JSON text is valid by a schema.
func requireValid(t require.TestingT, schema, text string) {
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(schema))
	require.NoError(t, err)
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	require.NoError(t, c.AddResource("schema.json", value))
	compiled, err := c.Compile("schema.json")
	require.NoError(t, err, schema)
	value, err = jsonschema.UnmarshalJSON(strings.NewReader(text))
	require.NoError(t, err, text)
	require.NoError(t, compiled.Validate(value), "schema %s, text %s", schema, text)
}

// drawSchema draws a schema whose values nest at most depth levels deep.
func drawSchema(t *rapid.T, depth int) map[string]any {
	kinds := []string{"string", "pattern", "integer", "number", "boolean", "null", "enum", "const"}
	if depth > 0 {
		kinds = append(kinds, "object", "object", "array", "array", "anyOf")
	}
	small := func(name string) int { return rapid.IntRange(0, 3).Draw(t, name) }
	switch kind := rapid.SampledFrom(kinds).Draw(t, "kind"); kind {
	case "string":
		least := small("minLength")
		return map[string]any{"type": kind, "minLength": least, "maxLength": least + small("more")}
	case "pattern":
		return map[string]any{"type": "string", "pattern": rapid.SampledFrom([]string{"^[a-z]{1,4}$", "^(x|yy)+$", "^[0-9]{2}-[é-ü]$"}).Draw(t, "pattern")}
	case "integer":
		least := rapid.IntRange(-200, 200).Draw(t, "minimum")
		return map[string]any{"type": kind, "minimum": least, "maximum": least + 10*small("more")}
	case "number":
		return map[string]any{"type": kind, "minimum": -small("minimum"), "exclusiveMaximum": 1 + small("maximum")}
	case "enum":
		return map[string]any{"enum": []any{"a", small("number"), nil, true, []any{"b"}}}
	case "const":
		return map[string]any{"const": map[string]any{"text": "a \"quote\"", "n": small("number")}}
	case "object":
		properties, required := map[string]any{}, []string{}
		for _, name := range []string{"id", "name", "été"}[:small("properties")] {
			properties[name] = drawSchema(t, depth-1)
			if rapid.Bool().Draw(t, "required") {
				required = append(required, name)
			}
		}
		return map[string]any{"type": kind, "properties": properties, "required": required, "additionalProperties": false}
	case "array":
		least := small("minItems")
		return map[string]any{"type": kind, "items": drawSchema(t, depth-1), "minItems": least, "maxItems": least + small("more")}
	case "anyOf":
		return map[string]any{"anyOf": []any{drawSchema(t, depth-1), drawSchema(t, depth-1)}}
	default:
		return map[string]any{"type": kind}
	}
}

// All finished answers to random schemas are valid, by another implementation.
func TestAnswersAreValidByTheirSchema(t *testing.T) {
	t.Parallel()
	e := open(t, microLlama, engine.Options{Context: 400})
	finished, refused := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		schema, err := json.Marshal(drawSchema(rt, 2))
		require.NoError(rt, err)
		c, err := e.Generate(t.Context(), generation.Request{
			Tokens: []int32{1, 2, 3}, N: 2, Constraint: &generation.Constraint{Schema: string(schema)},
			Sampling: generation.Sampling{Temperature: 1, Seed: rapid.Uint64().Draw(rt, "seed")},
		})
		if err != nil {
			require.ErrorIs(rt, err, generation.ErrBadRequest)
			refused++
			return
		}
		for _, choice := range c.Choices {
			if choice.FinishReason == generation.FinishStop {
				requireValid(rt, string(schema), choice.Text)
				finished++
			}
		}
	})
	t.Logf("%d answers finished, %d schemas were refused", finished, refused)
	require.Greater(t, finished, 10*refused)
}

// Schemas of INGOT_VECTORS are refused before anything is generated, or all finished answers to
// them are valid. Without INGOT_LONG=1, the test takes one schema of six.
func TestAnswersToRecordedSchemas(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(os.Getenv("INGOT_VECTORS"), "json-schema", "*.json"))
	require.NoError(t, err)
	if len(files) == 0 {
		t.Skip("needs a folder json-schema in INGOT_VECTORS")
	}
	if os.Getenv("INGOT_LONG") != "1" {
		few := files[:0]
		for i := 0; i < len(files); i += 6 {
			few = append(few, files[i])
		}
		files = few
	}
	e := open(t, tinyLlama, engine.Options{Context: 512, MaxSequences: 32})
	closing := map[int32]float64{} // tokens that end strings, objects and arrays, so that answers are short
	for id := range int32(e.Info().Vocab) {
		if bytes.ContainsAny(e.Tokenizer().Bytes(id), `"}]`) {
			closing[id] = 5
		}
	}
	var refused atomic.Int64
	answers := make([]generation.Completion, len(files))
	schemas := make([]string, len(files))
	var group errgroup.Group
	group.SetLimit(16)
	for i, file := range files {
		group.Go(func() error {
			data, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			var v struct{ Schema json.RawMessage }
			if err := json.Unmarshal(data, &v); err != nil {
				return err
			}
			c, err := e.Generate(t.Context(), generation.Request{
				Tokens: []int32{1, 2, 3}, N: 3, MaxTokens: 200, Constraint: &generation.Constraint{Schema: string(v.Schema)},
				Sampling: generation.Sampling{Temperature: 1, LogitBias: closing, Seed: uint64(i)},
			})
			if errors.Is(err, generation.ErrBadRequest) {
				refused.Add(1)
				t.Logf("%s: %v", filepath.Base(file), err)
				return nil
			}
			answers[i], schemas[i] = c, string(v.Schema)
			return err
		})
	}
	require.NoError(t, group.Wait())
	finished := 0
	for i, c := range answers {
		for _, choice := range c.Choices {
			if choice.FinishReason == generation.FinishStop {
				requireValid(t, schemas[i], choice.Text)
				finished++
			}
		}
	}
	t.Logf("%d schemas, %d refused, %d answers finished", len(files), refused.Load(), finished)
	require.LessOrEqual(t, int(refused.Load()), len(files)/20)
	require.Greater(t, finished, len(files))
}

// A constraint that cannot be kept is refused before anything is generated, with its place.
func TestConstraintsThatAreRefused(t *testing.T) {
	t.Parallel()
	e := open(t, microLlama, engine.Options{Context: 64})
	for _, c := range []struct {
		constraint generation.Constraint
		err        string
	}{
		{generation.Constraint{Schema: `{"properties": {"a": {"type": "array", "unevaluatedItems": {"type": "string"}, "contains": {"not": {"pattern": "a"}}}}}`}, "/properties/a"},
		{generation.Constraint{Schema: `{"type": "strin"}`}, "/type"},
		{generation.Constraint{Schema: `{`}, ""},
		{generation.Constraint{Schema: `false`}, "no text satisfies the constraint"},
		{generation.Constraint{Regex: `(a`}, ""},
	} {
		req := generation.Request{Tokens: []int32{1}, Constraint: &c.constraint}
		_, err := e.Generate(t.Context(), req)
		require.ErrorIs(t, err, generation.ErrBadRequest, "%+v", c.constraint)
		require.ErrorContains(t, err, "compile the constraint: ")
		require.ErrorContains(t, err, c.err)
		_, promptErr := e.Prompt(t.Context(), req)
		require.EqualError(t, promptErr, err.Error())
	}
	require.Zero(t, e.Snapshot().Steps)
}

// A request with a constraint that is interrupted after any of its tokens and then resumed has the
// same result as an uninterrupted one. Progress that the constraint does not allow is ignored.
func TestConstrainedRequestsResume(t *testing.T) {
	t.Parallel()
	plain := open(t, microLlama, engine.Options{Context: 80, MaxSequences: 1, Draft: engine.DraftOff})
	other := open(t, microLlama, engine.Options{Context: 80, PageSize: 3, Draft: engine.DraftNGram, DraftTokens: 3})
	for i, c := range constraints {
		req := generation.Request{Tokens: randomTokens(uint64(i), 9), N: 2, MaxTokens: 40, Constraint: c, Sampling: generation.Sampling{Temperature: 1, Seed: uint64(i)}}
		want := generate(t, plain, req)
		longest := max(len(want.Choices[0].Tokens), len(want.Choices[1].Tokens))
		for cut := range longest + 1 {
			req.Resume = progress(req.Tokens, want, func(_, tokens int) int { return min(cut, tokens) })
			got := generate(t, other, req)
			require.Equal(t, req.Resume.Tokens(), got.Stats.ResumedTokens)
			same(t, want, got, fmt.Sprintf("constraint %d, cut at %d", i, cut))
		}
		req.Resume = progress(req.Tokens, want, func(_, tokens int) int { return tokens })
		req.Resume.Choices[1] = []int32{control(t, plain)}
		got := generate(t, other, req)
		require.Zero(t, got.Stats.ResumedTokens)
		same(t, want, got, "progress of another request")
	}
}

// Every token has the log-probability that it has as a token of a prompt, whether it was drawn or
// forced.
func TestConstrainedLogprobs(t *testing.T) {
	t.Parallel()
	e := open(t, microGLM, engine.Options{Context: 512, MaxSequences: 1, Draft: engine.DraftMTP, DraftTokens: 2})
	forced := 0
	long := &generation.Constraint{Choices: []string{"a" + strings.Repeat(" long text", 40), "b" + strings.Repeat(" longer text", 40)}}
	for i, c := range append(constraints, long) {
		req := generation.Request{
			Tokens: randomTokens(uint64(i), 9), MaxTokens: 200, Constraint: c, Logprobs: true, TopLogprobs: 2, Timed: true,
			Sampling: generation.Sampling{Temperature: 1, Seed: uint64(i)},
		}
		var streamed generation.Choice
		req.Stream = func(p generation.Piece) error {
			streamed.Text += p.Text
			streamed.Tokens = append(streamed.Tokens, p.Tokens...)
			streamed.Logprobs = append(streamed.Logprobs, p.Logprobs...)
			streamed.FinishReason = p.FinishReason
			return nil
		}
		got := generate(t, e, req)
		choice := got.Choices[0]
		require.Len(t, choice.Times, len(choice.Tokens))
		choice.Times = nil
		require.Equal(t, choice, streamed)
		again := generate(t, e, generation.Request{Tokens: slices.Concat(got.PromptTokens, choice.Tokens), PromptOnly: true, PromptLogprobs: true, TopLogprobs: 2})
		require.Equal(t, again.PromptLogprobs[len(req.Tokens):], choice.Logprobs)
		forced += got.Stats.ForcedTokens

		req.Logprobs, req.Timed, req.Stream = false, false, nil
		require.Equal(t, choice.Tokens, generate(t, e, req).Choices[0].Tokens, "log-probabilities change nothing")
	}
	require.Positive(t, forced)
}

// Tokens that are forced after drafts, right or wrong, are computed like others: log-probabilities
// have the same bits as without drafts.
func TestForcedTokensAfterDrafts(t *testing.T) {
	t.Parallel()
	plain := open(t, microLlama, engine.Options{Context: 256, MaxSequences: 1, Draft: engine.DraftOff})
	drafting := open(t, microLlama, engine.Options{Context: 256, Draft: engine.DraftNGram, DraftTokens: 4})
	c := &generation.Constraint{Regex: `([ab]{1,3}(c then some more text| and some other text) ){4,8}[ab]`}
	for seed := range uint64(20) {
		req := generation.Request{Tokens: randomTokens(seed, 9), MaxTokens: 120, Constraint: c, Logprobs: true, Sampling: generation.Sampling{Temperature: 1, Seed: seed}}
		same(t, generate(t, plain, req), generate(t, drafting, req), fmt.Sprintf("seed %d", seed))
	}
	s := drafting.Snapshot()
	require.Positive(t, s.AcceptedTokens)
	require.Less(t, s.AcceptedTokens, s.DraftTokens)
}

// Forced tokens need no step of their own.
func TestForcedTokensNeedNoStep(t *testing.T) {
	t.Parallel()
	e := open(t, microLlama, engine.Options{Context: 128, StepTime: wholeSteps, Draft: engine.DraftOff})
	text := "a text of many words that is known from its beginning to its end"
	c := generate(t, e, generation.Request{Tokens: randomTokens(1, 9), Constraint: &generation.Constraint{Choices: []string{"x" + text, "y" + text}}})
	s := c.Stats
	require.Contains(t, c.Choices[0].Text, text)
	require.Equal(t, s.CompletionTokens, s.ForcedTokens+s.MaskedTokens)
	require.Less(t, s.MaskedTokens, s.CompletionTokens/2)
	require.Equal(t, s.MaskedTokens, s.Steps, "one step for each token that is drawn; the last token is forced and needs none")
	require.Positive(t, s.MaskTime)
	require.Equal(t, int(e.Snapshot().GeneratedTokens), s.CompletionTokens)
}

// Under masks, the backend gets two parts of each step, and the engine waits for all that is in
// flight once per run of steps. Only after the end of an answer is a pass wasted.
func TestStepsInFlightUnderMasks(t *testing.T) {
	t.Parallel()
	opts := engine.Options{Context: 128, Draft: engine.DraftOff, NoSharing: true}
	be := newSeveral(t)
	several, plain := openOn(t, microLlama, be, opts), open(t, microLlama, opts)
	for seed := range uint64(12) {
		begun, waits := be.begun.Load(), be.waits.Load()
		req := generation.Request{
			Tokens: randomTokens(seed, 9), Constraint: &generation.Constraint{Regex: "[a-f]{30}( and then [a-f]{12})?"}, Logprobs: seed%3 == 0,
			Sampling: generation.Sampling{Temperature: 1, Seed: seed, FrequencyPenalty: float64(seed%2) / 2},
		}
		got, want := timeless(generate(t, several, req)), timeless(generate(t, plain, req))
		near(t, want.Choices[0].Logprobs, got.Choices[0].Logprobs)
		want.Choices[0].Logprobs, got.Choices[0].Logprobs = nil, nil
		got.Stats.Steps, want.Stats.Steps, got.Stats.MaskTime, want.Stats.MaskTime = 0, 0, 0, 0
		require.Equal(t, want, got)
		drawn := int64(got.Stats.MaskedTokens)
		require.Greater(t, drawn, int64(9))
		require.LessOrEqual(t, be.waits.Load()-waits, 4+drawn/4)
		require.LessOrEqual(t, be.begun.Load()-begun, 2*(drawn+4))
	}
}

// Stop strings, stop ids, minimum lengths and biases together with a constraint.
func TestConstraintsWithOtherSettings(t *testing.T) {
	t.Parallel()
	e := open(t, microLlama, engine.Options{Context: 64})
	choices := &generation.Constraint{Choices: []string{"one two three", "four"}}
	first := ids(t, e, "o")[0]
	for _, c := range []struct {
		name   string
		change func(r *generation.Request)
		text   string
		reason generation.FinishReason
		stop   string
		err    string
	}{
		{"a bias chooses", func(r *generation.Request) { r.Sampling.LogitBias = map[int32]float64{ids(t, e, "f")[0]: 100, 7: 200} }, "four", generation.FinishStop, "", ""},
		{"a stop string cuts", func(r *generation.Request) { r.Stop = []string{" three"} }, "one two", generation.FinishStop, " three", ""},
		{"a stop id cuts", func(r *generation.Request) { r.StopIDs = []int32{first} }, "", generation.FinishStop, "", ""},
		{"a stop id that is a control token ends the answer", func(r *generation.Request) {
			id := control(t, e)
			r.StopIDs, r.Sampling.LogitBias[id] = []int32{id}, 200
			r.Sampling.LogitBias[e.Tokenizer().Encode(" two three", tokenizer.EncodeOptions{})[0]] = 100
			r.Constraint = &generation.Constraint{Choices: []string{"one", "one two three"}}
		}, "one", generation.FinishStop, "", ""},
		{"a limit cuts", func(r *generation.Request) { r.MaxTokens = 2 }, "", generation.FinishLength, "", ""},
		{"a minimum that the answer reaches", func(r *generation.Request) { r.MinTokens = 3 }, "one two three", generation.FinishStop, "", ""},
		{"a minimum that it cannot reach", func(r *generation.Request) { r.MinTokens = 30 }, "", "", "", "\"min_tokens\" is 30, but the answer in the requested form is complete after"},
		{"no end", func(r *generation.Request) { r.IgnoreEOS = true }, "", "", "", "ignore_eos cannot be combined with a constraint"},
		{"no form", func(r *generation.Request) { r.Constraint = &generation.Constraint{} }, "", "", "", "the constraint is empty"},
		{"two forms", func(r *generation.Request) { r.Constraint = &generation.Constraint{Regex: "a", Schema: "{}"} }, "", "", "", "more than one of schema, regex"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			req := generation.Request{Tokens: randomTokens(3, 5), Constraint: choices, Sampling: generation.Sampling{LogitBias: map[int32]float64{first: 90}}}
			c.change(&req)
			got, err := e.Generate(t.Context(), req)
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				require.ErrorIs(t, err, generation.ErrBadRequest)
				return
			}
			require.NoError(t, err)
			choice := got.Choices[0]
			require.Equal(t, c.reason, choice.FinishReason)
			require.Equal(t, c.stop, choice.StopReason)
			if c.reason == generation.FinishStop {
				require.Equal(t, c.text, choice.Text)
			} else {
				require.Len(t, choice.Tokens, req.MaxTokens)
			}
		})
	}
}

// control returns a control token that is not a stop token.
func control(t testing.TB, e *engine.Engine) int32 {
	t.Helper()
	for id := range int32(e.Info().Vocab) {
		if e.Tokenizer().Bytes(id) == nil && !slices.Contains(e.Tokenizer().StopIDs(), id) {
			return id
		}
	}
	require.Fail(t, "no control token")
	return 0
}
