package serve

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/openai"
	"github.com/ingot-run/ingot/queue"
	"github.com/ingot-run/ingot/serve/batch"
)

// sentBy collects the pieces that a fleetStream sends.
func sentBy(t *testing.T, body string, fails error) (s *fleetStream, sent *[]string) {
	t.Helper()
	r, err := openai.ParseLive(openai.Completions, []byte(body))
	require.NoError(t, err)
	sent = new([]string)
	return &fleetStream{have: map[position]queue.Progress{}, done: map[position]bool{}, call: Call{Request: r, Stream: func(prompt int, p generation.Piece) error {
		*sent = append(*sent, fmt.Sprintf("%d.%d %q %s %s", prompt, p.Choice, p.Text, p.FinishReason, p.Reasoning))
		return fails
	}}}, sent
}

// A piece without anything for the client does not begin the stream: an error after it is an
// ordinary response.
func TestAStreamBeginsWithItsFirstEvent(t *testing.T) {
	t.Parallel()
	w := httptest.NewRecorder()
	out := newEventStream(w, time.Hour)
	defer out.stop()
	require.NoError(t, out.send())
	require.False(t, out.begun)
	require.Empty(t, w.Header())
	require.False(t, w.Flushed)
	require.NoError(t, out.send("a", 1))
	require.Equal(t, "text/event-stream", w.Header().Get("Content-Type"))
	require.Equal(t, "data: \"a\"\n\ndata: 1\n\n", w.Body.String())
	require.True(t, w.Flushed)
}

// A client gets each part of an answer once, in order, also if an attempt begins again or events
// are lost.
func TestPiecesOfAFleet(t *testing.T) {
	t.Parallel()
	event := func(prompt, before int, text string, reason generation.FinishReason) queue.Event {
		return queue.Event{Prompt: prompt, Before: queue.Progress{Tokens: before, Text: before}, Piece: generation.Piece{Text: text, Tokens: make([]int32, len(text)), FinishReason: reason}}
	}
	const one, two = `{"prompt":"p"}`, `{"prompt":["p","q"]}`
	whole := func(texts ...string) string {
		var choices []string
		for _, text := range texts {
			choices = append(choices, fmt.Sprintf(`{"text":%q,"finish_reason":"stop","stop_reason":"x"}`, text))
		}
		return `{"choices":[` + strings.Join(choices, ",") + `]}`
	}
	for name, c := range map[string]struct {
		request string
		events  []queue.Event
		body    string
		want    []string
		err     string // of finish
	}{
		"all events":              {one, []queue.Event{event(0, 0, "ab", ""), event(0, 2, "c", "stop")}, whole("abc"), []string{`0.0 "ab"  `, `0.0 "c" stop `}, ""},
		"no events":               {one, nil, whole("abc"), []string{`0.0 "abc" stop `}, ""},
		"the last one is lost":    {one, []queue.Event{event(0, 0, "ab", "")}, whole("abc"), []string{`0.0 "ab"  `, `0.0 "c" stop `}, ""},
		"one between is lost":     {one, []queue.Event{event(0, 0, "a", ""), event(0, 2, "c", "stop")}, whole("abc"), []string{`0.0 "a"  `, `0.0 "bc" stop `}, ""},
		"an attempt begins anew":  {one, []queue.Event{event(0, 0, "ab", ""), event(0, 0, "abc", ""), event(0, 3, "d", "stop"), event(0, 0, "abcd", "stop")}, whole("abcd"), []string{`0.0 "ab"  `, `0.0 "c"  `, `0.0 "d" stop `}, ""},
		"nothing new":             {one, []queue.Event{event(0, 0, "ab", ""), event(0, 0, "ab", "")}, whole("ab"), []string{`0.0 "ab"  `, `0.0 "" stop `}, ""},
		"several prompts":         {two, []queue.Event{event(1, 0, "x", ""), event(0, 0, "a", "stop")}, whole("a", "xy"), []string{`1.0 "x"  `, `0.0 "a" stop `, `1.0 "y" stop `}, ""},
		"another, shorter answer": {one, []queue.Event{event(0, 0, "abc", "")}, whole("ab"), []string{`0.0 "abc"  `}, ""},
		"lost tokens":             {`{"prompt":"p","return_token_ids":true}`, []queue.Event{event(0, 0, "ab", "")}, whole("abc"), []string{`0.0 "ab"  `}, "a part of the streamed answer was lost"},
		"sent as a whole":         {`{"prompt":"p","echo":true,"logprobs":0}`, nil, whole("abc"), nil, ""},
		"not a response":          {one, nil, `{"choices":5}`, nil, "decode a response"},
	} {
		s, sent := sentBy(t, c.request, nil)
		ended, err := s.use(&fleetCall{events: c.events})
		require.NoError(t, err, name)
		require.False(t, ended, name)
		err = s.finish([]byte(c.body))
		require.Equal(t, c.want, append([]string(nil), *sent...), name)
		if c.err == "" {
			require.NoError(t, err, name)
		} else {
			require.ErrorContains(t, err, c.err, name)
		}
	}
	broken := errors.New("broken")
	s, _ := sentBy(t, one, broken)
	require.ErrorIs(t, s.finish([]byte(whole("a"))), broken)
	_, err := s.use(&fleetCall{events: []queue.Event{event(0, 0, "a", "")}})
	require.NoError(t, err, "the choice has ended")
	s, sent := sentBy(t, one, nil)
	call := &fleetCall{events: []queue.Event{{Ended: true}, event(0, 0, "a", "")}}
	ended, err := s.use(call)
	require.NoError(t, err)
	require.True(t, ended)
	require.Len(t, *sent, 1)
	require.Empty(t, call.events)
	s, _ = sentBy(t, one, broken)
	_, err = s.use(&fleetCall{events: []queue.Event{event(0, 0, "a", "")}})
	require.ErrorIs(t, err, broken)
}

