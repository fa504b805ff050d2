package batch_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/openai"
	"github.com/ingot-run/ingot/serve/batch"
	"github.com/ingot-run/ingot/worker"
)

func TestBatchIsAnswered(t *testing.T) {
	t.Parallel()
	s := setUp(t)
	b := create(t, s.Store, "\n"+rowsOf(12)+"\r\n"+bad("bad-1")+bad("bad-2"))
	require.Equal(t, "batch", b.Object)
	require.Equal(t, b.CreatedAt+24*60*60, b.ExpiresAt)
	b = await(t, s.Store, b.ID, ended)
	require.Equal(t, batch.Completed, b.Status)
	require.Equal(t, "micro", b.Model)
	require.Nil(t, b.Errors)
	for _, reached := range []*int64{b.InProgressAt, b.FinalizingAt, b.CompletedAt} {
		require.GreaterOrEqual(t, *reached, b.CreatedAt)
	}
	require.Equal(t, []*int64{nil, nil, nil, nil}, []*int64{b.FailedAt, b.ExpiredAt, b.CancellingAt, b.CancelledAt})
	output, failed := requireWhole(t, s.Store, b, 14)
	require.Len(t, output, 12)
	require.Equal(t, 24, b.Usage.InputTokens)
	require.Equal(t, 24, b.Usage.OutputTokens)
	require.Equal(t, 48, b.Usage.TotalTokens)
	l := failed["bad-1"]
	require.Nil(t, l.Error)
	require.Equal(t, 400, l.Response.StatusCode)
	require.NotEmpty(t, l.Response.RequestID)
	require.JSONEq(t, `{"error":{"message":"line 15: \"temperature\" must be between 0 and 2, not 9","type":"invalid_request_error",
		"param":"temperature","code":"invalid_value"}}`, string(l.Response.Body))
}

func TestBatchWhoseRowsAllFailIsCompleted(t *testing.T) {
	t.Parallel()
	s := setUp(t)
	b := await(t, s.Store, create(t, s.Store, bad("a")+bad("b")).ID, ended)
	require.Equal(t, batch.Completed, b.Status)
	require.Nil(t, b.OutputFileID)
	require.Nil(t, b.Usage)
	_, failed := requireWhole(t, s.Store, b, 2)
	require.Len(t, failed, 2)
}

// The input is checked before any row runs. Every fault names its line and key.
func TestBatchWithFaultsFails(t *testing.T) {
	t.Parallel()
	s := setUp(t)
	with := func(old, replacement string) string { return strings.Replace(row("x"), old, replacement, 1) }
	for _, c := range []struct{ name, line, code, param string }{
		{"not JSON", "{nonsense\n", "invalid_json_line", ""},
		{"not an object", "[1]\n", "invalid_json_line", ""},
		{"null", "null\n", "invalid_json_line", ""},
		{"not UTF-8", with("micro", "\xff"), "invalid_json_line", ""},
		{"no custom_id", with(`"custom_id":"x",`, ""), "missing_required_parameter", "custom_id"},
		{"null custom_id", with(`"x"`, "null"), "missing_required_parameter", "custom_id"},
		{"number as custom_id", with(`"x"`, "7"), "invalid_type", "custom_id"},
		{"long custom_id", with(`"x"`, `"`+strings.Repeat("x", 600)+`"`), "invalid_value", "custom_id"},
		{"duplicate", row("first"), "duplicate_custom_id", "custom_id"},
		{"no method", with(`"method":"POST",`, ""), "missing_required_parameter", "method"},
		{"other method", with("POST", "GET"), "invalid_value", "method"},
		{"no url", with(`"url":"/v1/completions",`, ""), "missing_required_parameter", "url"},
		{"other url", with("/v1/completions", "/v1/chat/completions"), "url_mismatch", "url"},
		{"no body", with(`"body"`, `"bodi"`), "missing_required_parameter", "body"},
		{"text as body", `{"custom_id":"x","method":"POST","url":"/v1/completions","body":"{}"}` + "\n", "invalid_type", "body"},
		{"stream", with(`"max_tokens":2`, `"stream":true`), "invalid_value", "body.stream"},
		{"other model", with("micro", "macro"), "model_mismatch", "body.model"},
		{"empty custom_id", with(`"x"`, `""`), "invalid_value", "custom_id"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := await(t, s.Store, create(t, s.Store, row("first")+"\n"+c.line+row("last")).ID, ended)
			require.Equal(t, batch.Failed, b.Status)
			require.NotNil(t, b.FailedAt)
			require.Nil(t, b.OutputFileID)
			require.Nil(t, b.ErrorFileID)
			require.Equal(t, "list", b.Errors.Object)
			require.Len(t, b.Errors.Data, 1)
			f := b.Errors.Data[0]
			require.Equal(t, c.code, f.Code, f.Message)
			require.Equal(t, 3, *f.Line)
			require.Contains(t, f.Message, "line 3: ")
			if c.param == "" {
				require.Nil(t, f.Param)
			} else {
				require.Equal(t, c.param, *f.Param)
			}
		})
	}
}

