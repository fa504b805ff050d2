package schedule

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/ingot-run/ingot/queue/chores"
)

const (
	noticeTime = 30 * time.Second
	// maxNotices is the maximum number of attempts at a notice. The time between them doubles up to
	// maxWait, so the last one is after about a day.
	maxNotices = 30
	maxWait    = time.Hour
)

type notice struct {
	Key      string  `json:"key"` // identifies the notice; the same for each attempt
	Entry    string  `json:"entry"`
	Slot     string  `json:"slot"`
	Run      string  `json:"run"`
	Verdict  Verdict `json:"verdict"`
	Message  string  `json:"message"`
	Model    string  `json:"model"`
	Baseline string  `json:"baseline,omitempty"`
	Started  string  `json:"started"`
	Ended    string  `json:"ended"`
}

// announce queues the notice of a slot that has ended, if one is wanted and was not delivered. It
// is called again if a scheduler dies before it has queued the notice, so a crash cannot lose a
// notice. But a crash can make a notice arrive twice.
func (s *Scheduler) announce(ctx context.Context, e *Entry, slot string) error {
	ended, err := s.table.slot(ctx, e.Name, slot)
	if err != nil || ended.State != Done || ended.Notified != "" || !e.Notify.wants(ended.Verdict) {
		return err
	}
	return s.queueNotice(ctx, e.Name+"/"+slot)
}

func (s *Scheduler) queueNotice(ctx context.Context, id string) error {
	return chores.Enqueue(ctx, s.rdb, ticks, chores.Task{Kind: notices, Payload: id, Unique: true, Attempts: maxNotices, Timeout: 2 * noticeTime})
}

// adopt queues the notices that an earlier version of ingot has left in a sorted set.
func (s *Scheduler) adopt(ctx context.Context) error {
	ids, err := s.rdb.ZRange(ctx, key("notices"), 0, -1).Result()
	for _, id := range ids {
		err = errors.Join(err, s.queueNotice(ctx, id))
	}
	if err == nil {
		err = s.rdb.Del(ctx, key("notices")).Err()
	}
	return failure(err, "queue the notices of verdicts")
}

// notice handles the task of a notice: it delivers the notice of slot id (ENTRY/SLOT) and records
// the outcome.
func (s *Scheduler) notice(ctx context.Context, id string, attempt int) error {
	name, slot, _ := strings.Cut(id, "/")
	ended, err := s.table.slot(ctx, name, slot)
	if err != nil || ended.State != Done || ended.Notified != "" {
		return err
	}
	e, err := s.owned(ctx, name)
	if err != nil {
		return err
	}
	if e == nil || e.Notify == nil {
		return s.notified(ctx, id, "not notified: the schedule no longer has this entry, or the entry no longer has the key notify")
	}
	body := notice{
		Key: id + "/" + string(ended.Verdict), Entry: name, Slot: slot, Run: ended.Run, Verdict: ended.Verdict, Message: ended.Message, Model: e.Model,
		Started: ended.Started, Ended: ended.Ended,
	}
	if e.Gate != nil {
		body.Baseline = e.Gate.Baseline
	}
	if err = e.Notify.send(ctx, &body); err == nil {
		s.log.InfoContext(ctx, "delivered the notice of a verdict", "entry", name, "slot", slot, "verdict", ended.Verdict)
		return s.notified(ctx, id, timestamp())
	}
	if ctx.Err() == nil {
		s.log.WarnContext(ctx, "could not deliver the notice of a verdict", "slot", id, "attempt", attempt, "error", err)
		if attempt >= maxNotices {
			err = errors.Join(err, s.notified(ctx, id, "gave up: "+err.Error()))
		}
	}
	return err
}

func (s *Scheduler) notified(ctx context.Context, id, how string) error {
	return failure(s.rdb.HSet(ctx, key("slot", id), "notified", how).Err(), "record the notice of %s", id)
}

func (n *Notify) send(ctx context.Context, body *notice) error {
	ctx, cancel := context.WithTimeout(ctx, noticeTime)
	defer cancel()
	text, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("notify: %w", err)
	}
	if n.Webhook != "" {
		err = post(ctx, n.Webhook, body.Key, text)
	}
	if len(n.Command) > 0 {
		err = errors.Join(err, execute(ctx, n.Command, body, text))
	}
	return err
}

// webhooks follows only redirections that keep the method and the body. With the others, a GET
// without the notice would count as its delivery.
var webhooks = &http.Client{CheckRedirect: func(req *http.Request, via []*http.Request) error {
	switch {
	case req.Method != http.MethodPost:
		return errors.New("the server redirects to another address and drops the notice: give the other address")
	case len(via) >= 10:
		return errors.New("the server redirects too often")
	}
	return nil
}}

// post sends a notice to a webhook. Its errors do not contain the address, which may hold a secret.
func post(ctx context.Context, address, id string, text []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(text))
	if err != nil {
		return errors.New("notify by webhook: the address is not a valid URL")
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", id)
	res, err := webhooks.Do(req)
	if err != nil {
		if inner := errors.Unwrap(err); inner != nil {
			err = inner
		}
		return fmt.Errorf("notify by webhook: %w", err)
	}
	defer res.Body.Close()                                //nolint:errcheck // the body was only read
	io.Copy(io.Discard, io.LimitReader(res.Body, 64<<10)) //nolint:errcheck // only the status matters
	if res.StatusCode < 200 || res.StatusCode > 299 {
		return fmt.Errorf("notify by webhook: the server answered %s", res.Status)
	}
	return nil
}

// execute runs a command. The command gets the notice on its stdin and the notice's main fields in
// environment variables.
func execute(ctx context.Context, command []string, body *notice, text []byte) error {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...) //nolint:gosec // the user's own schedule names it
	cmd.Stdin = bytes.NewReader(text)
	cmd.Env = append(os.Environ(),
		"INGOT_EVAL_KEY="+body.Key, "INGOT_EVAL_ENTRY="+body.Entry, "INGOT_EVAL_SLOT="+body.Slot, "INGOT_EVAL_RUN="+body.Run,
		"INGOT_EVAL_VERDICT="+string(body.Verdict), "INGOT_EVAL_MESSAGE="+body.Message)
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("notify by command %s: %w; its output: %.200q", command[0], err, bytes.TrimSpace(out))
	}
	return nil
}
