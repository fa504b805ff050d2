package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/openai"
	"github.com/ingot-run/ingot/queue"
	"github.com/ingot-run/ingot/serve/batch"
)

var errBroken = errors.New("it broke")

// newConsole returns a console of a server without files, with two models.
func newConsole() *Console {
	return &Console{
		Models: func(*http.Request) ([]Model, error) {
			return []Model{{Alias: "base", Name: "Base"}, {Alias: "chat", Name: "Chat", Chat: true}}, nil
		},
		Workers: func(context.Context) ([]queue.Worker, error) { return nil, nil },
		Frame:   func(*http.Request) Frame { return Frame{Version: "1.2.3"} },
		Problem: func(_ *http.Request, err error) (int, string) { return http.StatusTeapot, "problem: " + err.Error() },
	}
}

// serve calls the handler of a page.
func serve(t *testing.T, c *Console, pattern string, r *http.Request) (*httptest.ResponseRecorder, error) {
	t.Helper()
	pages, stored := c.Pages()
	handler := pages[pattern]
	if handler == nil {
		handler = stored[pattern]
	}
	require.NotNil(t, handler, pattern)
	w := httptest.NewRecorder()
	err := handler(w, r)
	return w, err
}

func get(t *testing.T, path string) *http.Request {
	t.Helper()
	return httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody)
}

func TestPagesOfAServer(t *testing.T) {
	t.Parallel()
	c := newConsole()
	pages, stored := c.Pages()
	require.Len(t, pages, 3)
	require.Contains(t, stored, "GET /console/batches")
	c.Queued = func(context.Context) ([]queue.Status, error) { return nil, nil }
	pages, stored = c.Pages()
	require.Contains(t, pages, "GET /console/batches")
	require.NotContains(t, stored, "GET /console/batches")
	require.Len(t, stored, 2)
}

// TestOverview: the page shows models, and what is known if something cannot be read.
func TestOverview(t *testing.T) {
	t.Parallel()
	c := newConsole()
	w, err := serve(t, c, "GET /{$}", get(t, "/"))
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, w.Code)
	for name, want := range map[string]string{
		"Content-Type": "text/html; charset=utf-8", "Content-Security-Policy": policy, "Cache-Control": "no-store", "Referrer-Policy": "same-origin", "X-Content-Type-Options": "nosniff",
	} {
		require.Equal(t, want, w.Header().Get(name))
	}
	text := w.Body.String()
	require.Contains(t, text, "1.2.3")
	require.Contains(t, text, "Overview")
	require.Contains(t, text, "Chat")
	require.NotContains(t, text, "problem: ")
	for name, breaks := range map[string]func(c *Console){
		"workers": func(c *Console) { c.Workers = func(context.Context) ([]queue.Worker, error) { return nil, errBroken } },
		"models":  func(c *Console) { c.Models = func(*http.Request) ([]Model, error) { return nil, errBroken } },
		"batches": func(c *Console) { c.Queued = func(context.Context) ([]queue.Status, error) { return nil, errBroken } },
	} {
		c := newConsole()
		breaks(c)
		w, err := serve(t, c, "GET /{$}", get(t, "/"))
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, w.Code)
		require.Contains(t, w.Body.String(), "problem: it broke", name)
	}
}

// TestListOfQueuedBatches: the newest fifty are shown, and how many there are more.
func TestListOfQueuedBatches(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, batchesPerPage, batchesPerPage + 1, batchesPerPage + 20} {
		c := newConsole()
		c.Queued = func(context.Context) (list []queue.Status, err error) {
			for i := range n {
				list = append(list, queue.Status{Batch: fmt.Sprintf("batch-%03d.", i), Total: 8, Done: 4})
			}
			return list, nil
		}
		w, err := serve(t, c, "GET /console/batches", get(t, "/console/batches"))
		require.NoError(t, err)
		require.Equal(t, min(n, batchesPerPage), strings.Count(w.Body.String(), "batch-0"), "%d batches", n)
		require.NotContains(t, w.Body.String(), "problem: ")
		if n > batchesPerPage {
			require.Contains(t, w.Body.String(), fmt.Sprintf("%d older ones are not shown", n-batchesPerPage))
		} else {
			require.NotContains(t, w.Body.String(), "not shown", "%d batches", n)
		}
	}
	c := newConsole()
	c.Queued = func(context.Context) ([]queue.Status, error) { return nil, errBroken }
	w, err := serve(t, c, "GET /console/batches", get(t, "/console/batches"))
	require.NoError(t, err)
	require.Contains(t, w.Body.String(), "problem: it broke")
}

