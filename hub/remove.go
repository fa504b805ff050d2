package hub

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Unfinished returns the unfinished downloads in the cache. Name is the repository, and Bytes the
// size of the downloaded part.
func (s Store) Unfinished() (all []Model) {
	partials, _ := filepath.Glob(filepath.Join(s.Env.Cache, "models--*", "blobs", "*"+partialSuffix))
	for _, p := range partials {
		folder := filepath.Base(filepath.Dir(filepath.Dir(p)))
		name := strings.Replace(strings.TrimPrefix(folder, "models--"), "--", "/", 1)
		all = append(all, Model{Name: name, Owner: OwnerCache, Bytes: allocated(p), Path: p, files: []string{p}})
	}
	return all
}

// Remove deletes a model from the cache, or a file from another web server. It returns the model
// and the number of freed bytes. If a repository has no complete model, it deletes the repository's
// unfinished downloads. It does not delete files of other programs.
func (s Store) Remove(n Name) (Model, int64, error) {
	found, err := s.Find(n)
	if errors.Is(err, ErrNotHere) && n.Kind == Repo {
		return s.removeUnfinished(n)
	}
	if err != nil {
		return Model{}, 0, err
	}
	switch found.Owner {
	case "":
	case ownerOllama:
		return Model{}, 0, fmt.Errorf("remove %s: the model belongs to ollama; use \"ollama list\" and \"ollama rm\"", n.Text)
	default:
		return Model{}, 0, fmt.Errorf("remove %s: the model belongs to %s; remove it there, or delete %s", n.Text, found.Owner, found.Path)
	}
	list := s.List()
	i := slices.IndexFunc(list, func(m Model) bool { return m.Path == found.Path })
	if i < 0 {
		return Model{}, 0, fmt.Errorf("remove %s: it is not in a folder of pulled models; delete the file itself", found.Path)
	}
	m := list[i]
	var freed int64
	if m.Owner == OwnerCache {
		freed, err = s.Env.removeCached(m)
	} else {
		for _, f := range m.files {
			err = errors.Join(err, os.Remove(f))
			_ = os.Remove(f + ".lock")
		}
		_ = os.Remove(filepath.Dir(m.Path)) // succeeds only if the folder is empty
		freed = m.Bytes
	}
	if err != nil {
		return m, freed, fmt.Errorf("remove %s: %w", n.Text, err)
	}
	return m, freed, nil
}

// removeUnfinished deletes the unfinished downloads of a repository, except those that another
// process is continuing.
func (s Store) removeUnfinished(n Name) (removed Model, freed int64, err error) {
	dir := s.Env.repoDir(n)
	for _, m := range s.Unfinished() {
		if filepath.Dir(m.Path) != dir.path("blobs") {
			continue
		}
		// If the lock is not free at once, another process is using it.
		now, cancel := context.WithTimeout(context.Background(), time.Nanosecond)
		unlock, lockErr := dir.lock(now, strings.TrimSuffix(filepath.Base(m.Path), partialSuffix), nil)
		cancel()
		if lockErr != nil {
			err = errors.Join(err, fmt.Errorf("remove %s: another process is downloading the model; wait until it has ended", n.Text))
			continue
		}
		if removeErr := os.Remove(m.Path); removeErr != nil {
			err = errors.Join(err, fmt.Errorf("remove %s: %w", n.Text, removeErr))
		}
		unlock()
		removed, freed = m, freed+m.Bytes
	}
	if removed.Path == "" && err == nil {
		return removed, 0, fmt.Errorf("remove %s: %w", n.Text, ErrNotHere)
	}
	removeEmpty(dir.path())
	return removed, freed, err
}

// removeCached deletes a model's files from all snapshots. It also deletes their blobs, unless
// another file uses the same blob.
func (e Env) removeCached(m Model) (freed int64, err error) {
	rel, err := filepath.Rel(e.Cache, m.Path)
	if err != nil {
		return 0, err
	}
	root := filepath.Join(e.Cache, strings.Split(rel, string(filepath.Separator))[0])
	snapshots := filepath.Join(root, "snapshots")
	commits, err := os.ReadDir(snapshots)
	if err != nil {
		return 0, err
	}
	blobs := map[string]bool{}
	for _, file := range m.files {
		rel, err := filepath.Rel(filepath.Join(snapshots, m.Commit), file)
		if err != nil {
			return freed, err
		}
		for _, commit := range commits {
			file := filepath.Join(snapshots, commit.Name(), rel)
			info, err := os.Lstat(file)
			if err != nil {
				continue
			}
			if target, err := os.Readlink(file); err == nil {
				blobs[filepath.Base(target)] = true
			} else {
				freed += info.Size()
			}
			if err := os.Remove(file); err != nil {
				return freed, err
			}
		}
	}
	_ = filepath.WalkDir(snapshots, func(p string, _ fs.DirEntry, err error) error {
		if target, linkErr := os.Readlink(p); err == nil && linkErr == nil {
			delete(blobs, filepath.Base(target)) // another file uses the same blob
		}
		return nil
	})
	for sum := range blobs {
		blob := filepath.Join(root, "blobs", sum)
		if info, statErr := os.Stat(blob); statErr == nil {
			freed += info.Size()
			err = errors.Join(err, os.Remove(blob))
		}
	}
	removeEmpty(root)
	return freed, err
}

// removeEmpty deletes the folder of a repository if it has neither a file nor an unfinished
// download.
func removeEmpty(root string) {
	left := false
	for _, sub := range []string{"snapshots", "blobs"} {
		_ = filepath.WalkDir(filepath.Join(root, sub), func(_ string, d fs.DirEntry, err error) error {
			left = left || err == nil && !d.IsDir()
			return nil
		})
	}
	if !left {
		_ = os.RemoveAll(root)
	}
}
