package hub

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

// Kind is the kind of model that a name refers to.
type Kind int

// The kinds of names.
const (
	File   Kind = iota // a file of this machine
	Repo               // a model repository of the hub
	Web                // a file of any web server
	Ollama             // a model of ollama on this machine
)

// Name is a model's name as a user writes it. The forms are:
//
//	path/to/file.gguf            a file
//	user/repo                    a repository's default file
//	user/repo:Q4_K_M             the file with this quantisation
//	user/repo:folder/file.gguf   a file by its name
//	user/repo@rev:...            the same at a branch, tag or commit
//	hf.co/user/repo...           the same; also huggingface.co/ and hf:
//	https://host/file.gguf       any file; #sha256=HEX checks it
//	ollama:name:tag              a model that ollama has
//	qwen3-4b                     a short name: see Catalog
//
// Fields with a comment such as "Repo: ..." are set only if Kind is Repo.
type Name struct {
	Kind     Kind
	Text     string // the whole name as the user wrote it
	Short    string // the short name, if Text is one
	Path     string // File: path
	User     string // Repo: its owner on the hub
	Repo     string // Repo: its name
	Revision string // Repo: branch, tag or commit; empty for main
	Select   string // Repo: quantisation or file, empty for the default; Ollama: model and tag
	URL      string // Web: address without the fragment
	SHA256   string // Web: 64 hexadecimal digits; empty if unknown
}

// The syntax of names on the hub.
var (
	userPattern     = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,95}$`)
	revisionPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._/-]{0,199}$`)
	commitPattern   = regexp.MustCompile(`^[0-9a-f]{40}$`)
	sha256Pattern   = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

// ErrName means that a text is not a valid model name.
var ErrName = errors.New("not a model name")

// ParseName parses a name. A text that is the path of an existing file means that file, even if it
// is also a valid name of a model.
func ParseName(text string) (Name, error) {
	n := Name{Text: text}
	if text == "" {
		return n, fmt.Errorf("%w: it is empty", ErrName)
	}
	if info, err := os.Stat(text); err == nil && !info.IsDir() {
		n.Path = text
		return n, nil
	}
	scheme, _, hasScheme := strings.Cut(text, "://")
	rest, isOllama := strings.CutPrefix(text, "ollama:")
	switch {
	case hasScheme && (strings.EqualFold(scheme, "https") || strings.EqualFold(scheme, "http")):
		return parseURL(n)
	case hasScheme:
		return n, fmt.Errorf("%w: %q: the address must begin with https:// or http://", ErrName, text)
	case isOllama:
		n.Kind, n.Select = Ollama, rest
		return n, checkOllama(rest)
	}
	if m, ok := lookup(text); ok {
		n.Short = m.Name
		return parseRepo(n, m.File)
	}
	for _, prefix := range []string{"hf.co/", "huggingface.co/", "hf:"} {
		if rest, ok := strings.CutPrefix(text, prefix); ok {
			return parseRepo(n, rest)
		}
	}
	if looksLikePath(text) {
		n.Path = text
		return n, nil
	}
	return parseRepo(n, text)
}

// looksLikePath reports whether a text that is no existing path has the form of a path and cannot
// be the name of a model.
func looksLikePath(text string) bool {
	head, _, _ := strings.Cut(text, ":")
	return filepath.IsAbs(text) || strings.HasPrefix(text, ".") || strings.HasPrefix(text, "~") || strings.HasSuffix(strings.ToLower(head), ".gguf") ||
		strings.Count(head, "/") > 1 && !strings.Contains(head, "@")
}

