package serve_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/engine/tokenizer"
	"github.com/ingot-run/ingot/openai"
	"github.com/ingot-run/ingot/queue/memqueue"
	"github.com/ingot-run/ingot/serve"
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
	special := `{"tokens":` + strings.Replace(string(ids), "[", fmt.Sprintf("[%d,", id), 1)
	b.post(t, "/detokenize", special+`}`, &back)
	require.Equal(t, map[string]string{"prompt": eos + text}, back, "as vLLM and llama.cpp")
	b.post(t, "/detokenize", special+`,"skip_special_tokens":true}`, &back)
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
	vocab := b.engine.Info().Vocab
	b.post(t, "/detokenize", fmt.Sprintf(`{"tokens":[0,%d]}`, vocab-1), &back)
	e := b.fails(t, 400, http.MethodPost, "/detokenize", fmt.Sprintf(`{"tokens":[0,%d]}`, vocab))
	require.Equal(t, fmt.Sprintf(`"tokens[1]" is %d, but the vocabulary has ids 0 to %d`, vocab, vocab-1), e.Message)
	require.Equal(t, "unsupported", setUpFleet(t, memqueue.New()).fails(t, 404, http.MethodPost, "/tokenize", `{"prompt":"a"}`).Code)
}

// A response with the tokens of a long text is written in pieces, and is whole.
func TestTokensOfALongText(t *testing.T) {
	t.Parallel()
	b := setUp(t, nil)
	of := b.engine.Tokenizer()
	text := strings.Repeat("Once upon \"a\" tïme. ", 20_000)
	var got tokens
	b.post(t, "/tokenize", fmt.Sprintf(`{"prompt":%q,"return_token_strs":true}`, text), &got)
	require.Equal(t, of.Encode(text, tokenizer.EncodeOptions{Special: true, BOS: true}), got.Tokens)
	require.Len(t, got.Strings, got.Count)
	for i, id := range got.Tokens {
		require.Equal(t, strings.ToValidUTF8(of.Token(id), "\ufffd"), got.Strings[i])
	}

	longest := int32(0)
	for id := range int32(b.engine.Info().Vocab) {
		if len(of.Token(id)) > len(of.Token(longest)) {
			longest = id
		}
	}
	n := openai.MaxBody/len(of.Token(longest)) + 1
	e := b.fails(t, 400, http.MethodPost, "/detokenize", fmt.Sprintf(`{"tokens":[%s%d]}`, strings.Repeat(fmt.Sprintf("%d,", longest), n), longest))
	require.Equal(t, `the text of "tokens" has more than 16 MiB: send a part of them`, e.Message)
}

// A server with several models must not guess the tokenizer: the ids of one model are wrong, and
// mostly valid, in another.
func TestTokenizerOfSeveralModels(t *testing.T) {
	t.Parallel()
	eng, err := shared()
	require.NoError(t, err)
	second, err := open("tiny-llama.q4_0.gguf")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, second.Close()) })
	answerer, err := serve.NewAlone(map[string]*engine.Engine{"glm": eng, "tiny": second}, "test")
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "keys")
	require.NoError(t, os.WriteFile(path, []byte("key-of-both\nkey-of-one models=tiny\n"), 0o600))
	keys, err := serve.ReadKeys(path)
	require.NoError(t, err)
	b := setUp(t, func(o *serve.Options) { o.Answerer, o.Keys = answerer, keys })
	both, one := []string{"Authorization", "Bearer key-of-both"}, []string{"Authorization", "Bearer key-of-one"}
	const text = "Once upon a time"
	for _, c := range []struct{ method, path, body, named string }{
		{http.MethodPost, "/tokenize", `{"prompt":"` + text + `"}`, `{"model":"tiny","prompt":"` + text + `"}`},
		{http.MethodPost, "/tokenize", `{"messages":[{"role":"user","content":"a"}]}`, `{"model":"tiny","messages":[{"role":"user","content":"a"}]}`},
		{http.MethodPost, "/detokenize", `{"tokens":[300,301]}`, `{"model":"tiny","tokens":[300,301]}`},
		{http.MethodGet, "/tokenizer_info", "", "?model=tiny"},
	} {
		e := b.fails(t, 400, c.method, c.path, c.body, both...)
		require.Equal(t, errorDetail{
			Message: `this server has several models: name one in "model": "glm" or "tiny"`, Type: "invalid_request_error",
			Param: "model", Code: "missing_required_parameter",
		}, e, c.path)
		path, body := c.path, c.named
		if c.method == http.MethodGet {
			path, body = c.path+c.named, ""
		}
		named := b.send(t, c.method, path, body, both...)
		require.Equal(t, 200, named.status, named.text)
		require.Equal(t, named.text, b.send(t, c.method, c.path, c.body, one...).text, "a key for one model needs no name")
	}
	ids, err := json.Marshal(second.Tokenizer().Encode(text, tokenizer.EncodeOptions{Special: true, BOS: true}))
	require.NoError(t, err)
	require.Contains(t, b.send(t, http.MethodPost, "/tokenize", `{"prompt":"`+text+`"}`, one...).text, `"tokens":`+string(ids))
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