// A stream has its seed, comments while nothing happens, and an end; nothing follows it.
func TestEventsOfAStream(t *testing.T) {
	t.Parallel()
	goOn := make(chan struct{})
	var w *httptest.ResponseRecorder
	s := serverOf(t, "", func(_ context.Context, c Call) (Answer, error) {
		<-goOn
		err := c.Stream(0, generation.Piece{Text: "<a>", Tokens: []int32{1}, FinishReason: generation.FinishStop})
		return Answer{Body: map[string]any{}, Stats: queue.Stats{PromptTokens: 2, CompletionTokens: 1, CachedTokens: 7, ReasoningTokens: 5}}, err
	})
	close(goOn)
	w = s.post(t, "/v1/completions", strings.NewReader(`{"model":"m","prompt":"a","seed":77,"stream":true,"stream_options":{"include_usage":true}}`), "")
	require.Equal(t, "text/event-stream", w.Header().Get("Content-Type"))
	require.Equal(t, "no", w.Header().Get("X-Accel-Buffering"))
	events := strings.Split(strings.TrimSpace(w.Body.String()), "\n\n")
	require.Len(t, events, 4)
	require.Contains(t, events[0], `"seed":77`)
	require.Contains(t, events[0], `"text":"<a>"`)
	require.Contains(t, events[2], `"prompt_tokens":2,"completion_tokens":1,"total_tokens":3,"prompt_tokens_details":{"cached_tokens":7},"completion_tokens_details":{"reasoning_tokens":5}`)
	require.Equal(t, "data: [DONE]", events[3])

	recorder := httptest.NewRecorder()
	out := newEventStream(recorder, time.Millisecond)
	require.Eventually(t, func() bool {
		out.mu.Lock()
		defer out.mu.Unlock()
		return strings.Count(recorder.Body.String(), ": keep-alive\n\n") >= 2
	}, time.Minute, time.Millisecond)
	out.stop()
	out.stop()
	before := recorder.Body.Len()
	require.NoError(t, out.send())
	require.Equal(t, before, recorder.Body.Len())
	require.NoError(t, out.send(1, "b"))
	require.Equal(t, "data: 1\n\ndata: \"b\"\n\n", recorder.Body.String()[before:])
	require.Nil(t, out.idle, "no comment follows")
	require.Error(t, out.send(make(chan int)))
}

func TestPagesOfLists(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]batch.Query{
		"": {Limit: 20}, "limit=1": {Limit: 1}, "limit=100": {Limit: 100}, "after=x&order=asc": {After: "x", Limit: 20, Ascending: true}, "order=desc": {Limit: 20},
	} {
		q, err := listQuery(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/?"+query, http.NoBody), 20, 100)
		require.NoError(t, err, query)
		require.Equal(t, want, q, query)
	}
	for query, param := range map[string]string{"limit=0": "limit", "limit=101": "limit", "limit=x": "limit", "order=up": "order"} {
		_, err := listQuery(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/?"+query, http.NoBody), 20, 100)
		require.Equal(t, param, *asHTTP(err).body.Error.Param)
	}
	name := func(s string) string { return "id-" + s }
	body := newPage(batch.Page[string]{Items: []string{"a", "b", "c"}, More: true}, name)
	require.Equal(t, []any{"list", "id-a", "id-c", true}, []any{body.Object, *body.FirstID, *body.LastID, body.HasMore})
	none := newPage(batch.Page[string]{}, name)
	require.Nil(t, none.FirstID)
	require.Nil(t, none.LastID)
}

// A session ends with its time or when its user signs out.
func TestSessions(t *testing.T) {
	t.Parallel()
	var s sessions
	now := time.Now()
	k, other := &key{name: "k"}, &key{name: "other"}
	request := func(c *http.Cookie) *http.Request {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
		if c != nil {
			r.AddCookie(c)
		}
		return r
	}
	first, second := s.begin(k, false, now), s.begin(other, true, now.Add(time.Hour))
	require.NotEqual(t, first.Value, second.Value)
	require.Equal(t, []bool{false, true, true}, []bool{first.Secure, second.Secure, first.HttpOnly})
	require.Same(t, k, s.find(request(first), now.Add(sessionTime)))
	require.Same(t, other, s.find(request(second), now.Add(sessionTime)))
	require.Nil(t, s.find(request(first), now.Add(sessionTime+1)))
	require.Nil(t, s.find(request(nil), now))
	require.Nil(t, s.find(request(&http.Cookie{Name: sessionCookie, Value: "guess"}), now))
	s.begin(k, false, now.Add(sessionTime+1))
	require.Len(t, s.byToken, 2, "sessions that have ended are forgotten")
	gone := s.end(request(second))
	require.Empty(t, gone.Value)
	require.Negative(t, gone.MaxAge)
	require.Nil(t, s.find(request(second), now))
	s.end(request(nil))
}

func TestErrorsOfForms(t *testing.T) {
	t.Parallel()
	store, err := batch.Open(t.TempDir(), batch.Options{MaxFileBytes: 10})
	require.NoError(t, err)
	defer store.Close()
	for name, c := range map[string]struct {
		err    error
		status int
	}{
		"too large":       {batch.ErrTooLarge, 413},
		"a large request": {&http.MaxBytesError{}, 413},
		"ours":            {failf(418, "", "", "x"), 418},
		"the disk":        {&fs.PathError{Op: "write", Err: os.ErrPermission}, 500},
		"the network":     {&slowError{}, 408},
		"a damaged form":  {errors.New("x"), 400},
	} {
		require.Equal(t, c.status, asHTTP(formError(fmt.Errorf("wrapped: %w", c.err), store)).status, name)
	}
}
