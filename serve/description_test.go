//go:build !race

package serve_test

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"
	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/openai"
)

// description returns the OpenAPI description that the server sends.
func (b *bench) description(t testing.TB) *openapi3.T {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromData([]byte(b.send(t, http.MethodGet, "/openapi.yaml", "").text))
	require.NoError(t, err)
	require.NoError(t, doc.Validate(t.Context()))
	doc.Servers = nil // the test server has another address
	return doc
}

// TestDescriptionHasAllPaths: the description has exactly the paths and methods that server.go
// registers, without the console's pages.
func TestDescriptionHasAllPaths(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("server.go")
	require.NoError(t, err)
	var registered []string
	for _, m := range regexp.MustCompile(`"((?:GET|POST|DELETE|PUT|PATCH) /[^"]*)"`).FindAllStringSubmatch(string(source), -1) {
		registered = append(registered, strings.ReplaceAll(m[1], "...}", "}"))
	}
	require.NotEmpty(t, registered)
	var described []string
	for path, item := range setUp(t, nil).description(t).Paths.Map() {
		for method := range item.Operations() {
			described = append(described, method+" "+path)
		}
	}
	require.ElementsMatch(t, registered, described)
}

// TestDescriptionHasAllFields: the description has all request fields that package openai reads,
// with their types, ranges and defaults.
func TestDescriptionHasAllFields(t *testing.T) {
	t.Parallel()
	schemas := setUp(t, nil).description(t).Components.Schemas
	for e, name := range map[openai.Endpoint]string{openai.Chat: "ChatRequest", openai.Completions: "CompletionRequest"} {
		described := map[string]*openapi3.SchemaRef{}
		for _, part := range schemas[name].Value.AllOf {
			maps.Copy(described, part.Value.Properties)
		}
		fields := []string{"stream", "stream_options"}
		for _, f := range openai.Fields(e) {
			fields = append(fields, f.Name)
			require.Contains(t, described, f.Name, name)
			requireSchema(t, f, described[f.Name].Value)
		}
		require.ElementsMatch(t, fields, slices.Collect(maps.Keys(described)), name)
	}
}

// requireSchema checks that a field is described as package openai reads it.
func requireSchema(t testing.TB, f *openai.Field, s *openapi3.Schema) {
	t.Helper()
	types := map[openai.Kind]string{
		openai.Number: "number", openai.Integer: "integer", openai.Boolean: "boolean", openai.String: "string", openai.Integers: "array",
		openai.Object: "object", openai.Array: "array",
	}
	if want, ok := types[f.Kind]; ok {
		require.True(t, s.Type.Is(want), "%s is not described as %s", f.Name, want)
	}
	if f.Kind != openai.Number && f.Kind != openai.Integer {
		return
	}
	require.True(t, s.Nullable, f.Name)
	if f.Low == 0 && f.High == 0 {
		require.Nil(t, s.Min, f.Name)
	} else {
		require.NotNil(t, s.Min, f.Name)
		require.InDelta(t, f.Low, *s.Min, 0, f.Name)
	}
	require.Equal(t, f.Above, s.ExclusiveMin.IsTrue(), f.Name)
	if f.High == 0 || f.High == openai.NoLimit {
		require.Nil(t, s.Max, f.Name)
	} else {
		require.NotNil(t, s.Max, f.Name)
		require.InDelta(t, f.High, *s.Max, 0, f.Name)
	}
	value, _ := s.Default.(float64)
	require.InDelta(t, f.Default, value, 0, f.Name)
}