func TestBatchHasOneModel(t *testing.T) {
	t.Parallel()
	s := setUp(t)
	b := await(t, s.Store, create(t, s.Store, rowsOf(1)+strings.ReplaceAll(strings.ReplaceAll(rowsOf(1), "micro", "macro"), `"custom_id":"`, `"custom_id":"other`)).ID, ended)
	require.Equal(t, batch.Failed, b.Status)
	require.Equal(t, `line 2: "body.model" is "macro", but an earlier line names "micro": all lines of a batch have the same model`, b.Errors.Data[0].Message)
}

func TestBatchNamesAtMostSoManyFaults(t *testing.T) {
	t.Parallel()
	s := setUp(t)
	b := await(t, s.Store, create(t, s.Store, "{}\n"+strings.Repeat("null\n", 1500)).ID, ended)
	require.Equal(t, batch.Failed, b.Status)
	require.Len(t, b.Errors.Data, 1000)
	require.Contains(t, b.Errors.Data[999].Message, "501 more lines")
}

func TestBatchNeedsAModelThatThereIs(t *testing.T) {
	t.Parallel()
	s := setUp(t)
	b := await(t, s.Store, create(t, s.Store, strings.ReplaceAll(rowsOf(2), "micro", "macro")).ID, ended)
	require.Equal(t, batch.Failed, b.Status)
	require.Equal(t, "model_not_found", b.Errors.Data[0].Code)
	require.Contains(t, b.Errors.Data[0].Message, `is "macro": use "micro"`)

	b = await(t, s.Store, create(t, s.Store, strings.ReplaceAll(rowsOf(2), `"model":"micro",`, "")).ID, ended)
	require.Equal(t, batch.Completed, b.Status, "rows need not name the model of a server with one model")

	b, err := s.CreateBatch(batch.Request{InputFileID: upload(t, s.Store, rowsOf(1)).ID, Endpoint: openai.Completions, Models: []string{"other"}})
	require.NoError(t, err)
	b = await(t, s.Store, b.ID, ended)
	require.Equal(t, batch.Failed, b.Status)
	require.Equal(t, "model_not_found", b.Errors.Data[0].Code)
	require.Contains(t, b.Errors.Data[0].Message, "API key")
}

