//go:build !race

package serve_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/serve/batch"
)

// chromium starts a headless browser. It skips the test if there is no browser.
func chromium(t *testing.T, more ...chromedp.ExecAllocatorOption) context.Context {
	t.Helper()
	program, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("the console is not tested in a browser: install chromium")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(program), chromedp.NoSandbox, chromedp.WSURLReadTimeout(2*time.Minute), // chromium starts slowly on a busy machine
		chromedp.UserDataDir(t.TempDir()))
	ctx, cancel := chromedp.NewExecAllocator(t.Context(), append(options, more...)...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	return ctx
}

// TestConsoleInABrowser uses the console with its script: it tries a prompt, watches a batch that
// another client has made, and cancels the batch.
func TestConsoleInABrowser(t *testing.T) {
	t.Parallel()
	ctx := chromium(t)
	b, run := setUpIdleStore(t)

	require.NoError(t, chromedp.Do(ctx,
		chromedp.Navigate(b.URL+"/console/try"),
		chromedp.WaitVisible(`#system`),
		chromedp.SetValue(`select[name=mode]`, "continue"),
		chromedp.SendKeys(`textarea[name=prompt]`, "Once"),
		chromedp.SetValue(`input[name=max_tokens]`, "3"),
		chromedp.Click(`button.main`),
	))
	figures, err := chromedp.Run(ctx, chromedp.Poll[string](`document.getElementById("figures").textContent`, chromedp.WithPollingTimeout(0)))
	require.NoError(t, err)
	require.Regexp(t, `^\d+ tokens? in the prompt, first token after \d+ ms, [1-3] tokens? in the answer`, figures)

	require.NoError(t, chromedp.Do(ctx,
		chromedp.Navigate(b.URL+"/"),
		chromedp.Click(`//a[text()="Try a prompt"]`),
		chromedp.WaitVisible(`textarea[name=prompt]`),
		chromedp.SendKeys(`textarea[name=prompt]`, "Hello"),
		chromedp.SetValue(`input[name=max_tokens]`, "5"),
		chromedp.SetValue(`input[name=temperature]`, "0"), // so that the answer is always the same
		chromedp.Click(`button.main`),
	))
	figures, err = chromedp.Run(ctx, chromedp.Poll[string](`document.getElementById("figures").textContent`, chromedp.WithPollingTimeout(0)))
	require.NoError(t, err)
	require.Regexp(t, `^\d+ tokens in the prompt, first token after \d+ ms, [1-5] tokens in the answer`, figures)
	answer, err := chromedp.Run(ctx, chromedp.Text(`#answer`))
	require.NoError(t, err)
	require.NotEmpty(t, answer)

	made := b.newBatch(t, chatRow("one", ""))
	require.NoError(t, chromedp.Do(ctx,
		chromedp.Click(`//a[text()="Batches"]`),
		chromedp.Click(`//a[text()="`+made.ID+`"]`),
		chromedp.Click(`//button[text()="Cancel"]`),
		chromedp.WaitVisible(`#state .cancelling`),
	))
	run()
	require.NoError(t, chromedp.Do(ctx, chromedp.WaitVisible(`#state .cancelled`))) // the page updates itself
	require.Equal(t, batch.Cancelled, b.batch(t, http.MethodGet, made.ID).Status)
}

