package serve

import (
	"errors"
	"io"
	"mime/multipart"
	"net"
	"net/http"

	"github.com/ingot-run/ingot/openai"
	"github.com/ingot-run/ingot/serve/batch"
)

const (
	// formBytes is the maximum size of an upload's form without the file, in bytes.
	formBytes = 64 << 10
	// maxField is the maximum size of a form field other than the file, in bytes.
	maxField = 1 << 10
)

// upload answers POST /v1/files. It writes the file to the disk while the request arrives.
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

// formError returns the response to an error that occurred while a form was read.
func formError(err error, store *batch.Store) error {
	var tooLarge *http.MaxBytesError
	var form multipartError
	var network net.Error
	switch {
	case errors.Is(err, batch.ErrTooLarge), errors.As(err, &tooLarge):
		return failf(http.StatusRequestEntityTooLarge, "file", "file_too_large", "the file is larger than %d bytes", store.MaxFileBytes())
	case errors.As(err, &form) && !errors.As(err, &network):
		return failf(http.StatusBadRequest, "", "invalid_form", "the form cannot be read, since it is damaged or incomplete: %v", err)
	}
	return err
}

// uploadForm is the form of an upload. Its fields can have any order.
type uploadForm struct {
	store   *batch.Store
	file    *batch.Upload // nil until the file's field is read
	name    string
	purpose string
	anchor  string
	seconds string
}

// read reads one field of the form.
func (f *uploadForm) read(part *multipart.Part) error {
	name := part.FormName()
	if name == "file" {
		return f.readFile(part)
	}
	into := map[string]*string{
		"purpose": &f.purpose, "expires_after[anchor]": &f.anchor, "expires_after[seconds]": &f.seconds,
	}[name]
	if into == nil {
		return failf(http.StatusBadRequest, name, openai.CodeUnknownParameter, "%.100q is unknown: remove it", name)
	}
	text, err := io.ReadAll(io.LimitReader(part, maxField))
	*into = string(text)
	return asMultipart(err)
}

func (f *uploadForm) readFile(part *multipart.Part) error {
	if f.file != nil {
		return failf(http.StatusBadRequest, "file", openai.CodeInvalidValue, `"file" occurs twice: upload one file per request`)
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
	expiry, err := batch.ParseExpiry("expires_after", f.anchor, f.seconds)
	if err != nil {
		return batch.File{}, err
	}
	if f.file == nil {
		return batch.File{}, missing("file")
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

// multipartError marks an error of the form or the connection, in contrast to an error of the disk.
type multipartError struct{ error }

func (e multipartError) Unwrap() error { return e.error }

func asMultipart(err error) error {
	if err == nil {
		return nil
	}
	return multipartError{err}
}

// multipartReader reads a part and marks its errors as multipartError.
type multipartReader struct{ part *multipart.Part }

func (r multipartReader) Read(p []byte) (int, error) {
	n, err := r.part.Read(p)
	if errors.Is(err, io.EOF) {
		return n, err
	}
	return n, asMultipart(err)
}
