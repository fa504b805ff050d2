package schedule

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// TestWebhookThatRedirects: a redirection that turns the request into a GET delivers no notice, so
// it is not a success.
func TestWebhookThatRedirects(t *testing.T) {
	t.Parallel()
	var received []string
	rounds := 0
	mux := http.NewServeMux()
	mux.HandleFunc("/to", func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		received = append(received, r.Method+" "+r.Header.Get("Idempotency-Key")+" "+string(body))
		if err != nil {
			received = append(received, err.Error())
		}
	})
	mux.Handle("/moved", http.RedirectHandler("/to?secret=1", http.StatusMovedPermanently))
	mux.Handle("/kept", http.RedirectHandler("/to", http.StatusPermanentRedirect))
	mux.HandleFunc("/round", func(w http.ResponseWriter, r *http.Request) {
		rounds++
		http.Redirect(w, r, "/round", http.StatusTemporaryRedirect)
	})
	site := httptest.NewServer(mux)
	defer site.Close()
	require.NoError(t, post(t.Context(), site.URL+"/kept", "k", []byte("notice")))
	require.Equal(t, []string{"POST k notice"}, received)
	err := post(t.Context(), site.URL+"/moved", "k", []byte("notice"))
	require.EqualError(t, err, "notify by webhook: the server redirects to another address and drops the notice: give the other address")
	require.EqualError(t, post(t.Context(), site.URL+"/round", "k", []byte("notice")), "notify by webhook: the server redirects too often")
	require.Equal(t, 10, rounds)
	require.Len(t, received, 1)
}

// TestWebhookRequests: a notice is JSON with a key. The connection is used again after a short
// answer, and closed after the beginning of a long one.
func TestWebhookRequests(t *testing.T) {
	t.Parallel()
	var connections atomic.Int64
	left := make(chan bool, 1)
	site := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text := fmt.Sprintf("%s %s %s", r.Method, r.Header["Content-Type"], r.Header["Idempotency-Key"])
		if text != "POST [application/json] [k]" {
			w.WriteHeader(http.StatusBadRequest)
		}
		w.Write([]byte(strings.Repeat("x", 60<<10))) //nolint:errcheck // the client may have left
		if r.URL.Path == "/endless" {
			for {
				if _, err := w.Write(make([]byte, 4096)); err != nil {
					left <- true
					return
				}
			}
		}
	}))
	site.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	site.Start()
	defer site.Close()
	for range 3 {
		require.NoError(t, post(t.Context(), site.URL, "k", []byte("{}")))
	}
	require.EqualValues(t, 1, connections.Load())
	require.NoError(t, post(t.Context(), site.URL+"/endless", "k", []byte("{}")))
	require.True(t, <-left)
	require.EqualError(t, post(t.Context(), site.URL, "l", []byte("{}")), "notify by webhook: the server answered 400 Bad Request")
}

// TestCommandThatLeavesAChild: a notice does not wait for a program that the command left running.
func TestCommandThatLeavesAChild(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "pid")
	err := execute(t.Context(), []string{"sh", "-c", `sleep 600 & echo $! >"$0"`, file}, new(notice), nil)
	require.ErrorContains(t, err, "notify by command sh: ")
	pid, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, execute(t.Context(), []string{"kill", strings.TrimSpace(string(pid))}, new(notice), nil))
}

