package hub

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	connections = 6
	spanBlocks  = 64
)

type download struct {
	c      *client
	what   string // name of the file for messages
	part   *partial
	locate func(ctx context.Context) (source, error)
	moved  func(bytes int64) // called after each block with its number of bytes

	mu   sync.Mutex
	from source // address of the file; empty before the first request

	ranges   atomic.Bool  // the server supports ranges, so several connections read
	received atomic.Int64 // bytes received, including those of incomplete blocks
}

func (d *download) run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	var more sync.Once
	var work func() error
	hasRanges := func() {
		more.Do(func() {
			d.ranges.Store(true)
			for range connections - 1 {
				group.Go(work)
			}
		})
	}
	work = func() error {
		// Each request is for at most a quarter of a connection's share, so that all connections
		// end at about the same time.
		most := max(1, min(spanBlocks, d.part.blocks/(4*connections)))
		r := &reading{buf: make([]byte, blockSize)}
		for {
			var ok bool
			if r.span, ok = d.part.claim(most); !ok {
				return nil
			}
			r.filled = 0
			seen := d.received.Load()
			err := d.c.retry(ctx, func() (bool, error) {
				err := d.fetch(ctx, r, hasRanges)
				now := d.received.Load() // received by all connections: while others receive data, a refused connection does not count as failed
				progress := now > seen
				seen = now
				return progress, err
			})
			if err != nil {
				return err
			}
		}
	}
	group.Go(work)
	return group.Wait()
}

type reading struct {
	span
	buf    []byte // received part of block first
	filled int
}

// fetch sends one request for the blocks of r and stores the blocks that it receives. Afterwards, r
// has the blocks that are still missing. If the response is a range, fetch calls hasRanges.
func (d *download) fetch(ctx context.Context, r *reading, hasRanges func()) error {
	from, err := d.source(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	first, last := int64(r.first)*blockSize+int64(r.filled), min(int64(r.end)*blockSize, d.part.size)-1
	res, err := d.c.open(ctx, from, http.Header{"Range": {fmt.Sprintf("bytes=%d-%d", first, last)}})
	if err != nil {
		return networkError("pull "+d.what, from.url, err)
	}
	defer res.Body.Close() //nolint:errcheck // all needed bytes were read
	switch {
	case res.StatusCode == http.StatusPartialContent:
		if err := d.checkRange(res.Header.Get("Content-Range"), first); err != nil {
			return err
		}
		hasRanges()
	case res.StatusCode == http.StatusOK && d.ranges.Load():
		return fmt.Errorf("pull %s: %w, although it has sent a range before", d.what, errNoRanges)
	case res.StatusCode == http.StatusOK:
		if res.ContentLength >= 0 && res.ContentLength != d.part.size {
			return d.wrongSize(res.ContentLength)
		}
		d.part.claimAll()
		r.span, r.filled = span{0, d.part.blocks}, 0
	default:
		return d.refused(from, res)
	}
	body := &steady{r: res.Body, timer: time.AfterFunc(d.c.env.Timeout, func() { cancel(errStalled) }), timeout: d.c.env.Timeout}
	defer body.timer.Stop()
	if err := d.read(body, r); err != nil {
		var final *finalError
		switch {
		case errors.As(err, &final):
			return err
		case errors.Is(context.Cause(ctx), errStalled):
			err = fmt.Errorf("the server sent nothing for %s", d.c.env.Timeout)
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			err = errors.New("the connection was cut")
		}
		return networkError("pull "+d.what, from.url, err)
	}
	return nil
}

func (d *download) read(body io.Reader, r *reading) error {
	for r.first < r.end {
		data := r.buf[:d.part.length(r.first)]
		n, err := io.ReadFull(body, data[r.filled:])
		r.filled += n
		there := d.part.has(r.first)
		if !there {
			d.received.Add(int64(n))
		}
		if err != nil {
			return err
		}
		if !there {
			if err := d.part.write(r.first, data); err != nil {
				return &finalError{diskError(d.what, d.part.file.Name(), err)}
			}
			d.moved(int64(len(data)))
		}
		r.first, r.filled = r.first+1, 0
	}
	return nil
}

// source returns the address of the file's bytes. If the address is not known, source requests it
// from the hub.
func (d *download) source(ctx context.Context) (source, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.from.url == "" {
		from, err := d.locate(ctx)
		if err != nil {
			return source{}, &finalError{err} // locate has made all its attempts
		}
		d.from = from
	}
	return d.from, nil
}

// expire drops an address, so that the next call of source requests a new one from the hub.
func (d *download) expire(from source) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.from == from {
		d.from = source{}
	}
}

