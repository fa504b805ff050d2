package batch

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/ingot-run/ingot/files/rows"
	"github.com/ingot-run/ingot/openai"
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
	Status    string `json:"status"` // always "processed", for which clients wait
}

// The purposes that have a meaning for a Store.
const (
	PurposeInput  = "batch"
	PurposeOutput = "batch_output"
)

// Purposes returns the purposes that an uploaded file can have.
func Purposes() []string {
	return []string{"assistants", PurposeInput, "evals", "fine-tune", "user_data", "vision"}
}

const (
	filePrefix = "file-"

	maxFilename = 255
)

// CheckUpload returns a *RequestError if a file cannot be uploaded with these settings. If expiry
// is 0, the file does not expire.
func CheckUpload(name, purpose string, expiry time.Duration) error {
	switch {
	case purpose == "":
		return &RequestError{Param: "purpose", Code: openai.CodeMissingParameter, Message: `"purpose" is missing`}
	case !slices.Contains(Purposes(), purpose):
		return invalid("purpose", `"purpose" must be one of %[2]s, not %.100[1]q`, purpose, strings.Join(Purposes(), ", "))
	case name == "":
		return invalid("file", `"file" must have a file name`)
	case len(name) > maxFilename || !utf8.ValidString(name):
		return invalid("file", "the file's name must be UTF-8 text of 1 to %d bytes", maxFilename)
	}
	return checkExpiry("expires_after", expiry)
}

// Upload is the content of a file that is being uploaded. It is written to the disk while it
// arrives.
type Upload struct {
	store *Store
	file  *os.File
	size  int64
}

// NewUpload begins an upload. The caller must either pass it to AddFile or discard it.
func (s *Store) NewUpload() (*Upload, error) {
	f, err := os.CreateTemp(s.folder(filesFolder), tempPattern)
	if err != nil {
		return nil, fmt.Errorf("store an upload: %w", err)
	}
	return &Upload{store: s, file: f}, nil
}

// MaxFileBytes returns the maximum size of an uploaded file.
func (s *Store) MaxFileBytes() int64 { return s.options.MaxFileBytes }

// Write implements io.Writer. The error is ErrTooLarge if the file becomes larger than
// MaxFileBytes.
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

// Discard deletes the written content.
func (u *Upload) Discard() { discard(u.file) }

// AddFile adds an upload to the store as a file. The error is a *RequestError if CheckUpload
// refuses the settings, or if the content is invalid. After an error, the caller must discard the
// upload.
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

// checkFirstLine returns a *RequestError if the first line of a batch's input is not a JSON object.
// The other lines are checked when a batch is created from the file.
func checkFirstLine(f *os.File) error {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("read an upload: %w", err)
	}
	line, err := rows.NewReader(f, rows.Options{Format: rows.FormatJSONL}).NextLine()
	if errors.Is(err, io.EOF) {
		return &RequestError{Param: "file", Code: codeEmptyFile, Message: "the file has no lines: upload a file with one request per line"}
	}
	if err != nil {
		return &RequestError{Param: "file", Code: codeInvalidLine, Message: err.Error()}
	}
	if !line.Long && !isObject(line.Text) {
		return &RequestError{Param: "file", Code: codeInvalidLine, Message: fmt.Sprintf("line %d is not a JSON object: each line of a batch's input must be one", line.Number)}
	}
	return nil
}

// publishFile adds a temporary file to the store under an id. It replaces a file with the same id.
func (s *Store) publishFile(id string, content *os.File, f File, expiry time.Duration) (File, error) {
	now := s.now()
	f.ID, f.Object, f.Status, f.CreatedAt = id, "file", "processed", now.Unix()
	if expiry != 0 {
		f.ExpiresAt = new(now.Add(expiry).Unix())
	}
	if err := publish(content, s.contentPath(id)); err != nil {
		return File{}, err
	}
	if err := writeJSON(s.filePath(id), f); err != nil { // Open removes a content file that has no description
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

// File returns a file. The error is ErrNoFile if there is none with this id.
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

// Files returns a page of the files with a purpose, or of all files if purpose is empty.
func (s *Store) Files(q Query, purpose string) (Page[File], error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return page(s.fileIDs, filePrefix, q, func(id string) (File, bool) {
		f, err := s.file(id)
		return f, err == nil && (purpose == "" || f.Purpose == purpose)
	})
}

// OpenFile opens the content of a file. The content stays readable if the file is deleted.
func (s *Store) OpenFile(id string) (*os.File, File, error) {
	f, err := s.File(id)
	if err != nil {
		return nil, f, err
	}
	content, err := os.Open(s.contentPath(id))
	if errors.Is(err, fs.ErrNotExist) { // the file was just deleted
		return nil, f, ErrNoFile
	}
	return content, f, err
}

// DeleteFile deletes a file. The error is ErrNoFile, or a *RequestError if a batch that has not
// ended reads the file.
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

// forget removes a file from memory. s.mu must be held.
func (s *Store) forget(id string) {
	delete(s.files, id)
	s.fileIDs = drop(s.fileIDs, id)
}

// removeFile deletes a file from the disk. It deletes the description first, since Open removes a
// content file that has no description.
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

// removeExpired deletes expired files, except the inputs of batches that have not ended.
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

// Limits of a file's time to live.
const (
	MinExpiry = time.Hour
	MaxExpiry = 30 * 24 * time.Hour
)

// ParseExpiry parses a time to live, which is a number of seconds after an anchor. The only anchor
// is "created_at". param is the name of the request's field with both values. ParseExpiry returns 0
// if both values are empty. If one is invalid, the error is a *RequestError that names it.
func ParseExpiry(param, anchor, seconds string) (time.Duration, error) {
	if anchor == "" && seconds == "" {
		return 0, nil
	}
	if anchor != "created_at" {
		return 0, invalid(param+"[anchor]", `"anchor" of %q must be "created_at", not %.100q`, param, anchor)
	}
	n, err := strconv.Atoi(seconds)
	if limit := int(MaxExpiry / time.Second); err != nil || n < 1 || n > limit {
		return 0, invalid(param+"[seconds]", `"seconds" of %q must be between %.0f and %d, not %.100q`, param, MinExpiry.Seconds(), limit, seconds)
	}
	return time.Duration(n) * time.Second, nil
}

// checkExpiry returns a *RequestError if a time to live is out of range. 0 means no expiry.
func checkExpiry(param string, expiry time.Duration) error {
	if expiry == 0 || expiry >= MinExpiry && expiry <= MaxExpiry {
		return nil
	}
	return invalid(param, `"seconds" of %q must be between %.0f and %.0f`, param, MinExpiry.Seconds(), MaxExpiry.Seconds())
}
