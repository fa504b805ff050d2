package job

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// ErrNoBatch means that Redis has no batch with an id: it was never queued, or its retention is over.
var ErrNoBatch = errors.New("no such batch")

// ErrCancelled means that a batch was cancelled, so that its rows are neither answered nor recorded.
var ErrCancelled = errors.New("batch is cancelled")

// ErrOtherFile means that a row is not of the file from which its batch was queued: it is left from an earlier batch with the
// same id.
var ErrOtherFile = errors.New("row is of another file than its batch")

// FileID identifies the file of a batch's rows: the first 16 digits of its SHA-256.
func FileID(sha256 string) string { return sha256[:min(16, len(sha256))] }

// scriptError is the error for a script's answer, or nil.
func scriptError(n int) error {
	switch n {
	case -1:
		return ErrNoBatch
	case -2:
		return ErrCancelled
	case -3:
		return ErrOtherFile
	}
	return nil
}

// Store holds batches and their results in Redis, under these keys (the braces put all keys of a batch on one node of a
// cluster):
//
//	ingot:{BATCH}:meta      hash: the batch's settings, counts and times
//	ingot:{BATCH}:done      bitmap: a bit for each recorded line, so that nothing is recorded twice
//	ingot:{BATCH}:attempts  hash: number of deliveries of each line that was begun and is not recorded
//	ingot:{BATCH}:results   hash: the line of output of each recorded line
//	ingot:{BATCH}:stream    stream: the recorded lines and their checksums in the order of recording
//
// A finished or cancelled batch is deleted when its retention is over. An unfinished one stays.
type Store struct {
	rdb redis.UniversalClient
}

// NewStore returns the store of a Redis server.
func NewStore(rdb redis.UniversalClient) *Store { return &Store{rdb} }

var (
	//go:embed lua/create.lua
	createSource string
	//go:embed lua/begin.lua
	beginSource string
	//go:embed lua/release.lua
	releaseSource string
	//go:embed lua/record.lua
	recordSource string
	//go:embed lua/seal.lua
	sealSource string
	//go:embed lua/finish.lua
	finishSource string
	//go:embed lua/cancel.lua
	cancelSource string

	createScript  = redis.NewScript(createSource)
	beginScript   = redis.NewScript(beginSource)
	releaseScript = redis.NewScript(releaseSource)
	recordScript  = redis.NewScript(recordSource + finishSource)
	sealScript    = redis.NewScript(sealSource + finishSource)
	cancelScript  = redis.NewScript(cancelSource)
)

func key(batch, name string) string { return "ingot:{" + batch + "}:" + name }

func keys(batch string, names ...string) []string {
	ks := make([]string, len(names))
	for i, n := range names {
		ks[i] = key(batch, n)
	}
	return ks
}

func allKeys(batch string) []string {
	return keys(batch, "meta", "done", "attempts", "results", "stream")
}

func now() int64 { return time.Now().UnixMilli() }

// Batch is the settings of a batch.
type Batch struct {
	ID        string
	Alias     string
	Priority  Priority
	FileSHA   string // SHA-256 of the whole input in hex; empty if it is not known yet
	Retention time.Duration
	Cancelled bool
}

// Create creates a batch, or returns the settings of the existing one.
func (s *Store) Create(ctx context.Context, b Batch) (existing Batch, created bool, err error) {
	n, err := createScript.Run(ctx, s.rdb, keys(b.ID, "meta"),
		"model", b.Alias, "priority", string(b.Priority), "file_sha256", b.FileSHA,
		"retention_ms", b.Retention.Milliseconds(), "created_ms", now(), "done", 0, "failed", 0).Int()
	if err != nil {
		return Batch{}, false, fmt.Errorf("create batch %s: %w", b.ID, err)
	}
	if n == 1 {
		return b, true, nil
	}
	m, err := s.rdb.HGetAll(ctx, key(b.ID, "meta")).Result()
	if err != nil {
		return Batch{}, false, fmt.Errorf("read batch %s: %w", b.ID, err)
	}
	existing = Batch{ID: b.ID, Alias: m["model"], Priority: Priority(m["priority"]), FileSHA: m["file_sha256"], Cancelled: m["cancelled_ms"] != ""}
	return existing, false, nil
}

