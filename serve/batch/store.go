// Package batch stores the files and batches of a server in a folder, and runs the batches. It does
// not depend on HTTP.
//
// Every change of a file or batch is written to the disk, atomically, before clients can see it.
// The results of a running batch are in an output file as `ingot run` writes it. That file is the
// only record of the batch's progress. A server that was killed continues its batches when it
// starts again.
package batch

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"
	"golang.org/x/sync/semaphore"
	"golang.org/x/sys/unix"

	"github.com/ingot-run/ingot/openai"
)

// DefaultMaxFileBytes is the default of Options.MaxFileBytes.
const DefaultMaxFileBytes = 1 << 30

// Options are the settings of a Store. A zero value stands for the default that the field's comment
// names.
type Options struct {
	MaxFileBytes int64        // maximum size of an uploaded file; default DefaultMaxFileBytes
	Logger       *slog.Logger // receives log messages; default slog.Default()
}

// Store has the files and batches in a folder. Its methods are safe for concurrent use.
type Store struct {
	root    string
	lock    *os.File
	options Options
	log     *slog.Logger
	now     func() time.Time

	validating *semaphore.Weighted // allows one validation at a time

	creating sync.Mutex // held while a batch is created

	mu       sync.Mutex
	files    map[string]File
	fileIDs  []string // sorted
	batches  map[string]*batch
	batchIDs []string       // sorted
	readers  map[string]int // number of batches that use a file and have not ended, by the file's id
	begin    func(*batch)   // starts to run a batch; nil while Run is not running
}

// Errors of a Store.
var (
	ErrNoFile   = errors.New("no such file")
	ErrNoBatch  = errors.New("no such batch")
	ErrTooLarge = errors.New("file is too large")
)

// RequestError means that a request is invalid. The same request would fail again.
type RequestError struct {
	Param   string // parameter that has to change; empty if none does
	Code    string
	Message string
}

func (e *RequestError) Error() string { return e.Message }

func invalid(param, format string, args ...any) *RequestError {
	return &RequestError{Param: param, Code: openai.CodeInvalidValue, Message: fmt.Sprintf(format, args...)}
}

// Names of the folders in a store's folder.
const (
	filesFolder   = "files"
	batchesFolder = "batches"
)

// Open opens the store in a folder, which it creates if necessary. Only one Store can have the
// folder open.
func Open(folder string, o Options) (*Store, error) {
	s := &Store{
		root: folder, options: o, log: cmp.Or(o.Logger, slog.Default()), now: time.Now, validating: semaphore.NewWeighted(1),
		files: map[string]File{}, batches: map[string]*batch{}, readers: map[string]int{},
	}
	s.options.MaxFileBytes = cmp.Or(o.MaxFileBytes, DefaultMaxFileBytes)
	err := s.open()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open data folder %s: %w", folder, err), s.Close())
	}
	return s, nil
}

func (s *Store) open() error {
	for _, name := range []string{filesFolder, batchesFolder} {
		if err := os.MkdirAll(s.folder(name), 0o700); err != nil {
			return err
		}
	}
	if err := syncFolder(s.root); err != nil {
		return err
	}
	var err error
	if s.lock, err = os.OpenFile(s.folder("lock"), os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return err
	}
	// Errors other than EWOULDBLOCK are ignored: they mean that the file system has no locks.
	if err := unix.Flock(int(s.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); errors.Is(err, unix.EWOULDBLOCK) {
		return errors.New("another server uses the folder: give each server its own folder")
	}
	if err := s.loadFiles(); err != nil {
		return err
	}
	return s.loadBatches()
}

// Close unlocks the folder. Run must have returned before.
func (s *Store) Close() error {
	if s.lock == nil {
		return nil
	}
	// Closing the lock file might not unlock it: between fork and exec, a child process holds all
	// open files and their locks.
	unix.Flock(int(s.lock.Fd()), unix.LOCK_UN) //nolint:errcheck // fails only on file systems without locks
	return s.lock.Close()
}

func (s *Store) load(folder string, describe, content func(id string) error) error {
	names, err := s.names(folder)
	if err != nil {
		return err
	}
	for _, kind := range []struct {
		suffix string
		load   func(id string) error
	}{{descriptionSuffix, describe}, {contentSuffix, content}} {
		for _, name := range names {
			if id, ok := strings.CutSuffix(name, kind.suffix); ok {
				if err := kind.load(id); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// loadFiles reads the descriptions of all files. It removes incomplete uploads, and content files
// that have no description.
func (s *Store) loadFiles() error {
	return s.load(filesFolder, func(id string) error {
		var f File
		err := s.read(s.filePath(id), &f)
		s.files[id] = f
		s.fileIDs = insert(s.fileIDs, id)
		return cmp.Or(err, checkID(s.filePath(id), f.ID, id))
	}, func(id string) error {
		if _, known := s.files[id]; known {
			return nil
		}
		s.log.Info("removed an incomplete file", "file", id+contentSuffix)
		return remove(s.contentPath(id))
	})
}

func (s *Store) loadBatches() error {
	return s.load(batchesFolder, func(id string) error {
		var r record
		if err := cmp.Or(s.read(s.batchPath(id), &r), checkID(s.batchPath(id), r.Batch.ID, id)); err != nil {
			return err
		}
		s.batches[id] = newBatch(r)
		s.batchIDs = insert(s.batchIDs, id)
		if !r.Batch.Status.Ended() {
			s.readers[r.Batch.InputFileID]++
		}
		return nil
	}, func(id string) error {
		if b := s.batches[id]; b != nil && !b.state().Batch.Status.Ended() {
			return nil
		}
		return remove(s.resultsPath(id))
	})
}

func (s *Store) names(folder string) ([]string, error) {
	entries, err := os.ReadDir(s.folder(folder))
	if err != nil {
		return nil, err
	}
	var names []string
	prefix, _, _ := strings.Cut(tempPattern, "*")
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), prefix) {
			names = append(names, e.Name())
			continue
		}
		if err := os.Remove(filepath.Join(s.folder(folder), e.Name())); err != nil {
			return nil, err
		}
	}
	slices.Sort(names)
	return names, nil
}

func (s *Store) read(path string, into any) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("%s is damaged: %w: delete it, or restore it from a backup", path, err)
	}
	return nil
}

// checkID returns an error if the description in a file is not that of the file or batch with the
// id in the file's name, such as null.
func checkID(path, got, id string) error {
	if got == id {
		return nil
	}
	return fmt.Errorf("%s is damaged: its id is %.100q: delete it, or restore it from a backup", path, got)
}

const (
	descriptionSuffix = ".json"
	contentSuffix     = ".jsonl"
)

func (s *Store) folder(name string) string { return filepath.Join(s.root, name) }
func (s *Store) filePath(id string) string {
	return filepath.Join(s.root, filesFolder, id+descriptionSuffix)
}
func (s *Store) contentPath(id string) string {
	return filepath.Join(s.root, filesFolder, id+contentSuffix)
}
func (s *Store) batchPath(id string) string {
	return filepath.Join(s.root, batchesFolder, id+descriptionSuffix)
}
func (s *Store) resultsPath(id string) string {
	return filepath.Join(s.root, batchesFolder, id+contentSuffix)
}

// newID returns a new id. Sorting ids sorts them by creation time.
func (s *Store) newID(prefix string) string { return prefix + ulid.Make().String() }
