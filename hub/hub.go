// Package hub turns model names into files. It finds models on this machine, and downloads others
// from Hugging Face or any web server. It shares the cache of Hugging Face's own tools, so that
// they find the same files.
//
// A Name is a model's name as a user writes it. Store.Find looks on this machine only and makes no
// request. Puller.Pull downloads what is missing.
package hub

import (
	"cmp"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// DefaultEndpoint is the address of Hugging Face.
const DefaultEndpoint = "https://huggingface.co"

// Env has the settings that Hugging Face's tools read from the environment, and the folders of
// models from other sources.
type Env struct {
	Endpoint string        // HF_ENDPOINT: address of the hub or of a mirror, without a slash at its end
	Token    string        // HF_TOKEN, HUGGING_FACE_HUB_TOKEN, or the file of "hf auth login"; empty for none
	TokenAt  string        // source of Token for messages: a variable or a file
	Cache    string        // HF_HUB_CACHE: folder of the cache
	URLs     string        // folder of files from other web servers
	Offline  bool          // HF_HUB_OFFLINE: make no request
	Timeout  time.Duration // HF_HUB_DOWNLOAD_TIMEOUT: a connection without data for this long is closed
	Stores   []Foreign     // folders of other programs' models
}

const defaultTimeout = 30 * time.Second

// ReadEnv reads the settings from the environment. It creates no files.
func ReadEnv() Env {
	home, _ := os.UserHomeDir() // without a home folder, the cache is in the working folder
	variable := func(names ...string) string {
		for _, n := range names {
			if s := strings.TrimSpace(os.Getenv(n)); s != "" {
				return s
			}
		}
		return ""
	}
	cache := cmp.Or(variable("XDG_CACHE_HOME"), filepath.Join(home, ".cache"))
	hfHome := expand(cmp.Or(variable("HF_HOME"), filepath.Join(cache, "huggingface")), home)
	e := Env{
		Endpoint: strings.TrimRight(cmp.Or(variable("HF_ENDPOINT"), DefaultEndpoint), "/"),
		Cache:    expand(cmp.Or(variable("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"), filepath.Join(hfHome, "hub")), home),
		Offline:  isTrue(variable("HF_HUB_OFFLINE")),
		Timeout:  defaultTimeout,
		Stores:   foreignStores(home, variable("OLLAMA_MODELS")),
	}
	if user, err := os.UserCacheDir(); err == nil {
		cache = user
	}
	e.URLs = filepath.Join(cache, "ingot", "models")
	if s, err := strconv.ParseFloat(variable("HF_HUB_DOWNLOAD_TIMEOUT"), 64); err == nil && s > 0 {
		e.Timeout = time.Duration(s * float64(time.Second))
	}
	for _, n := range []string{"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"} {
		if t := variable(n); t != "" {
			e.Token, e.TokenAt = t, n
			return e
		}
	}
	if isTrue(variable("HF_HUB_DISABLE_IMPLICIT_TOKEN")) {
		return e
	}
	path := expand(cmp.Or(variable("HF_TOKEN_PATH"), filepath.Join(hfHome, "token")), home)
	if text, err := os.ReadFile(path); err == nil {
		e.Token, e.TokenAt = strings.TrimSpace(string(text)), path
	}
	return e
}

func expand(path, home string) string {
	if rest, ok := strings.CutPrefix(path, "~"); ok && (rest == "" || rest[0] == '/') {
		return home + rest
	}
	return path
}

func isTrue(s string) bool {
	switch strings.ToUpper(s) {
	case "1", "ON", "YES", "TRUE":
		return true
	}
	return false
}

// mirrored reports whether the endpoint is not Hugging Face's own, so that a third party would get
// the token.
func (e Env) mirrored() bool {
	u, err := url.Parse(e.Endpoint)
	return err == nil && u.Hostname() != "huggingface.co" && u.Hostname() != "hf.co"
}
