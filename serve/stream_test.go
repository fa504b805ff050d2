package serve_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/queue"
	"github.com/ingot-run/ingot/queue/queuetest"
	"github.com/ingot-run/ingot/serve"
)

// chunk is one event of a stream, for either endpoint.
type chunk struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	Model   string `json:"model"`
	Choices []struct {
		Index int `json:"index"`
		Delta *struct {
			Role    string `json:"role"`
			Content string `json:"content"`
		} `json:"delta"`
		Text         string          `json:"text"`
		Logprobs     json.RawMessage `json:"logprobs"`
		FinishReason *string         `json:"finish_reason"`
	} `json:"choices"`
	Usage json.RawMessage `json:"usage"`
	Error *errorDetail    `json:"error"`
}

// stream sends a request and returns the chunks of its response. The stream must end as OpenAI's
// streams do.
func (b *bench) stream(t testing.TB, path, body string) []chunk {
	t.Helper()
	got := b.send(t, http.MethodPost, path, body)
	require.Equal(t, http.StatusOK, got.status, got.text)
	require.Equal(t, "text/event-stream", got.header.Get("Content-Type"))
	events := strings.Split(strings.TrimSuffix(got.text, "\n\n"), "\n\n")
	require.Equal(t, "data: [DONE]", events[len(events)-1])
	var chunks []chunk
	for _, event := range events[:len(events)-1] {
		data, ok := strings.CutPrefix(event, "data: ")
		require.True(t, ok, event)
		var c chunk
		require.NoError(t, json.Unmarshal([]byte(data), &c), event)
		chunks = append(chunks, c)
	}
	return chunks
}

// choice has the content of a choice, from a stream or a whole response.
type choice struct {
	role, text, finish string
	logprobs           []string // one entry per token: text, log-probability, offset
}

type chatTokens struct {
	Content []struct {
		Token   string  `json:"token"`
		Logprob float64 `json:"logprob"`
	} `json:"content"`
}

type completionTokens struct {
	Tokens  []string   `json:"tokens"`
	Values  []*float64 `json:"token_logprobs"`
	Offsets []int      `json:"text_offset"`
	Top     []map[string]float64
}

func (c *choice) addLogprobs(t testing.TB, raw json.RawMessage) {
	t.Helper()
	if string(raw) == "null" {
		return
	}
	var chat chatTokens
	var text completionTokens
	require.NoError(t, json.Unmarshal(raw, &chat))
	require.NoError(t, json.Unmarshal(raw, &text))
	for _, token := range chat.Content {
		c.logprobs = append(c.logprobs, fmt.Sprint(token))
	}
	for i, token := range text.Tokens {
		value := "none"
		if text.Values[i] != nil {
			value = fmt.Sprint(*text.Values[i])
		}
		c.logprobs = append(c.logprobs, fmt.Sprint(token, value, text.Offsets[i]))
	}
}

// TestStreamIsTheResponse: the chunks of a stream, joined, equal the response to the same request
// without streaming.
func TestStreamIsTheResponse(t *testing.T) {
	t.Parallel()
	t.Run("alone", func(t *testing.T) {
		t.Parallel()
		testStreams(t, setUp(t, nil))
	})
	queuetest.OnEach(t, func(t *testing.T, q queue.Queue) { testStreams(t, setUpFleet(t, q)) })
}

func testStreams(t *testing.T, b *bench) {
	t.Helper()
	for name, c := range map[string]struct{ path, fields string }{
		"chat":                         {"chat", `"messages":[{"role":"user","content":"Tell a story."}]`},
		"chat, three choices":          {"chat", `"messages":[{"role":"user","content":"Tell a story."}],"n":3`},
		"chat with log-probabilities":  {"chat", `"messages":[{"role":"user","content":"Hi"}],"logprobs":true,"top_logprobs":2,"ignore_eos":false,"max_tokens":60`},
		"chat with a stop string":      {"chat", `"messages":[{"role":"user","content":"Tell a story."}],"stop":["a","the "],"n":2`},
		"completion":                   {"", `"prompt":"Once"`},
		"completions of four prompts":  {"", `"prompt":["Once","upon a","time","Ä"],"n":2,"logprobs":1`},
		"completion, echoed":           {"", `"prompt":["Once","twice"],"echo":true`},
		"completion, echoed ids":       {"", `"prompt":[10,11,12],"echo":true`},
		"completion, echoed and alone": {"", `"prompt":[10,11,12],"echo":true,"logprobs":2,"max_tokens":0`},
		"completion, echoed scores":    {"", `"prompt":"Once upon","echo":true,"logprobs":2`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := "/v1/completions"
			if c.path == "chat" {
				path = "/v1/chat/completions"
			}
			body := `{"model":"tiny","seed":5,"temperature":1.2,` + c.fields
			for field, value := range map[string]string{"max_tokens": "14", "ignore_eos": "true"} {
				if !strings.Contains(c.fields, field) {
					body += fmt.Sprintf(`,%q:%s`, field, value)
				}
			}
			var whole struct {
				Choices []struct {
					Index   int `json:"index"`
					Message *struct {
						Role    string `json:"role"`
						Content string `json:"content"`
					} `json:"message"`
					Text         string          `json:"text"`
					Logprobs     json.RawMessage `json:"logprobs"`
					FinishReason string          `json:"finish_reason"`
				} `json:"choices"`
				Usage struct {
					Prompt     int `json:"prompt_tokens"`
					Completion int `json:"completion_tokens"`
					Total      int `json:"total_tokens"`
				} `json:"usage"`
			}
			b.post(t, path, body+`}`, &whole)
			want := map[int]*choice{}
			for _, c := range whole.Choices {
				w := &choice{text: c.Text, finish: c.FinishReason}
				if c.Message != nil {
					w.role, w.text = c.Message.Role, c.Message.Content
				}
				w.addLogprobs(t, c.Logprobs)
				want[c.Index] = w
			}

			chunks := b.stream(t, path, body+`,"stream":true,"stream_options":{"include_usage":true}}`)
			got := map[int]*choice{}
			for i, c := range chunks {
				require.Equal(t, chunks[0].ID, c.ID)
				require.Equal(t, chunks[0].Created, c.Created)
				require.Equal(t, "tiny", c.Model)
				if i == len(chunks)-1 {
					require.NotNil(t, c.Choices)
					require.Empty(t, c.Choices)
					usage, err := json.Marshal(whole.Usage)
					require.NoError(t, err)
					require.Contains(t, string(c.Usage), strings.Trim(string(usage), "{}"))
					continue
				}
				require.Equal(t, "null", string(c.Usage))
				for _, c := range c.Choices {
					g := got[c.Index]
					if g == nil {
						g = &choice{}
						got[c.Index] = g
						require.True(t, c.Delta == nil || c.Delta.Role == "assistant", "the first chunk of a choice has the role")
					}
					require.Empty(t, g.finish, "no chunk follows the end of a choice")
					g.text += c.Text
					if c.Delta != nil {
						g.role += c.Delta.Role
						g.text += c.Delta.Content
					}
					g.addLogprobs(t, c.Logprobs)
					if c.FinishReason != nil {
						g.finish = *c.FinishReason
					}
				}
			}
			require.Equal(t, want, got)
		})
	}
}