// TestDescriptionFits: requests that the server accepts match the description, and so do all its
// responses, including errors.
func TestDescriptionFits(t *testing.T) {
	t.Parallel()
	openapi3filter.RegisterBodyDecoder("text/event-stream", openapi3filter.PlainBodyDecoder)
	b, run := setUpIdleStore(t)
	router, err := gorillamux.NewRouter(b.description(t))
	require.NoError(t, err)
	made := b.newBatch(t, chatRow("one", "")+chatRow("two", ""))
	faulty := b.newBatch(t, chatRow("one", "")+"{}\n")
	run()
	for _, id := range []string{made.ID, faulty.ID} {
		b.await(t, id)
	}
	for _, c := range []struct {
		method, path, body string
		status             int
	}{
		{"POST", "/v1/chat/completions", `{` + hello + `,"max_tokens":3,"logprobs":true,"top_logprobs":2,"n":2,"return_token_ids":true,"seed":7}`, 200},
		{"POST", "/v1/chat/completions", `{` + hello + `,"max_tokens":3,"stream":true,"stream_options":{"include_usage":true}}`, 200},
		{"POST", "/v1/chat/completions", `{` + hello + `,"max_tokens":3,"temperature":null,"stop":["a","b"],"top_k":40}`, 200},
		{"POST", "/v1/chat/completions", `{` + strings.Replace(hello, "tiny", "other", 1) + `}`, 404},
		{"POST", "/v1/completions", `{"model":"tiny","prompt":"Once","max_tokens":2,"echo":true,"logprobs":3}`, 200},
		{"POST", "/v1/completions", `{"model":"tiny","prompt":[[1,2,3],[4]],"max_tokens":0,"echo":true,"logprobs":1}`, 200},
		{"POST", "/v1/completions", `{"model":"tiny","prompt":["a","b"],"max_tokens":1,"stop":"x"}`, 200},
		{"POST", "/v1/completions", `{"model":"tiny","prompt":"a","max_tokens":2,"format":"json"}`, 200},
		{"POST", "/v1/completions", `{"model":"tiny","prompt":"a","max_tokens":2,"structured_outputs":{"json":"{}"},"grammar":""}`, 200},
		{"POST", "/v1/chat/completions", `{` + hello + `,"max_tokens":3,"response_format":{"type":"json_schema","json_schema":{"name":"n","strict":true,"schema":{}}}}`, 200},
		{"POST", "/v1/chat/completions", `{` + hello + `,"max_tokens":3,"response_format":{"type":"json_object"},"guided_choice":null}`, 200},
		{"POST", "/v1/chat/completions", `{` + hello + `,"max_tokens":3,"guided_choice":["a","b"],"guided_json":null}`, 200},
		{"GET", "/v1/models", "", 200},
		{"GET", "/v1/models/tiny", "", 200},
		{"GET", "/v1/models/other", "", 404},
		{"POST", "/tokenize", `{"model":"tiny","prompt":"Once upon","return_token_strs":true}`, 200},
		{"POST", "/tokenize", `{` + hello + `}`, 200},
		{"POST", "/detokenize", `{"tokens":[1,2,3]}`, 200},
		{"GET", "/tokenizer_info?model=tiny", "", 200},
		{"GET", "/metrics", "", 200},
		{"GET", "/v1/files", "", 200},
		{"GET", "/v1/files?limit=1&order=asc&purpose=batch", "", 200},
		{"GET", "/v1/files/" + made.InputFileID, "", 200},
		{"GET", "/v1/files/" + made.InputFileID + "/content", "", 200},
		{"GET", "/v1/files/file-none", "", 404},
		{"GET", "/v1/batches?limit=1", "", 200},
		{"GET", "/v1/batches/" + made.ID, "", 200},
		{"GET", "/v1/batches/" + faulty.ID, "", 200},
		{"POST", "/v1/batches/" + made.ID + "/cancel", "", 400},
		{"POST", "/v1/batches", `{"input_file_id":"` + made.InputFileID + `","endpoint":"/v1/chat/completions","completion_window":"24h","metadata":{"a":"b"}}`, 200},
		{"DELETE", "/v1/files/" + faulty.InputFileID, "", 200},
		{"GET", "/healthz", "", 200},
		{"GET", "/readyz", "", 200},
		{"GET", "/openapi.yaml", "", 200},
	} {
		request, err := http.NewRequestWithContext(t.Context(), c.method, c.path, strings.NewReader(c.body))
		require.NoError(t, err)
		request.Header.Set("Content-Type", "application/json")
		route, params, err := router.FindRoute(request)
		require.NoError(t, err, c.path)
		input := &openapi3filter.RequestValidationInput{
			Request: request, PathParams: params, Route: route,
			Options: &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc},
		}
		require.NoError(t, openapi3filter.ValidateRequest(t.Context(), input), "%s %s %s", c.method, c.path, c.body)
		got := b.send(t, c.method, c.path, c.body, "Content-Type", "application/json")
		require.Equal(t, c.status, got.status, "%s %s %s: %s", c.method, c.path, c.body, got.text)
		require.NoError(t, fits(t, input, got), "%s %s %s: %s", c.method, c.path, c.body, got.text)
		requireClosed(t, route, got)
	}
}

// fits returns an error if a response does not match the description.
func fits(t testing.TB, input *openapi3filter.RequestValidationInput, got response) error {
	t.Helper()
	return openapi3filter.ValidateResponse(t.Context(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: input, Status: got.status, Header: got.header, Body: io.NopCloser(bytes.NewReader([]byte(got.text))),
		Options: &openapi3filter.Options{IncludeResponseStatus: true},
	})
}

// requireClosed checks that the objects in a response have only fields that the description lists.
func requireClosed(t testing.TB, route *routers.Route, got response) {
	t.Helper()
	answer := route.Operation.Responses.Status(got.status)
	if answer == nil {
		answer = route.Operation.Responses.Default()
	}
	media := answer.Value.Content.Get("application/json")
	if media == nil || got.header.Get("Content-Type") != "application/json" {
		return
	}
	var body any
	require.NoError(t, json.Unmarshal([]byte(got.text), &body))
	requireDescribed(t, route.Path, []*openapi3.SchemaRef{media.Schema}, body)
}

// requireDescribed checks a value against all schemas that describe it. at is the path of the value
// in the response.
func requireDescribed(t testing.TB, at string, schemas []*openapi3.SchemaRef, value any) {
	t.Helper()
	for i := 0; i < len(schemas); i++ {
		schemas = append(schemas, schemas[i].Value.AllOf...)
	}
	switch v := value.(type) {
	case map[string]any:
		for name, field := range v {
			var inner []*openapi3.SchemaRef
			open := false
			for _, s := range schemas {
				if p := s.Value.Properties[name]; p != nil {
					inner = append(inner, p)
				}
				open = open || s.Value.AdditionalProperties.Schema != nil || len(s.Value.Properties) == 0 && len(s.Value.AllOf) == 0
			}
			require.True(t, open || len(inner) > 0, "%s: the field %q is not described", at, name)
			if len(inner) > 0 {
				requireDescribed(t, at+"."+name, inner, field)
			}
		}
	case []any:
		for _, e := range v {
			var inner []*openapi3.SchemaRef
			for _, s := range schemas {
				if s.Value.Items != nil {
					inner = append(inner, s.Value.Items)
				}
			}
			require.NotEmpty(t, inner, "%s: the elements are not described", at)
			requireDescribed(t, at+"[]", inner, e)
		}
	}
}
