package schedule

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/queue/redistest"
)

// A scheduler writes the outcome of a run only while the run is its own: another scheduler may have
// taken the run over, begun it again or ended it meanwhile.
func TestOnlyTheOwnerOfARunEndsIt(t *testing.T) {
	t.Parallel()
	const slot = "20260102T030100Z"
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		attempt   int
		meanwhile func(s *Slot)      // what another scheduler does
		stopped   bool               // the scheduler is stopped during the run
		err       error              // of the run
		want      func(s *Slot) bool // the slot afterwards
		again     bool               // the run is tried again
		logs      string             // the last line of the log
	}{
		"nothing": {attempt: 2, logs: `msg="run finished" entry=quick slot=20260102T030100Z attempt=2 verdict=pass message=good`, want: func(s *Slot) bool {
			return s.State == Done && s.Verdict == Pass && s.Message == "good" && s.Ended != ""
		}},
		"another scheduler has it":     {attempt: 2, logs: `msg="run stopped here: another scheduler may continue it"`, meanwhile: func(s *Slot) { s.Owner = "other" }, want: func(s *Slot) bool { return s.State == Running && s.Owner == "other" && s.Ended == "" }},
		"it began again":               {attempt: 2, logs: `msg="run stopped here: another scheduler may continue it"`, meanwhile: func(s *Slot) { s.Attempt = 3 }, want: func(s *Slot) bool { return s.State == Running && s.Attempt == 3 && s.Ended == "" }},
		"it has ended":                 {attempt: 2, logs: `msg="run stopped here: another scheduler may continue it"`, meanwhile: func(s *Slot) { s.State, s.Verdict = Done, Fail }, want: func(s *Slot) bool { return s.State == Done && s.Verdict == Fail && s.Message == "" }},
		"it waits again":               {attempt: 2, logs: `msg="run stopped here: another scheduler may continue it"`, meanwhile: func(s *Slot) { s.State = Waiting }, want: func(s *Slot) bool { return s.State == Waiting && s.Message == "" }},
		"an error":                     {attempt: 2, logs: `msg="run failed: trying again after the wait" entry=quick slot=20260102T030100Z attempt=2 error=broken wait=1m0s`, err: broken, again: true, want: func(s *Slot) bool { return s.State == Waiting && s.Message == "broken" && s.Verdict == "" }},
		"an error in the last attempt": {attempt: MaxAttempts, logs: `msg="run finished" entry=quick slot=20260102T030100Z attempt=5 verdict=error`, err: broken, want: func(s *Slot) bool { return s.State == Done && s.Verdict == Error && s.Message == "broken" }},
		"more attempts than allowed": {attempt: MaxAttempts + 1, logs: `msg="run finished" entry=quick slot=20260102T030100Z attempt=6 verdict=error`, want: func(s *Slot) bool {
			return s.State == Done && s.Verdict == Error && s.Message == "the run did not finish in 5 attempts"
		}},
		"stopped":                           {attempt: 2, logs: `msg="run interrupted: another scheduler can continue it"`, stopped: true, again: true, want: func(s *Slot) bool { return s.State == Waiting && s.Message == "" }},
		"stopped in the last attempt":       {attempt: MaxAttempts, logs: `msg="run interrupted: another scheduler can continue it"`, stopped: true, again: true, want: func(s *Slot) bool { return s.State == Waiting && s.Verdict == "" }},
		"an error, but another has the run": {attempt: 2, logs: `msg="run stopped here: another scheduler may continue it"`, err: broken, meanwhile: func(s *Slot) { s.Owner = "other" }, want: func(s *Slot) bool { return s.State == Running && s.Message == "" }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "schedule.yaml")
			require.NoError(t, os.WriteFile(file, []byte("entries: [{name: quick, cron: '* * * * *', tasks: [a]}]"), 0o600))
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			var table *Table
			runs := 0
			var logged bytes.Buffer
			s, err := New(redistest.Start(t).Client, Options{
				File: file, Logger: slog.New(slog.NewTextHandler(&logged, nil)),
				Evaluate: func(ctx context.Context, e *Entry, run string) (Outcome, error) {
					runs++
					require.Equal(t, []string{"quick", "quick-" + slot}, []string{e.Name, run})
					if c.meanwhile != nil {
						require.NoError(t, table.update(ctx, "quick", slot, func(now *Slot) error { c.meanwhile(now); return nil }))
					}
					if c.stopped {
						stop()
						return Outcome{}, ctx.Err()
					}
					return Outcome{Pass, "good"}, c.err
				},
			})
			require.NoError(t, err)
			table = s.table
			e := s.entry("quick")
			require.NotNil(t, e)
			require.Nil(t, s.entry("other"))
			_, err = table.fire(ctx, e, time.Date(2026, 1, 2, 3, 0, 30, 0, time.UTC))
			require.NoError(t, err)
			added, err := table.fire(ctx, e, time.Date(2026, 1, 2, 3, 1, 0, 0, time.UTC))
			require.NoError(t, err)
			require.Len(t, added, 1)
			require.NoError(t, table.update(ctx, "quick", slot, func(now *Slot) error {
				now.State, now.Owner, now.Attempt = Running, s.id, c.attempt
				return nil
			}))

			err = s.evaluate(ctx, e, slot, c.attempt)
			require.Equal(t, c.again, err != nil, "%v", err)
			list, err := table.Slots(t.Context(), "quick", 1)
			require.NoError(t, err)
			require.True(t, c.want(&list[0]), "%+v", list[0])
			require.Equal(t, c.attempt <= MaxAttempts, runs == 1)
			lines := strings.Split(strings.TrimSpace(logged.String()), "\n")
			require.Len(t, lines, 2)
			require.Contains(t, lines[0], `msg="run started" entry=quick`)
			require.Contains(t, lines[1], c.logs)
		})
	}
	require.Equal(t, []time.Duration{30 * time.Second, 90 * time.Second}, []time.Duration{
		(&Scheduler{options: Options{Retry: 30 * time.Second}}).waitForRun(1), (&Scheduler{options: Options{Retry: 30 * time.Second}}).waitForRun(3),
	})
}