// TestConsolePictures checks that no page is wider than the window, wide and narrow, with the light
// and the dark theme. It writes screenshots to the folder INGOT_PICTURES, if that is set.
func TestConsolePictures(t *testing.T) {
	t.Parallel()
	folder := os.Getenv("INGOT_PICTURES")
	ctx := chromium(t)
	b := setUpStore(t)
	b.newBatch(t, chatRow("one", "")+chatRow("one", "")) // fails, since the ids are equal
	made := b.newBatch(t, chatRow("one", "")+chatRow("two", ""))
	b.await(t, made.ID)
	for name, path := range map[string]string{
		"overview": "/", "batches": "/console/batches", "batch": "/console/batches/" + made.ID, "try": "/console/try",
		"batches-other": "/console/batches?after=" + made.ID, "signin": "/console/signin", "missing": "/console/batches/batch_none",
	} {
		for _, theme := range []string{"light", "dark"} {
			for width, size := range map[int64]string{1200: "wide", 420: "narrow", 360: "narrowest"} {
				require.NoError(t, chromedp.Do(ctx,
					chromedp.EmulateViewport(width, 800), colorScheme(theme), chromedp.Navigate(b.URL+path)))
				excess, err := chromedp.Run(ctx, chromedp.Evaluate[int](`document.documentElement.scrollWidth - window.innerWidth`))
				require.NoError(t, err)
				require.LessOrEqual(t, excess, 0, "%s, %s, %s", name, theme, size)
				outside, err := chromedp.Run(ctx, chromedp.Evaluate[string](outsideWindow))
				require.NoError(t, err)
				require.Empty(t, outside, "%s, %s, %s", name, theme, size)
				bars, err := chromedp.Run(ctx, chromedp.Evaluate[int](plainBars))
				require.NoError(t, err)
				require.Zero(t, bars, "the filled part of a progress bar has a colour of its own")
				if folder == "" {
					continue
				}
				png, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
				require.NoError(t, err)
				require.NoError(t, os.WriteFile(filepath.Join(folder, name+"-"+theme+"-"+size+".png"), png, 0o644))
			}
		}
	}
}

// outsideWindow returns the text of an element whose right edge is outside of the window, as the
// cells of a table are that has to be scrolled.
const outsideWindow = `[...document.querySelectorAll("main *, header *, footer *")]
	.filter(e => !e.closest(".unseen, thead, svg") && e.getClientRects().length && e.getBoundingClientRect().right > innerWidth + 1)
	.map(e => e.tagName + ": " + e.textContent.slice(0, 80))[0] || ""`

// plainBars returns the number of progress bars that the browser draws in its own way.
const plainBars = `[...document.querySelectorAll("progress")].filter(e => getComputedStyle(e).appearance !== "none").length`

// colorScheme makes the browser report a preferred theme to pages.
func colorScheme(theme string) chromedp.Action[chromedp.Void] {
	return func(ctx context.Context, target *chromedp.Target) (chromedp.Void, error) {
		_, err := cdp.Call(ctx, target, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}},
		})
		return chromedp.Void{}, err
	}
}

// A browser that shows a hostile page neither uses the server nor lets the page read its answers.
func TestHostilePageInABrowser(t *testing.T) {
	t.Parallel()
	b := setUp(t, nil)
	server, err := url.Parse(b.URL)
	require.NoError(t, err)
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.Write([]byte(`<p>hostile</p>`)) //nolint:errcheck // the browser reports a missing page
	}))
	t.Cleanup(page.Close)
	hostile, err := url.Parse(page.URL)
	require.NoError(t, err)
	// The name leads to this machine, as after DNS rebinding.
	ctx := chromium(t, chromedp.Flag("host-resolver-rules", "MAP evil.example 127.0.0.1"))
	fetch := func(from, to string) string {
		require.NoError(t, chromedp.Do(ctx, chromedp.Navigate(from)))
		_, err := chromedp.Run(ctx, chromedp.Evaluate[any](`window.result = undefined; fetch(`+"`"+to+"`"+`, {method: 'POST', headers: {'Content-Type': 'text/plain'},
			body: JSON.stringify({`+hello+`, max_tokens: 1})}).then(r => r.text()).catch(String).then(text => { window.result = text }); 0`))
		require.NoError(t, err)
		text, err := chromedp.Run(ctx, chromedp.Poll[string](`window.result`, chromedp.WithPollingTimeout(time.Minute)))
		require.NoError(t, err)
		return text
	}
	const chat = "/v1/chat/completions"
	answered := func() bool {
		return strings.Contains(b.send(t, http.MethodGet, "/metrics", "").text, `ingot_http_completion_tokens_total{model="tiny"}`)
	}
	require.Contains(t, fetch("http://evil.example:"+hostile.Port(), b.URL+chat), "Failed to fetch")
	require.Contains(t, fetch("http://evil.example:"+server.Port()+"/healthz", chat), "unknown_host")
	require.False(t, answered(), "a hostile page has used the model")
	require.Contains(t, fetch(b.URL+"/healthz", chat), `"choices"`)
	require.True(t, answered())
}