// TestAnnounce: a notice is queued for a slot that has ended, if the entry wants it and it was not
// sent.
func TestAnnounce(t *testing.T) {
	t.Parallel()
	b := setup(t, quick)
	all := &Notify{On: []Verdict{Pass, Fail, Inconclusive, Ungated, Error}}
	for _, c := range []struct {
		notify   *Notify
		state    State
		verdict  Verdict
		notified string
		queued   bool
	}{
		{all, Done, Pass, "", true}, {all, Done, Error, "", true}, {all, Done, Pass, "before", false}, {all, Running, Pass, "", false}, {all, "", Pass, "", false},
		{nil, Done, Error, "", false}, {&Notify{}, Done, Error, "", true}, {&Notify{}, Done, Fail, "", true}, {&Notify{}, Done, Pass, "", false},
		{&Notify{}, Done, Inconclusive, "", false}, {&Notify{}, Done, Ungated, "", false}, {&Notify{On: []Verdict{Pass}}, Done, Fail, "", false},
	} {
		slot := b.begin()
		require.NoError(t, b.client.HSet(t.Context(), slotKey("quick", slot), "state", string(c.state), "verdict", string(c.verdict), "notified", c.notified).Err())
		for range 2 {
			require.NoError(t, b.announce(t.Context(), &Entry{Name: "quick", Notify: c.notify}, slot))
		}
		var want []string
		if c.queued {
			want = []string{"ingot-evaluations:notice quick/20260102T120100Z: 30 retries, 1m0s"}
		}
		require.Equal(t, want, b.queued(), "%+v", c)
	}
}

// TestNotice: a notice is delivered with what the table has of the slot, and recorded. It is not
// sent again.
func TestNotice(t *testing.T) {
	t.Parallel()
	sent := filepath.Join(t.TempDir(), "sent")
	b := setup(t, quick+fmt.Sprintf(`, model: m, gate: {baseline: main}, notify: {command: [sh, -c, 'cat >>"$0"; env | grep ^INGOT_EVAL_ | sort >>"$0"', %q]}`, sent))
	ctx := t.Context()
	ended := func() (id string) {
		slot := b.begin()
		require.NoError(t, b.table.update(ctx, "quick", slot, func(s *Slot) error {
			s.State, s.Verdict, s.Message, s.Started, s.Ended = Done, Fail, "worse", "10 o'clock", "11 o'clock"
			return nil
		}))
		return "quick/" + slot
	}
	notified := func(id string) string { return b.client.HGet(ctx, key("slot", id), "notified").Val() }
	b.faults.Each(t, func() func() error {
		id := ended()
		require.NoError(t, os.RemoveAll(sent))
		return func() error {
			err := b.notice(ctx, id, 1)
			if err != nil {
				require.Empty(t, notified(id))
				require.NoError(t, b.notice(ctx, id, 1))
				return err
			}
			_, err = time.Parse(time.RFC3339, notified(id))
			require.NoError(t, err)
			require.Contains(t, b.logged.String(), `msg="delivered the notice of a verdict" entry=quick slot=20260102T120100Z verdict=fail`)
			text, err := os.ReadFile(sent)
			require.NoError(t, err)
			body, variables, _ := strings.Cut(string(text), "}")
			require.JSONEq(t, `{"key": "quick/20260102T120100Z/fail", "entry": "quick", "slot": "20260102T120100Z", "run": "quick-20260102T120100Z", "verdict": "fail",
				"message": "worse", "model": "m", "baseline": "main", "started": "10 o'clock", "ended": "11 o'clock"}`, body+"}")
			require.Equal(t, "INGOT_EVAL_ENTRY=quick\nINGOT_EVAL_KEY=quick/20260102T120100Z/fail\nINGOT_EVAL_MESSAGE=worse\nINGOT_EVAL_RUN=quick-20260102T120100Z\n"+
				"INGOT_EVAL_SLOT=20260102T120100Z\nINGOT_EVAL_VERDICT=fail\n", variables)
			return nil
		}
	})
	require.NoError(t, os.RemoveAll(sent))
	require.NoError(t, b.notice(ctx, "quick/20260102T120100Z", 2))
	require.NoFileExists(t, sent, "it is not sent again")
	id := ended()
	require.NoError(t, b.client.HSet(ctx, key("slot", id), "state", string(Running)).Err())
	require.NoError(t, b.notice(ctx, id, 1))
	require.Empty(t, notified(id), "the run has not ended")
}