func TestCreateBatchRefuses(t *testing.T) {
	t.Parallel()
	s := setUp(t)
	input := upload(t, s.Store, rowsOf(1)).ID
	other, err := s.NewUpload()
	require.NoError(t, err)
	notInput, err := s.AddFile(other, "x.txt", "user_data", 0)
	require.NoError(t, err)
	many := map[string]string{}
	for i := range 17 {
		many[fmt.Sprint(i)] = ""
	}
	for _, c := range []struct {
		param string
		q     batch.Request
	}{
		{"input_file_id", batch.Request{Endpoint: openai.Chat}},
		{"input_file_id", batch.Request{InputFileID: "file-none", Endpoint: openai.Chat}},
		{"input_file_id", batch.Request{InputFileID: notInput.ID, Endpoint: openai.Chat}},
		{"endpoint", batch.Request{InputFileID: input}},
		{"endpoint", batch.Request{InputFileID: input, Endpoint: "/v1/embeddings"}},
		{"completion_window", batch.Request{InputFileID: input, Endpoint: openai.Chat, CompletionWindow: "soon"}},
		{"completion_window", batch.Request{InputFileID: input, Endpoint: openai.Chat, CompletionWindow: "-24h"}},
		{"completion_window", batch.Request{InputFileID: input, Endpoint: openai.Chat, CompletionWindow: "31d"}},
		{"metadata", batch.Request{InputFileID: input, Endpoint: openai.Chat, Metadata: many}},
		{"metadata", batch.Request{InputFileID: input, Endpoint: openai.Chat, Metadata: map[string]string{strings.Repeat("é", 65): ""}}},
		{"metadata", batch.Request{InputFileID: input, Endpoint: openai.Chat, Metadata: map[string]string{"a": strings.Repeat("é", 513)}}},
		{"output_expires_after", batch.Request{InputFileID: input, Endpoint: openai.Chat, OutputExpiry: time.Minute}},
	} {
		_, err := s.CreateBatch(c.q)
		var refused *batch.RequestError
		require.ErrorAs(t, err, &refused)
		require.Equal(t, c.param, refused.Param, refused.Message)
	}
	page, err := s.Batches(batch.Query{Limit: 1})
	require.NoError(t, err)
	require.Empty(t, page.Items)

	delete(many, "16")
	many["15"] = strings.Repeat("é", 512)
	delete(many, "14")
	many[strings.Repeat("é", 64)] = ""
	require.Len(t, many, 16)
	_, err = s.CreateBatch(batch.Request{InputFileID: input, Endpoint: openai.Chat, Metadata: many, CompletionWindow: "30d", OutputExpiry: time.Hour})
	require.NoError(t, err, "the limits include their ends")
}

// After a batch is cancelled, the output has the rows that were answered before, and the error file
// has the others.
func TestBatchIsCancelled(t *testing.T) {
	t.Parallel()
	s := setUpGated(t, t.TempDir())
	b := create(t, s.Store, rowsOf(40))
	for range 10 {
		s.gate.free <- struct{}{}
	}
	b = await(t, s.Store, b.ID, func(b batch.Batch) bool { return b.RequestCounts.Completed == 10 })
	second := create(t, s.Store, rowsOf(3)) // waits until the first batch has ended
	require.Equal(t, batch.InProgress, b.Status)
	require.ErrorContains(t, s.DeleteFile(b.InputFileID), "cancel the batch")
	b, err := s.CancelBatch(b.ID)
	require.NoError(t, err)
	require.NotNil(t, b.CancellingAt)
	b = await(t, s.Store, b.ID, ended)
	require.Equal(t, batch.Cancelled, b.Status)
	require.NotNil(t, b.CancelledAt)
	output, failed := requireWhole(t, s.Store, b, 40)
	require.Len(t, output, 10)
	for _, l := range failed {
		require.Nil(t, l.Response)
		require.Equal(t, "batch_cancelled", l.Error.Code)
	}
	again, err := s.CancelBatch(b.ID)
	require.NoError(t, err)
	require.Equal(t, b, again)
	require.NoError(t, s.DeleteFile(b.InputFileID))

	close(s.gate.free)
	second = await(t, s.Store, second.ID, ended)
	require.Equal(t, batch.Completed, second.Status)
	_, err = s.CancelBatch(second.ID)
	require.ErrorContains(t, err, "cannot be cancelled")
	_, err = s.CancelBatch("batch_none")
	require.ErrorIs(t, err, batch.ErrNoBatch)
}

// A batch that waits for another batch is cancelled at once.
func TestWaitingBatchIsCancelled(t *testing.T) {
	t.Parallel()
	s := setUpGated(t, t.TempDir())
	first := create(t, s.Store, rowsOf(3))
	await(t, s.Store, first.ID, func(b batch.Batch) bool { return b.Status == batch.InProgress })
	second := create(t, s.Store, rowsOf(4))
	await(t, s.Store, second.ID, func(b batch.Batch) bool { return b.Status == batch.InProgress })
	_, err := s.CancelBatch(second.ID)
	require.NoError(t, err)
	second = await(t, s.Store, second.ID, ended)
	require.Equal(t, batch.Cancelled, second.Status)
	_, failed := requireWhole(t, s.Store, second, 4)
	require.Len(t, failed, 4)
	close(s.gate.free)
	first = await(t, s.Store, first.ID, ended)
	require.Equal(t, batch.Completed, first.Status)
}

