package table

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"
)

// Extensions of compressed files.
const (
	gzipExtension = ".gz"
	zstdExtension = ".zst"
)

// TrimCompression returns a path without the extension of a compressed file. compressed reports
// whether the path had one.
func TrimCompression(path string) (rest string, compressed bool) {
	switch extension := strings.ToLower(filepath.Ext(path)); extension {
	case gzipExtension, zstdExtension:
		return path[:len(path)-len(extension)], true
	}
	return path, false
}

// File is a file that appears under its name only when it is complete. If the name ends in .gz or
// .zst, File compresses what is written.
type File struct {
	out    io.Writer
	packer io.Closer // compresses what is written; nil if the file is not compressed
	file   *os.File
	target string // path that Commit gives the file; empty if the file is written in place
}

// CreateFile creates a file that Commit puts under its path. Until then, an earlier file with this
// path stays unchanged. A path that is not a regular file, such as a pipe, is written to directly.
func CreateFile(path string) (*File, error) {
	f, err := create(path)
	if err != nil {
		return nil, err
	}
	f.out = f.file
	switch strings.ToLower(filepath.Ext(path)) {
	case gzipExtension:
		w := gzip.NewWriter(f.file)
		f.out, f.packer = w, w
	case zstdExtension:
		w, _ := zstd.NewWriter(f.file, zstd.WithEncoderConcurrency(1)) // only options can be wrong
		f.out, f.packer = w, w
	}
	return f, nil
}

func create(path string) (*File, error) {
	if info, err := os.Stat(path); err == nil {
		if !info.Mode().IsRegular() {
			f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
			if err != nil {
				return nil, err
			}
			return &File{file: f}, nil
		}
	}
	target, err := targetOf(path)
	if err != nil {
		return nil, err
	}
	name := filepath.Join(filepath.Dir(target), fmt.Sprintf(".%s.%016x", filepath.Base(target), rand.Uint64()))
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return nil, err
	}
	return &File{file: f, target: target}, nil
}

// maxLinks is the maximum number of symbolic links that lead from one to the next, as in Linux.
const maxLinks = 40

// targetOf follows symbolic links to a file, which need not exist.
func targetOf(path string) (string, error) {
	for range maxLinks {
		to, err := os.Readlink(path)
		if err != nil {
			return path, nil //nolint:nilerr // the path is not that of a link
		}
		if !filepath.IsAbs(to) {
			to = filepath.Dir(path) + string(filepath.Separator) + to // not Join, since the folder of the path may be a link
		}
		path = to
	}
	return "", &os.PathError{Op: "open", Path: path, Err: unix.ELOOP}
}

// Write appends to the file.
func (f *File) Write(p []byte) (int, error) { return f.out.Write(p) }

// Commit completes the file, syncs it to the disk and puts it under its path. If it returns an
// error, the file is discarded.
func (f *File) Commit() (err error) {
	if f.packer != nil {
		err = f.packer.Close()
		f.packer = nil
	}
	if err == nil && f.target != "" {
		err = f.file.Sync()
	}
	if err != nil {
		f.Discard()
		return err
	}
	name, target := f.file.Name(), f.target
	err = f.file.Close()
	f.file = nil
	if target == "" {
		return err
	}
	if err == nil {
		err = os.Rename(name, target)
	}
	if err != nil {
		os.Remove(name) //nolint:errcheck // the first error is reported
		return err
	}
	return syncFolder(filepath.Dir(target))
}

// syncFolder syncs a folder to the disk, so that a renamed file keeps its name after a crash. Some
// folders cannot be read.
func syncFolder(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return nil //nolint:nilerr // as above
	}
	return errors.Join(syncFile(f), f.Close())
}

// syncFile syncs a file or folder to the disk, unless its file system cannot do that.
func syncFile(f *os.File) error {
	err := f.Sync()
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOTSUP) {
		return nil
	}
	return err
}

// Discard deletes the incomplete file. After Commit it does nothing.
func (f *File) Discard() {
	if f.file == nil {
		return
	}
	name := f.file.Name()
	f.file.Close() //nolint:errcheck // the content is discarded
	f.file = nil
	if f.target != "" {
		os.Remove(name) //nolint:errcheck // a temporary file that stays does no harm
	}
}
