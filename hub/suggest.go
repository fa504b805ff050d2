package hub

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/ingot-run/ingot/internal/textfmt"
)

// DidYouMean returns "; did you mean ...?" with the name of a model on this machine or in the
// catalog, or of a file in the folder of the given path, that is most similar to a misspelt name.
// It is empty if none is similar.
func (s Store) DidYouMean(name string) string {
	var names []string
	for _, e := range Catalog {
		names = append(names, e.Name)
	}
	for _, m := range s.List() {
		names = append(names, m.Name)
	}
	pattern := filepath.Join(filepath.Dir(name), "*.gguf")
	if files, err := filepath.Glob(pattern); err == nil {
		names = append(names, files...)
	}
	return textfmt.DidYouMean(name, names)
}

// CheckFile returns an error, with a similar name if there is one, if a name of kind File is not
// that of a file.
func (s Store) CheckFile(n Name) error {
	if n.Kind != File {
		return nil
	}
	_, err := os.Stat(n.Path)
	if errors.Is(err, os.ErrNotExist) {
		return &os.PathError{Op: "open", Path: n.Path, Err: missingFileError{s.DidYouMean(n.Path)}}
	}
	return nil // opening the file reports any other error
}

// missingFileError is os.ErrNotExist with a similar name.
type missingFileError struct{ hint string }

func (e missingFileError) Error() string      { return "no such file or directory" + e.hint }
func (missingFileError) Is(target error) bool { return target == os.ErrNotExist }
