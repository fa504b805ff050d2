package hub

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"
)

type client struct {
	env   Env
	agent string // value of the header User-Agent
	http  *http.Client
	wait  func(ctx context.Context, d time.Duration) error
	note  func(text string) // called with the reason why a request waits
}

const (
	maxRedirects = 10
	// maxTries is the number of attempts without progress after which a request or download fails.
	maxTries = 7
	// maxWait is the maximum total time of the waits that servers require (RateLimit, Retry-After)
	// while nothing is received. The hub limits the number of requests per five minutes.
	maxWait = 10 * time.Minute
)

func newClient(env Env, agent string, note func(string)) *client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.ResponseHeaderTimeout = env.Timeout
	transport.MaxIdleConnsPerHost = connections
	transport.ForceAttemptHTTP2 = false // each range has its own connection; HTTP/2 would share one
	transport.TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{}
	return &client{
		env: env, agent: agent, note: note, wait: wait,
		http: &http.Client{
			Transport: transport,
			// client.send follows redirects itself, since the hub's headers are in its first
			// response, and only the hub may get the token.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// retryPause returns the pauses between attempts: from half a second to 20 seconds, with random
// jitter.
func retryPause() *backoff.ExponentialBackOff {
	b := backoff.NewExponentialBackOff()
	b.MaxInterval = 20 * time.Second
	b.Multiplier = 2
	return b
}

var errOffline = errors.New("HF_HUB_OFFLINE is set, so nothing is downloaded; unset it to download")

// send sends a request and follows redirects within the host. It returns the last response, which
// can be a redirect to another host. If token is set, the request has the hub's token.
func (c *client) send(ctx context.Context, method, address string, header http.Header, token bool) (*http.Response, error) {
	if c.env.Offline {
		return nil, errOffline
	}
	for range maxRedirects {
		req, err := http.NewRequestWithContext(ctx, method, address, http.NoBody)
		if err != nil {
			return nil, err
		}
		for k, v := range header {
			req.Header[k] = v
		}
		req.Header.Set("User-Agent", c.agent)
		req.Header.Set("Accept-Encoding", "identity") // a compressed response would not have the file's length
		if token && c.env.Token != "" {
			req.Header.Set("Authorization", "Bearer "+c.env.Token)
		}
		res, err := c.http.Do(req)
		if err != nil {
			return nil, err
		}
		next := redirectOf(res)
		if next == nil || next.Host != req.URL.Host || next.Scheme != req.URL.Scheme {
			return res, nil
		}
		closeBody(res)
		address = next.String()
	}
	return nil, &finalError{fmt.Errorf("the server redirects more than %d times, probably in a circle; check the name of the model, and HF_ENDPOINT if you have set it", maxRedirects)}
}

// redirectOf returns the address that a response redirects to; nil if the response is not a
// redirect.
func redirectOf(res *http.Response) *url.URL {
	switch res.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		if next, err := res.Location(); err == nil && (next.Scheme == "https" || next.Scheme == "http") && next.Host != "" {
			return next
		}
	}
	return nil
}

// closeBody closes the body of a response. It first reads at most 64 KiB of it, so that the
// connection can be reused.
func closeBody(res *http.Response) {
	_, _ = io.CopyN(io.Discard, res.Body, 64<<10)
	_ = res.Body.Close()
}

// finalError is an error that is not retried, because another attempt would fail in the same way.
type finalError struct{ error }

func (e *finalError) Unwrap() error { return e.error }

// isFinal reports whether an error must not be retried: another attempt would fail in the same way,
// or the user has cancelled the request.
func isFinal(err error) bool {
	var final *finalError
	var dns *net.DNSError
	return errors.As(err, &final) || errors.Is(err, errOffline) || errors.Is(err, context.Canceled) || errors.As(err, &dns) && dns.IsNotFound
}

// busyError is the error for a response such as 429 or 503, after which the client should try again
// later.
type busyError struct {
	after time.Duration // time to wait before the next attempt; 0 if the server gives none
	error
}

func (e *busyError) Unwrap() error { return e.error }

// retry calls try until it succeeds, returns a final error, or fails maxTries times in a row. try
// reports whether it made progress, which resets the count.
func (c *client) retry(ctx context.Context, try func() (progress bool, err error)) error {
	pause := retryPause()
	failed, waited := 0, time.Duration(0)
	for {
		progress, err := try()
		if err == nil || isFinal(err) || ctx.Err() != nil {
			return err
		}
		if progress {
			failed, waited = 0, 0
			pause.Reset()
		}
		d := pause.NextBackOff()
		var busy *busyError
		if errors.As(err, &busy) && busy.after > 0 {
			d = busy.after
			if waited += d; waited > maxWait {
				return fmt.Errorf("%w; the server requires a wait of %s: try again later", err, d.Round(time.Second))
			}
		} else if failed++; failed >= maxTries {
			return fmt.Errorf("%w (tried %d times)", err, failed)
		}
		if d >= 2*time.Second {
			c.note(fmt.Sprintf("%s; waiting %s", reason(err), d.Round(time.Second)))
		}
		if err := c.wait(ctx, d); err != nil {
			return err
		}
	}
}

// reason returns the text of the busyError that err wraps, or the text of err if it wraps none.
func reason(err error) string {
	var busy *busyError
	if errors.As(err, &busy) {
		return busy.Error()
	}
	return err.Error()
}

// retryAfter returns how long a server requires the client to wait, or 0. It takes the value of t
// in the header RateLimit, such as `"api";r=0;t=55`. Without that header, it takes the header
// Retry-After, in seconds or as a date.
func retryAfter(h http.Header, now time.Time) time.Duration {
	for part := range strings.SplitSeq(h.Get("RateLimit"), ";") {
		if t, ok := strings.CutPrefix(strings.TrimSpace(part), "t="); ok {
			if s, err := strconv.ParseUint(t, 10, 31); err == nil {
				return time.Duration(s)*time.Second + 100*time.Millisecond
			}
		}
	}
	after := h.Get("Retry-After")
	if s, err := strconv.ParseUint(after, 10, 31); err == nil {
		return time.Duration(s)*time.Second + 100*time.Millisecond
	}
	if at, err := http.ParseTime(after); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}

// hostOf returns the host of an address, for messages. The whole address may contain a secret
// signature.
func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "the server"
	}
	return u.Host
}

// networkError describes why a request got no complete response. It omits the address, which may
// contain a secret signature.
func networkError(doing, address string, err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	if errors.Is(err, errOffline) {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return fmt.Errorf("%s: reach %s: %w", doing, hostOf(address), err)
}
