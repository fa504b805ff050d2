package remote_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ingot-run/ingot/eval/remote"
	"github.com/ingot-run/ingot/files/rows"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server is an HTTP server of OpenAI's API. A test decides its answers.
type server struct {
	*httptest.Server
	mu     sync.Mutex
	asked  []string       // request bodies, in order of arrival
	header []http.Header  // of the requests, in order of arrival
	counts map[string]int // number of requests by prompt
}

// start starts a server. answer writes the response to the n-th request with a prompt, from 1.
func start(t *testing.T, answer func(w http.ResponseWriter, prompt string, n int)) *server {
	t.Helper()
	s := &server{counts: map[string]int{}}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/models" {
			io.WriteString(w, `{"object": "list", "data": [{"id": "only-one"}]}`) //nolint:errcheck // the client reports it
			return
		}
		text, err := io.ReadAll(r.Body)
		if err != nil {
			return // the client has disconnected
		}
		var body struct {
			Prompt   string `json:"prompt"`
			Messages []struct {
				Content string `json:"content"`
			} `json:"messages"`
		}
		if json.Unmarshal(text, &body) == nil && body.Messages != nil {
			body.Prompt = body.Messages[0].Content
		}
		s.mu.Lock()
		s.asked, s.header = append(s.asked, r.URL.Path+" "+string(text)), append(s.header, r.Header)
		s.counts[body.Prompt]++
		n := s.counts[body.Prompt]
		s.mu.Unlock()
		answer(w, body.Prompt, n)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *server) requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

// keys returns the different Authorization headers of the requests.
func (s *server) keys() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []string
	for _, h := range s.header {
		all = append(all, h.Get("Authorization"))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// times returns the number of requests by prompt.
func (s *server) times() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.counts)
}

// say writes a valid answer to a request.
func say(w http.ResponseWriter, prompt string) {
	fmt.Fprintf(w, `{"id": "cmpl-1", "choices": [{"text": "echo of %s", "finish_reason": "stop"}], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}`+"\n", prompt) //nolint:errcheck // the client reports it
}

func client(t *testing.T, s *server, o remote.Options) *remote.Client {
	t.Helper()
	o.URL, o.FirstWait = s.URL+"/v1", time.Millisecond
	if o.Model == "" {
		o.Model = "m"
	}
	c, err := remote.New(t.Context(), o)
	require.NoError(t, err)
	return c
}

// ask runs a client with the given prompts and returns the lines of the output by custom_id.
func ask(ctx context.Context, t *testing.T, c *remote.Client, path string, prompts ...string) (map[string]map[string]any, remote.Progress, error) {
	t.Helper()
	var in strings.Builder
	for _, p := range prompts {
		fmt.Fprintf(&in, `{"custom_id": %q, "body": {"prompt": %q, "max_tokens": 5}}`+"\n", p, p)
	}
	out, err := rows.OpenOutput(path, remote.Batch)
	require.NoError(t, err)
	p, runErr := c.Run(ctx, strings.NewReader(in.String()), out, nil)
	require.NoError(t, out.Close())
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	lines := map[string]map[string]any{}
	for line := range strings.Lines(string(text)) {
		var l map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &l))
		id := l["custom_id"].(string)
		require.NotContains(t, lines, id)
		lines[id] = l
	}
	return lines, p, runErr
}

func output(t *testing.T) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "answers.jsonl")
}