// open requests the bytes of a file and follows redirects to any host. Only the hub gets the token.
func (c *client) open(ctx context.Context, from source, header http.Header) (*http.Response, error) {
	for range maxRedirects {
		res, err := c.send(ctx, http.MethodGet, from.url, header, from.token)
		if err != nil {
			return nil, err
		}
		next := redirectOf(res)
		if next == nil {
			return res, nil
		}
		closeBody(res)
		from = source{next.String(), false}
	}
	return nil, &finalError{fmt.Errorf("the servers redirect more than %d times, probably in a circle; try again later, or download the model from another server", maxRedirects)}
}

// refused returns the error for a response whose status is neither 200 nor 206. It also drops the
// address that was used, which is the parameter from.
func (d *download) refused(from source, res *http.Response) error {
	d.expire(from) // a signed address is valid for about an hour
	switch code := res.StatusCode; {
	case code == http.StatusRequestedRangeNotSatisfiable:
		return &finalError{fmt.Errorf("pull %s: the server's file is shorter than the expected %d bytes; try again later, or download the model from another server", d.what, d.part.size)}
	case code == http.StatusTooManyRequests || code >= 500 || code == http.StatusRequestTimeout:
		return &busyError{retryAfter(res.Header, time.Now()), fmt.Errorf("pull %s: %s: %s", d.what, hostOf(from.url), res.Status)}
	}
	return fmt.Errorf("pull %s: %w: %s: %s", d.what, errExpired, hostOf(from.url), res.Status)
}

// checkRange checks the header Content-Range: the range must begin at offset first, and the size
// must be that of the file.
func (d *download) checkRange(header string, first int64) error {
	var start, end, size int64
	total, ok := strings.CutPrefix(header, "bytes ")
	if n, err := fmt.Sscanf(total, "%d-%d/%d", &start, &end, &size); !ok || err != nil || n != 3 {
		if n < 2 || !strings.HasSuffix(header, "/*") {
			return &finalError{fmt.Errorf("pull %s: the server sends a part of the file with the invalid Content-Range %.80q; try again later, or download the model from another server", d.what, header)}
		}
		size = d.part.size
	}
	switch {
	case size != d.part.size:
		return d.wrongSize(size)
	case start != first:
		return fmt.Errorf("pull %s: the server sent bytes from offset %d instead of %d", d.what, start, first)
	}
	return nil
}

func (d *download) wrongSize(size int64) error {
	return &finalError{fmt.Errorf("pull %s: the server's file has %d bytes instead of %d; try again later, or download the model from another server", d.what, size, d.part.size)}
}

// errStalled is the reason for closing a connection on which no data arrived for Env.Timeout.
var errStalled = errors.New("stalled")

type steady struct {
	r       io.Reader
	timer   *time.Timer
	timeout time.Duration
}

func (s *steady) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if n > 0 {
		s.timer.Reset(s.timeout)
	}
	return n, err
}

func diskError(what, path string, err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return fmt.Errorf("pull %s: the disk of %s is full; make room, and pull again to continue, or set HF_HUB_CACHE to a folder on another disk if the model is from Hugging Face", what, path)
	}
	if errors.Is(err, syscall.EFBIG) {
		return fmt.Errorf("pull %s: the file is too large for the file system of %s; if the model is from Hugging Face, set HF_HUB_CACHE to a folder on another disk", what, path)
	}
	var p *os.PathError
	if errors.As(err, &p) {
		return fmt.Errorf("pull %s: %w", what, err)
	}
	return fmt.Errorf("pull %s: write %s: %w", what, path, err)
}

// sizeAt returns the size of a file on a web server, and its version: a text that differs if the
// file has changed.
func (c *client) sizeAt(ctx context.Context, what, address string) (size int64, version string, err error) {
	err = c.retry(ctx, func() (bool, error) {
		res, err := c.open(ctx, source{url: address}, http.Header{"Range": {"bytes=0-0"}})
		if err != nil {
			return false, networkError("pull "+what, address, err)
		}
		defer res.Body.Close() //nolint:errcheck // the body is not needed
		switch code := res.StatusCode; {
		case code == http.StatusPartialContent:
			_, total, _ := strings.Cut(res.Header.Get("Content-Range"), "/")
			if size, err = strconv.ParseInt(total, 10, 64); err != nil {
				size = -1
			}
		case code == http.StatusOK:
			size = res.ContentLength
		case code == http.StatusTooManyRequests || code >= 500 || code == http.StatusRequestTimeout:
			return false, &busyError{retryAfter(res.Header, time.Now()), fmt.Errorf("pull %s: %s: %s", what, hostOf(address), res.Status)}
		default:
			return false, &finalError{fmt.Errorf("pull %s: %w: %s answers %s; check the address", what, ErrNoEntry, hostOf(address), res.Status)}
		}
		if size < 0 {
			return false, &finalError{fmt.Errorf("pull %s: %s does not give the file's size; download the file in another way, and give its path", what, hostOf(address))}
		}
		version = res.Header.Get("ETag") + " " + res.Header.Get("Last-Modified")
		return true, nil
	})
	return size, version, err
}
