package queue

import (
	"context"
	"errors"
	"time"
)

// Store holds batches and the results of their rows. A row is recorded once, even if calls are
// repeated. A finished or cancelled batch is deleted when its retention is over; an unfinished
// batch is not deleted. All methods are safe for concurrent use.
//
// Every method can return ErrUnavailable, if the store cannot be used at the moment. Seal, Record,
// Status, Cancel and Purge return ErrNoBatch if the batch does not exist.
type Store interface {
	// Create creates a batch. If a batch with this id exists, Create sets its weight if b.Weight is
	// not 0, sets its MixModels if b.MixModels is set, and returns its settings without Retention,
	// Lines, MixModels and Weight.
	Create(ctx context.Context, b Batch) (existing Batch, created bool, err error)

	// Seal declares that all rows of a batch are queued. total is the number of rows, fileSHA the
	// SHA-256 of their file. The batch is finished when all these rows are recorded. The error is
	// ErrCancelled if the batch is cancelled.
	Seal(ctx context.Context, batch string, total int, fileSHA string) error

	// Recorded returns the set of a batch's recorded lines.
	Recorded(ctx context.Context, batch string) (Lines, error)

	// Record stores the result of a row that no worker ran, counts it and appends it to the batch's
	// stream, in one atomic step. If the row is already recorded, Record changes nothing. first
	// reports whether the row was not recorded before. The error is ErrNoBatch, ErrCancelled,
	// ErrOtherFile, ErrNoRow or ErrOtherModel if the batch does not accept the result. A result
	// with an empty File is accepted for any file. Workers record with Delivery.Record.
	Record(ctx context.Context, batch string, r Result) (first bool, err error)

	// MaxBytes returns the maximum size in bytes of a job and of a result. The store always refuses
	// larger ones.
	MaxBytes(ctx context.Context) (int, error)

	// Read returns the next recordings of a batch's stream. It returns none if the batch does not
	// exist.
	Read(ctx context.Context, batch string, p Page) ([]Recording, error)

	// Discard deletes results that the caller has written to an output. The rows still count as
	// recorded. If entries is true, it also deletes their entries in the stream; otherwise the
	// entries stay, so that another output can still be compared with the batch.
	Discard(ctx context.Context, batch string, rows []Recording, entries bool) error

	// Status returns the progress of a batch. The error is ErrDamaged if the stored data is not a
	// valid batch.
	Status(ctx context.Context, batch string) (Status, error)

	// Batches returns the progress of all batches, the newest first. For a batch that cannot be
	// read, only Batch and Damage are set.
	Batches(ctx context.Context) ([]Status, error)

	// Missing returns the number of rows of a batch with status s that are neither recorded nor in
	// the queue. No worker will answer them until the batch's file is queued again. Missing returns
	// 0 while the batch is still being queued, and while a queue of its aliases and priority holds
	// jobs of any batch. Otherwise, the error is ErrNoBatch if the batch was deleted after s was
	// read.
	Missing(ctx context.Context, s Status) (int, error)

	// Cancel ends an unfinished batch: running deliveries end, waiting rows leave the queue, and no
	// more rows are begun or recorded. Its results are deleted when the retention is over. If the
	// batch is already finished, Cancel changes nothing and finished is true.
	Cancel(ctx context.Context, batch string) (finished bool, err error)

	// Purge deletes a finished or cancelled batch with its results and its rows in the queue. The
	// error is ErrNoBatch if the batch does not exist, and ErrUnfinished if it has not ended.
	Purge(ctx context.Context, batch string) error
}

// Errors of a Store.
var (
	ErrNoBatch     = errors.New("no such batch") // never queued, purged, or its retention is over
	ErrCancelled   = errors.New("batch is cancelled")
	ErrUnfinished  = errors.New("batch is not finished")
	ErrRecorded    = errors.New("row already has a result")
	ErrSuperseded  = errors.New("row was given to another worker, because the worker that ran it sent no heartbeats for too long")
	ErrOtherFile   = errors.New("row comes from another file than its batch") // the row is left over from an earlier batch with the same id
	ErrNoRow       = errors.New("file of the batch has no such line")
	ErrOtherModel  = errors.New("another model has answered rows of the batch under the same name") // see Pin
	ErrDamaged     = errors.New("it is damaged, or was not made by ingot")
	ErrUnavailable = errors.New("the queue cannot be used now") // a later attempt may succeed; see UntilAvailable
	ErrFull        = errors.New("the queue has no memory left") // errors that wrap ErrFull wrap ErrUnavailable too
)

// Unwanted reports whether an error means that nobody wants the result of a row.
func Unwanted(err error) bool {
	return errors.Is(err, ErrNoBatch) || errors.Is(err, ErrCancelled) || errors.Is(err, ErrOtherFile) || errors.Is(err, ErrNoRow)
}

// Batch has the settings of a batch.
type Batch struct {
	ID        string
	Alias     string // model alias of the rows that name none
	Priority  Priority
	FileSHA   string        // SHA-256 of the whole input in hex; empty if it is not known yet
	Retention time.Duration // time from the end of the batch until it is deleted
	Deadline  time.Time     // time after which rows expire; zero for none
	Cancelled bool
	Lines     int  // lines of the whole input; 0 if the number is not known
	MixModels bool // accept answers of several model files under one alias
	Weight    int  // share of the workers among the batches of the same priority; 0 means 1
	ByModel   bool // rows go to the aliases that they name; otherwise, all go to Alias
}

// FileID returns the id of a file: the first 16 digits of its SHA-256.
func FileID(sha256 string) string { return sha256[:min(16, len(sha256))] }

// Lines is a set of line numbers, as a bitmap in the order of Redis: line n is bit 7-n%8 of byte
// n/8.
type Lines []byte

// Has reports whether a line is in the set.
func (l Lines) Has(line int) bool { return line/8 < len(l) && l[line/8]&(0x80>>(line%8)) != 0 }

// Add puts a line into the set.
func (l *Lines) Add(line int) {
	if need := line/8 + 1 - len(*l); need > 0 {
		*l = append(*l, make(Lines, need)...)
	}
	(*l)[line/8] |= 0x80 >> (line % 8)
}

// Page selects the recordings of a stream that Read returns.
type Page struct {
	After    string                 // ID of the last recording of the previous page; empty for the first page
	Count    int                    // maximum number of recordings
	MaxBytes int                    // maximum total size of the results in bytes; the first result is returned even if it is larger
	Wait     time.Duration          // maximum time to wait for a recording if there is none; 0 to return at once
	Want     func(r Recording) bool // reports whether Read should return the result of an entry, which r does not have yet; must not be nil
}

// Recording is an entry of a batch's stream with the result of its line.
type Recording struct {
	ID     string // id of the entry
	Line   int
	Sum    string // checksum of the input line
	Failed bool
	Text   []byte // the line of output; nil if it was not wanted or was freed
	Damage string // why the entry cannot be used (only ID is set then); empty if it can be used

	// Requeued is empty for a result. Otherwise the entry says that the failed row was queued again
	// and its error line is no longer valid. Requeued then identifies that error line: the first 16
	// hex digits of the SHA-1 of its text.
	Requeued string
}