// TestRun checks requests, answers and figures, and that a second run sends no request.
func TestRun(t *testing.T) {
	t.Parallel()
	s := start(t, func(w http.ResponseWriter, prompt string, _ int) { say(w, prompt) })
	c, path := client(t, s, remote.Options{Key: "secret", Concurrency: 3}), output(t)
	lines, p, err := ask(t.Context(), t, c, path, "a", "b", "c", "d", "e")
	require.NoError(t, err)
	require.Len(t, lines, 5)
	require.Equal(t, 5, p.Done)
	require.Equal(t, 15, p.PromptTokens)
	body := lines["b"]["response"].(map[string]any)["body"].(map[string]any)
	require.Equal(t, "echo of b", body["choices"].([]any)[0].(map[string]any)["text"])
	require.EqualValues(t, 1, lines["b"]["stats"].(map[string]any)["attempts"])
	require.Equal(t, "m", lines["b"]["stats"].(map[string]any)["model"])
	require.ElementsMatch(t, []string{"total_ms", "prompt_tokens", "completion_tokens", "attempts", "server", "model"},
		slices.Collect(maps.Keys(lines["b"]["stats"].(map[string]any))))
	require.Contains(t, s.requests(), `/v1/completions {"max_tokens":5,"model":"m","prompt":"c"}`)
	require.Equal(t, []string{"Bearer secret"}, s.keys())
	_, p, err = ask(t.Context(), t, c, path, "a", "b", "c", "d", "e", "f")
	require.NoError(t, err)
	require.Equal(t, 5, p.Kept)
	require.Equal(t, 1, p.Done)
	require.Len(t, s.requests(), 6, "no request is sent twice")
	_, _, err = ask(t.Context(), t, c, path, "a", "b", "other")
	require.ErrorIs(t, err, rows.ErrOtherFile)
}

// TestRetries checks which requests are sent again, and the row's error if all attempts fail.
func TestRetries(t *testing.T) {
	t.Parallel()
	s := start(t, func(w http.ResponseWriter, prompt string, n int) {
		switch {
		case prompt == "busy" && n == 1:
			w.Header().Set("Retry-After", "0")
			http.Error(w, `{"error": {"message": "slow down"}}`, http.StatusTooManyRequests)
		case prompt == "busy" && n == 2:
			panic(http.ErrAbortHandler) // the connection breaks
		case prompt == "garbage" && n == 1:
			io.WriteString(w, "<html>") //nolint:errcheck // the client reports it
		case prompt == "empty" && n == 1:
			io.WriteString(w, `{"choices": []}`) //nolint:errcheck // the client reports it
		case prompt == "choiceless":
			io.WriteString(w, `{"choices": []}`) //nolint:errcheck // the client reports it
		case prompt == "prose":
			io.WriteString(w, "<html>") //nolint:errcheck // the client reports it
		case prompt == "failing":
			io.WriteString(w, `{"error": {"message": "no memory"}}`) //nolint:errcheck // the client reports it
		case prompt == "broken":
			http.Error(w, `{"error": {"message": "out of memory"}}`, http.StatusInternalServerError)
		case prompt == "bad":
			http.Error(w, `{"error": {"message": "no such field"}}`, http.StatusBadRequest)
		default:
			say(w, prompt)
		}
	})
	prompts := []string{"busy", "garbage", "empty", "prose", "choiceless", "failing", "broken", "bad", "good"}
	lines, p, err := ask(t.Context(), t, client(t, s, remote.Options{Attempts: 4}), output(t), prompts...)
	require.NoError(t, err)
	require.Equal(t, 4, p.Done)
	require.Equal(t, 5, p.Failed)
	require.Equal(t, 2+1+1+3+3+3+3, p.Retries)
	require.Equal(t, map[string]int{"busy": 3, "garbage": 2, "empty": 2, "prose": 4, "choiceless": 4, "failing": 4, "broken": 4, "bad": 1, "good": 1}, s.times())
	for prompt, says := range map[string]string{
		"choiceless": "the server's answer cannot be used: it has no choice",
		"failing":    "the server's answer is an error: no memory",
		"prose":      `the server's answer cannot be used: it is not the JSON of a completion: "<html>"`,
	} {
		require.Equal(t, says, lines[prompt]["error"].(map[string]any)["message"])
		require.Equal(t, "server_failed", lines[prompt]["error"].(map[string]any)["code"])
	}
	require.Equal(t, "the server answers 500: out of memory", lines["broken"]["error"].(map[string]any)["message"])
	require.Equal(t, "server_failed", lines["broken"]["error"].(map[string]any)["code"])
	require.Equal(t, "server_refused", lines["bad"]["error"].(map[string]any)["code"])
	require.Equal(t, "the server answers 400: no such field", lines["bad"]["error"].(map[string]any)["message"])
	require.Nil(t, lines["bad"]["response"])
}

