package serve

import (
	"errors"
	"io"
	"io/fs"
	"mime/multipart"
	"net"
	"net/http"

	"github.com/ingot-run/ingot/openai"
	"github.com/ingot-run/ingot/serve/batch"
)

const (
	// formBytes is the maximum size of an upload's form without the file, in bytes.
	formBytes = 64 << 10
	maxField  = 1 << 10
)

func (s *Server) upload(w http.ResponseWriter, r *http.Request) error {
	parts, err := r.MultipartReader()
	if err != nil {
		return failf(http.StatusBadRequest, "", "invalid_form", "the request is not a form with a file: %v", err)
	}
	form := uploadForm{store: s.options.Store}
	defer form.discard()
	for {
		part, err := parts.NextPart()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = form.read(part)
		}
		if err != nil {
			return formError(err, s.options.Store)
		}
	}
	f, err := form.add()
	return reply(w, f, err)
}

func formError(err error, store *batch.Store) error {
	var tooLarge *http.MaxBytesError
	var ours *httpError
	var disk *fs.PathError
	var network net.Error
	switch {
	case errors.Is(err, batch.ErrTooLarge), errors.As(err, &tooLarge):
		return failf(http.StatusRequestEntityTooLarge, "file", "file_too_large", "the file is larger than %d bytes", store.MaxFileBytes())
	case errors.As(err, &ours), errors.As(err, &disk), errors.As(err, &network):
		return err
	}
	return failf(http.StatusBadRequest, "", "invalid_form", "the form cannot be read, since it is damaged or incomplete: %v", err)
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
	return err
}

func (f *uploadForm) readFile(part *multipart.Part) (err error) {
	if f.file != nil {
		return failf(http.StatusBadRequest, "file", openai.CodeInvalidValue, `"file" occurs twice: upload one file per request`)
	}
	f.name = part.FileName()
	if f.file, err = f.store.NewUpload(); err == nil {
		_, err = io.Copy(f.file, part)
	}
	return err
}

func (f *uploadForm) add() (batch.File, error) {
	expiry, err := batch.ParseExpiry("expires_after", f.anchor, f.seconds)
	if err != nil {
		return batch.File{}, err
	}
	if f.file == nil {
		return batch.File{}, missing("file")
	}
	added, err := f.store.AddFile(f.file, f.name, f.purpose, expiry)
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
