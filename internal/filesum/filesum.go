// Package filesum computes the SHA-256 of files. The sums of large files are kept in the user's
// cache folder, since a model of 20 GB takes ten seconds or more.
package filesum

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// SHA256 returns the SHA-256, in hexadecimal, of files one after another. If they have at least 64
// MiB, and are the same files as in an earlier call, unchanged since, the earlier sum is returned:
// files are the same if their device, inode, size, and times of the last change of content and
// state are.
func SHA256(ctx context.Context, paths ...string) (string, error) {
	folder := ""
	if user, err := os.UserCacheDir(); err == nil {
		folder = filepath.Join(user, "ingot", "sums")
	}
	k := keeper{folder: folder, smallest: 64 << 20, settled: 2 * time.Second}
	return k.sha256(ctx, paths)
}

// keeper keeps sums in a folder: a file for each list of files, whose name is the hash of what
// identifies them, and whose content is their sum.
type keeper struct {
	folder   string // "" to keep nothing
	smallest int64  // bytes of the smallest list of files whose sum is kept
	// settled is how long ago the files must have changed. A change within the resolution of the
	// file system's times would otherwise not be seen.
	settled time.Duration
}

func (k keeper) sha256(ctx context.Context, paths []string) (string, error) {
	before, err := stat(paths)
	if err != nil {
		return "", err
	}
	file := filepath.Join(k.folder, before.name())
	keep := k.folder != "" && before.bytes >= k.smallest && time.Since(before.changed) >= k.settled
	if keep {
		if sum, err := os.ReadFile(file); err == nil && isSum(sum) {
			return string(sum), nil
		}
	}
	h := sha256.New()
	for _, path := range paths {
		if err := copyFile(ctx, h, path); err != nil {
			return "", err
		}
	}
	sum := hex.EncodeToString(h.Sum(nil))
	if after, err := stat(paths); keep && err == nil && after.name() == before.name() {
		k.write(file, sum)
	}
	return sum, nil
}

// write stores a sum. If that fails, the next call computes it again.
func (k keeper) write(file, sum string) {
	if os.MkdirAll(k.folder, 0o700) != nil {
		return
	}
	f, err := os.CreateTemp(k.folder, "new-*")
	if err != nil {
		return
	}
	_, err = f.WriteString(sum)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), file)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
}

func isSum(b []byte) bool {
	_, err := hex.DecodeString(string(b))
	return err == nil && len(b) == 2*sha256.Size
}

// state identifies files and their contents.
type state struct {
	identity string
	bytes    int64
	changed  time.Time // the latest change of a file
}

func stat(paths []string) (state, error) {
	var s state
	for _, path := range paths {
		var st unix.Stat_t
		if err := unix.Stat(path, &st); err != nil {
			return state{}, &os.PathError{Op: "stat", Path: path, Err: err}
		}
		s.identity += fmt.Sprintln(st.Dev, st.Ino, st.Size, st.Mtim.Nano(), st.Ctim.Nano())
		s.bytes += st.Size
		for _, t := range []unix.Timespec{st.Mtim, st.Ctim} {
			if changed := time.Unix(0, t.Nano()); changed.After(s.changed) {
				s.changed = changed
			}
		}
	}
	return s, nil
}

// name returns the name of the file that has the sum.
func (s state) name() string {
	h := sha256.Sum256([]byte(s.identity))
	return hex.EncodeToString(h[:])
}

func copyFile(ctx context.Context, h io.Writer, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // the file was only read
	for ctx.Err() == nil {
		if _, err := io.CopyN(h, f, 4<<20); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
	return ctx.Err()
}
