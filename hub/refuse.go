package hub

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// Reasons why the hub refuses a request, for callers that act on them.
var (
	ErrGated    = errors.New("access to the model is restricted")
	ErrNoModel  = errors.New("the model does not exist or is private")
	ErrNoEntry  = errors.New("the revision or file is not available")
	ErrToken    = errors.New("the token is refused")
	errExpired  = errors.New("the server refuses the download, perhaps because the address has expired")
	errNoRanges = errors.New("the server sends whole files only")
)

func (c *client) refusal(n Name, res *http.Response) error {
	code := res.Header.Get("X-Error-Code")
	message := res.Header.Get("X-Error-Message")
	page := DefaultEndpoint + "/" + n.ID()
	badToken := strings.Contains(message, "Invalid credentials") || res.StatusCode == http.StatusUnauthorized && strings.Contains(message, "Invalid username or password") && c.env.Token != ""
	final := func(kind error, format string, args ...any) error {
		return &finalError{fmt.Errorf("pull %s: %w: %s", n.ID(), kind, fmt.Sprintf(format, args...))}
	}
	switch {
	case badToken:
		return final(ErrToken, "it is %s; make a new one at %s/settings/tokens, or remove it: public models need none", c.tokenSource(), DefaultEndpoint)
	case code == "GatedRepo":
		if c.env.Token == "" {
			return final(ErrGated, "accept its licence at %s, make a token at %s/settings/tokens, and set HF_TOKEN to it", page, DefaultEndpoint)
		}
		return final(ErrGated, "accept its licence at %s with the account of the token (%s); some authors grant access by hand, which takes time", page, c.tokenSource())
	case code == "RevisionNotFound":
		return final(ErrNoEntry, "the repository has no branch, tag or commit %q", n.revision())
	case code == "EntryNotFound":
		return final(ErrNoEntry, "the revision %s does not have the file", n.revision())
	case code == "RepoNotFound", res.StatusCode == http.StatusUnauthorized, res.StatusCode == http.StatusNotFound:
		if c.env.Token == "" {
			return final(ErrNoModel, "check the name at %s; a private model needs HF_TOKEN", page)
		}
		return final(ErrNoModel, "check the name at %s; the token (%s) may not read it if it is private", page, c.tokenSource())
	case res.StatusCode == http.StatusForbidden, res.StatusCode == http.StatusUnavailableForLegalReasons:
		return final(ErrGated, "the server refuses access (%s%s); see %s", res.Status, detail(message), page)
	case res.StatusCode == http.StatusTooManyRequests:
		limit := "too many requests"
		if c.env.Token == "" {
			limit += " (HF_TOKEN raises the limit)"
		}
		return &busyError{retryAfter(res.Header, time.Now()), fmt.Errorf("pull %s: %s", n.ID(), limit)}
	case res.StatusCode >= 500 || res.StatusCode == http.StatusRequestTimeout:
		return &busyError{retryAfter(res.Header, time.Now()), fmt.Errorf("pull %s: the server failed (%s)", n.ID(), res.Status)}
	}
	return final(errors.New("unexpected response"), "%s%s from %s", res.Status, detail(message), res.Request.URL.Host)
}

// tokenSource describes where the token comes from. The token itself is never printed.
func (c *client) tokenSource() string { return "from " + c.env.TokenAt }

func detail(message string) string {
	if message == "" {
		return ""
	}
	const most = 200
	return fmt.Sprintf(", %q", message[:min(len(message), most)])
}
