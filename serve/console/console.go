// Package console renders the server's pages for people. It depends on neither engines nor queues: package serve passes the data of the
// pages.
package console

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"path"
	"time"

	"github.com/dustin/go-humanize"
)

//go:embed pages
var pageFiles embed.FS

//go:embed assets
var assetFiles embed.FS

// functions are the functions that templates can call.
var functions = template.FuncMap{
	"ago":    humanize.Time,
	"count":  func(n int) string { return humanize.Comma(int64(n)) },
	"figure": figure,
	"clock":  func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") },
	"stamp":  func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
}

// figure formats a speed, with one decimal if it is below 100.
func figure(v float64) string {
	if v < 100 {
		return humanize.FormatFloat("#,###.#", v)
	}
	return humanize.FormatFloat("#,###.", v)
}

// pages has the templates by name. Each includes the frame and the parts that pages share.
var pages = parsePages()

func parsePages() map[string]*template.Template {
	shared := template.Must(template.New("").Funcs(functions).ParseFS(pageFiles, "pages/shared/*.html"))
	names, err := fs.Glob(pageFiles, "pages/*.html")
	if err != nil {
		panic(err) // the pattern is a constant
	}
	parsed := map[string]*template.Template{}
	for _, name := range names {
		page := template.Must(template.Must(shared.Clone()).ParseFS(pageFiles, name))
		parsed[path.Base(name)] = page
	}
	return parsed
}

// policy is the Content-Security-Policy of all pages. A page can load only the console's own assets, and no site can embed it in a frame.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; form-action 'self'; " +
	"base-uri 'none'; frame-ancestors 'none'"

// Page is a page with its content.
type Page interface {
	template() string // name of the file in the folder pages
}

// Write writes a page as the response, with the given status.
func Write(w http.ResponseWriter, status int, p Page) error {
	var text bytes.Buffer
	if err := pages[p.template()].ExecuteTemplate(&text, "frame", p); err != nil {
		return fmt.Errorf("render the page %s: %w", p.template(), err)
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

// Assets returns the handler of the pages' style sheet and script. Paths begin with /console/assets/.
func Assets() http.Handler {
	files, err := fs.Sub(assetFiles, "assets")
	if err != nil {
		panic(err) // the folder is embedded
	}
	served := http.StripPrefix("/console/assets/", http.FileServerFS(files))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-cache") // another version of the program may run at this address later
		w.Header().Set("X-Content-Type-Options", "nosniff")
		served.ServeHTTP(w, r)
	})
}
