package openai

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// bodyWith returns a valid body of an endpoint with one more field.
func bodyWith(e Endpoint, field, value string) string {
	const prompts = `"prompt":"hi","echo":true,`
	if e == Chat {
		return fmt.Sprintf(`{"messages":[{"role":"user","content":"hi"}],"logprobs":true,%q:%s}`, field, value)
	}
	return fmt.Sprintf(`{%s%q:%s}`, prompts, field, value)
}

// Each endpoint has the fields of its own and those of both, in the order of the table.
func TestFieldsOfAnEndpoint(t *testing.T) {
	t.Parallel()
	for _, e := range []Endpoint{Chat, Completions} {
		var want []*Field
		for _, f := range fields {
			if f.Only == "" || f.Only == e {
				want = append(want, f)
			}
		}
		require.Equal(t, want, Fields(e))
	}
	forms := []string{"response_format", "structured_outputs", "guided_json", "guided_regex", "guided_choice", "guided_grammar", "json_schema", "grammar", "format"}
	for _, f := range fields {
		require.Equal(t, slices.Contains(forms, f.Name), f.GivesForm(), f.Name)
	}
}

// TestRangesOfFields: each number is accepted at the ends of its range and refused beyond them,
// under all its names.
func TestRangesOfFields(t *testing.T) {
	t.Parallel()
	for _, e := range []Endpoint{Chat, Completions} {
		for _, f := range Fields(e) {
			if f.Kind != Number && f.Kind != Integer || f.Low == 0 && f.High == 0 || f.Name == "best_of" {
				continue
			}
			low, high := f.Low, f.High
			if f.Name == "max_tokens" && e == Chat {
				low = 1
			}
			valid := []float64{high}
			if f.Above {
				low = math.Nextafter(low, 1)
			}
			valid = append(valid, low)
			for _, name := range append([]string{f.Name}, f.Aliases...) {
				for _, v := range valid {
					if _, err := ParseRequest(e, []byte(bodyWith(e, name, fmt.Sprint(v)))); err != nil {
						require.Contains(t, err.Error(), "min_tokens", "%s %s %v", e, name, v) // is more than max_tokens
					}
				}
				for _, v := range []float64{low - 1, high + 1} {
					_, err := ParseRequest(e, []byte(bodyWith(e, name, fmt.Sprint(v))))
					require.ErrorContains(t, err, fmt.Sprintf("%q must be ", name), "%s %v", e, v)
				}
			}
		}
	}
}

// TestFieldsSetTheirSetting: a number that is stored directly changes only the setting of the same
// name.
func TestFieldsSetTheirSetting(t *testing.T) {
	t.Parallel()
	for _, e := range []Endpoint{Chat, Completions} {
		for _, f := range Fields(e) {
			if f.into == nil || f.Kind != Number && f.Kind != Integer || f.Name == "max_completion_tokens" {
				continue
			}
			value := min(f.High, 7)
			if value == f.Default {
				value = f.High / 2
			}
			with := parse(t, e, bodyWith(e, f.Name, fmt.Sprint(value))).settings
			without := parse(t, e, bodyWith(e, "user", `"a"`)).settings
			require.Equal(t, []string{strings.ReplaceAll(f.Name, "_", "")}, append(changed(with, without), changed(with.Sampling, without.Sampling)...), e)
		}
	}
}

// changed returns the lower-case names of the fields in which two structs differ, without structs
// inside.
func changed(a, b any) (names []string) {
	x, y := reflect.ValueOf(a), reflect.ValueOf(b)
	for i := range x.NumField() {
		if x.Field(i).Kind() == reflect.Struct || x.Field(i).Kind() == reflect.Func {
			continue
		}
		if !reflect.DeepEqual(x.Field(i).Interface(), y.Field(i).Interface()) {
			names = append(names, strings.ToLower(x.Type().Field(i).Name))
		}
	}
	return names
}

// TestEndpointsHaveFieldsOnce: no endpoint has two rows for a field, and every row says how its
// field is read.
func TestEndpointsHaveFieldsOnce(t *testing.T) {
	t.Parallel()
	for _, e := range []Endpoint{Chat, Completions} {
		seen := map[string]bool{}
		for _, f := range Fields(e) {
			require.False(t, seen[f.Name], f.Name)
			require.NotEqual(t, f.into == nil, f.read == nil, f.Name)
			seen[f.Name] = true
		}
	}
}
