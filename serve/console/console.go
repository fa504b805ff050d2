// Package console has the server's pages for people: handlers, templates and the history of the
// speed. A page is a file in the folder pages, and a method of Console that is listed in
// Console.Pages.
package console

import (
	"bytes"
	"embed"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"time"

	template "github.com/DataDog/datadog-agent/pkg/template/html"
	"github.com/dustin/go-humanize"

	"github.com/ingot-run/ingot/queue"
)

//go:embed pages
var pageFiles embed.FS

//go:embed assets
var assetFiles embed.FS

var functions = template.FuncMap{
	"ago":    humanize.Time,
	"count":  func(n int) string { return humanize.Comma(int64(n)) },
	"figure": figure,
	"clock":  func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") },
	"unix":   func(seconds int64) time.Time { return time.Unix(seconds, 0) },
	"list":   func(names []string) string { return strings.Join(names, ", ") },
	"stamp":  func(t time.Time) string { return t.UTC().Format(time.RFC3339) },

	// Templates cannot call methods, so these functions do.
	"aliases":  queuedBatch.Aliases,
	"chart":    Throughput.Chart,
	"ended":    func(s interface{ Ended() bool }) bool { return s.Ended() },
	"finished": func(b interface{ Finished() int }) int { return b.Finished() },
	"left":     func(b interface{ Left() string }) string { return b.Left() },
	"live":     func(w queue.Worker) bool { return w.Live() },
	"outcome":  func(b interface{ Outcome() string }) string { return b.Outcome() },
	"percent":  func(b interface{ Percent() int }) int { return b.Percent() },
}

// figure formats a speed, with one decimal if it is below 100.
func figure(v float64) string {
	if v < 100 {
		return humanize.FormatFloat("#,###.#", v)
	}
	return humanize.FormatFloat("#,###.", v)
}

var pages = parsePages()

func parsePages() map[string]*template.Template {
	shared := template.Must(template.New("").Funcs(functions).ParseFS(pageFiles, "pages/shared/*.html"))
	names, _ := fs.Glob(pageFiles, "pages/*.html") // fails only for a malformed pattern
	parsed := map[string]*template.Template{}
	for _, name := range names {
		page := template.Must(template.Must(shared.Clone()).ParseFS(pageFiles, name))
		parsed[path.Base(name)] = page
	}
	return parsed
}

// policy is the Content-Security-Policy of all pages. A page can load only the console's own
// assets, and no site can embed it in a frame.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; form-action 'self'; " +
	"base-uri 'none'; frame-ancestors 'none'"

// Frame has the parts that all pages show around their content.
type Frame struct {
	Version    string // version of the program
	KeyName    string // name of the API key that the person signed in with; empty if the server has no keys
	HasBatches bool   // the server stores files and batches, or knows those of a fleet

	Title    string
	Template string // name of the content's file in the folder pages
	Error    string // error of the person's last action; empty if it succeeded
	Content  any
}

// Show writes a page as the response. failure is an error to show on the page; nil if there is
// none.
func (c *Console) Show(w http.ResponseWriter, r *http.Request, status int, template, title string, failure error, content any) error {
	f := c.Frame(r)
	f.Template, f.Title, f.Content = template, title, content
	if failure != nil {
		_, f.Error = c.Problem(r, failure)
	}
	var text bytes.Buffer
	if err := pages[template].ExecuteTemplate(&text, "frame", f); err != nil {
		return fmt.Errorf("render the page %s: %w", template, err)
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", policy)
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	w.Write(text.Bytes()) //nolint:errcheck // fails only if the client has left
	return nil
}

// Assets returns the handler of the pages' style sheet and script. Paths begin with
// /console/assets/.
func Assets() http.Handler {
	files, _ := fs.Sub(assetFiles, "assets") // fails only for a path that is not valid
	served := http.StripPrefix("/console/assets/", http.FileServerFS(files))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-cache") // another version of the program may run at this address later
		w.Header().Set("X-Content-Type-Options", "nosniff")
		served.ServeHTTP(w, r)
	})
}