// parseRepo parses user/repo[@revision][:selection].
func parseRepo(n Name, text string) (Name, error) {
	n.Kind = Repo
	head, selection, selected := strings.Cut(text, ":")
	if selected && selection == "" {
		return n, fmt.Errorf("%w: %q: give a quantisation such as Q4_K_M, or a file, after the colon", ErrName, n.Text)
	}
	head, revision, revised := strings.Cut(head, "@")
	user, repo, ok := strings.Cut(strings.TrimSuffix(head, "/"), "/")
	switch {
	case !ok || !userPattern.MatchString(user) || !userPattern.MatchString(repo) || strings.Contains(repo, ".."):
		if info, err := os.Stat(text); err == nil && info.IsDir() {
			return n, fmt.Errorf("%w: %w", ErrName, folderError(text))
		}
		return n, fmt.Errorf("%w: %q: there is no such file; give a file, user/repo, user/repo:Q4_K_M, an https:// address, or a name that \"ingot models\" lists%s", ErrName, n.Text, Store{Env: ReadEnv()}.DidYouMean(n.Text))
	case revised && (!revisionPattern.MatchString(revision) || strings.Contains(revision, "..") || strings.HasSuffix(revision, "/")):
		return n, fmt.Errorf("%w: %q: give a branch, tag or commit after the @", ErrName, n.Text)
	case selected && !safePath(selection):
		return n, fmt.Errorf("%w: %q: %q is neither a quantisation nor a file of a repository", ErrName, n.Text, selection)
	}
	n.User, n.Repo, n.Revision, n.Select = user, repo, revision, selection
	return n, nil
}

// parseURL parses an address. The address of a file or model on the hub gives the same Name as
// user/repo.
func parseURL(n Name) (Name, error) {
	u, err := url.Parse(n.Text)
	if err != nil || strings.Trim(u.Hostname(), ".") == "" || !safePath(strings.NewReplacer(":", "", "[", "", "]", "").Replace(u.Host)) {
		return n, fmt.Errorf("%w: %q is not an address", ErrName, n.Text)
	}
	if h := strings.ToLower(u.Hostname()); h == "huggingface.co" || h == "hf.co" || h == "www.huggingface.co" {
		return parseHubURL(n, u)
	}
	n.Kind = Web
	if sum, ok := strings.CutPrefix(u.Fragment, "sha256="); ok {
		n.SHA256 = strings.ToLower(sum)
		if _, err := hex.DecodeString(n.SHA256); err != nil || len(n.SHA256) != 64 {
			return n, fmt.Errorf("%w: %q: give the 64 hexadecimal digits of the hash after #sha256=", ErrName, n.Text)
		}
	} else if u.Fragment != "" {
		return n, fmt.Errorf("%w: %q: only sha256=HEX may follow the #", ErrName, n.Text)
	}
	u.Fragment = ""
	n.URL = u.String()
	if base := path.Base(u.Path); !strings.HasSuffix(strings.ToLower(base), ".gguf") || !safePath(base) {
		return n, fmt.Errorf("%w: %q: the address of a model must end in the name of a .gguf file", ErrName, n.Text)
	}
	return n, nil
}

func parseHubURL(n Name, u *url.URL) (Name, error) {
	parts := strings.Split(strings.Trim(u.Path, "/"), "/")
	if len(parts) == 2 {
		return parseRepo(n, parts[0]+"/"+parts[1])
	}
	if len(parts) >= 5 && (parts[2] == "resolve" || parts[2] == "blob" || parts[2] == "raw") {
		return parseRepo(n, parts[0]+"/"+parts[1]+"@"+parts[3]+":"+strings.Join(parts[4:], "/"))
	}
	if len(parts) == 4 && parts[2] == "tree" {
		return parseRepo(n, parts[0]+"/"+parts[1]+"@"+parts[3])
	}
	return n, fmt.Errorf("%w: %q is the address of neither a model nor a file on the hub", ErrName, n.Text)
}

// safePath reports whether a path stays inside the folder in which it is used, and is valid on
// every operating system.
func safePath(p string) bool {
	return p != "" && len(p) <= 1024 && filepath.IsLocal(p) && path.Clean(p) == p && !strings.ContainsAny(p, "\\\x00\n\r:*?\"<>|") && p != "."
}

// ID returns the name of a repository as user/repo.
func (n Name) ID() string { return n.User + "/" + n.Repo }

func (n Name) revision() string { return cmp.Or(n.Revision, "main") }

func (n Name) base() string {
	u, _ := url.Parse(n.URL) // parseURL has parsed it
	return path.Base(u.Path)
}