// TestRunStops checks that a run ends if the server refuses every request or is gone, and that the
// output keeps the earlier answers.
func TestRunStops(t *testing.T) {
	t.Parallel()
	for status, says := range map[int]string{
		http.StatusUnauthorized: "the server answers 401: who are you (the API key is read from the variable KEY)",
		http.StatusNotFound:     "the server answers 404: who are you",
	} {
		s := start(t, func(w http.ResponseWriter, _ string, _ int) { http.Error(w, `{"message": "who are you"}`, status) })
		lines, _, err := ask(t.Context(), t, client(t, s, remote.Options{KeyName: "the variable KEY", Key: "geheim"}), output(t), "a", "b", "c")
		require.ErrorContains(t, err, says)
		require.NotContains(t, err.Error(), "geheim")
		require.Empty(t, lines)
	}
	s := start(t, func(w http.ResponseWriter, prompt string, _ int) {
		if prompt != "a" {
			panic(http.ErrAbortHandler)
		}
		say(w, prompt)
	})
	path := output(t)
	c := client(t, s, remote.Options{Attempts: 2, Concurrency: 1})
	lines, _, err := ask(t.Context(), t, c, path, "a", "b", "c")
	require.ErrorContains(t, err, "send a request to "+s.URL+"/v1: the server closed the connection")
	require.Equal(t, 1, strings.Count(err.Error(), s.URL))
	require.Len(t, lines, 1)
	require.Zero(t, s.times()["c"])
}

// TestInterrupt checks that an interrupted run keeps its answers, and that another run sends only
// the other requests.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	var hold atomic.Bool
	hold.Store(true)
	gone := make(chan struct{})
	s := start(t, func(w http.ResponseWriter, prompt string, _ int) {
		if prompt == "b" && hold.Load() {
			cancel()
			<-gone // the client does not wait for this answer
			return
		}
		say(w, prompt)
	})
	path := output(t)
	c := client(t, s, remote.Options{Concurrency: 1})
	lines, _, err := ask(ctx, t, c, path, "a", "b", "c")
	close(gone)
	require.ErrorIs(t, err, context.Canceled)
	require.Len(t, lines, 1)
	hold.Store(false)
	lines, p, err := ask(t.Context(), t, c, path, "a", "b", "c")
	require.NoError(t, err)
	require.Len(t, lines, 3)
	require.Equal(t, 1, p.Kept)
	require.Equal(t, 1, s.times()["a"])
}

// TestLateAnswer checks that an attempt that takes too long is an error of only its row.
func TestLateAnswer(t *testing.T) {
	t.Parallel()
	gone := make(chan struct{})
	s := start(t, func(w http.ResponseWriter, prompt string, _ int) {
		if prompt == "late" {
			<-gone
			return
		}
		say(w, prompt)
	})
	t.Cleanup(func() { close(gone) }) // before the server is closed
	slow := client(t, s, remote.Options{Timeout: 50 * time.Millisecond, Attempts: 1})
	lines, p, err := ask(t.Context(), t, slow, output(t), "late")
	require.NoError(t, err)
	require.Equal(t, 1, p.Failed)
	require.Contains(t, lines["late"]["error"].(map[string]any)["message"], "the server did not answer within 50ms")
}

func TestModels(t *testing.T) {
	t.Parallel()
	s := start(t, func(http.ResponseWriter, string, int) {})
	c, err := remote.New(t.Context(), remote.Options{URL: s.URL + "/v1"})
	require.NoError(t, err)
	require.Equal(t, "only-one", c.Model())
	many := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, `{"data": [{"id": "a"}, {"id": "b"}]}`) //nolint:errcheck // the client reports it
	}))
	t.Cleanup(many.Close)
	_, err = remote.New(t.Context(), remote.Options{URL: many.URL})
	require.ErrorContains(t, err, `has 2 models, not one: name the model with --server-model (of a judge: --judge-model-name); the models are ["a" "b"]`)
	for _, address := range []string{"", "localhost:80", "ftp://a/v1", "http:///v1", "::"} {
		_, err = remote.New(t.Context(), remote.Options{URL: address, Model: "m"})
		require.ErrorContains(t, err, "give one such as")
	}
	for address, shown := range map[string]string{
		"http://me:pass word@host/v1":  "http://…@host/v1",
		"me:password@localhost:80/v1":  "…@localhost:80/v1",
		"ftp://me:p@ssword@host":       "ftp://…@host",
		"http://me:password@host:x/v1": "http://…@host:x/v1",
		"localhost:80/v1":              "localhost:80/v1",
	} {
		_, err = remote.New(t.Context(), remote.Options{URL: address, Model: "m"})
		require.ErrorContains(t, err, fmt.Sprintf("server address %q is not", shown))
	}
}

