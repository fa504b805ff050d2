package serve

import (
	"fmt"
	"mime"
	"net/http"
	"time"

	"github.com/ingot-run/ingot/serve/batch"
)

// defaultFiles is the default and maximum number of files on a page of a list.
const defaultFiles = 10_000

// listFiles answers GET /v1/files.
func (s *Server) listFiles(w http.ResponseWriter, r *http.Request) error {
	store, err := s.store()
	if err != nil {
		return err
	}
	q, err := listQuery(r, defaultFiles, defaultFiles)
	if err != nil {
		return err
	}
	page, err := store.Files(q, r.URL.Query().Get("purpose"))
	if err != nil {
		return storeError(r, err)
	}
	writeJSON(w, http.StatusOK, newPage(page, func(f batch.File) string { return f.ID }))
	return nil
}

// showFile answers GET /v1/files/{id}.
func (s *Server) showFile(w http.ResponseWriter, r *http.Request) error {
	store, err := s.store()
	if err != nil {
		return err
	}
	f, err := store.File(r.PathValue("id"))
	if err != nil {
		return storeError(r, err)
	}
	writeJSON(w, http.StatusOK, f)
	return nil
}

// fileContent answers GET /v1/files/{id}/content.
func (s *Server) fileContent(w http.ResponseWriter, r *http.Request) error {
	store, err := s.store()
	if err != nil {
		return err
	}
	content, f, err := store.OpenFile(r.PathValue("id"))
	if err != nil {
		return storeError(r, fmt.Errorf("read file %s: %w", f.ID, err))
	}
	defer content.Close() //nolint:errcheck // the file was only read
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": f.Filename}))
	http.ServeContent(w, r, "", time.Unix(f.CreatedAt, 0), content)
	return nil
}

// deletedBody is the response to the deletion of a file.
type deletedBody struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Deleted bool   `json:"deleted"`
}

// deleteFile answers DELETE /v1/files/{id}.
func (s *Server) deleteFile(w http.ResponseWriter, r *http.Request) error {
	store, err := s.store()
	if err != nil {
		return err
	}
	id := r.PathValue("id")
	err = store.DeleteFile(id)
	if err != nil {
		return storeError(r, err)
	}
	writeJSON(w, http.StatusOK, deletedBody{ID: id, Object: "file", Deleted: true})
	return nil
}
