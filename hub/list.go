package hub

import (
	"cmp"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
)

// Model is a model on this machine.
type Model struct {
	Name   string `json:"name"`  // name that --model accepts
	Owner  string `json:"owner"` // OwnerCache, OwnerURL, or the program that owns the model
	Bytes  int64  `json:"bytes"`
	Path   string `json:"path"`   // path of its only or first file
	Commit string `json:"commit"` // commit of the model in the cache; empty for a model outside of the cache

	files []string
}

// Values of Model.Owner for models that Remove can delete: those in Hugging Face's cache, and files
// from other web servers.
const (
	OwnerCache = "cache"
	OwnerURL   = "URL"
)

// List returns the models on this machine, sorted by owner and name.
func (s Store) List() []Model {
	all := slices.Concat(s.cached(), s.fromURLs())
	for _, f := range s.Env.Stores {
		if f.Owner == ownerOllama {
			all = append(all, f.listOllama()...)
		} else {
			all = append(all, f.listFolders()...)
		}
	}
	order := []string{OwnerCache, OwnerURL, ownerLMStudio, ownerOllama}
	slices.SortStableFunc(all, func(a, b Model) int {
		return cmp.Or(slices.Index(order, a.Owner)-slices.Index(order, b.Owner), strings.Compare(a.Name, b.Name))
	})
	return all
}

// cached returns the models in the cache. A model in several snapshots is listed once, with the
// files of the snapshot that Find prefers.
func (s Store) cached() (all []Model) {
	folders, _ := filepath.Glob(filepath.Join(s.Env.Cache, "models--*"))
	for _, folder := range folders {
		parts := strings.Split(filepath.Base(folder), "--")
		if len(parts) < 3 {
			continue
		}
		n := Name{Kind: Repo, User: parts[1], Repo: strings.Join(parts[2:], "--")}
		dir, seen := s.Env.repoDir(n), map[string]bool{}
		for _, commit := range dir.commits() {
			found := models(dir.files(commit))
			for _, m := range found {
				if !m.isComplete() || seen[m.name] {
					continue
				}
				seen[m.name] = true
				all = append(all, modelAt(n.ID()+":"+m.selector(found), OwnerCache, filepath.Join(folder, "snapshots", commit), commit, m))
			}
		}
	}
	return all
}

func modelAt(name, owner, dir, commit string, m model) Model {
	found := Model{Name: name, Owner: owner, Bytes: m.size(), Commit: commit}
	for _, f := range m.files {
		found.files = append(found.files, filepath.Join(dir, filepath.FromSlash(f.path)))
	}
	found.Path = found.files[0]
	return found
}

func (s Store) fromURLs() (all []Model) {
	for _, m := range models(filesBelow(s.Env.URLs)) {
		if m.isComplete() {
			found := modelAt("", OwnerURL, s.Env.URLs, "", m)
			found.Name = found.Path
			all = append(all, found)
		}
	}
	return all
}

func (f Foreign) listFolders() (all []Model) {
	folders, _ := filepath.Glob(filepath.Join(f.Dir, "*", "*"))
	for _, folder := range folders {
		found := models(filesBelow(folder))
		id := filepath.Base(filepath.Dir(folder)) + "/" + filepath.Base(folder)
		for _, m := range found {
			if m.isComplete() {
				all = append(all, modelAt(id+":"+m.selector(found), f.Owner, folder, "", m))
			}
		}
	}
	return all
}

func (f Foreign) listOllama() (all []Model) {
	root := filepath.Join(f.Dir, "manifests")
	_ = filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil //nolint:nilerr // an unreadable entry counts as missing
		}
		found, err := f.manifest(p)
		rel, relErr := filepath.Rel(root, p)
		if err != nil || relErr != nil {
			return nil //nolint:nilerr // the entry is not a usable model
		}
		name := filepath.ToSlash(filepath.Dir(rel)) + ":" + filepath.Base(rel)
		name = strings.TrimPrefix(strings.TrimPrefix(name, "registry.ollama.ai/"), "library/")
		all = append(all, Model{Name: "ollama:" + name, Owner: f.Owner, Bytes: found.Bytes, Path: found.Path, files: []string{found.Path}})
		return nil
	})
	return all
}
