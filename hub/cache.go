package hub

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// The cache has the layout of Hugging Face's tools:
//
//	models--USER--REPO/blobs/HASH                 bytes, named by SHA-256 (or git's SHA-1 for files outside of LFS)
//	models--USER--REPO/snapshots/COMMIT/PATH      relative link to a blob
//	models--USER--REPO/refs/BRANCH                the branch's commit
//	.locks/models--USER--REPO/HASH.lock           locked while a blob is written
//
// A download writes the blob first, then the link, then the ref. So a file that is found through a
// link is complete.

// partialSuffix is the end of the name of an incomplete blob. Other tools use other suffixes and
// never read a blob with this one.
const partialSuffix = ".ingot-partial"

type repoDir struct{ cache, name string }

func (e Env) repoDir(n Name) repoDir {
	return repoDir{e.Cache, "models--" + n.User + "--" + n.Repo}
}

func (r repoDir) path(parts ...string) string {
	return filepath.Join(append([]string{r.cache, r.name}, parts...)...)
}

func (r repoDir) blob(hash string) string { return r.path("blobs", hash) }

func (r repoDir) snapshot(commit, file string) string {
	return r.path("snapshots", commit, filepath.FromSlash(file))
}

// ref returns the commit at which a branch or tag was last pulled; empty if it was not pulled. A
// revision that is a commit is returned unchanged.
func (r repoDir) ref(revision string) string {
	if commitPattern.MatchString(revision) {
		return revision
	}
	text, err := os.ReadFile(r.path("refs", filepath.FromSlash(revision)))
	if commit := strings.TrimSpace(string(text)); err == nil && commitPattern.MatchString(commit) {
		return commit
	}
	return ""
}

func (r repoDir) writeRef(revision, commit string) error {
	if revision == commit {
		return nil
	}
	file := r.path("refs", filepath.FromSlash(revision))
	if text, err := os.ReadFile(file); err == nil && string(text) == commit {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	tmp := fmt.Sprintf("%s.%d.ingot", file, os.Getpid())
	if err := os.WriteFile(tmp, []byte(commit), 0o644); err != nil {
		return err
	}
	return os.Rename(tmp, file)
}

// commits returns the commits that have snapshots: first the commit of branch main, then the
// others, beginning with the one whose snapshot changed last.
func (r repoDir) commits() (all []string) {
	entries, err := os.ReadDir(r.path("snapshots"))
	if err != nil {
		return nil
	}
	newest := map[string]time.Time{}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && e.IsDir() && commitPattern.MatchString(e.Name()) {
			newest[e.Name()] = info.ModTime()
			all = append(all, e.Name())
		}
	}
	slices.SortFunc(all, func(a, b string) int { return cmp.Or(newest[b].Compare(newest[a]), strings.Compare(a, b)) })
	if i := slices.Index(all, r.ref("main")); i >= 0 {
		all = slices.Insert(slices.Delete(all, i, i+1), 0, r.ref("main"))
	}
	return all
}

func (r repoDir) files(commit string) []repoFile { return filesBelow(r.path("snapshots", commit)) }

func filesBelow(dir string) (files []repoFile) {
	_ = filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil //nolint:nilerr // an unreadable entry counts as missing
		}
		info, err := os.Stat(p) // follows the link to the blob
		if err != nil || !info.Mode().IsRegular() {
			return nil //nolint:nilerr // a link without a blob
		}
		rel, err := filepath.Rel(dir, p)
		if err == nil {
			files = append(files, repoFile{path: filepath.ToSlash(rel), size: info.Size()})
		}
		return nil
	})
	return files
}

// link creates the file of a snapshot as a link to its blob. Where links are not possible, it moves
// the blob to the file's path.
func (r repoDir) link(commit string, f repoFile) error {
	file := r.snapshot(commit, f.path)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	target := strings.Repeat("../", strings.Count(f.path, "/")+2) + path.Join("blobs", f.hash)
	if have, err := os.Readlink(file); err == nil && have == target {
		return nil
	}
	tmp := fmt.Sprintf("%s.%d.ingot", file, os.Getpid())
	_ = os.Remove(tmp)
	if err := os.Symlink(filepath.FromSlash(target), tmp); err != nil {
		if info, statErr := os.Stat(file); statErr == nil && info.Size() == f.size {
			return nil
		}
		return os.Rename(r.blob(f.hash), file)
	}
	return os.Rename(tmp, file)
}

// has reports whether the cache has a file: as a blob, or in the snapshot where links are not
// possible.
func (r repoDir) has(commit string, f repoFile) bool {
	return hasSize(r.blob(f.hash), f.size) || hasSize(r.snapshot(commit, f.path), f.size)
}

func hasSize(path string, size int64) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Size() == size
}

// lock waits for the lock of a blob and returns the function that releases it. Hugging Face's tools
// use the same lock. If another process has the lock, lock calls the function waiting once, before
// it waits. This function can be nil.
func (r repoDir) lock(ctx context.Context, hash string, waiting func()) (func(), error) {
	return lockFile(ctx, filepath.Join(r.cache, ".locks", r.name, hash+".lock"), waiting)
}

const lockPause = 200 * time.Millisecond

// lockFile waits for an exclusive lock on a file, which it creates if necessary, and returns the
// function that releases the lock. If another process has the lock, lockFile calls the function
// waiting once, before it waits. This function can be nil.
func lockFile(ctx context.Context, file string, waiting func()) (func(), error) {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return nil, err
	}
	for {
		f, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE, 0o644)
		if err != nil {
			return nil, err
		}
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil && sameInode(f, file), errors.Is(err, unix.ENOLCK), errors.Is(err, unix.ENOTSUP): // some network file systems have no locks
			return func() { _ = f.Close() }, nil
		case err != nil && !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR):
			return nil, errors.Join(fmt.Errorf("lock %s: %w", file, err), f.Close())
		}
		_ = f.Close()
		if waiting != nil && errors.Is(err, unix.EWOULDBLOCK) {
			waiting()
			waiting = nil
		}
		if err := wait(ctx, lockPause); err != nil {
			return nil, err
		}
	}
}

// sameInode reports whether path is still the path of the open file f. Other tools may delete a
// lock file after use.
func sameInode(f *os.File, path string) bool {
	a, errA := f.Stat()
	b, errB := os.Stat(path)
	return errA == nil && errB == nil && os.SameFile(a, b)
}

// freeBytes returns the number of bytes that the user can write below a folder. The folder need not
// exist.
func freeBytes(dir string) (int64, error) {
	for {
		var s unix.Statfs_t
		err := unix.Statfs(dir, &s)
		parent := filepath.Dir(dir)
		if err == nil {
			return int64(s.Bavail) * int64(s.Bsize), nil //nolint:unconvert,nolintlint // the types differ between systems
		}
		if !errors.Is(err, fs.ErrNotExist) || parent == dir {
			return 0, fmt.Errorf("read the free space of %s: %w", dir, err)
		}
		dir = parent
	}
}
