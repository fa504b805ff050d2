package serve

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/time/rate"
)

// Keys has the API keys that a server accepts, as hashes.
type Keys struct {
	byHash map[[sha256.Size]byte]*key
}

type key struct {
	name     string        // name of the key in the log
	requests *rate.Limiter // limit of requests; nil for no limit
	tokens   *rate.Limiter // limit of tokens of prompts and answers; nil for no limit
	models   []string      // models that the key may use; nil for all
}

// ReadKeys reads a file of API keys. Each line has a key, or "sha256:" and the key's hash in
// hexadecimal, followed by any of these settings:
//
//	name=NAME       the key's name in the log; without one, the first characters of the hash
//	rate=60         requests per minute
//	tokens=100000   tokens per minute, of prompts and answers
//	models=A,B      the models that the key may use
//
// Empty lines and lines that begin with # are ignored.
func ReadKeys(path string) (*Keys, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read API keys: %w", err)
	}
	defer f.Close() //nolint:errcheck // the file was only read
	k := &Keys{byHash: map[[sha256.Size]byte]*key{}}
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		fields := strings.Fields(strings.TrimPrefix(lines.Text(), "\ufeff")) // a file from Windows may begin with a byte order mark
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		if err := k.add(fields); err != nil {
			return nil, fmt.Errorf("read API keys: %s:%d: %w", path, n, err)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read API keys: %s: %w", path, err)
	}
	if len(k.byHash) == 0 {
		return nil, fmt.Errorf("read API keys: %s has no key, so nobody could use the server: add one", path)
	}
	return k, nil
}

// minKey is the minimum length, in bytes, of a key that is given as text. Shorter keys are easy to
// guess.
const minKey = 8

func (k *Keys) add(fields []string) error {
	hash := sha256.Sum256([]byte(fields[0]))
	if digits, ok := strings.CutPrefix(fields[0], "sha256:"); ok {
		raw, err := hex.DecodeString(digits)
		if err != nil || len(raw) != len(hash) {
			return fmt.Errorf(`"sha256:" must be followed by %d hexadecimal digits`, 2*len(hash))
		}
		hash = [sha256.Size]byte(raw)
	} else if len(fields[0]) < minKey {
		return fmt.Errorf("the key has fewer than %d bytes: use a longer one", minKey)
	} else if !utf8.ValidString(fields[0]) {
		return errors.New("the key is not UTF-8")
	}
	if k.byHash[hash] != nil {
		return fmt.Errorf("the file has this key twice: remove one")
	}
	made := &key{name: hex.EncodeToString(hash[:4])}
	for _, f := range fields[1:] {
		if err := made.set(f); err != nil {
			return err
		}
	}
	k.byHash[hash] = made
	return nil
}

// set sets a field of a key from a text such as rate=60.
func (k *key) set(field string) (err error) {
	name, value, ok := strings.Cut(field, "=")
	if !ok || value == "" {
		return fmt.Errorf("%q is not a setting: give name=NAME, rate=N, tokens=N or models=A,B", field)
	}
	switch name {
	case "name":
		k.name = value
	case "rate":
		k.requests, err = perMinute(value)
	case "tokens":
		k.tokens, err = perMinute(value)
	case "models":
		k.models = strings.Split(value, ",")
	default:
		return fmt.Errorf("%q is not a setting: give name=NAME, rate=N, tokens=N or models=A,B", field)
	}
	return err
}

func perMinute(s string) (*rate.Limiter, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 {
		return nil, fmt.Errorf("a limit must be a whole number of at least 1, not %q", s)
	}
	return rate.NewLimiter(rate.Limit(float64(n)/60), n), nil
}

func (k *Keys) ofRequest(r *http.Request) (*key, error) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if token = strings.TrimSpace(token); !strings.EqualFold(scheme, "Bearer") || token == "" {
		return nil, failf(http.StatusUnauthorized, "", "missing_api_key", "an API key is missing: send the header Authorization: Bearer KEY")
	}
	return k.find(token)
}

func (k *Keys) find(token string) (*key, error) {
	found := k.byHash[sha256.Sum256([]byte(token))] // the time of this look-up depends only on hashes, so it reveals nothing about keys
	if found == nil {
		return nil, failf(http.StatusUnauthorized, "", "invalid_api_key", "the API key is not valid for this server")
	}
	return found, nil
}

func (k *key) mayUse(model string) bool {
	return k == nil || k.models == nil || slices.Contains(k.models, model)
}

// begin counts a request against the key's limits. It returns an error if a limit is reached. A nil
// key has no limits.
func (k *key) begin(now time.Time) error {
	if k == nil {
		return nil
	}
	if k.tokens != nil {
		if have := k.tokens.TokensAt(now); have < 1 {
			return tooMany("tokens", k.tokens, time.Duration((1-have)/float64(k.tokens.Limit())*float64(time.Second)))
		}
	}
	if k.requests != nil && !k.requests.AllowN(now, 1) {
		return tooMany("requests", k.requests, time.Duration((1-k.requests.TokensAt(now))/float64(k.requests.Limit())*float64(time.Second)))
	}
	return nil
}

func tooMany(counted string, l *rate.Limiter, wait time.Duration) error {
	return failLater(wait, http.StatusTooManyRequests, "", "rate_limit_exceeded", "the API key is limited to %d %s per minute: try again in %v",
		l.Burst(), counted, max(time.Second, wait.Round(time.Second)))
}

// spend counts the tokens of an answered request against the key's limit. If they exceed it, begin
// refuses requests until the limit allows tokens again.
func (k *key) spend(now time.Time, tokens int) {
	if k == nil || k.tokens == nil {
		return
	}
	for tokens > 0 {
		n := min(tokens, k.tokens.Burst())
		k.tokens.ReserveN(now, n)
		tokens -= n
	}
}

// authenticated wraps a handler so that its requests need one of the server's API keys. If the
// server has no keys, everyone may use the handler, except web pages of other sites.
func (s *Server) authenticated(h handler) http.Handler {
	return s.open(func(w http.ResponseWriter, r *http.Request) error {
		if err := s.checkPage(r); err != nil {
			return err
		}
		if s.options.Keys == nil {
			return h(w, r)
		}
		key, err := s.options.Keys.ofRequest(r)
		if err != nil {
			return err
		}
		notesOf(r.Context()).key = key.name
		return h(w, r.WithContext(context.WithValue(r.Context(), keyKey{}, key)))
	})
}

type keyKey struct{}

// keyOf returns the API key of a request; nil if the server needs no keys.
func keyOf(ctx context.Context) *key {
	k, _ := ctx.Value(keyKey{}).(*key)
	return k
}
