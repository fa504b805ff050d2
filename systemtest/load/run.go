package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"strings"
	"sync"
	"time"
)

type options struct {
	url, model string
	clients    int
	time       time.Duration
	idle       int
	rows       int
	tokens     int
}

const memorySamples = 6

func run(ctx context.Context, o options) (*report, error) {
	l := &load{options: o, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: o.clients}}, report: &report{}}
	for i := range o.idle {
		first, _, err := l.chat(ctx, i, true)
		if err != nil {
			return nil, fmt.Errorf("send a chat to the idle server: %w", err)
		}
		l.report.idle = append(l.report.idle, first)
	}
	batch := ""
	if o.rows > 0 {
		var err error
		if batch, err = l.startBatch(ctx); err != nil {
			return nil, fmt.Errorf("start a batch: %w", err)
		}
	}
	l.sampleMemory(ctx)
	l.clients(ctx)
	l.sampleMemory(ctx)
	if batch != "" {
		if err := l.endBatch(ctx, batch); err != nil {
			return nil, fmt.Errorf("end the batch: %w", err)
		}
	}
	return l.report, ctx.Err()
}

type load struct {
	options
	client *http.Client

	mu     sync.Mutex
	report *report
}

// clients sends chats with all clients at once until the time is over. Every second client streams.
func (l *load) clients(ctx context.Context) {
	end := time.Now().Add(l.time)
	var asking sync.WaitGroup
	for c := range l.options.clients {
		asking.Go(func() {
			for i := 0; time.Now().Before(end) && ctx.Err() == nil; i++ {
				first, tokens, err := l.chat(ctx, c+i*l.options.clients, c%2 == 0)
				l.mu.Lock()
				l.report.requests++
				l.report.tokens += tokens
				switch {
				case err != nil:
					if l.report.failed++; l.report.failed == 1 {
						l.report.failure = err.Error()
					}
				case c%2 == 0:
					l.report.loaded = append(l.report.loaded, first)
				}
				l.mu.Unlock()
			}
		})
	}
	asking.Go(func() {
		for range memorySamples {
			select {
			case <-ctx.Done():
				return
			case <-time.After(l.time / (memorySamples + 1)):
				l.sampleMemory(ctx)
			}
		}
	})
	asking.Wait()
}

func (l *load) chat(ctx context.Context, number int, stream bool) (first time.Duration, tokens int, err error) {
	body := fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"Question %d: tell a story."}],"max_tokens":%d,"ignore_eos":true,"stream":%t`,
		l.model, number, l.tokens, stream)
	if stream {
		body += `,"stream_options":{"include_usage":true}`
	}
	start := time.Now()
	response, err := l.send(ctx, http.MethodPost, "/v1/chat/completions", "application/json", strings.NewReader(body+"}"))
	if err != nil {
		return 0, 0, err
	}
	defer response.Body.Close() //nolint:errcheck // the body was only read
	if !stream {
		var whole struct{ Usage usage }
		err := json.NewDecoder(response.Body).Decode(&whole)
		return 0, whole.Usage.Tokens, err
	}
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		switch {
		case !ok:
			continue
		case data == "[DONE]":
			return first, tokens, nil
		case first == 0:
			first = time.Since(start)
		}
		var chunk struct {
			Usage *usage
			Error *json.RawMessage
		}
		if err := json.Unmarshal([]byte(data), &chunk); err != nil {
			return 0, 0, err
		}
		if chunk.Error != nil {
			return 0, 0, fmt.Errorf("error in a stream: %s", *chunk.Error)
		}
		if chunk.Usage != nil {
			tokens = chunk.Usage.Tokens
		}
	}
	return 0, 0, fmt.Errorf("a stream ended early: %w", cmp.Or(lines.Err(), io.ErrUnexpectedEOF))
}

type usage struct {
	Tokens int `json:"completion_tokens"`
}

func (l *load) send(ctx context.Context, method, path, contentType string, body io.Reader) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, l.url+path, body)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", contentType)
	response, err := l.client.Do(r)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		defer response.Body.Close() //nolint:errcheck // the status is reported as the error
		text, _ := io.ReadAll(io.LimitReader(response.Body, 1000))
		return nil, fmt.Errorf("%s %s: %s: %s", method, path, response.Status, text)
	}
	return response, nil
}

func (l *load) call(ctx context.Context, method, path, contentType string, body io.Reader, into any) error {
	response, err := l.send(ctx, method, path, contentType, body)
	if err != nil {
		return err
	}
	defer response.Body.Close() //nolint:errcheck // the body was only read
	return json.NewDecoder(response.Body).Decode(into)
}

// startBatch starts a batch of chats whose answers are longer than those of the clients. It returns
// when the batch runs.
func (l *load) startBatch(ctx context.Context) (id string, err error) {
	var form bytes.Buffer
	w := multipart.NewWriter(&form)
	file, err := w.CreateFormFile("file", "rows.jsonl")
	if err != nil {
		return "", err
	}
	for i := range l.rows {
		fmt.Fprintf(file, `{"custom_id":"row-%d","method":"POST","url":"/v1/chat/completions","body":{"model":%q,`+ //nolint:errcheck // a bytes.Buffer
			`"messages":[{"role":"user","content":"Row %d: tell a long story."}],"max_tokens":200,"ignore_eos":true}}`+"\n", i, l.model, i)
	}
	if err := w.WriteField("purpose", "batch"); err != nil {
		return "", err
	}
	if err := w.Close(); err != nil {
		return "", err
	}
	var made struct{ ID string }
	if err := l.call(ctx, http.MethodPost, "/v1/files", w.FormDataContentType(), &form, &made); err != nil {
		return "", err
	}
	body := fmt.Sprintf(`{"input_file_id":%q,"endpoint":"/v1/chat/completions","completion_window":"24h"}`, made.ID)
	if err := l.call(ctx, http.MethodPost, "/v1/batches", "application/json", strings.NewReader(body), &made); err != nil {
		return "", err
	}
	for { // until the batch runs
		b, err := l.batch(ctx, made.ID)
		if err != nil || b.Status != "validating" {
			return made.ID, err
		}
	}
}

type batchStatus struct {
	Status string `json:"status"`
	Counts struct {
		Completed int `json:"completed"`
		Failed    int `json:"failed"`
	} `json:"request_counts"`
}

func (l *load) batch(ctx context.Context, id string) (b batchStatus, err error) {
	err = l.call(ctx, http.MethodGet, "/v1/batches/"+id, "", nil, &b)
	return b, err
}

func (l *load) endBatch(ctx context.Context, id string) error {
	b, err := l.batch(ctx, id)
	if err != nil {
		return err
	}
	l.report.rows = b.Counts.Completed
	if b.Counts.Failed > 0 {
		return fmt.Errorf("%d rows of the batch failed", b.Counts.Failed)
	}
	if b.Status == "completed" {
		return nil
	}
	return l.call(ctx, http.MethodPost, "/v1/batches/"+id+"/cancel", "application/json", nil, &b)
}

// sampleMemory records the server's resident memory. It records nothing if the server does not
// report it.
func (l *load) sampleMemory(ctx context.Context) {
	response, err := l.send(ctx, http.MethodGet, "/metrics", "", nil)
	if err != nil {
		return
	}
	defer response.Body.Close() //nolint:errcheck // the body was only read
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		var bytes float64
		if n, _ := fmt.Sscanf(lines.Text(), "process_resident_memory_bytes %g", &bytes); n == 1 {
			l.mu.Lock()
			l.report.memory = append(l.report.memory, int64(bytes))
			l.mu.Unlock()
		}
	}
}