// A notice goes to the webhook, to the command, or to both; each error is reported.
func TestWhereNoticesGo(t *testing.T) {
	t.Parallel()
	var status atomic.Int64
	posted := make(chan string, 10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body) // the server's test compares it
		posted <- string(text)
		w.WriteHeader(int(status.Load()))
	}))
	defer server.Close()
	file := filepath.Join(t.TempDir(), "notice")
	command := []string{"sh", "-c", "cat > " + file}
	body := &notice{Key: "a"}
	for name, c := range map[string]struct {
		notify Notify
		status int64
		want   string
	}{
		"the webhook":        {Notify{Webhook: server.URL}, 200, ""},
		"the command":        {Notify{Command: command}, 200, ""},
		"both":               {Notify{Webhook: server.URL, Command: command}, 299, ""},
		"a refusal":          {Notify{Webhook: server.URL, Command: command}, 300, "notify by webhook: "},
		"a failing command":  {Notify{Webhook: server.URL, Command: []string{"sh", "-c", "echo no; exit 3"}}, 200, `notify by command sh: exit status 3; its output: "no"`},
		"an unknown address": {Notify{Webhook: "http://127.0.0.1:1/secret"}, 200, "notify by webhook: "},
		"an invalid address": {Notify{Webhook: "http://[::1"}, 200, "notify by webhook: the address is not a valid URL"},
	} {
		require.NoError(t, os.RemoveAll(file))
		status.Store(c.status)
		err := c.notify.send(t.Context(), body)
		if c.want == "" {
			require.NoError(t, err, name)
		} else {
			require.ErrorContains(t, err, c.want, name)
			require.NotContains(t, err.Error(), "secret", "the address may hold a key")
		}
		if c.notify.Webhook == server.URL {
			require.Contains(t, <-posted, `"a"`, name)
		}
		if len(c.notify.Command) > 0 && name != "a failing command" {
			text, err := os.ReadFile(file)
			require.NoError(t, err, name)
			require.Contains(t, string(text), `"a"`, name)
		}
	}
}