// TestRequestsOfTheForm: the fields of the form become the body of a request.
func TestRequestsOfTheForm(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		page   tryPage
		stream bool
		want   string
		err    string
	}{
		{tryPage{Model: "m", Prompt: "p"}, false, `{"model":"m","stream":false,"messages":[{"role":"user","content":"p"}]}`, ""},
		{tryPage{Model: "m", Prompt: "p"}, true, `{"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"p"}]}`, ""},
		{tryPage{Model: "m", Prompt: "p", System: "s"}, false, `{"model":"m","stream":false,"messages":[{"role":"system","content":"s"},{"role":"user","content":"p"}]}`, ""},
		{tryPage{Model: "m", Prompt: "p", System: "s", Mode: "continue"}, false, `{"model":"m","stream":false,"prompt":"p"}`, ""},
		{tryPage{Model: "m", Prompt: "p", MaxTokens: "5", Temperature: "0.7", TopP: "0.9", Seed: "7", Stop: "\r\na\r\n\nb \n"}, false,
			`{"model":"m","stream":false,"messages":[{"role":"user","content":"p"}],"max_tokens":5,"temperature":0.7,"top_p":0.9,"seed":7,"stop":["a","b "]}`, ""},
		{tryPage{Temperature: "hot"}, false, "", `"temperature" must be a number, not "hot"`},
		{tryPage{TopP: "0x10p0"}, false, "", "a number in the form is not decimal: write it like 0.7"},
	} {
		got, err := c.page.request(c.stream)
		if c.err != "" {
			require.ErrorContains(t, err, c.err)
			require.Equal(t, openai.CodeInvalidValue, openai.AsError(err).Code)
			continue
		}
		require.NoError(t, err)
		require.JSONEq(t, c.want, string(got))
	}
	require.Equal(t, openai.Chat, (&tryPage{Mode: "chat"}).endpoint())
}

// TestTryAPrompt: the form is answered with a page, or with events for the script.
func TestTryAPrompt(t *testing.T) {
	t.Parallel()
	form := url.Values{"model": {"base"}, "mode": {"continue"}, "prompt": {"Once upon"}, "max_tokens": {"7"}, "top_p": {"0.25"}, "seed": {"11"}, "stop": {"STOP"}, "temperature": {"0.125"}, "system": {"Be kind"}}
	post := func(accept string, body string) *http.Request {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/console/try", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Accept", accept)
		return r
	}
	c := newConsole()
	asked := map[string]any{}
	read := func(r *http.Request, e openai.Endpoint) {
		require.Equal(t, openai.Completions, e)
		clear(asked)
		require.NoError(t, json.NewDecoder(r.Body).Decode(&asked))
	}
	c.Answer = func(r *http.Request, e openai.Endpoint) (any, error) {
		read(r, e)
		return map[string]any{"choices": []any{map[string]any{"text": "a <time>"}}}, nil
	}
	c.Stream = func(w http.ResponseWriter, r *http.Request, e openai.Endpoint) error {
		read(r, e)
		w.WriteHeader(http.StatusAccepted)
		return errBroken
	}
	w, err := serve(t, c, "POST /console/try", post("text/html", form.Encode()))
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, w.Code)
	require.Contains(t, w.Body.String(), "a &lt;time&gt;")
	require.NotContains(t, w.Body.String(), `aria-labelledby="answer-title" hidden`)
	require.Contains(t, w.Body.String(), "<option selected>base</option>", "the form keeps its model")
	for _, value := range []string{"Once upon", `"7"`, `"0.25"`, `"11"`, "STOP", `"0.125"`, "Be kind"} {
		require.Contains(t, w.Body.String(), value, "the form keeps its values")
	}
	require.Equal(t, map[string]any{"model": "base", "prompt": "Once upon", "max_tokens": 7.0, "top_p": 0.25, "seed": 11.0, "temperature": 0.125, "stop": []any{"STOP"}, "stream": false}, asked)

	w, err = serve(t, c, "POST /console/try", post("text/event-stream", form.Encode()))
	require.ErrorIs(t, err, errBroken)
	require.Equal(t, http.StatusAccepted, w.Code)
	require.Equal(t, true, asked["stream"])

	for want, answer := range map[string]func() (any, error){
		"problem: it broke":                 func() (any, error) { return nil, errBroken },
		"problem: the answer has no choice": func() (any, error) { return map[string]any{}, nil },
		"problem: decode the answer: ":      func() (any, error) { return map[string]any{"choices": 5}, nil },
	} {
		c.Answer = func(*http.Request, openai.Endpoint) (any, error) { return answer() }
		w, err := serve(t, c, "POST /console/try", post("text/html", form.Encode()))
		require.NoError(t, err)
		require.Equal(t, http.StatusTeapot, w.Code)
		require.Contains(t, w.Body.String(), want)
		require.Contains(t, w.Body.String(), "Once upon")
		require.Contains(t, w.Body.String(), `aria-labelledby="answer-title" hidden`, "there is no answer")
	}
	_, err = serve(t, c, "POST /console/try", post("text/html", "%zz"))
	require.Equal(t, "invalid_form", openai.AsError(err).Code)
	_, err = serve(t, c, "POST /console/try", post("text/html", "seed=x"))
	require.Equal(t, "seed", openai.AsError(err).Param)

	w, err = serve(t, c, "GET /console/try", get(t, "/console/try"))
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, w.Code)
	require.Contains(t, w.Body.String(), `name="max_tokens" type="number" min="1" value="512"`)
	require.Contains(t, w.Body.String(), `name="temperature" type="number" min="0" max="2" step="0.1" value="0.7"`)
	require.Contains(t, w.Body.String(), "<option selected>chat</option>", "the form begins with the first choice")
	c.Models = func(*http.Request) ([]Model, error) { return nil, errBroken }
	w, err = serve(t, c, "GET /console/try", get(t, "/console/try"))
	require.NoError(t, err)
	require.Contains(t, w.Body.String(), "problem: it broke")
	text, err := contentOf(map[string]any{"choices": []any{map[string]any{"message": map[string]any{"content": "Hi"}}, map[string]any{"text": "other"}}})
	require.NoError(t, err)
	require.Equal(t, "Hi", text)
}

