package serve_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/tokenizer"
	"github.com/ingot-run/ingot/queue/memqueue"
)

type tokens struct {
	Count   int      `json:"count"`
	Tokens  []int32  `json:"tokens"`
	Strings []string `json:"token_strs"`
}

// lm-eval requests /tokenize, /detokenize and /tokenizer_info without /v1 and without a model.
func TestTokenizer(t *testing.T) {
	t.Parallel()
	b := setUp(t, nil)
	of := b.engine.Tokenizer()

	info := b.send(t, http.MethodGet, "/tokenizer_info", "")
	var names map[string]any
	require.NoError(t, json.Unmarshal([]byte(info.text), &names))
	eos, ok := names["eos_token"].(string)
	require.True(t, ok)
	require.IsType(t, "", names["pad_token"])
	require.Contains(t, names["chat_template"], "messages")

	var got tokens
	b.post(t, "/tokenize", fmt.Sprintf(`{"prompt":%q,"add_special_tokens":false}`, eos), &got)
	id, _ := of.EOS()
	require.Equal(t, []int32{id}, got.Tokens)

	const text = "Héllo, wörld!"
	for body, want := range map[string][]int32{
		fmt.Sprintf(`{"prompt":%q}`, text):                                  of.Encode(text, tokenizer.EncodeOptions{Special: true, BOS: true}),
		fmt.Sprintf(`{"prompt":%q,"add_special_tokens":false}`, text):       of.Encode(text, tokenizer.EncodeOptions{Special: true}),
		fmt.Sprintf(`{"model":"tiny","prompt":%q}`, text):                   of.Encode(text, tokenizer.EncodeOptions{Special: true, BOS: true}),
		`{"prompt":"","add_special_tokens":false,"return_token_strs":true}`: {},
	} {
		b.post(t, "/tokenize", body, &got)
		require.Equal(t, want, got.Tokens, body)
		require.Len(t, want, got.Count)
	}

	ids, err := json.Marshal(of.Encode(text, tokenizer.EncodeOptions{}))
	require.NoError(t, err)
	var back map[string]string
	b.post(t, "/detokenize", `{"tokens":`+string(ids)+`}`, &back)
	require.Equal(t, map[string]string{"prompt": text}, back)

	// /tokenize counts as many tokens for a chat as the usage of its response.
	var chat chatResponse
	b.post(t, "/v1/chat/completions", `{`+hello+`,"max_tokens":1}`, &chat)
	b.post(t, "/tokenize", `{`+hello+`}`, &got)
	require.Equal(t, chat.Usage.Prompt, got.Count)

	for path, body := range map[string]string{
		"/tokenize": `{"model":"tiny"}`, "/detokenize": `{"tokens":[1,-1]}`,
	} {
		b.fails(t, 400, http.MethodPost, path, body)
	}
	b.fails(t, 404, http.MethodPost, "/tokenize", `{"model":"other","prompt":"a"}`)
	b.fails(t, 404, http.MethodPost, "/tokenize", `{"model":"other","prompt":"a"}`)
	require.Equal(t, "unsupported", setUpFleet(t, memqueue.New()).fails(t, 404, http.MethodPost, "/tokenize", `{"prompt":"a"}`).Code)
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	b := setUp(t, nil)
	var chat chatResponse
	b.post(t, "/v1/chat/completions", `{`+hello+`,"max_tokens":3,"ignore_eos":true}`, &chat)
	b.stream(t, "/v1/chat/completions", `{`+hello+`,"max_tokens":3,"ignore_eos":true,"stream":true}`)
	b.fails(t, 404, http.MethodGet, "/v1/models/none", "")
	text := b.send(t, http.MethodGet, "/metrics", "").text
	for _, line := range []string{
		`ingot_http_requests_total{path="POST /v1/chat/completions",status="200"} 2`,
		`ingot_http_requests_total{path="GET /v1/models/{id...}",status="404"} 1`,
		`ingot_http_completion_tokens_total{model="tiny"} 6`,
		`ingot_http_ttft_seconds_count{model="tiny"} 2`,
		`ingot_http_requests_running 1`, // the request for the metrics
		`ingot_engine_running_sequences{model="tiny"}`,
	} {
		require.Contains(t, text, line)
	}
}
