package trained_test

import (
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/models/trained"
)

// TestAnswersInAForm lets a trained model answer in given forms, at temperature 1 with several
// seeds. Finished answers must have the form, and most answers must finish.
func TestAnswersInAForm(t *testing.T) {
	e := open(t, find(t, trained.SmolLM2), engine.Options{Context: 512, MaxSequences: 16})
	const country = `{"type": "object", "properties": {
		"name": {"type": "string", "maxLength": 20},
		"continent": {"enum": ["Africa", "America", "Asia", "Europe", "Oceania"]},
		"people": {"type": "integer", "minimum": 1000, "maximum": 2000000000},
		"cities": {"type": "array", "items": {"type": "string", "maxLength": 20}, "minItems": 1, "maxItems": 3},
		"founded": {"type": "string", "format": "date"}
	}, "required": ["name", "continent", "people", "cities", "founded"], "additionalProperties": false}`
	var group errgroup.Group
	finished, forced, tokens := 0, 0, 0
	type result struct {
		constraint generation.Constraint
		done       generation.Completion
	}
	results := make(chan result, 100)
	for seed := range uint64(3) {
		for question, c := range map[string]generation.Constraint{
			"Describe France in JSON.":               {Schema: country},
			"Is water wet? Answer yes, no or maybe.": {Choices: []string{"yes", "no", "maybe"}},
			"When does the train leave?":             {Regex: `At ([01][0-9]|2[0-3]):[0-5][0-9], from platform [1-9]\.`},
		} {
			group.Go(func() error {
				done, err := e.Generate(t.Context(), generation.Request{
					Chat: chat([]map[string]string{{"role": "user", "content": question}}), N: 2, MaxTokens: 160, Constraint: &c,
					Sampling: generation.Sampling{Temperature: 1, Seed: seed},
				})
				if err != nil {
					return err
				}
				results <- result{c, done}
				return nil
			})
		}
	}
	require.NoError(t, group.Wait())
	close(results)
	for r := range results {
		forced += r.done.Stats.ForcedTokens
		tokens += r.done.Stats.CompletionTokens
		for _, choice := range r.done.Choices {
			if choice.FinishReason == generation.FinishStop {
				requireForm(t, r.constraint, choice.Text)
				finished++
			}
		}
	}
	t.Logf("%d of 18 answers finished, %d of %d tokens were forced", finished, forced, tokens)
	require.GreaterOrEqual(t, finished, 16)
	require.Positive(t, forced)
}

func requireForm(t *testing.T, c generation.Constraint, text string) {
	t.Helper()
	switch {
	case c.Choices != nil:
		require.Contains(t, c.Choices, text)
	case c.Regex != "":
		require.Regexp(t, "^(?:"+c.Regex+")$", text)
	default:
		schema, err := jsonschema.UnmarshalJSON(strings.NewReader(c.Schema))
		require.NoError(t, err)
		compiler := jsonschema.NewCompiler()
		compiler.AssertFormat()
		require.NoError(t, compiler.AddResource("schema.json", schema))
		compiled, err := compiler.Compile("schema.json")
		require.NoError(t, err)
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
		require.NoError(t, err, text)
		require.NoError(t, compiled.Validate(value), text)
	}
}
