package hub

import (
	"errors"
	"fmt"
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
	return textfmt.DidYouMean(name, append(names, ggufFiles(filepath.Dir(name))...))
}

// CheckFile returns an error, with a similar name if there is one, if a name of kind File is not
// that of a file.
func (s Store) CheckFile(n Name) error {
	if n.Kind != File {
		return nil
	}
	info, err := os.Stat(n.Path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return &os.PathError{Op: "open", Path: n.Path, Err: missingFileError{s.missingHint(n.Path)}}
	case err == nil && info.IsDir():
		return folderError(n.Path)
	}
	return nil // opening the file reports any other error
}

func folderError(path string) error {
	return fmt.Errorf("%s is a folder: give the file of a model%s", path, some(", such as ", ggufFiles(path)))
}

// missingHint says which model may be meant, or where models come from.
func (s Store) missingHint(path string) string {
	const more = `"ingot models list" shows the models on this machine, "ingot models" those to download`
	if hint := s.DidYouMean(path); hint != "" {
		return hint + " " + more
	}
	return some("; its folder has ", ggufFiles(filepath.Dir(path))) + "; " + more
}

// some names a few files after a text. It is empty if there are none.
func some(text string, files []string) string {
	if len(files) == 0 {
		return ""
	}
	return text + textfmt.QuotedOr(files[:min(3, len(files))])
}

// ggufFiles returns the paths of the models in a folder.
func ggufFiles(folder string) []string {
	files, _ := filepath.Glob(filepath.Join(folder, "*.gguf")) // a folder whose name is no pattern has none
	return files
}

// missingFileError is os.ErrNotExist with a similar name.
type missingFileError struct{ hint string }

func (e missingFileError) Error() string      { return "no such file or directory" + e.hint }
func (missingFileError) Is(target error) bool { return target == os.ErrNotExist }