// If a request for a stream has invalid settings or prompts, it gets an ordinary error response.
func TestStreamsAreCheckedFirst(t *testing.T) {
	t.Parallel()
	b := setUp(t, nil)
	long := strings.Repeat("word ", 5000)
	for _, body := range []string{
		`{"model":"tiny","prompt":"a","stream":"yes"}`,
		`{"model":"tiny","prompt":"a","stream":true,"temperature":-1}`,
		`{"model":"tiny","prompt":"a","stream":false,"stream_options":{"include_usage":true}}`,
		`{"model":"tiny","prompt":"` + long + `","stream":true}`,
		`{"model":"tiny","prompt":["a","b","` + long + `"],"stream":true}`,
		`{"model":"tiny","prompt":["a",""],"stream":true}`,
		`{"model":"tiny","prompt":[100000000],"stream":true}`,
	} {
		require.Equal(t, "invalid_request_error", b.fails(t, 400, http.MethodPost, "/v1/completions", body).Type)
	}
	for _, key := range []string{"100000000", "x"} { // unknown to the model, and no token id
		e := b.fails(t, 400, http.MethodPost, "/v1/completions", `{"model":"tiny","prompt":"a","logit_bias":{"`+key+`":1}}`)
		require.Equal(t, "logit_bias", e.Param)
	}
	// Fields that are null count as absent.
	b.stream(t, "/v1/completions", `{"model":"tiny","prompt":"a","max_tokens":1,"stream":true,"stream_options":null,"stop":null,"n":null,"logprobs":null}`)
}

// slow is an Answerer whose Answer a test provides.
type slow struct {
	serve.Answerer
	answer func(ctx context.Context, c serve.Call) (serve.Answer, error)
}

func (s slow) Answer(ctx context.Context, c serve.Call) (serve.Answer, error) {
	return s.answer(ctx, c)
}

// A stream without tokens gets comments, and an error after the first event is sent as an event.
func TestStreamStaysAliveAndReportsLateErrors(t *testing.T) {
	t.Parallel()
	fail := make(chan struct{})
	b := setUp(t, func(o *serve.Options) {
		o.SetKeepAlive(time.Millisecond)
		o.Answerer = slow{o.Answerer, func(ctx context.Context, c serve.Call) (serve.Answer, error) {
			err := c.Stream(0, generation.Piece{Text: "first", Tokens: []int32{1}})
			<-fail
			if err == nil {
				err = generation.ErrEngineFailed
			}
			return serve.Answer{}, err
		}}
	})
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.URL+"/v1/chat/completions", strings.NewReader(`{`+hello+`,"stream":true}`))
	require.NoError(t, err)
	response, err := b.Client().Do(r)
	require.NoError(t, err)
	defer response.Body.Close()
	comments, last := 0, ""
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		line := lines.Text()
		if strings.HasPrefix(line, ":") {
			if comments++; comments == 3 {
				close(fail)
			}
		} else if line != "" {
			last = line
		}
	}
	require.GreaterOrEqual(t, comments, 3)
	var c chunk
	require.NoError(t, json.Unmarshal([]byte(strings.TrimPrefix(last, "data: ")), &c))
	require.NotNil(t, c.Error, last)
	require.Equal(t, "server_error", c.Error.Type)
}

// If a client leaves a stream, the generation ends.
func TestClientLeavesStream(t *testing.T) {
	t.Parallel()
	b := setUpAlone(t)
	b.leaveStream(t)
}

// leaveStream begins a long stream, closes it after the first line, and waits until the engine is
// idle.
func (b *bench) leaveStream(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, b.URL+"/v1/completions",
		strings.NewReader(`{"model":"tiny","prompt":"Once","max_tokens":100000,"ignore_eos":true,"n":100,"stream":true}`))
	require.NoError(t, err)
	response, err := b.Client().Do(r)
	require.NoError(t, err)
	defer response.Body.Close()
	_, err = bufio.NewReader(response.Body).ReadString('\n')
	require.NoError(t, err)
	cancel()
	require.Eventually(t, func() bool { s := b.engine.Snapshot(); return s.Running == 0 && s.Waiting == 0 }, time.Minute, time.Millisecond)
}