// TestMomentsOfBatches: the states that a batch has reached, and when it ends without a state.
func TestMomentsOfBatches(t *testing.T) {
	t.Parallel()
	at := func(n int64) *int64 { return &n }
	b := batch.Batch{
		CreatedAt: 1, InProgressAt: at(2), FinalizingAt: at(3), CancellingAt: at(4), CompletedAt: at(5), FailedAt: at(6), ExpiredAt: at(7), CancelledAt: at(8), ExpiresAt: 9,
		Status: batch.InProgress,
	}
	var got []string
	for _, m := range moments(b) {
		got = append(got, fmt.Sprintf("%s %d", m.Name, *m.At))
	}
	require.Equal(t, []string{"Created 1", "Started 2", "Finalizing 3", "Cancelling 4", "Completed 5", "Failed 6", "Expired 7", "Cancelled 8", "Expires 9"}, got)
	ended := moments(batch.Batch{CreatedAt: 1, CompletedAt: at(5), ExpiresAt: 9, Status: batch.Completed})
	require.Len(t, ended, 2)
	require.Equal(t, "Completed", ended[1].Name)

	for want, b := range map[string]batch.Batch{
		"":                {Status: batch.InProgress, InProgressAt: at(2), FinalizingAt: at(4)},
		"10s: 0.8 rows/s": {Status: batch.Completed, InProgressAt: at(2), CompletedAt: at(12)},
		"5s: 1.6 rows/s":  {Status: batch.Completed, InProgressAt: at(2), FinalizingAt: at(7), CompletedAt: at(12)},
		"1s: 8.0 rows/s":  {Status: batch.Cancelled, InProgressAt: at(2), CancelledAt: at(2)},
		"4s: 2.0 rows/s":  {Status: batch.Expired, InProgressAt: at(2), ExpiredAt: at(6)},
		"8s: 1.0 rows/s":  {Status: batch.Failed, InProgressAt: at(2), FailedAt: at(10)},
	} {
		b.RequestCounts.Completed, b.RequestCounts.Failed = 6, 2
		p := progress{batch.Progress{Batch: b}}
		require.Equal(t, want, p.Outcome())
	}
	require.Empty(t, (progress{batch.Progress{Batch: batch.Batch{Status: batch.Completed, CompletedAt: at(5)}}}).Outcome())
	require.Empty(t, (progress{batch.Progress{Batch: batch.Batch{Status: batch.Completed, InProgressAt: at(5)}}}).Outcome())
}

func TestFigures(t *testing.T) {
	t.Parallel()
	for v, want := range map[float64]string{0: "0.0", 1.25: "1.3", 99.9: "99.9", 100: "100", 1234.5: "1,235"} {
		require.Equal(t, want, figure(v))
	}
	for d, want := range map[time.Duration]string{0: "now", time.Minute: "1 min ago", 90 * time.Second: "1 min ago", time.Hour: "60 min ago"} {
		require.Equal(t, want, before(d))
	}
	for d, want := range map[time.Duration]string{59 * time.Second: "60 s left", time.Minute: "1 min left", 59 * time.Minute: "59 min left", time.Hour: "1 h 0 min left"} {
		require.Equal(t, want, leftText(d))
	}
	w := httptest.NewRecorder()
	Assets().ServeHTTP(w, get(t, "/console/assets/console.css"))
	require.Equal(t, http.StatusOK, w.Code)
	style, err := assetFiles.ReadFile("assets/console.css")
	require.NoError(t, err)
	require.Equal(t, string(style), w.Body.String())
	require.Equal(t, []string{"no-cache", "nosniff"}, []string{w.Header().Get("Cache-Control"), w.Header().Get("X-Content-Type-Options")})
}
