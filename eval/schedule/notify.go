package schedule

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// noticeTime is how long a webhook and a command together may take. If the notice is not delivered after noticeLease, any scheduler can
	// deliver it.
	noticeTime  = 30 * time.Second
	noticeLease = time.Minute
	// maxNotices is the maximum number of attempts at a notice. The time between them doubles up to maxWait, so the last one is after about
	// a day.
	maxNotices = 30
	maxWait    = time.Hour
)

// notice is the JSON that a webhook or command receives.
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

// notifier delivers the notices of verdicts. A notice stays in Redis until it is delivered. So a crash can make it arrive twice, but cannot
// lose it.
type notifier struct {
	table *Table
	entry func(name string) *Entry
	retry time.Duration // time between the first two attempts
	log   *slog.Logger
	woken chan struct{}
}

// wakeUp makes the notifier look for due notices at once.
func (n *notifier) wakeUp() {
	select {
	case n.woken <- struct{}{}:
	default:
	}
}

func (n *notifier) run(ctx context.Context, interval time.Duration) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		for n.next(ctx) {
		}
		select {
		case <-ctx.Done():
			return
		case <-n.woken:
		case <-ticker.C:
		}
	}
}

// next delivers one notice that is due. It reports whether there was one.
func (n *notifier) next(ctx context.Context) bool {
	v, err := noticeScript.Run(ctx, n.table.rdb, []string{key("notices")}, key("slot", ""), noticeLease.Milliseconds()).Slice()
	if errors.Is(err, redis.Nil) || ctx.Err() != nil {
		return false
	}
	if err != nil {
		n.log.WarnContext(ctx, "could not read the notices of verdicts: trying again", "error", err)
		return false
	}
	id, attempt := v[0].(string), int(v[1].(int64))
	if err := n.deliver(ctx, id, attempt); err != nil && ctx.Err() == nil {
		n.log.WarnContext(ctx, "could not deliver the notice of a verdict", "slot", id, "attempt", attempt, "error", err)
	}
	return ctx.Err() == nil
}

// deliver sends the notice of slot id (ENTRY/SLOT) and records the outcome. attempt counts from 1.
func (n *notifier) deliver(ctx context.Context, id string, attempt int) error {
	name, slot, _ := strings.Cut(id, "/")
	e := n.entry(name)
	if e == nil || e.Notify == nil {
		return n.end(ctx, id, "not notified: the schedule no longer has this entry, or the entry no longer has the key notify")
	}
	fields, err := n.table.rdb.HGetAll(ctx, key("slot", id)).Result()
	if err != nil {
		return failure(err, "read slot %s", id)
	}
	s := newSlot(name, slot, fields)
	body := notice{
		Key: id + "/" + string(s.Verdict), Entry: name, Slot: slot, Run: s.Run, Verdict: s.Verdict, Message: s.Message, Model: e.Model,
		Started: s.Started, Ended: s.Ended,
	}
	if e.Gate != nil {
		body.Baseline = e.Gate.Baseline
	}
	switch err := e.Notify.send(ctx, &body); {
	case err == nil:
		n.log.InfoContext(ctx, "delivered the notice of a verdict", "entry", name, "slot", slot, "verdict", s.Verdict)
		return n.end(ctx, id, timestamp())
	case ctx.Err() != nil:
		return n.again(context.WithoutCancel(ctx), id, 0)
	case attempt >= maxNotices:
		return errors.Join(err, n.end(ctx, id, "gave up: "+err.Error()))
	default:
		return errors.Join(err, n.again(ctx, id, min(maxWait, n.retry<<min(attempt-1, 10))))
	}
}

func (n *notifier) end(ctx context.Context, id, how string) error {
	pipe := n.table.rdb.TxPipeline()
	pipe.HSet(ctx, key("slot", id), "notified", how)
	pipe.ZRem(ctx, key("notices"), id)
	_, err := pipe.Exec(ctx)
	return failure(err, "record the notice of %s", id)
}

func (n *notifier) again(ctx context.Context, id string, wait time.Duration) error {
	now, err := n.table.Now(ctx)
	if err != nil {
		return err
	}
	err = n.table.rdb.ZAdd(ctx, key("notices"), redis.Z{Score: float64(now.Add(wait).UnixMilli()), Member: id}).Err()
	return failure(err, "record the notice of %s", id)
}

// send calls the webhook and the command.
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

// post sends a notice to a webhook. Its errors do not contain the address, which may hold a secret.
func post(ctx context.Context, address, id string, text []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(text))
	if err != nil {
		return errors.New("notify by webhook: the address is not a valid URL")
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", id)
	res, err := http.DefaultClient.Do(req)
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

// execute runs a command. The command gets the notice on its stdin and the notice's main fields in environment variables.
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
