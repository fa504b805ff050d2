package report_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/eval"
	"github.com/ingot-run/ingot/eval/report"
)

// outside returns what reaches over the right edge of the page, or is cut by the element around it.
const outside = `[...document.querySelectorAll("main *")]
	.filter(e => e.getBoundingClientRect().right > document.documentElement.clientWidth + 0.5 || e.matches("div") && e.scrollWidth > e.clientWidth + 1)
	.map(e => e.outerHTML.slice(0, 80)).join("\n")`

// TestPageOnAPhone: nothing is clipped on a screen of 390 pixels, with long names and with rows
// that have no answer.
func TestPageOnAPhone(t *testing.T) {
	t.Parallel()
	program, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("the report is not tested in a browser: install chromium")
	}
	runs := t.TempDir()
	long := "nightly-of-the-whole-suite-at-half-past-one"
	run(t, runs, long+"-1", 30, nil)
	run(t, runs, long+"-2", 20, func(c *eval.Config) { c.Model = strings.Repeat("Model", 12) + ".gguf" })
	path := filepath.Join(t.TempDir(), "report.html")
	page := write(t, runs, report.Options{})
	require.NoError(t, os.WriteFile(path, []byte(page), 0o600))

	ctx, cancel := chromedp.NewExecAllocator(t.Context(), append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(program), chromedp.NoSandbox, chromedp.WSURLReadTimeout(2*time.Minute), chromedp.UserDataDir(t.TempDir()))...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	require.NoError(t, chromedp.Do(ctx, chromedp.EmulateViewport(390, 800), chromedp.Navigate("file://"+path)))
	for _, open := range []string{`1`, `document.querySelectorAll("details").forEach(d => d.open = true)`} {
		_, err := chromedp.Run(ctx, chromedp.Evaluate[any](open))
		require.NoError(t, err)
		got, err := chromedp.Run(ctx, chromedp.Evaluate[string](outside))
		require.NoError(t, err)
		require.Empty(t, got)
	}
	has(t, page, "<title>"+long+"-1: 0.7500</title>")
}
