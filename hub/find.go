package hub

import (
	"errors"
	"fmt"
	"os"
	"slices"
)

// Store has the models on this machine: those in the cache, those from other web servers, and those
// of other programs.
type Store struct{ Env Env }

// ErrNotHere means that a model is not on this machine.
var ErrNotHere = errors.New("the model is not on this machine")

// Find returns the files of a model on this machine. It makes no request. If the model is not
// there, the error wraps ErrNotHere. For a name of kind File, Find does not check that the file
// exists. For a repository, Find looks in the cache first: at the revision that the name gives or,
// if it gives none, at the commit of branch main and then at the other commits, the newest first.
// If the name gives no revision, Find then looks in LM Studio's folder and in ollama's.
func (s Store) Find(n Name) (Pulled, error) {
	switch n.Kind {
	case File:
		found := Pulled{Path: n.Path, Files: 1}
		if info, err := os.Stat(n.Path); err == nil {
			found.Bytes = info.Size()
		}
		return found, nil
	case Web:
		return s.findWeb(n)
	case Ollama:
		return s.findOllama(n)
	}
	dir := s.Env.repoDir(n)
	commits := dir.commits()
	if n.Revision != "" {
		commits = slices.DeleteFunc([]string{dir.ref(n.Revision)}, func(c string) bool { return c == "" })
	}
	var other error
	for _, commit := range commits {
		files := dir.files(commit)
		m, err := choose(n, files)
		if err == nil {
			return Pulled{Path: dir.snapshot(commit, m.files[0].path), Files: len(m.files), Bytes: m.size(), Commit: commit}, nil
		}
		if len(models(files)) > 0 && other == nil {
			other = err
		}
	}
	if n.Revision == "" {
		if found, ok := s.Env.findForeign(n); ok {
			return found, nil
		}
	}
	if other != nil {
		return Pulled{}, fmt.Errorf("%w: %w; download it with: ingot pull %s", ErrNotHere, other, n.Text)
	}
	return Pulled{}, fmt.Errorf("%w%s", notHere(n), s.DidYouMean(n.Text))
}

func notHere(n Name) error {
	return fmt.Errorf("%w: %s; download it with: ingot pull %s", ErrNotHere, n.Text, n.Text)
}

func (s Store) findWeb(n Name) (Pulled, error) {
	_, paths, err := s.Env.webFiles(n)
	if err != nil {
		return Pulled{}, err
	}
	found := Pulled{Path: paths[0], Files: len(paths)}
	for _, p := range paths {
		info, err := os.Stat(p)
		if err != nil {
			return Pulled{}, notHere(n)
		}
		found.Bytes += info.Size()
	}
	return found, nil
}