// TestEcho checks that CheckEcho accepts only correct log-probabilities of prompts.
func TestEcho(t *testing.T) {
	t.Parallel()
	// echo returns one token per word. Each has the log-probability -1, except Paris.
	echo := func(generated, scored float64, change func(map[string]any)) func(w http.ResponseWriter, prompt string, n int) {
		return func(w http.ResponseWriter, prompt string, _ int) {
			tokens, logprobs, top := []string{}, []any{}, []any{}
			for i, word := range strings.SplitAfter(strings.ReplaceAll(prompt, " ", "\x00 "), "\x00") {
				tokens = append(tokens, strings.TrimSuffix(word, "\x00"))
				p := -1.0
				if word == " Paris" {
					p = scored
				}
				logprobs, top = append(logprobs, p), append(top, map[string]float64{word: p})
				if i == 0 {
					logprobs[0], top[0] = nil, nil
				}
			}
			tokens, logprobs, top = append(tokens, " Paris"), append(logprobs, generated), append(top, map[string]float64{" Paris": generated})
			choice := map[string]any{"text": prompt + " Paris", "logprobs": map[string]any{"tokens": tokens, "token_logprobs": logprobs, "top_logprobs": top}}
			change(choice)
			json.NewEncoder(w).Encode(map[string]any{"choices": []any{choice}}) //nolint:errcheck // the client reports it
		}
	}
	same := func(map[string]any) {}
	// inSecond changes the answer to the second request, whose prompt ends with the token.
	inSecond := func(change func(map[string]any)) func(w http.ResponseWriter, prompt string, n int) {
		return func(w http.ResponseWriter, prompt string, n int) {
			if strings.HasSuffix(prompt, " Paris") {
				echo(-0.2, -3, change)(w, prompt, n)
				return
			}
			echo(-0.2, -3, same)(w, prompt, n)
		}
	}
	for name, c := range map[string]struct {
		answer func(w http.ResponseWriter, prompt string, n int)
		want   error
	}{
		"right":       {echo(-0.2, -0.21, same), nil},
		"wrong":       {echo(-0.2, -3, same), remote.ErrWrongEcho},
		"no logprobs": {echo(-0.2, -0.2, func(c map[string]any) { delete(c, "logprobs") }), remote.ErrNoEcho},
		"no echo":     {echo(-0.2, -0.2, func(c map[string]any) { c["text"] = " Paris" }), remote.ErrNoEcho},
		"of chats":    {echo(-0.2, -0.2, func(c map[string]any) { c["logprobs"] = map[string]any{"content": []any{}} }), remote.ErrNoEcho},
		"first token": {echo(-0.2, -0.2, func(c map[string]any) {
			c["logprobs"].(map[string]any)["token_logprobs"].([]any)[1] = nil
		}), remote.ErrNoEcho},
		"no top logprobs": {echo(-0.2, -0.2, func(c map[string]any) {
			c["logprobs"].(map[string]any)["top_logprobs"].([]any)[1] = map[string]float64{}
		}), remote.ErrNoEcho},
		"fewer logprobs": {echo(-0.2, -0.2, func(c map[string]any) {
			l := c["logprobs"].(map[string]any)
			l["token_logprobs"] = l["token_logprobs"].([]any)[1:]
		}), remote.ErrNoEcho},
		"fewer top logprobs": {echo(-0.2, -0.2, func(c map[string]any) {
			l := c["logprobs"].(map[string]any)
			l["top_logprobs"] = l["top_logprobs"].([]any)[1:]
		}), remote.ErrNoEcho},
		"largest gap":     {echo(-0.25, -0.5, same), nil},
		"larger gap":      {echo(-0.25, -0.5078125, same), remote.ErrWrongEcho},
		"likelier":        {echo(-1, -0.5, same), remote.ErrWrongEcho},
		"end of the text": {echo(-0.2, -3, func(c map[string]any) { c["text"] = strings.TrimSuffix(c["text"].(string), " Paris") }), nil},
		"part of a character": {echo(-0.2, -3, func(c map[string]any) {
			tokens := c["logprobs"].(map[string]any)["tokens"].([]string)
			tokens[len(tokens)-1] = ""
		}), nil},
		"more tokens": {inSecond(func(c map[string]any) {
			l := c["logprobs"].(map[string]any)
			l["tokens"], l["token_logprobs"] = append(l["tokens"].([]string), "x"), append(l["token_logprobs"].([]any), -1)
			l["top_logprobs"] = append(l["top_logprobs"].([]any), map[string]float64{"x": -1})
		}), nil},
		"another token": {inSecond(func(c map[string]any) {
			tokens := c["logprobs"].(map[string]any)["tokens"].([]string)
			tokens[len(tokens)-2] = " Paris,"
		}), nil},
		"wrong in the second": {inSecond(same), remote.ErrWrongEcho},
		"no second":           {inSecond(func(c map[string]any) { delete(c, "logprobs") }), remote.ErrNoEcho},
		"no completion": {func(w http.ResponseWriter, _ string, _ int) {
			io.WriteString(w, `{"choices": [5]}`) //nolint:errcheck // the client reports it
		}, remote.ErrNoEcho},
		"answer alone": {echo(-0.2, -0.2, func(c map[string]any) {
			c["logprobs"] = map[string]any{"tokens": []string{"a"}, "token_logprobs": []float64{-1}, "top_logprobs": []any{}}
		}), remote.ErrNoEcho},
		"none of prompt": {echo(-0.2, -0.2, func(c map[string]any) { clear(c["logprobs"].(map[string]any)["token_logprobs"].([]any)) }), remote.ErrNoEcho},
		"refused": {func(w http.ResponseWriter, _ string, _ int) {
			http.Error(w, `{"error": "echo is not supported"}`, http.StatusBadRequest)
		}, remote.ErrNoEcho},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := client(t, start(t, c.answer), remote.Options{}).CheckEcho(t.Context())
			if c.want == nil {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, c.want)
			}
		})
	}
}

