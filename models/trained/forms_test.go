package trained_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/dlclark/regexp2/v2"
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

// TestSchemasInTheWild lets a trained model answer in the form of each schema of INGOT_VECTORS, at
// temperature 1. Every finished answer must be valid, and at most 5 % of the schemas are refused.
func TestSchemasInTheWild(t *testing.T) {
	nightly(t)
	files, err := filepath.Glob(filepath.Join(os.Getenv("INGOT_VECTORS"), "json-schema", "*.json"))
	require.NoError(t, err)
	if len(files) == 0 {
		t.Skip("no schemas are tested: set INGOT_VECTORS")
	}
	const seeds = 3
	e := open(t, find(t, trained.SmolLM2), engine.Options{Context: 512, MaxSequences: 16})
	var group errgroup.Group
	var mu sync.Mutex
	type answer struct{ schema, text string }
	var finished []answer
	refused, cut, ended := 0, 0, map[string]bool{}
	group.SetLimit(16)
	for _, file := range files {
		var vector struct{ Schema json.RawMessage }
		readJSON(t, file, &vector)
		c := generation.Constraint{Schema: string(vector.Schema)}
		for seed := range uint64(seeds) {
			group.Go(func() error {
				done, err := e.Generate(t.Context(), generation.Request{
					Chat: chat([]map[string]string{{"role": "user", "content": "Write a short example in JSON: " + filepath.Base(file)}}), MaxTokens: 200, Constraint: &c,
					Sampling: generation.Sampling{Temperature: 1, Seed: seed},
				})
				mu.Lock()
				defer mu.Unlock()
				switch {
				case errors.Is(err, generation.ErrForm) && seed == 0:
					t.Logf("%s: %v", filepath.Base(file), err)
					refused++
				case errors.Is(err, generation.ErrForm):
				case err != nil:
					return err
				case done.Choices[0].FinishReason == generation.FinishStop:
					finished = append(finished, answer{c.Schema, done.Choices[0].Text})
					ended[file] = true
				default:
					cut++
				}
				return nil
			})
		}
	}
	require.NoError(t, group.Wait())
	for _, a := range finished {
		requireForm(t, generation.Constraint{Schema: a.schema}, a.text)
	}
	t.Logf("%d of %d schemas were refused; %d answers were finished and valid, to %d schemas, and %d were cut", refused, len(files), len(finished), len(ended), cut)
	require.LessOrEqual(t, 20*refused, len(files))
	require.Greater(t, len(finished), len(files)/2)
}

// ecma is a regular expression of ECMAScript.
type ecma struct{ *regexp2.Regexp }

func (e ecma) MatchString(s string) bool {
	ok, err := e.Regexp.MatchString(s)
	return err == nil && ok
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
		compiler.UseRegexpEngine(func(s string) (jsonschema.Regexp, error) {
			re, err := regexp2.Compile(s, regexp2.ECMAScript|regexp2.Unicode)
			return ecma{re}, err
		})
		require.NoError(t, compiler.AddResource("schema.json", schema))
		compiled, err := compiler.Compile("schema.json")
		require.NoError(t, err)
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
		require.NoError(t, err, text)
		require.NoError(t, compiled.Validate(value), text)
	}
}
