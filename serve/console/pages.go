package console

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/ingot-run/ingot/openai"
	"github.com/ingot-run/ingot/queue"
	"github.com/ingot-run/ingot/serve/batch"
)

// Console has the handlers of the pages. Package serve decides who may see a page, and fills the
// fields.
type Console struct {
	Store   *batch.Store                                  // nil for a server without files and batches
	Queued  func(context.Context) ([]queue.Status, error) // a fleet's batches that Store does not have, the newest first; nil without a fleet
	Models  func(*http.Request) ([]Model, error)          // models that the request may use
	Workers func(context.Context) ([]queue.Worker, error) // processes that answer, and those that were lost
	Answer  func(*http.Request, openai.Endpoint) (body any, err error)
	Stream  func(http.ResponseWriter, *http.Request, openai.Endpoint) error // answers with server-sent events
	Frame   func(*http.Request) Frame                                       // what all pages of a request show, without title and content
	Problem func(*http.Request, error) (status int, _ string)               // status and text with which a page shows an error

	Log *slog.Logger

	history history
}

// Model is a model that requests can name.
type Model struct {
	Alias, Name string
	Context     int  // maximum number of tokens of prompt and answer together; 0 if unknown
	Away        bool // no worker serves the model now
	Chat        bool // the model has a chat template
}

// Handler answers a request with a page. A handler that returns an error has not written anything.
type Handler = func(http.ResponseWriter, *http.Request) error

// Pages returns the handlers of the pages, by method and path. Those in stored need a Store.
func (c *Console) Pages() (pages, stored map[string]Handler) {
	pages = map[string]Handler{
		"GET /{$}":          c.overview,
		"GET /console/try":  c.tryForm,
		"POST /console/try": c.try,
	}
	stored = map[string]Handler{
		"GET /console/batches/{id}":         c.batch,
		"POST /console/batches/{id}/cancel": c.cancel,
	}
	if c.Queued != nil {
		pages["GET /console/batches"] = c.batches
	} else {
		stored["GET /console/batches"] = c.batches
	}
	return pages, stored
}

const (
	batchesPerPage = 50
	maxActive      = 100 // newest batches that the overview searches for active ones
)

func (c *Console) overview(w http.ResponseWriter, r *http.Request) error {
	workers, failure := c.Workers(r.Context())
	models, err := c.Models(r)
	failure = errors.Join(failure, err)
	var active []progress
	if c.Store != nil {
		page, err := c.Store.Progress(batch.Query{Limit: maxActive})
		failure = errors.Join(failure, err)
		for _, p := range page.Items {
			if !p.Batch.Status.Ended() {
				active = append(active, progress{p})
			}
		}
	}
	queued, err := c.queued(r.Context())
	failure = errors.Join(failure, err)
	queued = slices.DeleteFunc(queued, func(b queuedBatch) bool { return b.Ended() })
	return c.Show(w, r, http.StatusOK, "overview.html", "Overview", failure, struct {
		Models     []Model
		Workers    []queue.Worker
		HasBatches bool
		Active     []progress
		Queued     []queuedBatch
		Throughput Throughput
	}{models, workers, c.Store != nil || c.Queued != nil, active, queued, NewThroughput(c.history.bars(), historyBarSpan, speedOf(workers))})
}

type progress struct{ batch.Progress }

func (p progress) Finished() int {
	return p.Batch.RequestCounts.Completed + p.Batch.RequestCounts.Failed
}

func (p progress) Percent() int {
	return 100 * p.Finished() / max(1, p.Batch.RequestCounts.Total)
}

// Left returns the estimated time until the end as text; empty if it is unknown.
func (p progress) Left() string {
	if p.RowsPerSecond == 0 {
		return ""
	}
	left := p.Batch.RequestCounts.Total - p.Finished()
	return leftText(time.Duration(float64(left) / p.RowsPerSecond * float64(time.Second)))
}

func leftText(left time.Duration) string {
	minutes := int(left.Round(time.Minute).Minutes())
	switch {
	case left == 0:
		return ""
	case left < time.Minute:
		return fmt.Sprintf("%d s left", int(left.Seconds())+1)
	case minutes < 60:
		return fmt.Sprintf("%d min left", minutes)
	default:
		return fmt.Sprintf("%d h %d min left", minutes/60, minutes%60)
	}
}

