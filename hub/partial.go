package hub

import (
	"crypto/sha1" //nolint:gosec // git names blobs by their SHA-1
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"sync"
	"sync/atomic"
)

// blockSize is the number of bytes in a block. Blocks are written, and recorded as present, as a
// whole.
const blockSize = 1 << 20

// partial is a file that is being downloaded in blocks, in any order. On disk it consists of the
// file's bytes, with holes, followed by one byte per block: 1 if the block is present. A download
// can thus continue after the process was killed.
type partial struct {
	file   *os.File
	size   int64
	blocks int
	bytes  atomic.Int64 // number of bytes in present blocks

	mu      sync.Mutex
	changed sync.Cond // signals changes of have and stopped
	have    []byte    // per block: 1 if the block is present
	claimed []bool    // per block: true if a connection downloads the block
	stopped bool      // the download has ended, so no more blocks will be written
}

// openPartial opens or creates the partial file of a file with the given size. The caller must hold
// the file's lock.
func openPartial(path string, size int64) (*partial, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	n := int((size + blockSize - 1) / blockSize)
	p := &partial{file: file, size: size, blocks: n, have: make([]byte, n), claimed: make([]bool, n)}
	p.changed.L = &p.mu
	if err := p.load(); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return p, nil
}

// load reads which blocks are present. If the partial file has an unexpected length, it is cleared.
func (p *partial) load() error {
	info, err := p.file.Stat()
	if err != nil {
		return err
	}
	if info.Size() != p.size+int64(p.blocks) {
		if err := p.file.Truncate(0); err != nil {
			return err
		}
		return p.file.Truncate(p.size + int64(p.blocks))
	}
	if _, err := p.file.ReadAt(p.have, p.size); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	for i, h := range p.have {
		if h == 1 {
			p.claimed[i] = true
			p.bytes.Add(p.length(i))
		} else {
			p.have[i] = 0
		}
	}
	return nil
}

// length returns the number of bytes of a block. The last block can be shorter.
func (p *partial) length(block int) int64 {
	return min(blockSize, p.size-int64(block)*blockSize)
}

// span is a sequence of blocks from first to end-1.
type span struct{ first, end int }

// claim returns the next blocks that no connection has claimed, at most maxBlocks.
func (p *partial) claim(maxBlocks int) (s span, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for s.first < p.blocks && p.claimed[s.first] {
		s.first++
	}
	for s.end = s.first; s.end < p.blocks && s.end < s.first+maxBlocks && !p.claimed[s.end]; s.end++ {
		p.claimed[s.end] = true
	}
	return s, s.first < p.blocks
}

func (p *partial) claimAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.claimed {
		p.claimed[i] = true
	}
}

func (p *partial) has(block int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.have[block] == 1
}

func (p *partial) write(block int, data []byte) error {
	if _, err := p.file.WriteAt(data, int64(block)*blockSize); err != nil {
		return err
	}
	if _, err := p.file.WriteAt([]byte{1}, p.size+int64(block)); err != nil {
		return err
	}
	p.bytes.Add(int64(len(data)))
	p.mu.Lock()
	defer p.mu.Unlock()
	p.have[block] = 1
	p.changed.Broadcast()
	return nil
}

// stop ends the download. Calls of sum and waitFor then no longer wait for missing blocks.
func (p *partial) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = true
	p.changed.Broadcast()
}

// waitFor waits until a block is present. It returns false if the download stops first.
func (p *partial) waitFor(block int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.have[block] != 1 && !p.stopped {
		p.changed.Wait()
	}
	return p.have[block] == 1
}

// errStopped is the error of sum if stop was called before all blocks were present.
var errStopped = errors.New("the download ended early")

func (p *partial) sum(h hash.Hash) (string, error) {
	buf := make([]byte, blockSize)
	for i := range p.blocks {
		if !p.waitFor(i) {
			return "", errStopped
		}
		data := buf[:p.length(i)]
		if _, err := p.file.ReadAt(data, int64(i)*blockSize); err != nil {
			return "", err
		}
		h.Write(data)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// complete removes the bytes that record the blocks, and syncs the file to the disk. The file stays
// open.
func (p *partial) complete() error {
	if err := p.file.Truncate(p.size); err != nil {
		return err
	}
	return p.file.Sync()
}

// newHash starts a hash of a file for comparison with the hash want: SHA-256 or, if want has 40
// digits, git's SHA-1, which the hub uses for files outside of LFS. size is the file's size.
func newHash(want string, size int64) hash.Hash {
	if len(want) != 40 {
		return sha256.New()
	}
	h := sha1.New()                     //nolint:gosec // the hub uses SHA-1 for these files
	fmt.Fprintf(h, "blob %d\x00", size) //nolint:errcheck // a hash never fails
	return h
}
