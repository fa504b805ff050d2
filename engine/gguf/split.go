package gguf

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// A large model can be divided into several files, NAME-00001-of-00003.gguf and so on. Each is a
// GGUF file with some of the tensors. The first file has the metadata of the model.

const maxParts = 99999

func (f *File) openParts() error {
	number, count := f.splitKey("split.no"), f.splitKey("split.count")
	if count <= 1 {
		return nil
	}
	if number != 0 {
		return fmt.Errorf("%s is file %d of %d of a model: open the first file, whose name ends in -00001-of-%05[3]d.gguf", f.path, number+1, count)
	}
	name, ok := strings.CutSuffix(filepath.Base(f.path), fmt.Sprintf("-00001-of-%05d.gguf", count))
	if !ok {
		return fmt.Errorf("%s is the first of %d files of a model, but its name does not end in -00001-of-%05[2]d.gguf: rename it, and the other files accordingly", f.path, count)
	}
	for i := 1; i < count; i++ {
		path := filepath.Join(filepath.Dir(f.path), fmt.Sprintf("%s-%05d-of-%05d.gguf", name, i+1, count))
		if err := f.openPart(path, i, count); err != nil {
			if os.IsNotExist(err) {
				return fmt.Errorf("file %d of %d of the model is missing: %w", i+1, count, err)
			}
			return err
		}
	}
	if want := f.splitKey("split.tensors.count"); want > 0 && want != len(f.tensors) {
		return fmt.Errorf("the %d files of %s have %d tensors together, but the metadata of the first file require %d: one of the files belongs to another model; download them again", count, f.path, len(f.tensors), want)
	}
	return nil
}

// openPart adds the file with the given number, counted from 0, to f.
func (f *File) openPart(path string, number, count int) error {
	data, err := mapFile(path)
	if err != nil {
		return err
	}
	f.parts, f.paths = append(f.parts, data), append(f.paths, path)
	f.size += int64(len(data))
	meta, tensors, err := parse(path, data)
	if err != nil {
		return err
	}
	part := File{meta: meta}
	if part.splitKey("split.no") != number || part.splitKey("split.count") != count {
		return fmt.Errorf("%s: by its name, this is file %d of %d of a model, but its metadata differ: download it again", path, number+1, count)
	}
	for _, t := range tensors {
		if _, have := f.index[t.Name]; have {
			return fmt.Errorf("%s contains tensor %.100q, which an earlier file of the model also contains: one of the files belongs to another model; download them again", path, t.Name)
		}
	}
	f.add(tensors)
	return nil
}

// splitKey reads a number from the metadata of a divided model, such as split.count. It returns 0
// if the number is absent or out of range.
func (f *File) splitKey(key string) int {
	n, err := f.meta.Uint(key)
	if err != nil || key != "split.tensors.count" && n > maxParts || n > 1<<32 {
		return 0
	}
	return int(n)
}
