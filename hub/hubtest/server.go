// Package hubtest is a server for tests that behaves as Hugging Face does where models are
// downloaded: its API with pages, redirects of large files to another host with signed addresses,
// hashes in headers, ranges, and its error codes.
package hubtest

import (
	"bytes"
	"cmp"
	"crypto/sha1" //nolint:gosec // git names blobs by it
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Server simulates a hub and its CDN under two different addresses.
type Server struct {
	URL, CDN string

	// Tests set these functions before the first request, to inject faults. API is called for
	// requests of the API, Resolve for addresses of files, and Bytes for downloads from the CDN. A
	// function returns true if it has answered the request. Otherwise the server answers as usual.
	API, Resolve, Bytes func(w http.ResponseWriter, r *http.Request) bool

	healed atomic.Bool

	mu        sync.Mutex
	repos     map[string]*Repo // by user/name
	requests  []Request
	signature int // the signature of addresses that the CDN accepts
}

// Repo is a repository.
type Repo struct {
	Commit   string
	Branches []string // branches at Commit, in addition to main
	Files    map[string][]byte
	Small    map[string]bool // files outside of LFS, which the hub serves itself
	Token    string          // token that is needed to read the repository; empty for none
	Gated    bool            // nobody may read the files
	PerPage  int             // entries of a page of the tree; 0 for all
}

// Request is a request that was received.
type Request struct {
	CDN                               bool
	Method, Path, Range, Auth, Accept string
}

// New starts a server, which ends with the test.
func New(t testing.TB) *Server {
	t.Helper()
	s := &Server{repos: map[string]*Repo{}}
	hub := httptest.NewServer(http.HandlerFunc(s.hub))
	cdn := httptest.NewServer(http.HandlerFunc(s.cdn))
	t.Cleanup(func() {
		hub.CloseClientConnections() // some tests leave requests without an end
		cdn.CloseClientConnections()
		hub.Close()
		cdn.Close()
	})
	s.URL, s.CDN = hub.URL, cdn.URL
	return s
}

// Add adds a repository. If it has no commit, it gets one.
func (s *Server) Add(id string, r *Repo) *Repo {
	r.Commit = cmp.Or(r.Commit, strings.Repeat("c0ffee0123", 4))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.repos[id] = r
	return r
}

// Requests returns the requests so far.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Expire makes the addresses that were given so far invalid on the CDN.
func (s *Server) Expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.signature++
}

// Heal makes the server ignore API, Resolve and Bytes, so that it no longer injects faults.
func (s *Server) Heal() { s.healed.Store(true) }

// fails calls fault, unless fault is nil or Heal was called. It reports whether fault has written
// the response.
func (s *Server) fails(fault func(http.ResponseWriter, *http.Request) bool, w http.ResponseWriter, r *http.Request) bool {
	return fault != nil && !s.healed.Load() && fault(w, r)
}

// Random returns n bytes that depend on the seed.
func Random(seed uint64, n int) []byte {
	b := make([]byte, n)
	r := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // test data
	for i := 0; i+8 <= n; i += 8 {
		v := r.Uint64()
		for k := range 8 {
			b[i+k] = byte(v >> (8 * k))
		}
	}
	return b
}

// SHA256 returns the SHA-256 of b in hexadecimal.
func SHA256(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// GitSHA1 returns git's hash of a file with the content b, in hexadecimal.
func GitSHA1(b []byte) string {
	sum := sha1.Sum(append(fmt.Appendf(nil, "blob %d\x00", len(b)), b...)) //nolint:gosec // see above
	return hex.EncodeToString(sum[:])
}

func (s *Server) record(r *http.Request, cdn bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, Request{cdn, r.Method, r.URL.RequestURI(), r.Header.Get("Range"), r.Header.Get("Authorization"), r.Header.Get("Accept-Encoding")})
}

func (s *Server) hub(w http.ResponseWriter, r *http.Request) {
	s.record(r, false)
	if strings.HasPrefix(r.URL.Path, apiPath) {
		if !s.fails(s.API, w, r) {
			s.ServeAPI(w, r)
		}
		return
	}
	if !s.fails(s.Resolve, w, r) {
		s.resolve(w, r, strings.Split(strings.TrimPrefix(r.URL.EscapedPath(), "/"), "/"))
	}
}

const apiPath = "/api/models/"

