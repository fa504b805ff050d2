package serve_test

import (
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/serve"
	"github.com/ingot-run/ingot/serve/batch"
)

// browser returns a client that keeps cookies and does not follow redirects.
func (b *bench) browser(t testing.TB) *http.Client {
	t.Helper()
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	return &http.Client{Jar: jar, Transport: b.Client().Transport, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
}

// newBatch uploads rows and creates a batch of them.
func (b *bench) newBatch(t testing.TB, rows string) batch.Batch {
	t.Helper()
	var f fileBody
	uploaded := b.form(t, part{"purpose", "", "batch"}, part{"file", "rows.jsonl", rows})
	require.NoError(t, json.Unmarshal([]byte(uploaded.text), &f), uploaded.text)
	var made batch.Batch
	b.post(t, "/v1/batches", fmt.Sprintf(`{"input_file_id":%q,"endpoint":"/v1/chat/completions","completion_window":"24h"}`, f.ID), &made)
	return made
}

// await waits until a batch has ended.
func (b *bench) await(t testing.TB, id string) {
	t.Helper()
	require.Eventually(t, func() bool { return b.batch(t, http.MethodGet, id).Status.Ended() }, time.Minute, time.Millisecond)
}

// page requests a page. If form is not nil, it sends the form instead.
func (b *bench) page(t testing.TB, c *http.Client, path string, form url.Values, headers ...string) response {
	t.Helper()
	method, headers := http.MethodGet, append([]string{"Sec-Fetch-Site", "same-origin"}, headers...)
	if form != nil {
		method, headers = http.MethodPost, append(headers, "Content-Type", "application/x-www-form-urlencoded")
	}
	return b.sendWith(t, c, method, path, form.Encode(), headers...)
}

// TestConsolePages: every page works without scripts, and loads nothing from other servers.
func TestConsolePages(t *testing.T) {
	t.Parallel()
	b := setUpStore(t)
	made := b.newBatch(t, chatRow("one", "")+chatRow("two", ""))
	outside := regexp.MustCompile(`(?:src|href|action)="[^/#]`)
	for path, wanted := range map[string][]string{
		"/":                           {"Overview", "<code>tiny</code>", "this server", `role="img"`},
		"/console/batches":            {made.ID, "Progress"},
		"/console/batches/" + made.ID: {"Batch " + made.ID, "/v1/chat/completions", made.InputFileID},
		"/console/try":                {"<option selected>tiny</option>", "Prompt"},
	} {
		got := b.page(t, b.browser(t), path, nil)
		require.Equal(t, http.StatusOK, got.status, path)
		require.Equal(t, "text/html; charset=utf-8", got.header.Get("Content-Type"), path)
		require.Contains(t, got.header.Get("Content-Security-Policy"), "default-src 'none'", path)
		for _, text := range wanted {
			require.Contains(t, got.text, text, path)
		}
		require.NotRegexp(t, outside, got.text, path)
	}
	for path, kind := range map[string]string{
		"console.css": "text/css; charset=utf-8", "console.js": "text/javascript; charset=utf-8", "icon.svg": "image/svg+xml",
	} {
		got := b.page(t, b.browser(t), "/console/assets/"+path, nil)
		require.Equal(t, http.StatusOK, got.status, path)
		require.Equal(t, kind, got.header.Get("Content-Type"), path)
	}
	missing := b.page(t, b.browser(t), "/console/batches/batch_none", nil)
	require.Equal(t, http.StatusNotFound, missing.status)
	require.Contains(t, missing.text, `role="alert"`)
}

// TestConsoleWithoutFolder: a server without batches shows no pages about batches.
func TestConsoleWithoutFolder(t *testing.T) {
	t.Parallel()
	b := setUp(t, nil)
	require.NotContains(t, b.page(t, b.browser(t), "/", nil).text, "Batches")
	require.Equal(t, http.StatusNotFound, b.page(t, b.browser(t), "/console/batches", nil).status)
}

// TestConsoleEscapes: names from clients are escaped in pages.
func TestConsoleEscapes(t *testing.T) {
	t.Parallel()
	b := setUp(t, nil)
	form := url.Values{"model": {`<script>alert(1)</script>`}, "prompt": {`"><script>alert(2)</script>`}, "max_tokens": {"3"}}
	got := b.page(t, b.browser(t), "/console/try", form)
	require.Equal(t, http.StatusNotFound, got.status)
	require.NotContains(t, got.text, "<script>alert")
	require.Contains(t, got.text, "&lt;script&gt;alert(2)")
}

// TestTryWithoutScript: without scripts, the response to the form is a page with the answer.
func TestTryWithoutScript(t *testing.T) {
	t.Parallel()
	b := setUp(t, nil)
	form := url.Values{"model": {"tiny"}, "prompt": {"Hello"}, "system": {"Be brief."}, "max_tokens": {"5"}, "temperature": {"0"}}
	got := b.page(t, b.browser(t), "/console/try", form)
	require.Equal(t, http.StatusOK, got.status)
	var chat struct {
		Choices []struct{ Message struct{ Content string } }
	}
	b.post(t, "/v1/chat/completions", `{"model":"tiny","max_tokens":5,"temperature":0,"messages":[
		{"role":"system","content":"Be brief."},{"role":"user","content":"Hello"}]}`, &chat)
	require.NotEmpty(t, chat.Choices[0].Message.Content)
	answer := regexp.MustCompile(`(?s)<div id="answer"[^>]*>(.*?)</div>`).FindStringSubmatch(got.text)
	require.NotNil(t, answer, got.text)
	require.Equal(t, chat.Choices[0].Message.Content, html.UnescapeString(answer[1]))
	for field, text := range map[string]string{"max_tokens": "five", "temperature": "0x1p2"} {
		bad := url.Values{"model": {"tiny"}, "prompt": {"Hello"}, field: {text}}
		require.Equal(t, http.StatusBadRequest, b.page(t, b.browser(t), "/console/try", bad).status, field)
	}
}

// TestTryContinues: the form also continues a text, with all of its settings.
func TestTryContinues(t *testing.T) {
	t.Parallel()
	b := setUp(t, nil)
	form := url.Values{
		"model": {"tiny"}, "mode": {"continue"}, "prompt": {"Once upon"}, "system": {"unused"}, "max_tokens": {"12"}, "temperature": {"1"}, "top_p": {"0.9"},
		"seed": {"7"}, "stop": {"a\r\n\r\n"},
	}
	got := b.page(t, b.browser(t), "/console/try", form)
	require.Equal(t, http.StatusOK, got.status, got.text)
	var text struct{ Choices []struct{ Text string } }
	b.post(t, "/v1/completions", `{"model":"tiny","prompt":"Once upon","max_tokens":12,"temperature":1,"top_p":0.9,"seed":7,"stop":["a"]}`, &text)
	answer := regexp.MustCompile(`(?s)<div id="answer"[^>]*>(.*?)</div>`).FindStringSubmatch(got.text)
	require.NotNil(t, answer, got.text)
	require.Equal(t, text.Choices[0].Text, html.UnescapeString(answer[1]))
	require.NotContains(t, answer[1], "a")
	require.Contains(t, got.text, `<option value="continue" selected>`)
	got = b.page(t, b.browser(t), "/console/try", form, "Accept", "text/event-stream")
	require.Contains(t, got.text, `"object":"text_completion"`)
}

// TestABatchShowsItsRows: the page of a batch that has ended has its first answers, the errors of
// its first failed rows, and its speed.
func TestABatchShowsItsRows(t *testing.T) {
	t.Parallel()
	b := setUpStore(t)
	made := b.newBatch(t, chatRow("one", "")+chatRow("two", `,"temperature":9`))
	b.await(t, made.ID)
	text := b.page(t, b.browser(t), "/console/batches/"+made.ID, nil).text
	require.Regexp(t, `(?s)First answers</h2>.*<dt>one</dt><dd class="text">[^<]+</dd>`, text)
	require.Contains(t, text, `<dt>two</dt><dd class="text bad">line 2: &#34;temperature&#34; must be between 0 and 2, not 9</dd>`)
	require.Regexp(t, `<span class="figures">\d+s: [\d.]+ rows/s · [\d.]+ tokens/s</span>`, text)
}

// TestTryStreams: the console's script receives the answer as events, and errors as JSON.
func TestTryStreams(t *testing.T) {
	t.Parallel()
	b := setUp(t, nil)
	form := url.Values{"model": {"tiny"}, "prompt": {"Hello"}, "max_tokens": {"3"}}
	got := b.page(t, b.browser(t), "/console/try", form, "Accept", "text/event-stream")
	require.Equal(t, "text/event-stream", got.header.Get("Content-Type"))
	require.True(t, strings.HasSuffix(got.text, "data: [DONE]\n\n"), got.text)
	require.Contains(t, got.text, `"usage":{`)
	form.Set("model", "other")
	got = b.page(t, b.browser(t), "/console/try", form, "Accept", "text/event-stream")
	require.Equal(t, http.StatusNotFound, got.status)
	require.Equal(t, "application/json", got.header.Get("Content-Type"))
}

// TestCancelOnPage: the button on a batch's page cancels the batch.
func TestCancelOnPage(t *testing.T) {
	t.Parallel()
	b, run := setUpIdleStore(t)
	made := b.newBatch(t, chatRow("one", ""))
	got := b.page(t, b.browser(t), "/console/batches/"+made.ID+"/cancel", url.Values{})
	require.Equal(t, http.StatusSeeOther, got.status, got.text)
	require.Equal(t, "/console/batches/"+made.ID, got.header.Get("Location"))
	require.Equal(t, batch.Cancelling, b.batch(t, http.MethodGet, made.ID).Status)
	require.Contains(t, b.page(t, b.browser(t), "/console/batches", nil).text, "is being cancelled")
	run()
	require.Eventually(t, func() bool { return b.batch(t, http.MethodGet, made.ID).Status == batch.Cancelled }, time.Minute, time.Millisecond)
	require.NotContains(t, b.page(t, b.browser(t), "/console/batches", nil).text, "<button")
}

// TestFormsOfOtherSites: a page of another site cannot make a browser cancel a batch or generate
// text.
func TestFormsOfOtherSites(t *testing.T) {
	t.Parallel()
	b := setUp(t, nil)
	for _, path := range []string{"/console/try", "/console/signin", "/console/signout", "/console/batches/batch_a/cancel"} {
		got := b.sendWith(t, b.browser(t), http.MethodPost, path, "prompt=Hello", "Sec-Fetch-Site", "cross-site",
			"Content-Type", "application/x-www-form-urlencoded")
		require.Equal(t, http.StatusForbidden, got.status, path)
	}
}

// TestSignIn: if the server has API keys, a person sees nothing before signing in with a key, and
// then only what the key may use.
func TestSignIn(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "keys")
	require.NoError(t, os.WriteFile(file, []byte("secret-one name=anna\nsecret-two models=other\n"), 0o600))
	keys, err := serve.ReadKeys(file)
	require.NoError(t, err)
	b := setUp(t, func(o *serve.Options) { o.Keys = keys })
	person := b.browser(t)

	got := b.page(t, person, "/console/try", nil)
	require.Equal(t, http.StatusSeeOther, got.status)
	require.Equal(t, "/console/signin?next=%2Fconsole%2Ftry", got.header.Get("Location"))
	require.Equal(t, http.StatusUnauthorized, b.page(t, person, "/console/try", url.Values{"prompt": {"a"}}).status)
	require.Contains(t, b.page(t, person, got.header.Get("Location"), nil).text, `value="/console/try"`)

	got = b.page(t, person, "/console/signin", url.Values{"key": {"secret-1"}})
	require.Equal(t, http.StatusUnauthorized, got.status)
	require.Empty(t, got.header.Get("Set-Cookie"))

	for next, path := range map[string]string{
		"/console/try": "/console/try", "//evil.example/": "/", "https://evil.example/": "/", `/\evil.example`: "/", "": "/",
	} {
		got = b.page(t, person, "/console/signin", url.Values{"key": {"secret-one"}, "next": {next}})
		require.Equal(t, http.StatusSeeOther, got.status)
		require.Equal(t, path, got.header.Get("Location"), next)
	}
	cookie := got.header.Get("Set-Cookie")
	require.Contains(t, cookie, "HttpOnly")
	require.Contains(t, cookie, "SameSite=Strict")
	require.NotContains(t, cookie, "secret-one")

	got = b.page(t, person, "/", nil)
	require.Equal(t, http.StatusOK, got.status)
	require.Contains(t, got.text, "Key anna")
	require.Contains(t, got.text, "<code>tiny</code>")

	other := b.browser(t)
	b.page(t, other, "/console/signin", url.Values{"key": {"secret-two"}})
	require.NotContains(t, b.page(t, other, "/", nil).text, "<code>tiny</code>", "a model that the key may not use")

	require.Equal(t, http.StatusSeeOther, b.page(t, person, "/console/signout", url.Values{}).status)
	require.Equal(t, http.StatusSeeOther, b.page(t, person, "/", nil).status)
}
