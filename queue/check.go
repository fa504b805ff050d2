package queue

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/ingot-run/ingot/openai"
)

// Limits of a job. Decode returns an error for a job that exceeds them, also if another program
// queued the job.
const (
	MaxLineNumber = math.MaxInt32
	MinTimeout    = time.Second
	MaxTimeout    = 30 * 24 * time.Hour
	MaxAttempts   = 1000

	maxPayload = openai.MaxBody + 64<<10 // maximum bytes of an encoded job: the body plus 64 KiB for all other fields
)

// isHex reports whether s consists of the given number of lower-case hex digits.
func isHex(s string, digits int) bool {
	return len(s) == digits && strings.Trim(s, "0123456789abcdef") == ""
}

// CheckSum returns an error if a row's checksum is not 8 lower-case hex digits.
func CheckSum(sum string) error {
	if isHex(sum, 8) {
		return nil
	}
	return fmt.Errorf("checksum %.20q is not 8 lower-case hex digits", sum)
}

// CheckLine returns an error unless line is a line number from 1 to MaxLineNumber.
func CheckLine(line int) error {
	if line >= 1 && line <= MaxLineNumber {
		return nil
	}
	return fmt.Errorf("line number %d is not between 1 and %d", line, MaxLineNumber)
}

// CheckLimits returns an error if the timeout of one attempt, or the maximum number of attempts, is
// not within the limits of a job.
func CheckLimits(timeout time.Duration, attempts int) error {
	if timeout < MinTimeout || timeout > MaxTimeout {
		return fmt.Errorf("the timeout of an attempt is %v: it must be between %v and %v", timeout, MinTimeout, MaxTimeout)
	}
	if attempts < 1 || attempts > MaxAttempts {
		return fmt.Errorf("the maximum number of attempts is %d: it must be between 1 and %d", attempts, MaxAttempts)
	}
	return nil
}

// check returns an error if a field of a decoded job is missing, malformed or out of its limits.
func (j *Job) check() error {
	timeout := time.Duration(min(max(j.TimeoutMS, 0), 2*MaxTimeout.Milliseconds())) * time.Millisecond // a large one would overflow
	err := errors.Join(CheckBatch(j.Batch), CheckLine(j.Line), CheckSum(j.Sum), CheckLimits(timeout, j.MaxAttempts))
	switch {
	case err != nil:
		return err
	case j.File != "" && !isHex(j.File, 16):
		return fmt.Errorf("file %.40q is not 16 lower-case hex digits", j.File)
	case j.CustomID == "" || len(j.CustomID) > openai.MaxCustomID || !utf8.ValidString(j.CustomID):
		return fmt.Errorf("custom_id %.40q is not UTF-8 of 1 to %d bytes", j.CustomID, openai.MaxCustomID)
	case j.Endpoint != openai.Chat && j.Endpoint != openai.Completions:
		return fmt.Errorf("url %.40q is not %q or %q", j.Endpoint, openai.Chat, openai.Completions)
	case len(j.Body) > openai.MaxBody:
		return fmt.Errorf("the body has %d bytes, which is more than %d", len(j.Body), openai.MaxBody)
	case j.Alias != "" && CheckAlias(j.Alias) != nil:
		return CheckAlias(j.Alias)
	case j.Live != nil && CheckBatch(j.Live.Channel) != nil:
		return fmt.Errorf("live.channel %.40q: use 1 to 128 letters, digits and . _ -, beginning with a letter or digit", j.Live.Channel)
	case j.EnqueuedMS < 0 || j.EnqueuedMS > maxUnixMilli:
		return fmt.Errorf("enqueued_ms %d is not a time: it must be Unix milliseconds before the year 10000", j.EnqueuedMS)
	}
	return nil
}

// maxUnixMilli is the end of the year 9999, as a Unix time in milliseconds.
const maxUnixMilli = 253402300799999
