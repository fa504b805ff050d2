package batch

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/ingot-run/ingot/openai"
)

// Request is a request to create a batch.
type Request struct {
	InputFileID      string
	Endpoint         openai.Endpoint
	CompletionWindow string // time limit for the batch, such as 24h or 7d; DefaultWindow if empty
	Metadata         map[string]string
	OutputExpiry     time.Duration // time to live of the batch's files; 0 if they do not expire
	Models           []string      // models that the rows may name; nil for all

	// Repeated means that the client may have sent the request before without receiving a response.
	// If the same request has created a batch within the last 5 minutes, CreateBatch returns that
	// batch.
	Repeated bool
}

// Limits of a batch.
const (
	DefaultWindow = "24h"
	MaxWindow     = 30 * 24 * time.Hour
	MaxRows       = 1_000_000

	maxMetadata      = 16
	maxMetadataKey   = 64  // characters
	maxMetadataValue = 512 // characters
	repeatWindow     = 5 * time.Minute
)

const (
	batchPrefix = "batch_"
)

func window(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if days, ok := strings.CutSuffix(text, "d"); ok {
		var n int
		n, err = strconv.Atoi(days)
		d = time.Duration(min(max(n, 0), 1000)) * 24 * time.Hour
	}
	if err != nil || d < time.Second || d > MaxWindow {
		return 0, invalid("completion_window", `"completion_window" is %.100q: give a time from 1s to %.0fd, such as %s or 7d`, text, MaxWindow.Hours()/24, DefaultWindow)
	}
	return d, nil
}

// check validates the request and returns its completion window. The error is a *RequestError.
func (r *Request) check() (time.Duration, error) {
	for _, required := range []struct{ name, value string }{{"input_file_id", r.InputFileID}, {"endpoint", string(r.Endpoint)}} {
		if required.value == "" {
			return 0, &RequestError{Param: required.name, Code: openai.CodeMissingParameter, Message: fmt.Sprintf("%q is missing", required.name)}
		}
	}
	if r.Endpoint != openai.Chat && r.Endpoint != openai.Completions {
		return 0, invalid("endpoint", `"endpoint" is %.100q: use %q or %q`, r.Endpoint, openai.Chat, openai.Completions)
	}
	if len(r.Metadata) > maxMetadata {
		return 0, invalid("metadata", `"metadata" has %d keys, more than %d`, len(r.Metadata), maxMetadata)
	}
	for _, key := range slices.Sorted(maps.Keys(r.Metadata)) {
		switch {
		case utf8.RuneCountInString(key) > maxMetadataKey:
			return 0, invalid("metadata", `a key of "metadata" has more than %d characters: %.100q`, maxMetadataKey, key)
		case utf8.RuneCountInString(r.Metadata[key]) > maxMetadataValue:
			return 0, invalid("metadata", `the value of %q in "metadata" has more than %d characters`, key, maxMetadataValue)
		}
	}
	if err := checkExpiry("output_expires_after", r.OutputExpiry); err != nil {
		return 0, err
	}
	if r.CompletionWindow == "" {
		r.CompletionWindow = DefaultWindow
	}
	return window(r.CompletionWindow)
}

// CreateBatch creates a batch. The batch begins at once if Run is running, otherwise when Run is
// called. The error is a *RequestError if the request is invalid.
func (s *Store) CreateBatch(q Request) (Batch, error) {
	length, err := q.check()
	if err != nil {
		return Batch{}, err
	}
	s.creating.Lock() // makes a repeated request find the batch of the first request
	defer s.creating.Unlock()
	if b := s.repeated(q); b != nil {
		return b.view(), nil
	}
	if err := s.holdInput(q.InputFileID); err != nil {
		return Batch{}, err
	}
	now := s.now()
	r := record{OutputExpiry: q.OutputExpiry, Models: q.Models, Batch: Batch{
		ID: s.newID(batchPrefix), Object: "batch", Endpoint: q.Endpoint, InputFileID: q.InputFileID, CompletionWindow: q.CompletionWindow,
		Status: Validating, CreatedAt: now.Unix(), ExpiresAt: now.Add(length).Unix(), Metadata: maps.Clone(q.Metadata),
	}}
	b := newBatch(r)
	if err := writeJSON(s.batchPath(r.Batch.ID), r); err != nil {
		s.mu.Lock()
		s.releaseInput(q.InputFileID)
		s.mu.Unlock()
		return Batch{}, fmt.Errorf("store a batch: %w", err)
	}
	s.mu.Lock()
	s.batches[r.Batch.ID] = b
	s.batchIDs = insert(s.batchIDs, r.Batch.ID)
	if s.begin != nil { // if it is nil, Run begins the batch later
		s.begin(b)
	}
	s.mu.Unlock()
	return r.Batch, nil
}