// Seal declares that all rows of a batch are queued, with their number and the SHA-256 of their file.
func (s *Store) Seal(ctx context.Context, batch string, total int, fileSHA string) error {
	n, err := sealScript.Run(ctx, s.rdb, allKeys(batch), total, now(), fileSHA).Int()
	if err == nil {
		err = scriptError(n)
	}
	if err != nil {
		return fmt.Errorf("seal batch %s: %w", batch, err)
	}
	return nil
}

// Cancel ends an unfinished batch: its rows are no longer begun or recorded, and its results are deleted after their retention.
// It returns the lines that were running. If the batch is finished it changes nothing; finished reports that.
func (s *Store) Cancel(ctx context.Context, batch string) (running []int, finished bool, err error) {
	lines, err := s.rdb.HKeys(ctx, key(batch, "attempts")).Result()
	if err != nil {
		return nil, false, fmt.Errorf("cancel batch %s: %w", batch, err)
	}
	n, err := cancelScript.Run(ctx, s.rdb, allKeys(batch), now()).Int()
	if err == nil {
		err = scriptError(n)
	}
	if err != nil {
		return nil, false, fmt.Errorf("cancel batch %s: %w", batch, err)
	}
	for _, text := range lines {
		line, err := strconv.Atoi(text)
		if err != nil {
			return nil, false, fmt.Errorf("cancel batch %s: a running row has line %q", batch, text)
		}
		running = append(running, line)
	}
	return running, n == 0, nil
}

// ErrUnfinished means that a batch may record more results.
var ErrUnfinished = errors.New("batch is not finished")

// Purge deletes a finished or cancelled batch with its results. It works while Redis has no memory left. The error is ErrNoBatch
// or ErrUnfinished if the batch is not there or has not ended.
func (s *Store) Purge(ctx context.Context, batch string) error {
	st, err := s.Status(ctx, batch)
	if err != nil {
		return err
	}
	if !st.Ended() {
		return fmt.Errorf("purge batch %s: %w: cancel it first", batch, ErrUnfinished)
	}
	if err := s.rdb.Unlink(ctx, allKeys(batch)...).Err(); err != nil {
		return fmt.Errorf("purge batch %s: %w", batch, err)
	}
	return nil
}

// Cancelled reports whether a batch was cancelled.
func (s *Store) Cancelled(ctx context.Context, batch string) (bool, error) {
	cancelled, err := s.rdb.HExists(ctx, key(batch, "meta"), "cancelled_ms").Result()
	if err != nil {
		return false, fmt.Errorf("read batch %s: %w", batch, err)
	}
	return cancelled, nil
}

// Recorded is the set of a batch's recorded lines.
func (s *Store) Recorded(ctx context.Context, batch string) (Lines, error) {
	bits, err := s.rdb.Get(ctx, key(batch, "done")).Bytes()
	if err != nil && !errors.Is(err, redis.Nil) {
		return nil, fmt.Errorf("read batch %s: %w", batch, err)
	}
	return bits, nil
}

// Lines is a set of lines.
type Lines []byte

// Has reports whether a line is in the set.
func (l Lines) Has(line int) bool { return line/8 < len(l) && l[line/8]&(0x80>>(line%8)) != 0 }

// ErrRecorded means that a row's result is already recorded.
var ErrRecorded = errors.New("row is recorded")

// Begin counts a delivery of a row to a worker and returns its number, from 1. If the row needs no work, the error is
// ErrRecorded, ErrNoBatch, ErrCancelled or ErrOtherFile. file is the row's FileID; empty stands for any file.
func (s *Store) Begin(ctx context.Context, batch string, line int, file string) (attempt int, err error) {
	n, err := beginScript.Run(ctx, s.rdb, keys(batch, "meta", "done", "attempts"), line, now(), file).Int()
	switch {
	case err != nil:
		return 0, fmt.Errorf("begin line %d of batch %s: %w", line, batch, err)
	case n < 0:
		return 0, scriptError(n)
	case n == 0:
		return 0, ErrRecorded
	}
	return n, nil
}

