package serve

import (
	"fmt"
	"mime"
	"net/http"
	"time"

	"github.com/ingot-run/ingot/serve/batch"
)

const defaultFiles = 10_000

func (s *Server) listFiles(w http.ResponseWriter, r *http.Request) error {
	q, err := listQuery(r, defaultFiles, defaultFiles)
	if err != nil {
		return err
	}
	page, err := s.options.Store.Files(q, r.URL.Query().Get("purpose"))
	return reply(w, newPage(page, func(f batch.File) string { return f.ID }), err)
}

func (s *Server) showFile(w http.ResponseWriter, r *http.Request) error {
	f, err := s.options.Store.File(r.PathValue("id"))
	return reply(w, f, err)
}

func (s *Server) fileContent(w http.ResponseWriter, r *http.Request) error {
	content, f, err := s.options.Store.OpenFile(r.PathValue("id"))
	if err != nil {
		return fmt.Errorf("read file %s: %w", f.ID, err)
	}
	defer content.Close() //nolint:errcheck // the file was only read
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": f.Filename}))
	http.ServeContent(w, r, "", time.Unix(f.CreatedAt, 0), content)
	return nil
}

type deletedBody struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Deleted bool   `json:"deleted"`
}

func (s *Server) deleteFile(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("id")
	return reply(w, deletedBody{ID: id, Object: "file", Deleted: true}, s.options.Store.DeleteFile(id))
}
