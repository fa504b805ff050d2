package batch

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// writeJSON replaces a file by the JSON of v. After a crash at any moment, the file has either its old or its new content.
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

// tempPattern is the pattern of names of files that are not complete. Open removes such files.
const tempPattern = ".incomplete-*"

// publish closes a temporary file and gives it the name path, in the same folder, once its content is on the disk. If that fails, the
// temporary file is removed.
func publish(temp *os.File, path string) error {
	err := temp.Sync()
	if err = errors.Join(err, temp.Close()); err == nil {
		err = os.Rename(temp.Name(), path)
	}
	if err != nil {
		os.Remove(temp.Name()) //nolint:errcheck // the first error is the one to report
		return err
	}
	return syncFolder(filepath.Dir(path))
}

// discard closes and removes a temporary file.
func discard(temp *os.File) {
	temp.Close()           //nolint:errcheck // it is not needed
	os.Remove(temp.Name()) //nolint:errcheck // Open removes what is left
}

// remove removes a file, if it exists, and waits until the removal is on the disk.
func remove(path string) error {
	err := os.Remove(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return errors.Join(err, syncFolder(filepath.Dir(path)))
}

// syncFolder writes the names of a folder's files to the disk.
func syncFolder(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