// Release subtracts a delivery that Begin counted and whose job went back to the queue unfinished.
func (s *Store) Release(ctx context.Context, batch string, line int) error {
	if err := releaseScript.Run(ctx, s.rdb, keys(batch, "attempts"), line).Err(); err != nil {
		return fmt.Errorf("release line %d of batch %s: %w", line, batch, err)
	}
	return nil
}

// Record stores the result of a row, counts it and appends it to the batch's stream, in one atomic step. If the row is already
// recorded it changes nothing; first reports that it was not. The error is ErrNoBatch, ErrCancelled or ErrOtherFile if the batch does
// not take the result.
func (s *Store) Record(ctx context.Context, batch string, r Result) (first bool, err error) {
	outcome := "done"
	if r.Failed {
		outcome = "failed"
	}
	args := []any{r.Line, r.Text, outcome, now(), r.Sum, r.File}
	for _, c := range []struct {
		name string
		n    int
	}{
		{"prompt_tokens", r.Stats.PromptTokens},
		{"cached_tokens", r.Stats.CachedTokens},
		{"completion_tokens", r.Stats.CompletionTokens},
		{"draft_tokens", r.Stats.DraftTokens},
		{"accepted_tokens", r.Stats.AcceptedTokens},
	} {
		if c.n > 0 {
			args = append(args, c.name, c.n)
		}
	}
	n, err := recordScript.Run(ctx, s.rdb, allKeys(batch), args...).Int()
	if err == nil {
		err = scriptError(n)
	}
	if err != nil {
		return false, fmt.Errorf("record line %d of batch %s: %w", r.Line, batch, err)
	}
	return n == 1, nil
}

// Recording is an entry of a batch's stream with the result of its line.
type Recording struct {
	ID     string // of the entry
	Line   int
	Sum    string // of the input line
	Failed bool
	Text   []byte // the line of output; nil if it was not wanted or was dropped
}

// Read returns up to count recordings of a batch's stream that follow the one with ID after, or the first ones if after is
// empty. If there are none, it waits for one, for as long as wait. It fetches results only of the lines for which want is true.
func (s *Store) Read(ctx context.Context, batch, after string, count int, wait time.Duration, want func(line int) bool) ([]Recording, error) {
	if after == "" {
		after = "0"
	}
	block := wait
	if wait <= 0 {
		block = -1
	}
	streams, err := s.rdb.XRead(ctx, &redis.XReadArgs{
		Streams: []string{key(batch, "stream"), after}, Count: int64(count), Block: block,
	}).Result()
	if errors.Is(err, redis.Nil) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read results of batch %s: %w", batch, err)
	}
	var rows []Recording
	var fields []string
	var wanted []int
	for _, m := range streams[0].Messages {
		text, _ := m.Values["line"].(string)
		line, err := strconv.Atoi(text)
		if err != nil {
			return nil, fmt.Errorf("read results of batch %s: entry %s has line %q", batch, m.ID, text)
		}
		if want(line) {
			wanted = append(wanted, len(rows))
			fields = append(fields, text)
		}
		sum, _ := m.Values["sum"].(string)
		rows = append(rows, Recording{ID: m.ID, Line: line, Sum: sum, Failed: m.Values["outcome"] == "failed"})
	}
	if len(fields) == 0 {
		return rows, nil
	}
	results, err := s.rdb.HMGet(ctx, key(batch, "results"), fields...).Result()
	if err != nil {
		return nil, fmt.Errorf("read results of batch %s: %w", batch, err)
	}
	for i, r := range results {
		if text, ok := r.(string); ok {
			rows[wanted[i]].Text = []byte(text)
		}
	}
	return rows, nil
}

// Drop deletes results that are stored elsewhere, and their entries of the stream. The rows stay recorded.
func (s *Store) Drop(ctx context.Context, batch string, rows []Recording) error {
	if len(rows) == 0 {
		return nil
	}
	fields := make([]string, len(rows))
	ids := make([]string, len(rows))
	for i, r := range rows {
		fields[i], ids[i] = strconv.Itoa(r.Line), r.ID
	}
	pipe := s.rdb.Pipeline()
	pipe.HDel(ctx, key(batch, "results"), fields...)
	pipe.XDel(ctx, key(batch, "stream"), ids...)
	if _, err := pipe.Exec(ctx); err != nil {
		return fmt.Errorf("drop results of batch %s: %w", batch, err)
	}
	return nil
}
