package hub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ingot-run/ingot/internal/filesum"
)

// Foreign is the folder in which another program keeps its models. Ingot only reads it.
type Foreign struct {
	Owner string // the program: ownerOllama or ownerLMStudio
	Dir   string
}

// The other programs whose models are found.
const (
	ownerOllama   = "ollama"
	ownerLMStudio = "LM Studio"
)

// foreignStores returns the existing folders in which other programs keep their models.
// ollamaModels is the value of OLLAMA_MODELS.
func foreignStores(home, ollamaModels string) (all []Foreign) {
	for _, f := range []Foreign{
		{ownerLMStudio, filepath.Join(home, ".lmstudio", "models")},
		{ownerLMStudio, filepath.Join(home, ".cache", "lm-studio", "models")},
		{ownerOllama, ollamaModels},
		{ownerOllama, filepath.Join(home, ".ollama", "models")},
		{ownerOllama, "/usr/share/ollama/.ollama/models"},
	} {
		if info, err := os.Stat(f.Dir); err == nil && info.IsDir() {
			all = append(all, f)
		}
	}
	return all
}

func (e Env) findForeign(n Name) (Pulled, bool) {
	for _, f := range e.Stores {
		switch f.Owner {
		case ownerLMStudio: // LM Studio's folders have the repository's name: PUBLISHER/MODEL
			dir := filepath.Join(f.Dir, n.User, n.Repo)
			if m, err := choose(n, filesBelow(dir)); err == nil {
				return Pulled{Path: filepath.Join(dir, filepath.FromSlash(m.files[0].path)), Files: len(m.files), Bytes: m.size(), Owner: f.Owner}, true
			}
		case ownerOllama:
			tags := []string{n.Select}
			if n.Select == "" {
				tags = []string{"latest", "Q4_K_M"}
			}
			for _, host := range []string{"hf.co", "huggingface.co"} {
				for _, tag := range tags {
					if found, err := f.ollama(host, n.User, n.Repo, tag); err == nil {
						return found, true
					}
				}
			}
		}
	}
	return Pulled{}, false
}

// foreign returns another program's copy of model m, which the name n selects. It returns only
// models of one file, whose hash it checks.
func (e Env) foreign(ctx context.Context, n Name, m model) (Pulled, bool) {
	found, ok := e.findForeign(n)
	if !ok || found.Files != 1 || len(m.files) != 1 || found.Bytes != m.size() {
		return Pulled{}, false
	}
	if found.SHA256 == "" {
		sum, err := filesum.SHA256(ctx, found.Path)
		if err != nil {
			return Pulled{}, false
		}
		found.SHA256 = sum
	}
	return found, found.SHA256 == m.files[0].hash
}

func checkOllama(text string) error {
	head, tag, tagged := strings.Cut(text[strings.LastIndex(text, "/")+1:], ":")
	bad := func(part string) bool {
		return part == "" && tagged || part == ".." || strings.ContainsAny(part, "\\\x00")
	}
	if head == "" || slices.ContainsFunc(append(strings.Split(path.Dir(text), "/"), head, tag), bad) {
		return fmt.Errorf("%w: %q: give ollama:MODEL or ollama:MODEL:TAG, as \"ollama list\" shows them", ErrName, "ollama:"+text)
	}
	return nil
}

// findOllama looks for a model by its name in ollama: [HOST/][NAMESPACE/]MODEL[:TAG].
func (s Store) findOllama(n Name) (Pulled, error) {
	slash := strings.LastIndex(n.Select, "/")
	name, tag, tagged := strings.Cut(n.Select[slash+1:], ":")
	if !tagged {
		tag = "latest"
	}
	host, namespace := "registry.ollama.ai", "library"
	switch parts := strings.Split(n.Select[:max(slash, 0)], "/"); {
	case len(parts) >= 2:
		host, namespace = parts[0], path.Join(parts[1:]...)
	case parts[0] != "":
		namespace = parts[0]
	}
	var failed error
	for _, f := range s.Env.Stores {
		if f.Owner != ownerOllama {
			continue
		}
		found, err := f.ollama(host, namespace, name, tag)
		if err == nil {
			return found, nil
		}
		if !errors.Is(err, os.ErrNotExist) {
			failed = err
		}
	}
	if failed != nil {
		return Pulled{}, fmt.Errorf("find %s: %w", n.Text, failed)
	}
	return Pulled{}, fmt.Errorf("%w: %s; pull it with ollama (\"ingot models list\" lists the models that ollama has)", ErrNotHere, n.Text)
}

// Media types of the layers in ollama's manifests.
const (
	ollamaModel  = "application/vnd.ollama.image.model"
	ollamaTensor = "application/vnd.ollama.image.tensor"
)

// ollama reads one of ollama's manifests and returns the model's file. Like ollama, it ignores the
// case of names.
func (f Foreign) ollama(host, namespace, name, tag string) (Pulled, error) {
	file := filepath.Join(f.Dir, "manifests")
	for _, part := range append(append([]string{host}, strings.Split(namespace, "/")...), name, tag) {
		entry, err := entryOf(file, part)
		if err != nil {
			return Pulled{}, err
		}
		file = filepath.Join(file, entry)
	}
	return f.manifest(file)
}

// entryOf returns the name of the entry of a folder that equals name except for case.
func entryOf(dir, name string) (string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	for _, e := range entries {
		if strings.EqualFold(e.Name(), name) {
			return e.Name(), nil
		}
	}
	return "", os.ErrNotExist
}

func (f Foreign) manifest(file string) (Pulled, error) {
	var manifest struct {
		Layers []struct {
			MediaType string `json:"mediaType"`
			Digest    string `json:"digest"`
			Size      int64  `json:"size"`
		} `json:"layers"`
	}
	text, err := os.ReadFile(file)
	if err == nil {
		if err = json.Unmarshal(text, &manifest); err != nil {
			err = fmt.Errorf("read %q: %w", file, err)
		}
	}
	if err != nil {
		return Pulled{}, err
	}
	for _, l := range manifest.Layers {
		switch l.MediaType {
		case ollamaTensor:
			return Pulled{}, errors.New("the model's file is not in GGUF: pull a GGUF file of the model instead")
		case ollamaModel:
			sum, _ := strings.CutPrefix(l.Digest, "sha256:")
			if !sha256Pattern.MatchString(sum) {
				return Pulled{}, fmt.Errorf("read ollama's manifest %s: %.80q is not a SHA-256 digest; pull the model with ollama again", file, l.Digest)
			}
			blob := filepath.Join(f.Dir, "blobs", "sha256-"+sum)
			if !hasSize(blob, l.Size) {
				return Pulled{}, os.ErrNotExist
			}
			return Pulled{Path: blob, Files: 1, Bytes: l.Size, SHA256: sum, Owner: f.Owner}, nil
		}
	}
	return Pulled{}, os.ErrNotExist
}