// TestNoticesThatFail: a notice that cannot be delivered is tried again, up to the last attempt.
func TestNoticesThatFail(t *testing.T) {
	t.Parallel()
	stop := func() {}
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		stop()
		if r.URL.Path == "/hang" {
			io.Copy(io.Discard, r.Body) //nolint:errcheck // only then is the end of the connection seen
			<-r.Context().Done()
		}
		w.WriteHeader(http.StatusBadGateway)
	}))
	defer site.Close()
	b := setup(t, quick)
	const refused = "notify by webhook: the server answered 502 Bad Gateway"
	for name, c := range map[string]struct {
		entry          string
		notify         *Notify
		attempt        int
		stop           bool
		says           string // the error, empty for none
		notified, logs string
	}{
		"the first attempt": {"quick", &Notify{Webhook: site.URL}, 1, false, refused, "", "attempt=1"},
		"the last but one":  {"quick", &Notify{Webhook: site.URL}, maxNotices - 1, false, refused, "", "attempt=29"},
		"the last":          {"quick", &Notify{Webhook: site.URL}, maxNotices, false, refused, "gave up: " + refused, "attempt=30"},
		"a stop":            {"quick", &Notify{Webhook: site.URL + "/hang"}, maxNotices, true, "context canceled", "", ""},
		"no key notify":     {"quick", nil, 1, false, "", "not notified: the schedule no longer has this entry, or the entry no longer has the key notify", ""},
		"no entry":          {"gone", nil, 1, false, "", "not notified: the schedule no longer has this entry, or the entry no longer has the key notify", ""},
		"another's entry":   {"theirs", nil, 1, false, "return to the queue for 10s", "", ""},
	} {
		slot := b.begin()
		b.entry("quick").Notify = c.notify
		require.NoError(t, b.table.beat(t.Context(), "another", []Entry{{Name: "theirs"}}), name)
		require.NoError(t, b.client.HSet(t.Context(), slotKey(c.entry, slot), "state", string(Done)).Err(), name)
		ctx, cancel := context.WithCancel(t.Context())
		stop = func() {}
		if c.stop {
			stop = cancel
		}
		err := b.notice(ctx, c.entry+"/"+slot, c.attempt)
		cancel()
		if c.says == "" {
			require.NoError(t, err, name)
		} else {
			require.ErrorContains(t, err, c.says, name)
		}
		require.Equal(t, c.notified, b.client.HGet(t.Context(), slotKey(c.entry, slot), "notified").Val(), name)
		if c.logs == "" {
			require.Empty(t, b.logged.String(), name)
		} else {
			require.Contains(t, b.logged.String(), `level=WARN msg="could not deliver the notice of a verdict" slot=quick/20260102T120100Z `+c.logs, name)
		}
	}
}

// TestNoticesOfAnEarlierVersion: notices that are left in a sorted set are queued once.
func TestNoticesOfAnEarlierVersion(t *testing.T) {
	t.Parallel()
	b := setup(t, quick)
	ctx := t.Context()
	b.faults.Each(t, func() func() error {
		b.begin()
		require.NoError(t, b.client.ZAdd(ctx, key("notices"), redis.Z{Member: "quick/20260102T120100Z"}, redis.Z{Member: "quick/20260102T120200Z"}).Err())
		return func() error {
			err := b.adopt(ctx)
			if err != nil {
				require.ErrorContains(t, err, "queue the notices of verdicts: ")
				require.EqualValues(t, 2, b.client.ZCard(ctx, key("notices")).Val())
				require.NoError(t, b.adopt(ctx))
			}
			require.Zero(t, b.client.Exists(ctx, key("notices")).Val())
			require.Equal(t, []string{
				"ingot-evaluations:notice quick/20260102T120100Z: 30 retries, 1m0s", "ingot-evaluations:notice quick/20260102T120200Z: 30 retries, 1m0s",
			}, b.queued())
			return err
		}
	})
}
