// Package gguf reads and writes GGUF model files: the key-value section and the tensors. Tensors are mapped into memory, not
// copied. The package also has the table of tensor types.
//
// The format is GGML's (docs/gguf.md in the ggml repository). Ingot reads little-endian files of versions 2 and 3, which have the
// same layout.
package gguf

import (
	"fmt"
	"math"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// File is a GGUF file mapped into memory, read-only. It may be used by many goroutines at once, except for Close. If another
// program shortens the file while it is open, this program crashes, as with any mapping. Replace model files by renaming a new
// file, never by overwriting.
type File struct {
	path    string
	size    int64
	data    []byte // nil after Close
	meta    *Metadata
	tensors []Tensor
	index   map[string]int
}

// Tensor is one tensor of a file.
type Tensor struct {
	Name  string
	Type  Type
	Shape []int  // fastest dimension first, as in the file: [columns, rows, ...]
	Data  []byte // whole rows of the mapping: read-only, invalid after File.Close
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
	Dequantize(values, t.Type, t.Data)
	return values
}

// Open maps the file and checks everything except the weights' values, so that nothing in the result points outside the file. If
// the file is not well formed, the error is a *FormatError.
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
	f := &File{path: path, size: int64(len(data)), data: data, meta: meta, tensors: tensors, index: make(map[string]int, len(tensors))}
	for i, t := range tensors {
		f.index[t.Name] = i
	}
	return f, nil
}

// New returns a file that exists only in memory. It has the given metadata and tensors. The path is for messages.
func New(path string, meta *Metadata, tensors []Tensor) *File {
	f := &File{path: path, meta: meta, tensors: tensors, index: make(map[string]int, len(tensors))}
	for i, t := range tensors {
		f.index[t.Name] = i
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
		return nil, fmt.Errorf("%s is empty", path)
	}
	if st.Size() > math.MaxInt {
		return nil, fmt.Errorf("%s has %d bytes, which is too large to map", path, st.Size())
	}
	data, err := unix.Mmap(int(h.Fd()), 0, int(st.Size()), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map %s: %w", path, err)
	}
	return data, nil
}

// Release lets the system drop the file's pages from memory. Later accesses read the file again.
func (f *File) Release() error {
	if len(f.data) == 0 {
		return nil
	}
	if err := unix.Madvise(f.data, unix.MADV_DONTNEED); err != nil {
		return fmt.Errorf("release the pages of %s: %w", f.path, err)
	}
	return nil
}

// ReleaseTensor is Release for the pages that contain only the given tensor. It does nothing for a tensor that is not in the file.
func (f *File) ReleaseTensor(t Tensor) error {
	if len(f.data) == 0 || len(t.Data) == 0 {
		return nil
	}
	page, start := uintptr(os.Getpagesize()), uintptr(unsafe.Pointer(&f.data[0]))
	at := uintptr(unsafe.Pointer(&t.Data[0]))
	if at < start || at >= start+uintptr(len(f.data)) {
		return nil
	}
	from := (at - start + page - 1) &^ (page - 1)
	to := (at - start + uintptr(len(t.Data))) &^ (page - 1)
	if from >= to {
		return nil
	}
	if err := unix.Madvise(f.data[from:to], unix.MADV_DONTNEED); err != nil {
		return fmt.Errorf("release the pages of tensor %s of %s: %w", t.Name, f.path, err)
	}
	return nil
}

// Close unmaps the file: the Data of all its tensors become invalid. The metadata remain usable. A second call does nothing.
func (f *File) Close() error {
	if f.data == nil {
		return nil
	}
	data := f.data
	f.data, f.tensors, f.index = nil, nil, nil
	if err := unix.Munmap(data); err != nil {
		return fmt.Errorf("unmap %s: %w", f.path, err)
	}
	return nil
}

// Path returns the path given to Open.
func (f *File) Path() string { return f.path }

// Size returns the file's length in bytes.
func (f *File) Size() int64 { return f.size }

// Meta returns the key-value section.
func (f *File) Meta() *Metadata { return f.meta }

// Tensors returns the tensors in file order. The slice belongs to the file: do not change it.
func (f *File) Tensors() []Tensor { return f.tensors }

// Tensor finds a tensor by its name.
func (f *File) Tensor(name string) (Tensor, bool) {
	i, ok := f.index[name]
	if !ok {
		return Tensor{}, false
	}
	return f.tensors[i], true
}
