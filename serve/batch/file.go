package batch

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/ingot-run/ingot/openai"
	"github.com/ingot-run/ingot/rows"
)

// File is a file in the form of OpenAI's API.
type File struct {
	ID        string `json:"id"`
	Object    string `json:"object"`
	Bytes     int64  `json:"bytes"`
	CreatedAt int64  `json:"created_at"`
	ExpiresAt *int64 `json:"expires_at,omitempty"`
	Filename  string `json:"filename"`
	Purpose   string `json:"purpose"`
	Status    string `json:"status"` // always "processed": clients wait for that
}

// The purposes of files that a Store gives a meaning to.
const (
	PurposeInput  = "batch"
	PurposeOutput = "batch_output"
)

// Purposes are the purposes with which files can be uploaded.
func Purposes() []string {
	return []string{"assistants", PurposeInput, "evals", "fine-tune", "user_data", "vision"}
}

const (
	filePrefix = "file-"

	maxFilename = 255
)

// CheckUpload returns a *RequestError if a file cannot be uploaded with these settings. expiry is 0 for a file that does not expire.
func CheckUpload(name, purpose string, expiry time.Duration) error {
	switch {
	case purpose == "":
		return &RequestError{Param: "purpose", Code: openai.CodeMissingParameter, Message: `"purpose" is missing`}
	case !slices.Contains(Purposes(), purpose):
		return invalid("purpose", `"purpose" is %.100q, which is none of %s`, purpose, strings.Join(Purposes(), ", "))
	case name == "":
		return invalid("file", `"file" has no file name`)
	case len(name) > maxFilename || !utf8.ValidString(name):
		return invalid("file", "the file's name is not a text of 1 to %d bytes", maxFilename)
	}
	return checkExpiry("expires_after", expiry)
}

// Upload is the content of a file that is not complete. It is written to the disk as it arrives.
type Upload struct {
	store *Store
	file  *os.File
	size  int64
}

// NewUpload begins a file. The caller passes it to AddFile or discards it.
func (s *Store) NewUpload() (*Upload, error) {
	f, err := os.CreateTemp(s.folder(filesFolder), tempPattern)
	if err != nil {
		return nil, fmt.Errorf("store an upload: %w", err)
	}
	return &Upload{store: s, file: f}, nil
}

// MaxFileBytes is the maximum size of a file that is uploaded.
func (s *Store) MaxFileBytes() int64 { return s.options.MaxFileBytes }

// Write implements io.Writer. The error is ErrTooLarge if the file becomes larger than a file may be.
func (u *Upload) Write(p []byte) (int, error) {
	if u.size += int64(len(p)); u.size > u.store.options.MaxFileBytes {
		return 0, ErrTooLarge
	}
	n, err := u.file.Write(p)
	if err != nil {
		return n, fmt.Errorf("store an upload: %w", err)
	}
	return n, nil
}

// Discard deletes what was written.
func (u *Upload) Discard() { discard(u.file) }

// AddFile makes a file of an upload. The settings are those of CheckUpload. The error is a *RequestError if they, or the content,
// cannot be accepted. After an error, the caller discards the upload.
func (s *Store) AddFile(u *Upload, name, purpose string, expiry time.Duration) (File, error) {
	if err := CheckUpload(name, purpose, expiry); err != nil {
		return File{}, err
	}
	if purpose == PurposeInput {
		if err := checkFirstLine(u.file); err != nil {
			return File{}, err
		}
	}
	f, err := s.publishFile(s.newID(filePrefix), u.file, File{Bytes: u.size, Filename: name, Purpose: purpose}, expiry)
	if err != nil {
		return File{}, fmt.Errorf("store file %q: %w", name, err)
	}
	return f, nil
}

