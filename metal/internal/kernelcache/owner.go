package kernelcache

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

const othersWrite fs.FileMode = 0o022

const rootUID = 0

// checkFolder returns an error if users other than this one and root can put files into a folder,
// or replace it or a folder above it.
func checkFolder(dir string) error {
	whole, err := filepath.Abs(dir)
	if err == nil {
		whole, err = filepath.EvalSymlinks(whole)
	}
	if err != nil {
		return err
	}
	for at := whole; ; at = filepath.Dir(at) {
		info, err := os.Lstat(at)
		if err != nil {
			return err
		}
		// In a folder with the sticky bit, such as /tmp, others can make files but cannot replace
		// the user's files.
		shared := info.Mode()&othersWrite != 0 && (at == whole || info.Mode()&fs.ModeSticky == 0)
		if !info.IsDir() || !owned(info) || shared {
			return fmt.Errorf("%q does not belong to this user alone (mode %v), so it is not safe to load compiled kernels from %q; make it yours and remove the write permission of others (chown, chmod go-w), or set XDG_CACHE_HOME to another folder",
				at, info.Mode(), dir)
		}
		if at == filepath.Dir(at) {
			return nil
		}
	}
}

// checkFile returns an error if a file in a checked folder does not exist, or if another user could
// have written it.
func checkFile(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() || !owned(info) || info.Mode()&othersWrite != 0 {
		return fmt.Errorf("%q must be a file that belongs to this user and that others cannot write to (its mode is %v)", path, info.Mode())
	}
	return nil
}

func owned(info fs.FileInfo) bool {
	s, ok := info.Sys().(*syscall.Stat_t)
	return ok && (int(s.Uid) == os.Getuid() || s.Uid == rootUID)
}
