package serve_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"mime/multipart"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/internal/openfiles"
	"github.com/ingot-run/ingot/serve"
	"github.com/ingot-run/ingot/serve/batch"
)

// setUpStore starts a server with files and batches, and runs the batches.
func setUpStore(t testing.TB) *bench {
	t.Helper()
	b, run := setUpIdleStore(t)
	run()
	return b
}

// setUpIdleStore starts a server with files and batches. The batches run after run is called.
func setUpIdleStore(t testing.TB) (b *bench, run func()) {
	t.Helper()
	return setUpStoreOf(t, func(b *bench) batch.Runner {
		return batch.NewAlone(map[string]*engine.Engine{"tiny": b.engine}, batch.AloneOptions{Concurrency: 4, Logger: slog.New(slog.DiscardHandler)})
	})
}

// setUpStoreOf starts a server with files and batches. The given runner answers them after run is
// called.
func setUpStoreOf(t testing.TB, runner func(*bench) batch.Runner) (b *bench, run func()) {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	store, err := batch.Open(t.TempDir(), batch.Options{MaxFileBytes: 100_000, Logger: quiet})
	require.NoError(t, err)
	b = setUp(t, func(o *serve.Options) { o.Store = store })
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		running.Wait()
		require.NoError(t, store.Close())
	})
	return b, func() {
		running.Go(func() { store.Run(ctx, runner(b)) })
	}
}

// part is a field of a form.
type part struct{ name, file, text string }