// checkFirstLine returns a *RequestError if a file that should have a JSON object per line begins with anything else. The other lines
// are checked when a batch is made of the file.
func checkFirstLine(f *os.File) error {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("read an upload: %w", err)
	}
	line, err := rows.NewReader(f, rows.Options{Format: rows.FormatJSONL}).NextLine()
	if errors.Is(err, io.EOF) {
		return &RequestError{Param: "file", Code: codeEmptyFile, Message: "the file has no lines"}
	}
	if err != nil {
		return &RequestError{Param: "file", Code: codeInvalidLine, Message: err.Error()}
	}
	if !line.Long && !isObject(line.Text) {
		return &RequestError{Param: "file", Code: codeInvalidLine, Message: fmt.Sprintf("line %d is not a JSON object: a batch has one per line", line.Number)}
	}
	return nil
}

// publishFile closes a temporary file and adds it as a file with the given id. A file with that id is replaced.
func (s *Store) publishFile(id string, content *os.File, f File, expiry time.Duration) (File, error) {
	now := s.now()
	f.ID, f.Object, f.Status, f.CreatedAt = id, "file", "processed", now.Unix()
	if expiry > 0 {
		f.ExpiresAt = new(now.Add(expiry).Unix())
	}
	if err := publish(content, s.contentPath(id)); err != nil {
		return File{}, err
	}
	if err := writeJSON(s.filePath(id), f); err != nil { // a content without it is removed by Open
		return File{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.files[id]; !known {
		s.fileIDs = insert(s.fileIDs, id)
	}
	s.files[id] = f
	return f, nil
}

// File returns a file, or ErrNoFile.
func (s *Store) File(id string) (File, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.file(id)
}

func (s *Store) file(id string) (File, error) {
	f, ok := s.files[id]
	if !ok || f.expired(s.now()) {
		return File{}, ErrNoFile
	}
	return f, nil
}

func (f File) expired(now time.Time) bool { return f.ExpiresAt != nil && now.Unix() >= *f.ExpiresAt }

// Files returns a page of the files with a purpose, or of all files if it is empty.
func (s *Store) Files(q Query, purpose string) (Page[File], error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return page(s.fileIDs, filePrefix, q, func(id string) (File, bool) {
		f, err := s.file(id)
		return f, err == nil && (purpose == "" || f.Purpose == purpose)
	})
}

// OpenFile opens a file's content, which stays readable if the file is deleted.
func (s *Store) OpenFile(id string) (*os.File, File, error) {
	f, err := s.File(id)
	if err != nil {
		return nil, f, err
	}
	content, err := os.Open(s.contentPath(id))
	if errors.Is(err, fs.ErrNotExist) { // it was just deleted
		return nil, f, ErrNoFile
	}
	return content, f, err
}

// DeleteFile deletes a file. The error is ErrNoFile, or a *RequestError if a batch that has not ended reads the file.
func (s *Store) DeleteFile(id string) error {
	s.mu.Lock()
	_, err := s.file(id)
	if err == nil && s.readers[id] > 0 {
		err = invalid("file_id", "file %s is the input of a batch that has not ended: cancel the batch first", id)
	}
	if err == nil {
		s.forget(id)
	}
	s.mu.Unlock()
	if err != nil {
		return err
	}
	return s.removeFile(id)
}

// forget removes a file from memory. The store is locked.
func (s *Store) forget(id string) {
	delete(s.files, id)
	s.fileIDs = drop(s.fileIDs, id)
}

// removeFile deletes a file from the disk: first its description, since a content without one is removed by Open.
func (s *Store) removeFile(id string) error {
	err := remove(s.filePath(id))
	if err == nil {
		err = remove(s.contentPath(id))
	}
	if err != nil {
		return fmt.Errorf("delete file %s: %w", id, err)
	}
	return nil
}

// removeExpired deletes the files whose time is over, except inputs of batches that have not ended.
func (s *Store) removeExpired() {
	s.mu.Lock()
	var old []string
	for id, f := range s.files {
		if f.expired(s.now()) && s.readers[id] == 0 {
			old = append(old, id)
			s.forget(id)
		}
	}
	s.mu.Unlock()
	for _, id := range old {
		if err := s.removeFile(id); err != nil {
			s.log.Error("an expired file is left on the disk", "error", err)
		}
	}
}
