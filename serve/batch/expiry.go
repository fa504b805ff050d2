package batch

import (
	"strconv"
	"time"
)

// Limits of a file's time to live.
const (
	MinExpiry = time.Hour
	MaxExpiry = 30 * 24 * time.Hour
)

// ParseExpiry parses a time to live, which is a number of seconds after an anchor. The only anchor is "created_at". param is the name of
// the request's field with both values. ParseExpiry returns 0 if both values are empty. If one is invalid, the error is a *RequestError
// that names it.
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