// form uploads a form with the parts in the given order.
func (b *bench) form(t testing.TB, parts ...part) response {
	t.Helper()
	var body bytes.Buffer
	w := multipart.NewWriter(&body)
	for _, p := range parts {
		var field io.Writer
		var err error
		if p.file != "" {
			field, err = w.CreateFormFile(p.name, p.file)
		} else {
			field, err = w.CreateFormField(p.name)
		}
		require.NoError(t, err)
		_, err = io.WriteString(field, p.text)
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return b.send(t, http.MethodPost, "/v1/files", body.String(), "Content-Type", w.FormDataContentType())
}

func chatRow(id string, more string) string {
	return fmt.Sprintf(`{"custom_id":%q,"method":"POST","url":"/v1/chat/completions","body":{"max_tokens":3,`+hello[:len(hello)-1]+`]%s}}`+"\n", id, more)
}

type fileBody struct {
	ID       string `json:"id"`
	Object   string `json:"object"`
	Bytes    int    `json:"bytes"`
	Filename string `json:"filename"`
	Purpose  string `json:"purpose"`
	Status   string `json:"status"`
	Expires  *int64 `json:"expires_at"`
	Created  int64  `json:"created_at"`
	Deleted  bool   `json:"deleted"`
}

func decode[T any](t testing.TB, got response) (v T) {
	t.Helper()
	require.Equal(t, http.StatusOK, got.status, got.text)
	require.Equal(t, "application/json", got.header.Get("Content-Type"))
	require.NoError(t, json.Unmarshal([]byte(got.text), &v), got.text)
	return v
}

func TestFilesOverHTTP(t *testing.T) {
	t.Parallel()
	b := setUpStore(t)
	text := chatRow("a", "")
	f := decode[fileBody](t, b.form(t, part{"file", "rows.jsonl", text}, part{"purpose", "", "batch"},
		part{"expires_after[anchor]", "", "created_at"}, part{"expires_after[seconds]", "", "3600"}))
	require.Equal(t, fileBody{f.ID, "file", len(text), "rows.jsonl", "batch", "processed", f.Expires, f.Created, false}, f)
	require.Equal(t, f.Created+3600, *f.Expires)
	second := decode[fileBody](t, b.form(t, part{"purpose", "", "user_data"}, part{"file", `ü "1".txt`, ""}))
	require.Equal(t, f, decode[fileBody](t, b.send(t, "GET", "/v1/files/"+f.ID, "")))

	content := b.send(t, "GET", "/v1/files/"+f.ID+"/content", "", "Accept", "application/binary")
	require.Equal(t, http.StatusOK, content.status)
	require.Equal(t, text, content.text)
	require.Equal(t, "application/octet-stream", content.header.Get("Content-Type"))
	require.Equal(t, "attachment; filename=rows.jsonl", content.header.Get("Content-Disposition"))
	part2 := b.send(t, "GET", "/v1/files/"+f.ID+"/content", "", "Range", "bytes=1-3")
	require.Equal(t, http.StatusPartialContent, part2.status)
	require.Equal(t, text[1:4], part2.text)
	require.Eventually(t, func() bool { return len(openfiles.Paths(t, f.ID)) == 0 }, 5*time.Second, time.Millisecond, "a file is closed when it was sent")

	type list struct {
		Object  string     `json:"object"`
		Data    []fileBody `json:"data"`
		FirstID *string    `json:"first_id"`
		LastID  *string    `json:"last_id"`
		HasMore bool       `json:"has_more"`
	}
	page := decode[list](t, b.send(t, "GET", "/v1/files?limit=1", ""))
	require.Equal(t, list{"list", []fileBody{second}, &second.ID, &second.ID, true}, page)
	page = decode[list](t, b.send(t, "GET", "/v1/files?limit=1&after="+second.ID, ""))
	require.Equal(t, list{"list", []fileBody{f}, &f.ID, &f.ID, false}, page)
	page = decode[list](t, b.send(t, "GET", "/v1/files?order=asc&purpose=batch", ""))
	require.Equal(t, []fileBody{f}, page.Data)
	require.JSONEq(t, `{"object":"list","data":[],"first_id":null,"last_id":null,"has_more":false}`, b.send(t, "GET", "/v1/files?purpose=evals", "").text)
	for query, param := range map[string]string{"limit=0": "limit", "limit=x": "limit", "limit=10001": "limit", "order=up": "order", "after=batch_1": "after"} {
		require.Equal(t, param, b.fails(t, 400, "GET", "/v1/files?"+query, "").Param)
	}

	deleted := decode[fileBody](t, b.send(t, "DELETE", "/v1/files/"+f.ID, ""))
	require.Equal(t, fileBody{ID: f.ID, Object: "file", Deleted: true}, deleted)
	for _, c := range [][2]string{{"GET", ""}, {"DELETE", ""}, {"GET", "/content"}} {
		require.Equal(t, "file_not_found", b.fails(t, 404, c[0], "/v1/files/"+f.ID+c[1], "").Code)
	}
}

// A form has the size of its file and, beyond it, room for the other fields.
func TestUploadOfTheLargestFile(t *testing.T) {
	t.Parallel()
	b := setUpStore(t)
	f := decode[fileBody](t, b.form(t, part{"purpose", "", "user_data"}, part{"file", "a", strings.Repeat("a", 100_000)}))
	require.Equal(t, 100_000, f.Bytes)
	got := b.form(t, part{"purpose", "", "user_data"}, part{"file", "a", strings.Repeat("a", 100_001)})
	require.Equal(t, http.StatusRequestEntityTooLarge, got.status)
	require.Contains(t, got.text, "larger than 100000 bytes")
}

func TestUploadsThatAreRefused(t *testing.T) {
	t.Parallel()
	b := setUpStore(t)
	row, purpose := part{"file", "a.jsonl", chatRow("a", "")}, part{"purpose", "", "batch"}
	for _, c := range []struct {
		parts  []part
		status int
		param  string
	}{
		{[]part{row}, 400, "purpose"},
		{[]part{row, {"purpose", "", "fun"}}, 400, "purpose"},
		{[]part{purpose}, 400, "file"},
		{[]part{row, row, purpose}, 400, "file"},
		{[]part{row, purpose, {"color", "", "red"}}, 400, "color"},
		{[]part{{"file", "a.jsonl", "hello"}, purpose}, 400, "file"},
		{[]part{{"file", "a.jsonl", strings.Repeat("x", 100_001)}, purpose}, 413, "file"},
		{[]part{{"file", "a.jsonl", strings.Repeat("x", 300_000)}, purpose}, 413, "file"},
		{[]part{row, purpose, {"expires_after[anchor]", "", "now"}, {"expires_after[seconds]", "", "3600"}}, 400, "expires_after[anchor]"},
		{[]part{row, purpose, {"expires_after[anchor]", "", "created_at"}, {"expires_after[seconds]", "", "x"}}, 400, "expires_after[seconds]"},
		{[]part{row, purpose, {"expires_after[anchor]", "", "created_at"}, {"expires_after[seconds]", "", "60"}}, 400, "expires_after"},
	} {
		got := b.form(t, c.parts...)
		require.Equal(t, c.status, got.status, got.text)
		var e struct{ Error errorDetail }
		require.NoError(t, json.Unmarshal([]byte(got.text), &e))
		require.Equal(t, c.param, e.Error.Param, got.text)
	}
	b.fails(t, 400, "POST", "/v1/files", "{}", "Content-Type", "application/json")
	b.fails(t, 400, "POST", "/v1/files", "--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\nhalf", "Content-Type", "multipart/form-data; boundary=x")
	require.JSONEq(t, `{"object":"list","data":[],"first_id":null,"last_id":null,"has_more":false}`, b.send(t, "GET", "/v1/files", "").text)
}

func (b *bench) batch(t testing.TB, method, path string) batch.Batch {
	t.Helper()
	return decode[batch.Batch](t, b.send(t, method, "/v1/batches/"+path, ""))
}

func TestBatchesOverHTTP(t *testing.T) {
	t.Parallel()
	b := setUpStore(t)
	f := decode[fileBody](t, b.form(t, part{"file", "a.jsonl", chatRow("a", "") + chatRow("b", `,"temperature":3`)}, part{"purpose", "", "batch"}))
	create := fmt.Sprintf(`{"input_file_id":%q,"endpoint":"/v1/chat/completions","completion_window":"24h","metadata":{"a":"b"},`+
		`"output_expires_after":{"anchor":"created_at","seconds":7200}}`, f.ID)
	var made batch.Batch
	b.post(t, "/v1/batches", create, &made)
	require.Equal(t, map[string]string{"a": "b"}, made.Metadata)
	require.Eventually(t, func() bool { return b.batch(t, "GET", made.ID).Status.Ended() }, time.Minute, 5*time.Millisecond)
	ended := b.batch(t, "GET", made.ID)
	require.Equal(t, batch.Completed, ended.Status)
	require.Equal(t, batch.Counts{Total: 2, Completed: 1, Failed: 1}, ended.RequestCounts)
	var line struct {
		Response struct {
			StatusCode int          `json:"status_code"`
			Body       chatResponse `json:"body"`
		} `json:"response"`
	}
	output := b.send(t, "GET", "/v1/files/"+*ended.OutputFileID+"/content", "")
	require.NoError(t, json.Unmarshal([]byte(output.text), &line))
	require.Equal(t, 200, line.Response.StatusCode)
	require.Positive(t, line.Response.Body.Usage.Completion)
	file := decode[fileBody](t, b.send(t, "GET", "/v1/files/"+*ended.ErrorFileID, ""))
	require.Equal(t, "batch_output", file.Purpose)
	require.Equal(t, file.Created+7200, *file.Expires)

	// OpenAI's Node client sends the number of retries in a header.
	again := b.send(t, "POST", "/v1/batches", create, "X-Stainless-Retry-Count", "1")
	require.Equal(t, made.ID, decode[batch.Batch](t, again).ID)
	first := b.send(t, "POST", "/v1/batches", create, "X-Stainless-Retry-Count", "0")
	second := decode[batch.Batch](t, first)
	require.NotEqual(t, made.ID, second.ID)
	var page struct {
		Data    []batch.Batch `json:"data"`
		HasMore bool          `json:"has_more"`
	}
	require.NoError(t, json.Unmarshal([]byte(b.send(t, "GET", "/v1/batches?limit=1", "").text), &page))
	require.Equal(t, second.ID, page.Data[0].ID)
	require.True(t, page.HasMore)
	require.NoError(t, json.Unmarshal([]byte(b.send(t, "GET", "/v1/batches?limit=1&after="+second.ID, "").text), &page))
	require.Equal(t, made.ID, page.Data[0].ID)
	require.False(t, page.HasMore)

	require.Equal(t, "batch_id", b.fails(t, 400, "POST", "/v1/batches/"+made.ID+"/cancel", "").Param)
	require.Equal(t, "batch_not_found", b.fails(t, 404, "GET", "/v1/batches/batch_none", "").Code)
	require.Equal(t, "batch_not_found", b.fails(t, 404, "POST", "/v1/batches/batch_none/cancel", "").Code)
	for body, param := range map[string]string{
		`{`:                      "",
		`[]`:                     "",
		`{}`:                     "input_file_id",
		`{"input_file_id":7}`:    "input_file_id",
		`{"input_file_id":null}`: "input_file_id",
		`{"input_file_id":"file-none","endpoint":"/v1/completions"}`:                                                         "input_file_id",
		`{"input_file_id":"` + f.ID + `","endpoint":"/v1/embeddings"}`:                                                       "endpoint",
		`{"input_file_id":"` + f.ID + `","endpoint":"/v1/completions","completion_window":"later"}`:                          "completion_window",
		`{"input_file_id":"` + f.ID + `","endpoint":"/v1/completions","color":1}`:                                            "color",
		`{"input_file_id":"` + f.ID + `","endpoint":"/v1/completions","Metadata":{}}`:                                        "Metadata",
		`{"input_file_id":"` + f.ID + `","endpoint":"/v1/completions","metadata":{"a":1}}`:                                   "metadata",
		`{"input_file_id":"` + f.ID + `","endpoint":"/v1/completions","output_expires_after":{"anchor":"x","seconds":7200}}`: "output_expires_after[anchor]",
	} {
		require.Equal(t, param, b.fails(t, 400, "POST", "/v1/batches", body).Param, body)
	}
}

func TestServerWithoutAFolderHasNoFiles(t *testing.T) {
	t.Parallel()
	b := setUp(t, nil)
	for _, path := range []string{"/v1/files", "/v1/batches"} {
		require.Contains(t, b.fails(t, 404, "GET", path, "").Message, "--data")
		require.Contains(t, b.fails(t, 404, "POST", path, "{}").Message, "--data")
	}
}
