package openai

import (
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/generation"
)

// Only a request without any sampling option gets the recommended settings, and it keeps its bias,
// its seed and its other settings.
func TestRecommend(t *testing.T) {
	t.Parallel()
	makers := generation.Recommended{Sampling: generation.Sampling{Temperature: 0.6, TopP: 0.95, TopK: 20}, Source: "card"}
	for body, applied := range map[string]bool{
		`{"prompt":"a"}`: true,
		`{"prompt":"a","seed":3,"logit_bias":{"5":-1},"stop":"x","max_tokens":7,"n":2}`: true,
		`{"prompt":"a","temperature":null}`:                                             true,
		`{"prompt":"a","temperature":1}`:                                                false,
		`{"prompt":"a","temperature":0}`:                                                false,
		`{"prompt":"a","top_p":1}`:                                                      false,
		`{"prompt":"a","top_k":40}`:                                                     false,
		`{"prompt":"a","min_p":0.1}`:                                                    false,
		`{"prompt":"a","presence_penalty":0}`:                                           false,
		`{"prompt":"a","frequency_penalty":1}`:                                          false,
		`{"prompt":"a","repeat_penalty":1.1}`:                                           false, // an alias
	} {
		r, err := ParseRequest(Completions, []byte(body))
		require.NoError(t, err)
		plain := r.Generation(0, 3, time.Time{})
		require.Equal(t, applied, r.Recommend(makers), body)
		got := r.Generation(0, 3, time.Time{})
		if applied {
			want := makers.Sampling
			want.LogitBias, want.Seed = plain.Sampling.LogitBias, 3
			plain.Sampling = want
		}
		require.Equal(t, plain, got, body)
	}
	r, err := ParseRequest(Completions, []byte(`{"prompt":"a"}`))
	require.NoError(t, err)
	require.False(t, r.Recommend(generation.Recommended{}))
	require.False(t, r.Recommend(generation.Recommended{Sampling: generation.Sampling{Temperature: 1, TopP: 1}, Source: "card"}))
	require.Equal(t, 1.0, r.Generation(0, 0, time.Time{}).Sampling.Temperature)
}

// Every field that sets a number of Sampling is one of those that are recommended together.
func TestSamplingFields(t *testing.T) {
	t.Parallel()
	var r Request
	of := reflect.ValueOf(&r.settings.Sampling).Elem()
	inside := map[any]string{}
	for i := range of.NumField() {
		inside[of.Field(i).Addr().Interface()] = of.Type().Field(i).Name
	}
	count := 0
	for _, f := range fields {
		if f.into == nil {
			continue
		}
		name, ok := inside[f.into(&r)]
		require.Equal(t, ok, f.sampling, "%s sets %q", f.Name, name)
		if ok {
			count++
		}
	}
	require.Positive(t, count)
}