// A batch that is cancelled before its input was read has no files. If the server ends while a
// batch is being cancelled, the next server cancels the batch.
func TestBatchIsCancelledByTheNextServer(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	s, err := batch.Open(folder, batch.Options{Logger: quiet})
	require.NoError(t, err)
	b := create(t, s, rowsOf(3)) // no server runs the batch
	b, err = s.CancelBatch(b.ID)
	require.NoError(t, err)
	require.Equal(t, batch.Cancelling, b.Status)
	require.NoError(t, s.Close())
	next := setUpGated(t, folder)
	b = await(t, next.Store, b.ID, ended)
	require.Equal(t, batch.Cancelled, b.Status)
	requireWhole(t, next.Store, b, 0)
}

func TestBatchExpires(t *testing.T) {
	t.Parallel()
	s := setUpGated(t, t.TempDir())
	b, err := s.CreateBatch(batch.Request{InputFileID: upload(t, s.Store, rowsOf(5)).ID, Endpoint: openai.Completions, CompletionWindow: "2s"})
	require.NoError(t, err)
	s.gate.free <- struct{}{} // one row may be answered
	b = await(t, s.Store, b.ID, ended)
	require.Equal(t, batch.Expired, b.Status)
	require.NotNil(t, b.ExpiredAt)
	if b.InProgressAt == nil {
		t.Skip("the machine was too busy to check the input within two seconds")
	}
	_, failed := requireWhole(t, s.Store, b, 5)
	require.NotEmpty(t, failed)
	for _, l := range failed {
		require.Nil(t, l.Response)
		require.Equal(t, "batch_expired", l.Error.Code)
	}
}

// A client that received no response sends its request again.
func TestRepeatedRequestMakesOneBatch(t *testing.T) {
	t.Parallel()
	s := setUp(t)
	q := batch.Request{InputFileID: upload(t, s.Store, rowsOf(1)).ID, Endpoint: openai.Completions, CompletionWindow: "24h", Metadata: map[string]string{"n": "1"}}
	first, err := s.CreateBatch(q)
	require.NoError(t, err)
	q.Repeated = true
	again, err := s.CreateBatch(q)
	require.NoError(t, err)
	require.Equal(t, first.ID, again.ID)
	q.Metadata = map[string]string{"n": "2"}
	other, err := s.CreateBatch(q)
	require.NoError(t, err)
	require.NotEqual(t, first.ID, other.ID)
	q.Metadata, q.Repeated = map[string]string{"n": "1"}, false
	second, err := s.CreateBatch(q)
	require.NoError(t, err)
	require.NotEqual(t, first.ID, second.ID)
}

// A list of batches shows the progress of running batches.
func TestProgress(t *testing.T) {
	t.Parallel()
	s := setUpGated(t, t.TempDir())
	b := create(t, s.Store, rowsOf(20))
	for range 5 {
		s.gate.free <- struct{}{}
	}
	await(t, s.Store, b.ID, func(b batch.Batch) bool { return b.RequestCounts.Completed == 5 })
	var p batch.Progress
	require.Eventually(t, func() bool { // the speed is updated after the counts
		page, err := s.Progress(batch.Query{Limit: 10})
		require.NoError(t, err)
		require.Len(t, page.Items, 1)
		p = page.Items[0]
		return p.Tokens.Completion == 10
	}, patience, time.Millisecond)
	require.Equal(t, batch.Counts{Total: 20, Completed: 5}, p.Batch.RequestCounts)
	close(s.gate.free)
	await(t, s.Store, b.ID, ended)
	page, err := s.Progress(batch.Query{Limit: 10})
	require.NoError(t, err)
	require.Zero(t, page.Items[0].RowsPerSecond)
}

// A batch is not continued with a different model of the same name.
func TestBatchIsNotContinuedByAnotherModel(t *testing.T) {
	t.Parallel()
	s := setUpGated(t, t.TempDir())
	b := create(t, s.Store, rowsOf(6))
	s.gate.free <- struct{}{}
	await(t, s.Store, b.ID, func(b batch.Batch) bool { return b.RequestCounts.Completed == 1 })
	s.stop()
	s = start(t, s.folder, s.gate, batch.NewAlone(map[string]worker.Engine{"micro": otherModel{s.gate}}, batch.AloneOptions{Concurrency: 8, Logger: quiet}))
	b = await(t, s.Store, b.ID, ended)
	require.Equal(t, batch.Failed, b.Status)
	require.Contains(t, b.Errors.Data[0].Message, "another model")
	output, failed := requireWhole(t, s.Store, b, 6)
	require.Len(t, output, 1)
	require.Equal(t, "batch_failed", failed["row-6"].Error.Code)
}

