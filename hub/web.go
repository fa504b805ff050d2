package hub

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/ingot-run/ingot/internal/filesum"
)

// A file from a web server other than the hub is stored as HOST/KEY/FILE in Env.URLs. KEY is a hash
// of the address.

const maxParts = 1000

// webFiles returns the addresses and paths of a model on a web server: of all files if it is a
// split set.
func (e Env) webFiles(n Name) (urls, paths []string, err error) {
	u, err := url.Parse(n.URL)
	if err != nil {
		return nil, nil, err
	}
	key := sha256.Sum256([]byte(n.URL))
	dir := filepath.Join(e.URLs, strings.ReplaceAll(u.Host, ":", "_"), hex.EncodeToString(key[:8]))
	match := splitPattern.FindStringSubmatch(n.base())
	if match == nil {
		return []string{n.URL}, []string{filepath.Join(dir, n.base())}, nil
	}
	count, _ := strconv.Atoi(match[3])
	if count > maxParts {
		return nil, nil, fmt.Errorf("%w: %q: the model has %d files, the maximum is %d", ErrName, n.Text, count, maxParts)
	}
	if match[2] != "00001" || count < 1 {
		return nil, nil, fmt.Errorf("%w: %q: give the address of the first file of the set, which ends in -00001-of-%s.gguf", ErrName, n.Text, match[3])
	}
	if n.SHA256 != "" && count > 1 {
		return nil, nil, fmt.Errorf("%w: %q: the model has %d files, but #sha256= gives the hash of one file; leave it out", ErrName, n.Text, count)
	}
	for i := range count {
		base := fmt.Sprintf("%s-%05d-of-%05d.gguf", match[1], i+1, count)
		part := *u
		part.Path, part.RawPath = path.Join(path.Dir(u.Path), base), ""
		urls, paths = append(urls, part.String()), append(paths, filepath.Join(dir, base))
	}
	return urls, paths, nil
}

func (p *Puller) pullWeb(ctx context.Context, n Name) (Pulled, error) {
	if p.options.Env.Offline {
		return Pulled{}, errOffline
	}
	urls, paths, err := p.options.Env.webFiles(n)
	if err != nil {
		return Pulled{}, err
	}
	var wanted []*transfer
	var size int64
	for i, address := range urls {
		file := paths[i]
		bytes, version, err := p.client.sizeAt(ctx, path.Base(file), address)
		if err != nil {
			return Pulled{}, err
		}
		size += bytes
		id := sha256.Sum256([]byte(version)) // part of the partial file's name, so that another version starts over
		wanted = append(wanted, &transfer{
			what: path.Base(file), size: bytes, hash: n.SHA256, target: file, partial: file + "." + hex.EncodeToString(id[:4]) + partialSuffix,
			lock:   func(ctx context.Context, waiting func()) (func(), error) { return lockFile(ctx, file+".lock", waiting) },
			locate: func(context.Context) (source, error) { return source{url: address}, nil },
			there:  func() bool { return hasSize(file, bytes) },
			place:  func() error { return nil },
		})
	}
	moved, err := p.transfer(ctx, p.options.Env.URLs, wanted)
	if err != nil {
		return Pulled{}, err
	}
	done := Pulled{Path: paths[0], Files: len(paths), Bytes: size, Moved: moved, SHA256: wanted[0].sum}
	if done.SHA256 == "" && n.SHA256 != "" {
		if done.SHA256, err = filesum.SHA256(ctx, paths[0]); err == nil && done.SHA256 != n.SHA256 {
			err = fmt.Errorf("pull %s: the downloaded file has the hash %s, but should have %s; remove it with \"ingot models rm %s\", and pull again", n.Text, done.SHA256, n.SHA256, n.URL)
		}
	}
	return done, err
}
