package hub

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// Limits for a server's responses.
const (
	maxAnswer = 32 << 20 // bytes of JSON in one response
	maxPages  = 1000     // pages of a list of files
)

// apiURL returns the address of a repository in the API, followed by the given path segments, which
// it escapes.
func (c *client) apiURL(n Name, segments ...string) string {
	address := c.env.Endpoint + "/api/models/" + n.ID()
	for _, s := range segments {
		address += "/" + url.PathEscape(s)
	}
	return address
}

func (c *client) fileURL(n Name, commit, path string) string {
	address := c.env.Endpoint + "/" + n.ID() + "/resolve/" + url.PathEscape(commit)
	for s := range strings.SplitSeq(path, "/") {
		address += "/" + url.PathEscape(s)
	}
	return address
}

// commit returns the commit of a name's revision. All other requests use this commit, so that all
// files of a set have the same version.
func (c *client) commit(ctx context.Context, n Name) (string, error) {
	var answer struct {
		SHA string `json:"sha"`
	}
	if _, err := c.getJSON(ctx, n, c.apiURL(n, "revision", n.revision()), &answer); err != nil {
		return "", err
	}
	if !commitPattern.MatchString(answer.SHA) {
		return "", fmt.Errorf("pull %s: the server's response has %.60q instead of a commit's hash; check HF_ENDPOINT if you have set it", n.ID(), answer.SHA)
	}
	return answer.SHA, nil
}

func (c *client) tree(ctx context.Context, n Name, commit string) (files []repoFile, err error) {
	address := c.apiURL(n, "tree", commit) + "?recursive=true"
	for range maxPages {
		var page []struct {
			Type string `json:"type"`
			Path string `json:"path"`
			Size int64  `json:"size"`
			OID  string `json:"oid"`
			LFS  *struct {
				OID  string `json:"oid"`
				Size int64  `json:"size"`
			} `json:"lfs"`
		}
		header, err := c.getJSON(ctx, n, address, &page)
		if err != nil {
			return nil, err
		}
		for _, e := range page {
			if e.Type != "file" {
				continue
			}
			f := repoFile{path: e.Path, size: e.Size, hash: e.OID}
			pattern := commitPattern // matches git's SHA-1
			if e.LFS != nil {
				f.size, f.hash, pattern = e.LFS.Size, strings.TrimPrefix(e.LFS.OID, "sha256:"), sha256Pattern
			}
			switch {
			case !safePath(f.path):
				return nil, fmt.Errorf("pull %s: the repository has a file with the path %.80q, which is not allowed; report the repository to the hub", n.ID(), f.path)
			case !pattern.MatchString(f.hash) || f.size < 0:
				return nil, fmt.Errorf("pull %s: the server gives no valid hash and size for %s (hash %.80q, %d bytes); try again later, or set HF_ENDPOINT to another mirror", n.ID(), f.path, f.hash, f.size)
			}
			files = append(files, f)
		}
		if address = c.nextPage(header); address == "" {
			return files, nil
		}
	}
	return nil, fmt.Errorf("pull %s: the repository's list of files has more than %d pages", n.ID(), maxPages)
}

// nextPage returns the address of the next page of a list, from the header Link; empty for the last
// page. If a mirror gives an address on the hub, nextPage changes it to the mirror's.
func (c *client) nextPage(h http.Header) string {
	for _, line := range h.Values("Link") {
		for link := range strings.SplitSeq(line, ",") {
			target, rest, ok := strings.Cut(strings.TrimSpace(link), ">")
			if !ok || !strings.Contains(rest, `rel="next"`) {
				continue
			}
			next, err := url.Parse(strings.TrimPrefix(target, "<"))
			if err != nil {
				return ""
			}
			_, query, _ := strings.Cut(next.String(), "?")
			path, _, _ := strings.Cut(next.EscapedPath(), "?")
			base, err := url.Parse(c.env.Endpoint)
			if err != nil {
				return ""
			}
			if i := strings.Index(path, "/api/"); i >= 0 {
				path = path[i:]
			}
			return base.Scheme + "://" + base.Host + strings.TrimRight(base.Path, "/") + path + "?" + query
		}
	}
	return ""
}

// getJSON sends a request to the API, with retries, and decodes the response. It returns the
// response's headers.
func (c *client) getJSON(ctx context.Context, n Name, address string, into any) (header http.Header, err error) {
	err = c.retry(ctx, func() (bool, error) {
		res, err := c.send(ctx, http.MethodGet, address, nil, true)
		if err != nil {
			return false, networkError("pull "+n.ID(), address, err)
		}
		defer closeBody(res)
		if res.StatusCode != http.StatusOK {
			return false, c.refusal(n, res)
		}
		text, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
		switch {
		case err != nil:
			return false, networkError("pull "+n.ID(), address, err)
		case len(text) > maxAnswer:
			err = fmt.Errorf("the response is longer than %d MiB", maxAnswer>>20)
		default:
			err = json.Unmarshal(text, into)
		}
		if err != nil {
			return false, &finalError{fmt.Errorf("pull %s: read the response of %s: %w; check that HF_ENDPOINT (%s) is the hub or a mirror", n.ID(), hostOf(address), err, c.env.Endpoint)}
		}
		header = res.Header
		return true, nil
	})
	return header, err
}

type source struct {
	url   string
	token bool // the address is on the hub, which gets the token
}

// locate requests the address of a file's bytes from the hub. The address is valid for about an
// hour.
func (c *client) locate(ctx context.Context, n Name, commit string, f repoFile) (s source, err error) {
	address := c.fileURL(n, commit, f.path)
	err = c.retry(ctx, func() (bool, error) {
		res, err := c.send(ctx, http.MethodHead, address, nil, true)
		if err != nil {
			return false, networkError("pull "+n.ID(), address, err)
		}
		defer closeBody(res)
		next := redirectOf(res)
		switch {
		case next == nil && res.StatusCode != http.StatusOK:
			return false, c.refusal(n, res)
		case res.Header.Get("X-Linked-Size") != "" && res.Header.Get("X-Linked-Size") != fmt.Sprint(f.size):
			return false, &finalError{fmt.Errorf("pull %s: the server gives two sizes for %s: %d bytes in the list of files, %s for the file itself; try again later, or set HF_ENDPOINT to another mirror",
				n.ID(), f.path, f.size, res.Header.Get("X-Linked-Size"))}
		case next == nil:
			s = source{res.Request.URL.String(), true}
		default:
			s = source{next.String(), false}
		}
		return true, nil
	})
	return s, err
}
