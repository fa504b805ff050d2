package batch

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// writeJSON replaces a file with the JSON of v. A crash leaves either the old or the new content.
func writeJSON(path string, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	temp, err := os.CreateTemp(filepath.Dir(path), tempPattern)
	if err != nil {
		return err
	}
	if _, err = temp.Write(append(text, '\n')); err == nil {
		return publish(temp, path)
	}
	discard(temp)
	return err
}

// tempPattern is the pattern for the names of incomplete files, which Open removes.
const tempPattern = ".incomplete-*"

// publish syncs and closes a temporary file, and renames it to path, which must be in the same
// folder. If there is an error, it removes the temporary file.
func publish(temp *os.File, path string) error {
	err := temp.Sync()
	if err = errors.Join(err, temp.Close()); err == nil {
		err = os.Rename(temp.Name(), path)
	}
	if err != nil {
		os.Remove(temp.Name()) //nolint:errcheck // the first error is reported
		return err
	}
	return syncFolder(filepath.Dir(path))
}

func discard(temp *os.File) {
	temp.Close()           //nolint:errcheck // the content is discarded
	os.Remove(temp.Name()) //nolint:errcheck // the next Open removes the file if this fails
}

func remove(path string) error {
	err := os.Remove(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return errors.Join(err, syncFolder(filepath.Dir(path)))
}

func syncFolder(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