func (c *Console) batches(w http.ResponseWriter, r *http.Request) error {
	after := r.URL.Query().Get("after")
	content := struct {
		HasStore bool
		Batches  []progress
		Next     string // id of the last batch on this page, after which the next page begins; empty on the last page
		Later    bool   // this page is not the first
		HasQueue bool
		Queued   []queuedBatch
		More     int // number of queued batches that the page does not show
	}{HasStore: c.Store != nil, Later: after != "", HasQueue: c.Queued != nil}
	if c.Store != nil {
		page, err := c.Store.Progress(batch.Query{After: after, Limit: batchesPerPage})
		if err != nil {
			return err
		}
		for _, p := range page.Items {
			content.Batches = append(content.Batches, progress{p})
		}
		if page.More {
			content.Next = page.Items[len(page.Items)-1].Batch.ID
		}
	}
	queued, failure := c.queued(r.Context())
	content.More = max(0, len(queued)-batchesPerPage)
	content.Queued = queued[:len(queued)-content.More]
	return c.Show(w, r, http.StatusOK, "batches.html", "Batches", failure, content)
}

func (c *Console) batch(w http.ResponseWriter, r *http.Request) error {
	p, err := c.Store.BatchProgress(r.PathValue("id"))
	if err != nil {
		return err
	}
	var answers, failures []shownRow
	var failure error
	if p.Batch.Status.Ended() {
		var more error
		answers, failure = c.firstRows(p.Batch.OutputFileID)
		failures, more = c.firstRows(p.Batch.ErrorFileID)
		failure = errors.Join(failure, more)
	}
	return c.Show(w, r, http.StatusOK, "batch.html", "Batch "+p.Batch.ID, failure, struct {
		progress
		Times             []moment
		Answers, Failures []shownRow
	}{progress{p}, moments(p.Batch), answers, failures})
}

// moment is a state of a batch with its time, as Unix seconds.
type moment struct {
	Name string
	At   *int64
}

// moments returns the times of the states that a batch has reached. If the batch has not ended, the
// last moment is the end of its completion window.
func moments(b batch.Batch) (reached []moment) {
	for _, m := range []moment{
		{"Created", &b.CreatedAt}, {"Started", b.InProgressAt}, {"Finalizing", b.FinalizingAt}, {"Cancelling", b.CancellingAt},
		{"Completed", b.CompletedAt}, {"Failed", b.FailedAt}, {"Expired", b.ExpiredAt}, {"Cancelled", b.CancelledAt},
	} {
		if m.At != nil {
			reached = append(reached, m)
		}
	}
	if !b.Status.Ended() {
		reached = append(reached, moment{"Expires", &b.ExpiresAt})
	}
	return reached
}

func (c *Console) cancel(w http.ResponseWriter, r *http.Request) error {
	b, err := c.Store.CancelBatch(r.PathValue("id"))
	if err == nil {
		http.Redirect(w, r, "/console/batches/"+b.ID, http.StatusSeeOther)
	}
	return err
}

type tryPage struct {
	Models []Model
	Answer string
	Asked  bool // there is an answer

	// Values of the form's fields.

	Model, Mode, System, Prompt, MaxTokens, Temperature, TopP, Seed, Stop string
}

// modeContinue is the value of the field mode for a text that the model continues. Any other value
// is a chat.
const modeContinue = "continue"

func (p *tryPage) endpoint() openai.Endpoint {
	if p.Mode == modeContinue {
		return openai.Completions
	}
	return openai.Chat
}

func (c *Console) tryForm(w http.ResponseWriter, r *http.Request) error {
	return c.showTry(w, r, tryPage{MaxTokens: "512", Temperature: "0.7"}, nil)
}