// holdInput prevents an input file from being deleted. The error is a *RequestError if the file
// cannot be the input of a batch.
func (s *Store) holdInput(id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	f, err := s.file(id)
	if err != nil {
		return &RequestError{Param: "input_file_id", Code: "file_not_found", Message: fmt.Sprintf("there is no file with the id %.100q", id)}
	}
	if f.Purpose != PurposeInput {
		return invalid("input_file_id", "file %s has the purpose %q: upload it with the purpose %q", id, f.Purpose, PurposeInput)
	}
	s.readers[id]++
	return nil
}

// releaseInput undoes one call of holdInput. When all calls for a file are undone, the file can be
// deleted. s.mu must be held.
func (s *Store) releaseInput(id string) { s.readers[id]-- }

// repeated returns the batch that an earlier request created, if q is a repetition of that request.
// Otherwise it returns nil.
func (s *Store) repeated(q Request) *batch {
	if !q.Repeated {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range slices.Backward(s.batchIDs) {
		b := s.batches[id]
		r := b.state()
		if s.now().Sub(time.Unix(r.Batch.CreatedAt, 0)) > repeatWindow {
			return nil
		}
		if r.Batch.InputFileID == q.InputFileID && r.Batch.Endpoint == q.Endpoint && r.Batch.CompletionWindow == q.CompletionWindow &&
			r.OutputExpiry == q.OutputExpiry && slices.Equal(r.Models, q.Models) && maps.Equal(r.Batch.Metadata, q.Metadata) {
			return b
		}
	}
	return nil
}

func (s *Store) find(id string) (*batch, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b := s.batches[id]; b != nil {
		return b, nil
	}
	return nil, ErrNoBatch
}

// Batch returns a batch. The error is ErrNoBatch if there is none with this id.
func (s *Store) Batch(id string) (Batch, error) {
	b, err := s.find(id)
	if err != nil {
		return Batch{}, err
	}
	return b.view(), nil
}

// Batches returns a page of the batches.
func (s *Store) Batches(q Query) (Page[Batch], error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return page(s.batchIDs, batchPrefix, q, func(id string) (Batch, bool) { return s.batches[id].view(), true })
}

// CancelBatch starts to cancel a batch and returns it. It does not change a batch that is being
// cancelled or was cancelled. The error is ErrNoBatch, or a *RequestError if the batch has ended or
// its files are being written.
func (s *Store) CancelBatch(id string) (Batch, error) {
	b, err := s.find(id)
	if err != nil {
		return Batch{}, err
	}
	b.writing.Lock()
	defer b.writing.Unlock()
	switch r := b.state(); {
	case r.Batch.Status == Cancelling || r.Batch.Status == Cancelled:
		return b.view(), nil
	case r.Ending != nil || r.Batch.Status.Ended():
		return Batch{}, invalid("batch_id", "batch %s cannot be cancelled: it has ended or is ending (its status is %s)", id, r.Batch.Status)
	}
	err = s.changeLocked(b, func(r *record) {
		r.Batch.Status, r.Batch.CancellingAt = Cancelling, s.unix()
	})
	if err != nil {
		return Batch{}, fmt.Errorf("cancel batch %s: %w", id, err)
	}
	b.stop()
	return b.view(), nil
}
