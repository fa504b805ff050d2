package job

import (
	"context"
	"errors"
	"time"
)

// Store holds batches and the results of their rows. A row is recorded once, even if calls are repeated. A finished or cancelled
// batch is deleted when its retention is over; an unfinished batch is not deleted. All methods are safe for concurrent use.
//
// An error is ErrNoBatch if the batch does not exist, and ErrUnavailable if the store cannot be used for a moment.
type Store interface {
	// Create creates a batch, or returns the settings of the existing one. An existing one gets the weight of b, if b has one, and may
	// mix models from then on if b may.
	Create(ctx context.Context, b Batch) (existing Batch, created bool, err error)

	// Seal declares that all rows of a batch are queued, with their number and the SHA-256 of their file. The batch is finished
	// when that many rows are recorded. The error is ErrCancelled if the batch is cancelled.
	Seal(ctx context.Context, batch string, total int, fileSHA string) error

	// Recorded is the set of a batch's recorded lines.
	Recorded(ctx context.Context, batch string) (Lines, error)

	// Begin counts an attempt at a row. If the row needs no work, the error is ErrRecorded, ErrNoBatch, ErrCancelled, ErrOtherFile
	// or ErrNoRow. It is ErrOtherModel if the batch accepts no answer of this worker's model, and ErrSuperseded if the delivery was
	// ended. A job without a File belongs to any file.
	Begin(ctx context.Context, j *Job) (Start, error)

	// Release subtracts an attempt that Begin has counted, because the job returned to the queue unfinished. If the delivery was
	// ended, Release changes nothing.
	Release(ctx context.Context, j *Job) error

	// SaveCheckpoint stores an encoded Checkpoint of a row that Begin has begun. It replaces the previous one. Record deletes the
	// checkpoint. The error is ErrSuperseded if the delivery was ended, ErrNoBatch or ErrCancelled if the row needs no work.
	SaveCheckpoint(ctx context.Context, j *Job, checkpoint []byte) error

	// Record stores the result of a row, counts it and appends it to the batch's stream, in one atomic step. If the row is already
	// recorded, Record changes nothing. first reports whether the row was not recorded before. The error is ErrNoBatch, ErrCancelled,
	// ErrOtherFile, ErrNoRow or ErrOtherModel if the batch does not accept the result, and ErrSuperseded if the delivery was ended.
	Record(ctx context.Context, batch string, r Result) (first bool, err error)

	// MaxBytes is the maximum size of a job and of a result. A larger one would never be taken, however often it is tried.
	MaxBytes(ctx context.Context) (int, error)

	// Read returns the next recordings of a batch's stream. If the batch does not exist, there are none.
	Read(ctx context.Context, batch string, p Page) ([]Recording, error)

	// Drop deletes results that are stored elsewhere, and their entries in the stream. The rows stay recorded.
	Drop(ctx context.Context, batch string, rows []Recording) error

	// Free deletes results that are stored elsewhere. It keeps their entries in the stream, so that another output can still be
	// compared with the batch.
	Free(ctx context.Context, batch string, rows []Recording) error

	// Status reads the progress of a batch. The error is ErrDamaged if what is stored is not a batch.
	Status(ctx context.Context, batch string) (Status, error)

	// Batches reads the progress of all batches, the newest first. If a batch cannot be read, its status has only the Damage.
	Batches(ctx context.Context) ([]Status, error)

	// Lost is the number of rows of a batch that are neither recorded nor in the queue, so that no worker will answer them until
	// the batch's file is queued again. It is 0 while the queue holds jobs, because other batches may share the queue, and
	// while the batch is still being queued. s is the batch's status.
	Lost(ctx context.Context, s Status) (int, error)

	// Cancel ends an unfinished batch: its rows are no longer begun or recorded, and its results are deleted after their retention.
	// Deliveries that are running are ended, and waiting rows leave the queue. If the batch is finished, Cancel changes nothing and
	// finished is true.
	Cancel(ctx context.Context, batch string) (finished bool, err error)

	// Cancelled reports whether a batch was cancelled.
	Cancelled(ctx context.Context, batch string) (bool, error)

	// Purge deletes a finished or cancelled batch with its results, and with the waiting rows that producers added after it was
	// cancelled. The error is ErrNoBatch if the batch does not exist, and ErrUnfinished if it has not ended.
	Purge(ctx context.Context, batch string) error
}

// Errors of a Store.
var (
	ErrNoBatch     = errors.New("no such batch") // it was never queued, or its retention is over
	ErrCancelled   = errors.New("batch is cancelled")
	ErrUnfinished  = errors.New("batch is not finished")
	ErrRecorded    = errors.New("row is recorded")
	ErrSuperseded  = errors.New("row was taken from its worker, which was silent for too long")
	ErrOtherFile   = errors.New("row is of another file than its batch") // an earlier batch with the same id has left the row
	ErrNoRow       = errors.New("file of the batch has no such line")
	ErrOtherModel  = errors.New("another model has answered rows of the batch") // see Pin
	ErrDamaged     = errors.New("it is damaged, or was not made by ingot")
	ErrUnavailable = errors.New("the queue cannot be used now") // another try may succeed; see Retry
	ErrFull        = errors.New("the queue has no memory left") // is ErrUnavailable too
)

// Start is the result of Begin.
type Start struct {
	Attempt    int    // number of the attempt, from 1; workers that died are not counted
	Checkpoint []byte // encoded progress of an earlier attempt; nil if there is none
}

// Batch has the settings of a batch.
type Batch struct {
	ID        string
	Alias     string
	Priority  Priority
	FileSHA   string // SHA-256 of the whole input in hex; empty if it is not known yet
	Retention time.Duration
	Deadline  time.Time // time after which rows are not answered any longer; zero for none
	Cancelled bool
	Lines     int  // lines of the whole input; 0 if the number is not known
	MixModels bool // take answers of several models
	Weight    int  // rows that workers take for each row of a batch of weight 1 of the same priority; 0 stands for 1
}

// FileID returns the id of a file: the first 16 digits of its SHA-256.
func FileID(sha256 string) string { return sha256[:min(16, len(sha256))] }

// Lines is a set of lines.
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
	After    string              // the ID of the recording before the first one; empty for the beginning of the stream
	Count    int                 // maximum number of recordings
	MaxBytes int                 // maximum size of their results, except that the first result is always returned
	Wait     time.Duration       // maximum time to wait for a recording if there is none
	Want     func(line int) bool // reports whether the result of a line is wanted
}

// Recording is an entry of a batch's stream with the result of its line.
type Recording struct {
	ID     string // id of the entry
	Line   int
	Sum    string // checksum of the input line
	Failed bool
	Text   []byte // the line of output; nil if it was not wanted or was freed
	Damage string // the reason why the entry cannot be used; only ID is set then

	// Requeued is set if the recording is not a result: the row was queued again, and its earlier error line is not valid any longer.
	// Requeued is the checksum of that line: the first 16 hex digits of the SHA-1 of its text.
	Requeued string
}