func (c *Console) showTry(w http.ResponseWriter, r *http.Request, p tryPage, failure error) error {
	status := http.StatusOK
	if failure != nil {
		status, _ = c.Problem(r, failure)
	}
	var err error
	if p.Models, err = c.Models(r); failure == nil {
		failure = err
	}
	if p.Model == "" {
		p.Model = firstChoice(p.Models)
	}
	return c.Show(w, r, status, "try.html", "Try a prompt", failure, p)
}

// firstChoice returns the alias of the first model that can chat and has a worker; without one, of
// the first that has a worker, and else of the first.
func firstChoice(models []Model) (alias string) {
	best := -1
	for _, m := range models {
		rank := 0
		if !m.Away {
			rank += 2
		}
		if m.Chat {
			rank++
		}
		if rank > best {
			best, alias = rank, m.Alias
		}
	}
	return alias
}

// try answers the prompt form. The console's script gets the answer as a stream of events, other
// clients get a page.
func (c *Console) try(w http.ResponseWriter, r *http.Request) error {
	if err := r.ParseForm(); err != nil {
		return &openai.Error{Code: "invalid_form", Message: fmt.Sprintf("the form cannot be read: %v", err)}
	}
	p := tryPage{
		Model: r.PostForm.Get("model"), System: r.PostForm.Get("system"), Prompt: r.PostForm.Get("prompt"),
		MaxTokens: r.PostForm.Get("max_tokens"), Temperature: r.PostForm.Get("temperature"),
		Mode: r.PostForm.Get("mode"), TopP: r.PostForm.Get("top_p"), Seed: r.PostForm.Get("seed"), Stop: r.PostForm.Get("stop"),
	}
	body, err := p.request(WantsEvents(r))
	if err != nil {
		return err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	if WantsEvents(r) {
		return c.Stream(w, r, p.endpoint())
	}
	answer, err := c.Answer(r, p.endpoint())
	if err == nil {
		p.Answer, err = contentOf(answer)
	}
	p.Asked = err == nil
	return c.showTry(w, r, p, err)
}

// WantsEvents reports whether a request comes from the console's script, which shows answers while
// they are generated.
func WantsEvents(r *http.Request) bool { return r.Header.Get("Accept") == "text/event-stream" }

// request returns the body of the request that the form stands for.
func (p *tryPage) request(stream bool) ([]byte, error) {
	type message struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}
	fields := map[string]any{"model": p.Model, "stream": stream}
	if stream {
		fields["stream_options"] = map[string]bool{"include_usage": true}
	}
	if p.endpoint() == openai.Completions {
		fields["prompt"] = p.Prompt
	} else {
		var messages []message
		if p.System != "" {
			messages = append(messages, message{"system", p.System})
		}
		fields["messages"] = append(messages, message{"user", p.Prompt})
	}
	var stops []string
	for line := range strings.Lines(p.Stop) {
		if line = strings.TrimRight(line, "\r\n"); line != "" {
			stops = append(stops, line)
		}
	}
	if stops != nil {
		fields["stop"] = stops
	}
	for name, text := range map[string]string{"max_tokens": p.MaxTokens, "temperature": p.Temperature, "top_p": p.TopP, "seed": p.Seed} {
		if text == "" {
			continue
		}
		number := json.Number(text)
		if _, err := number.Float64(); err != nil {
			return nil, &openai.Error{Code: openai.CodeInvalidValue, Param: name, Message: fmt.Sprintf("%q must be a number, not %.100q", name, text)}
		}
		fields[name] = number
	}
	body, err := json.Marshal(fields)
	if err != nil { // a number that ParseFloat accepts but JSON does not, such as 0x10
		return nil, &openai.Error{Code: openai.CodeInvalidValue, Message: "a number in the form is not decimal: write it like 0.7"}
	}
	return body, nil
}

func contentOf(response any) (string, error) {
	text, err := openai.Marshal(response)
	if err != nil {
		return "", fmt.Errorf("encode the answer: %w", err)
	}
	var answer struct {
		Choices []struct {
			Text    string
			Message struct{ Content string }
		}
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return "", fmt.Errorf("decode the answer: %w", err)
	}
	if len(answer.Choices) == 0 {
		return "", errors.New("the answer has no choice")
	}
	return answer.Choices[0].Text + answer.Choices[0].Message.Content, nil
}