type otherModel struct{ gated }

func (otherModel) SHA256(context.Context) (string, error) { return strings.Repeat("0", 64), nil }

// TestTheLogOfABatch: the server's log has the end of a batch, and nothing that reads as if the
// server stopped.
func TestTheLogOfABatch(t *testing.T) {
	t.Parallel()
	var text bytes.Buffer // the handler's lock guards it until the store has stopped
	log := slog.New(slog.NewTextHandler(&text, nil))
	gate := setUpGated(t, t.TempDir()).gate
	alone := batch.NewAlone(map[string]worker.Engine{"micro": gate.Engine}, batch.AloneOptions{Concurrency: 8, Logger: log})
	s := startLogging(t, t.TempDir(), gate, alone, log)
	await(t, s.Store, create(t, s.Store, rowsOf(2)).ID, ended)
	s.stop()
	require.Contains(t, text.String(), "batch has ended")
	require.NotContains(t, text.String(), "stopp")
	require.NotContains(t, text.String(), "no more jobs")
}

// The JSON of a batch has all keys of OpenAI's object.
func TestBatchHasAllKeys(t *testing.T) {
	t.Parallel()
	s := setUpGated(t, t.TempDir())
	text, err := json.Marshal(create(t, s.Store, rowsOf(1)))
	require.NoError(t, err)
	var keys map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(text, &keys))
	for _, key := range []string{
		"errors", "output_file_id", "error_file_id", "in_progress_at", "finalizing_at", "completed_at", "failed_at", "expired_at",
		"cancelling_at", "cancelled_at", "metadata",
	} {
		require.Equal(t, "null", string(keys[key]), key)
	}
	require.JSONEq(t, `{"total":0,"completed":0,"failed":0}`, string(keys["request_counts"]))
}

// Somebody who sends questions as prompts to a model for chats is told so, as is somebody whose
// answers are empty. Errors do not advise flags of a command line, which a client does not have.
func TestBatchWarns(t *testing.T) {
	t.Parallel()
	s := setUp(t)
	text := func(id, fields string) string {
		return `{"custom_id":"` + id + `","method":"POST","url":"/v1/completions","body":{"model":"micro","prompt":"What is new?","temperature":0,` + fields + `}}` + "\n"
	}
	b := await(t, s.Store, create(t, s.Store, text("a", `"max_tokens":3,"return_token_ids":true`)+text("b", `"max_tokens":3`)+row("ids")+text("odd", `"odd":1`)).ID, ended)
	require.Equal(t, batch.Completed, b.Status)
	require.Equal(t, []string{"the model is for chats, but it continues the prompt of 3 rows as text: for answers, send messages to /v1/chat/completions"}, b.Warnings)
	output, failed := requireWhole(t, s.Store, b, 4)
	var body struct{ Model string }
	require.NoError(t, json.Unmarshal(output["a"].Response.Body, &body))
	require.Equal(t, "micro", body.Model)
	require.Contains(t, string(failed["odd"].Response.Body), `\"odd\" is unknown: remove it`)
	require.NotContains(t, string(failed["odd"].Response.Body), "--")

	quiet := await(t, s.Store, create(t, s.Store, row("ids")).ID, ended)
	require.Empty(t, quiet.Warnings)
	var answer struct {
		Choices []struct {
			IDs []int32 `json:"token_ids"`
		}
	}
	require.NoError(t, json.Unmarshal(output["a"].Response.Body, &answer))
	stop := fmt.Sprintf(`"stop_token_ids":[%d]`, answer.Choices[0].IDs[0])
	b = await(t, s.Store, create(t, s.Store, text("a", stop)+text("b", stop)).ID, ended)
	require.Len(t, b.Warnings, 2)
	require.Contains(t, b.Warnings[1], "2 answers are empty: ")
}