// TestReasonsOfNoEcho checks that the error says why a server has no log-probabilities of prompts.
func TestReasonsOfNoEcho(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status       int
		answer, want string
	}{
		{http.StatusBadRequest, `{"error": "echo is not supported"}`, "echo is not supported"},
		{http.StatusOK, `{"choices": [5]}`, "json: cannot unmarshal number"},
	} {
		url := start(t, func(w http.ResponseWriter, _ string, _ int) {
			w.WriteHeader(c.status)
			io.WriteString(w, c.answer) //nolint:errcheck // the client reports it
		})
		err := client(t, url, remote.Options{}).CheckEcho(t.Context())
		require.ErrorIs(t, err, remote.ErrNoEcho)
		require.ErrorContains(t, err, c.want)
	}
}

// TestEchoWithARefusedKey checks that a refused key is not mistaken for a server without
// log-probabilities of prompts.
func TestEchoWithARefusedKey(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusForbidden} {
		url := start(t, func(w http.ResponseWriter, _ string, _ int) { http.Error(w, `{"error": "no"}`, status) })
		err := client(t, url, remote.Options{}).CheckEcho(t.Context())
		require.ErrorContains(t, err, strconv.Itoa(status))
		require.NotErrorIs(t, err, remote.ErrNoEcho)
	}
	url := start(t, func(w http.ResponseWriter, _ string, _ int) { http.Error(w, `{"error": "no"}`, http.StatusBadGateway) })
	err := client(t, url, remote.Options{Attempts: 2}).CheckEcho(t.Context())
	require.ErrorContains(t, err, "502")
	require.NotErrorIs(t, err, remote.ErrNoEcho)
}