// Refuse answers with an error of the hub.
func Refuse(w http.ResponseWriter, status int, code, message string) {
	w.Header().Set("X-Error-Code", code)
	w.Header().Set("X-Error-Message", message)
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"error":%q}`, message) //nolint:errcheck // a test's answer
}

func (s *Server) repo(w http.ResponseWriter, r *http.Request, parts []string) *Repo {
	s.mu.Lock()
	defer s.mu.Unlock()
	auth := r.Header.Get("Authorization")
	if auth == "Bearer stale" {
		Refuse(w, http.StatusUnauthorized, "", "Invalid credentials in Authorization header")
		return nil
	}
	repo := s.repos[strings.Join(parts[:min(2, len(parts))], "/")]
	if repo == nil || repo.Token != "" && auth != "Bearer "+repo.Token {
		if auth == "" { // without a token, private and missing models give the same response
			Refuse(w, http.StatusUnauthorized, "RepoNotFound", "Repository not found")
		} else {
			Refuse(w, http.StatusNotFound, "RepoNotFound", "Repository not found")
		}
		return nil
	}
	return repo
}

// at reports whether a revision in a request's path, where it may be escaped, is at the commit of
// the repository.
func (repo *Repo) at(escaped string) bool {
	return escaped == "main" || escaped == repo.Commit || slices.Contains(repo.Branches, strings.ReplaceAll(escaped, "%2F", "/"))
}

// ServeAPI answers a request of the API without calling s.API.
func (s *Server) ServeAPI(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(strings.TrimPrefix(r.URL.EscapedPath(), apiPath), "/")
	repo := s.repo(w, r, parts)
	switch {
	case repo == nil:
	case len(parts) != 4 || parts[2] != "revision" && parts[2] != "tree":
		http.NotFound(w, r)
	case !repo.at(parts[3]):
		Refuse(w, http.StatusNotFound, "RevisionNotFound", "Invalid rev id: "+parts[3])
	case parts[2] == "revision":
		writeJSON(w, map[string]any{"id": strings.Join(parts[:2], "/"), "sha": repo.Commit, "gated": repo.Gated})
	default:
		s.tree(w, r, repo)
	}
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

func (s *Server) tree(w http.ResponseWriter, r *http.Request, repo *Repo) {
	entries := []map[string]any{{"type": "directory", "path": "folder", "size": 0, "oid": strings.Repeat("d", 40)}}
	for _, p := range slices.Sorted(maps.Keys(repo.Files)) {
		b := repo.Files[p]
		e := map[string]any{"type": "file", "path": p, "size": len(b), "oid": GitSHA1(b)}
		if !repo.Small[p] {
			e["oid"] = strings.Repeat("b", 40) // the hash of the LFS pointer file
			e["lfs"] = map[string]any{"oid": SHA256(b), "size": len(b), "pointerSize": 135}
			e["xetHash"] = strings.Repeat("a", 64)
		}
		entries = append(entries, e)
	}
	first, _ := strconv.Atoi(r.URL.Query().Get("cursor"))
	end := len(entries)
	if repo.PerPage > 0 && first+repo.PerPage < end {
		end = first + repo.PerPage
		next := *r.URL
		q := next.Query()
		q.Set("cursor", strconv.Itoa(end))
		next.RawQuery = q.Encode()
		w.Header().Set("Link", fmt.Sprintf(`<https://huggingface.co%s>; rel="next"`, next.RequestURI())) // mirrors also give Hugging Face's own host here
	}
	writeJSON(w, entries[first:end])
}

// resolve answers the request for a file: a redirect to the CDN, or the bytes of a small file.
func (s *Server) resolve(w http.ResponseWriter, r *http.Request, parts []string) {
	repo := s.repo(w, r, parts)
	if repo == nil {
		return
	}
	path := strings.Join(parts[min(4, len(parts)):], "/")
	bytes, ok := repo.Files[path]
	switch {
	case len(parts) < 5 || parts[2] != "resolve":
		http.NotFound(w, r)
		return
	case !repo.at(parts[3]):
		Refuse(w, http.StatusNotFound, "RevisionNotFound", "Invalid rev id")
		return
	case !ok:
		Refuse(w, http.StatusNotFound, "EntryNotFound", "Entry not found")
		return
	case repo.Gated:
		Refuse(w, http.StatusForbidden, "GatedRepo", "Access to model is restricted. You are not in the authorized list.")
		return
	}
	w.Header().Set("X-Repo-Commit", repo.Commit)
	if repo.Small[path] {
		w.Header().Set("ETag", `W/"`+GitSHA1(bytes)+`"`)
		http.ServeContent(w, r, "", time.Time{}, reader(bytes))
		return
	}
	s.mu.Lock()
	signature := s.signature
	s.mu.Unlock()
	w.Header().Set("X-Linked-Etag", `"`+SHA256(bytes)+`"`)
	w.Header().Set("X-Linked-Size", strconv.Itoa(len(bytes)))
	w.Header().Set("Location", fmt.Sprintf("%s/%s?signature=%d", s.CDN, SHA256(bytes), signature))
	w.WriteHeader(http.StatusFound)
	fmt.Fprint(w, "Found. Redirecting") //nolint:errcheck // the body of a redirect, not of the file
}

// cdn serves bytes by their hash. A signed address must come without a token.
func (s *Server) cdn(w http.ResponseWriter, r *http.Request) {
	s.record(r, true)
	if s.fails(s.Bytes, w, r) {
		return
	}
	if r.Header.Get("Authorization") != "" {
		http.Error(w, "Only one auth mechanism allowed", http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	valid := r.URL.Query().Get("signature") == strconv.Itoa(s.signature)
	s.mu.Unlock()
	if !valid {
		http.Error(w, "Request has expired", http.StatusForbidden)
		return
	}
	bytes := s.Blob(r)
	if bytes == nil {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("ETag", `"`+strings.TrimPrefix(r.URL.Path, "/")+`"`)
	http.ServeContent(w, r, "", time.Time{}, reader(bytes))
}

// Blob returns the bytes of the file that a request to the CDN names.
func (s *Server) Blob(r *http.Request) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, repo := range s.repos {
		for _, b := range repo.Files {
			if "/"+SHA256(b) == r.URL.Path {
				return b
			}
		}
	}
	return nil
}

func reader(b []byte) *bytes.Reader { return bytes.NewReader(b) }
