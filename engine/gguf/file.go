// Package gguf reads and writes GGUF model files: the key-value section and the tensors. Tensors
// are mapped into memory, not copied. The package also has the table of tensor types.
//
// The format is GGML's (docs/gguf.md in the ggml repository). Ingot reads little-endian files of
// versions 2 and 3, which have the same layout.
package gguf

import (
	"errors"
	"fmt"
	"math"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// File is a GGUF file mapped into memory, read-only. If a model is divided into several files, one
// File maps all of them. Except for Close, it is safe for use by many goroutines. If another
// program shortens the file while it is mapped, reading the missing part ends this program with a
// signal (SIGBUS). To replace a model file, rename a new file to its name instead of overwriting
// it.
type File struct {
	path    string
	paths   []string // paths of all files; the first is path
	size    int64
	parts   [][]byte // the mapping of each file; nil after Close
	meta    *Metadata
	tensors []Tensor
	index   map[string]int
}

// Tensor is one tensor of a file.
type Tensor struct {
	Name  string
	Type  Type
	Shape []int  // fastest dimension first, as in the file: [columns, rows, ...]
	Data  []byte // the rows, a part of the mapping: read-only, invalid after File.Close
}

// Elements returns the number of weights.
func (t Tensor) Elements() int {
	n := 1
	for _, d := range t.Shape {
		n *= d
	}
	return n
}

// Values returns the weights, dequantised.
func (t Tensor) Values() []float32 {
	values := make([]float32, t.Elements())
	Dequantise(values, t.Type, t.Data)
	return values
}

// Open maps a file and checks everything except the values of the weights. If the file is not well
// formed, the error is a *FormatError. If the file is the first of a model that is divided into
// several files, Open maps all of them.
func Open(path string) (*File, error) {
	data, err := mapFile(path)
	if err != nil {
		return nil, err
	}
	meta, tensors, err := parse(path, data)
	if err != nil {
		_ = unix.Munmap(data)
		return nil, err
	}
	f := &File{path: path, paths: []string{path}, size: int64(len(data)), parts: [][]byte{data}, meta: meta, index: make(map[string]int, len(tensors))}
	f.add(tensors)
	if err := f.openParts(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func (f *File) add(tensors []Tensor) {
	for _, t := range tensors {
		f.index[t.Name] = len(f.tensors)
		f.tensors = append(f.tensors, t)
	}
}

// New returns a file that exists only in memory, with the given metadata and tensors. path is used
// only in messages and by Path.
func New(path string, meta *Metadata, tensors []Tensor) *File {
	f := &File{path: path, paths: []string{path}, meta: meta, index: make(map[string]int, len(tensors))}
	f.add(tensors)
	for _, t := range tensors {
		f.size += int64(len(t.Data))
	}
	return f
}

func mapFile(path string) ([]byte, error) {
	h, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer h.Close() //nolint:errcheck // opened for reading; the mapping stays valid
	st, err := h.Stat()
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	if st.Size() == 0 {
		return nil, fmt.Errorf("%s is empty: download it again", path)
	}
	if st.Size() > math.MaxInt {
		return nil, fmt.Errorf("%s has %d bytes, which is too large to map into memory", path, st.Size())
	}
	data, err := unix.Mmap(int(h.Fd()), 0, int(st.Size()), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map %s into memory: %w", path, err)
	}
	return data, nil
}

// Release lets the system drop the file's data from memory. Later accesses read them from the file
// again.
func (f *File) Release() error {
	for i, data := range f.parts {
		if err := unix.Madvise(data, unix.MADV_DONTNEED); err != nil {
			return fmt.Errorf("release the memory of %s: %w", f.paths[i], err)
		}
	}
	return nil
}

// ReleaseTensor is like Release, but only for the system's memory pages that contain no data except
// those of the given tensor. It does nothing if the tensor is not in the file.
func (f *File) ReleaseTensor(t Tensor) error {
	if len(t.Data) == 0 {
		return nil
	}
	page, at := uintptr(os.Getpagesize()), uintptr(unsafe.Pointer(&t.Data[0]))
	for i, data := range f.parts {
		start := uintptr(unsafe.Pointer(&data[0]))
		if at < start || at >= start+uintptr(len(data)) {
			continue
		}
		from := (at - start + page - 1) &^ (page - 1)
		to := (at - start + uintptr(len(t.Data))) &^ (page - 1)
		if from >= to {
			return nil
		}
		if err := unix.Madvise(data[from:to], unix.MADV_DONTNEED); err != nil {
			return fmt.Errorf("release the memory of tensor %q of %s: %w", t.Name, f.paths[i], err)
		}
	}
	return nil
}

// Close unmaps the file. The Data of all its tensors become invalid; the metadata remain usable. A
// second call does nothing.
func (f *File) Close() (err error) {
	parts := f.parts
	if parts != nil {
		f.parts, f.tensors, f.index = nil, nil, nil
	}
	for i, data := range parts {
		if e := unix.Munmap(data); e != nil {
			err = errors.Join(err, fmt.Errorf("unmap %s: %w", f.paths[i], e))
		}
	}
	return err
}

// Path returns the path given to Open.
func (f *File) Path() string { return f.path }

// Paths returns the paths of all files of the model; the first is Path.
func (f *File) Paths() []string { return f.paths }

// Size returns the length of all files together in bytes.
func (f *File) Size() int64 { return f.size }

// Meta returns the key-value section.
func (f *File) Meta() *Metadata { return f.meta }

// Tensors returns the tensors in file order. The slice belongs to the file: do not change it.
func (f *File) Tensors() []Tensor { return f.tensors }

// Tensor returns the tensor with the given name. The bool reports whether there is one.
func (f *File) Tensor(name string) (Tensor, bool) {
	i, ok := f.index[name]
	if !ok {
		return Tensor{}, false
	}
	return f.tensors[i], true
}
