package serve

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/ingot-run/ingot/serve/batch"
)

const (
	// formBytes is the maximum size of an upload's form without the file.
	formBytes = 64 << 10
	// maxField is the maximum size of a field of the form.
	maxField = 1 << 10

	defaultFiles = 10_000 // per page of a list, which is the maximum too
)

// store returns the store of files and batches. The error is that of an unknown path if there is none: clients probe for it.
func (s *Server) store() (*batch.Store, error) {
	if s.options.Store == nil {
		return nil, failf(http.StatusNotFound, "", "unknown_url", "this server has no files and batches: start it with --data FOLDER")
	}
	return s.options.Store, nil
}

// storeError is the response to an error of the store. A file or batch that is missing is the one that the request's path names.
func storeError(r *http.Request, err error) error {
	var request *batch.RequestError
	switch id := r.PathValue("id"); {
	case errors.As(err, &request):
		return failf(http.StatusBadRequest, request.Param, request.Code, "%s", request.Message)
	case errors.Is(err, batch.ErrNoFile):
		return failf(http.StatusNotFound, "file_id", "file_not_found", "no file has the id %.100q", id)
	case errors.Is(err, batch.ErrNoBatch):
		return failf(http.StatusNotFound, "batch_id", "batch_not_found", "no batch has the id %.100q", id)
	}
	return err
}

// upload answers POST /v1/files. The file is written to the disk while it arrives.
func (s *Server) upload(w http.ResponseWriter, r *http.Request) error {
	store, err := s.store()
	if err != nil {
		return err
	}
	parts, err := r.MultipartReader()
	if err != nil {
		return failf(http.StatusBadRequest, "", "invalid_form", "the request is not a form with a file: %v", err)
	}
	form := uploadForm{store: store}
	defer form.discard()
	for {
		part, err := parts.NextPart()
		if errors.Is(err, io.EOF) {
			break
		}
		if err = asMultipart(err); err == nil {
			err = form.read(part)
		}
		if err != nil {
			return formError(err, store)
		}
	}
	f, err := form.add()
	if err != nil {
		return storeError(r, err)
	}
	writeJSON(w, http.StatusOK, f)
	return nil
}

// formError is the response to an error while a form is read.
func formError(err error, store *batch.Store) error {
	var tooLarge *http.MaxBytesError
	var form multipartError
	var network net.Error
	switch {
	case errors.Is(err, batch.ErrTooLarge), errors.As(err, &tooLarge):
		return failf(http.StatusRequestEntityTooLarge, "file", "file_too_large", "the file is larger than %d bytes", store.MaxFileBytes())
	case errors.As(err, &form) && !errors.As(err, &network):
		return failf(http.StatusBadRequest, "", "invalid_form", "the form is damaged or ends too early: %v", err)
	}
	return err
}

// uploadForm is the form of an upload. Its fields come in any order.
type uploadForm struct {
	store   *batch.Store
	file    *batch.Upload // nil before the file
	name    string
	purpose string
	anchor  string
	seconds string
}

// read reads a field.
func (f *uploadForm) read(part *multipart.Part) error {
	name := part.FormName()
	if name == "file" {
		return f.readFile(part)
	}
	into := map[string]*string{
		"purpose": &f.purpose, "expires_after[anchor]": &f.anchor, "expires_after[seconds]": &f.seconds,
	}[name]
	if into == nil {
		return failf(http.StatusBadRequest, name, "unknown_parameter", "%.100q is unknown: remove it", name)
	}
	text, err := io.ReadAll(io.LimitReader(part, maxField))
	*into = string(text)
	return asMultipart(err)
}

func (f *uploadForm) readFile(part *multipart.Part) error {
	if f.file != nil {
		return failf(http.StatusBadRequest, "file", "invalid_value", `"file" is given twice: upload one file per request`)
	}
	f.name = part.FileName()
	var err error
	if f.file, err = f.store.NewUpload(); err != nil {
		return err
	}
	_, err = io.Copy(f.file, multipartReader{part})
	return err
}

// add adds the file to the store.
func (f *uploadForm) add() (batch.File, error) {
	expiry, err := expiresAfter("expires_after", f.anchor, f.seconds)
	if err != nil {
		return batch.File{}, err
	}
	if f.file == nil {
		return batch.File{}, failf(http.StatusBadRequest, "file", "missing_required_parameter", `"file" is missing`)
	}
	file := f.file
	added, err := f.store.AddFile(file, f.name, f.purpose, expiry)
	if err == nil {
		f.file = nil
	}
	return added, err
}

func (f *uploadForm) discard() {
	if f.file != nil {
		f.file.Discard()
	}
}

// expiresAfter reads a time to live. It is 0 if none is given.
func expiresAfter(param, anchor, seconds string) (time.Duration, error) {
	if anchor == "" && seconds == "" {
		return 0, nil
	}
	if anchor != "created_at" {
		return 0, failf(http.StatusBadRequest, param+"[anchor]", "invalid_value", `"anchor" of %q must be "created_at", not %.100q`, param, anchor)
	}
	n, err := strconv.Atoi(seconds)
	if limit := int(batch.MaxExpiry / time.Second); err != nil || n < 1 || n > limit {
		return 0, failf(http.StatusBadRequest, param+"[seconds]", "invalid_value", `"seconds" of %q must be a number up to %d, not %.100q`, param, limit, seconds)
	}
	return time.Duration(n) * time.Second, nil
}

// multipartError is an error of the form itself or of the connection, not of the disk.
type multipartError struct{ error }

func (e multipartError) Unwrap() error { return e.error }

func asMultipart(err error) error {
	if err == nil {
		return nil
	}
	return multipartError{err}
}

// multipartReader marks the errors of a part.
type multipartReader struct{ part *multipart.Part }

func (r multipartReader) Read(p []byte) (int, error) {
	n, err := r.part.Read(p)
	if errors.Is(err, io.EOF) {
		return n, err
	}
	return n, asMultipart(err)
}

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

// listQuery reads the parameters of a list.
func listQuery(r *http.Request, def, maximum int) (batch.Query, error) {
	q := batch.Query{After: r.URL.Query().Get("after"), Limit: def}
	if text := r.URL.Query().Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > maximum {
			return q, failf(http.StatusBadRequest, "limit", "invalid_value", `"limit" must be a number between 1 and %d, not %.100q`, maximum, text)
		}
		q.Limit = n
	}
	switch order := r.URL.Query().Get("order"); order {
	case "", "desc":
	case "asc":
		q.Ascending = true
	default:
		return q, failf(http.StatusBadRequest, "order", "invalid_value", `"order" must be "asc" or "desc", not %.100q`, order)
	}
	return q, nil
}

// pageBody is a page of a list.
type pageBody[T any] struct {
	Object  string  `json:"object"`
	Data    []T     `json:"data"`
	FirstID *string `json:"first_id"`
	LastID  *string `json:"last_id"`
	HasMore bool    `json:"has_more"`
}

func newPage[T any](p batch.Page[T], id func(T) string) pageBody[T] {
	body := pageBody[T]{Object: "list", Data: p.Items, HasMore: p.More}
	if n := len(p.Items); n > 0 {
		body.FirstID, body.LastID = new(id(p.Items[0])), new(id(p.Items[n-1]))
	}
	return body
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
	defer content.Close() //nolint:errcheck // it was only read
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": f.Filename}))
	http.ServeContent(w, r, "", time.Unix(f.CreatedAt, 0), content)
	return nil
}

// deletedBody is the response to a deletion.
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
