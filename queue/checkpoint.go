package queue

import (
	"encoding/binary"
	"errors"

	"github.com/ingot-run/ingot/engine/generation"
)

// MaxCheckpoint is the maximum size of an encoded checkpoint in bytes. A larger checkpoint is not
// stored. If the row's worker then dies, another worker continues from the last checkpoint that was
// stored, or starts from the beginning if there is none.
const MaxCheckpoint = 256 << 10

// checkpointVersion is the first byte of an encoded checkpoint.
const checkpointVersion = 1

// Checkpoint is the progress of a row. If the row's worker dies, another worker continues from the
// stored checkpoint.
type Checkpoint struct {
	Fingerprint string                // Pin of the worker; a worker with another Pin cannot use the checkpoint
	Prompts     []generation.Progress // one for each prompt of the row; without Choices if no tokens were generated for the prompt
}

// Tokens returns the number of generated tokens of all prompts.
func (c *Checkpoint) Tokens() (n int) {
	for i := range c.Prompts {
		n += c.Prompts[i].Tokens()
	}
	return n
}

// Resume returns the progress of prompt i, or nil if there is none. c may be nil.
func (c *Checkpoint) Resume(i int) *generation.Progress {
	if c == nil || i >= len(c.Prompts) || len(c.Prompts[i].Choices) == 0 {
		return nil
	}
	return &c.Prompts[i]
}

// Encode returns the encoded checkpoint, usually one to three bytes per token. It returns nil if
// the encoding is longer than MaxCheckpoint.
func (c *Checkpoint) Encode() []byte {
	if c.Tokens() > MaxCheckpoint { // a token takes at least a byte
		return nil
	}
	b := []byte{checkpointVersion}
	b = binary.AppendUvarint(b, uint64(len(c.Fingerprint)))
	b = append(b, c.Fingerprint...)
	b = binary.AppendUvarint(b, uint64(len(c.Prompts)))
	for _, p := range c.Prompts {
		b = binary.LittleEndian.AppendUint64(b, p.Prompt)
		b = binary.AppendUvarint(b, uint64(len(p.Choices)))
		for _, ids := range p.Choices {
			b = binary.AppendUvarint(b, uint64(len(ids)))
			for _, id := range ids {
				b = binary.AppendUvarint(b, uint64(uint32(id)))
			}
		}
	}
	if len(b) > MaxCheckpoint {
		return nil
	}
	return b
}

// DecodeCheckpoint reads the result of Encode. It does not check that the model has tokens with
// these ids; the engine checks that.
func DecodeCheckpoint(b []byte) (*Checkpoint, error) {
	r := checkpointReader{rest: b}
	if r.byte() != checkpointVersion {
		return nil, errCheckpoint
	}
	c := &Checkpoint{Fingerprint: string(r.bytes(r.count(1)))}
	c.Prompts = make([]generation.Progress, r.count(9))
	for i := range c.Prompts {
		p := &c.Prompts[i]
		if hash := r.bytes(8); len(hash) == 8 {
			p.Prompt = binary.LittleEndian.Uint64(hash)
		}
		if n := r.count(1); n > 0 {
			p.Choices = make([][]int32, n)
		}
		for j := range p.Choices {
			ids := make([]int32, r.count(1))
			for k := range ids {
				ids[k] = int32(uint32(r.uvarint())) //nolint:gosec // a negative id is refused by the engine
			}
			p.Choices[j] = ids
		}
	}
	if r.failed || len(r.rest) > 0 {
		return nil, errCheckpoint
	}
	return c, nil
}

var errCheckpoint = errors.New("read a checkpoint: the data is damaged, or another version of ingot wrote it")

// checkpointReader reads values from bytes. After the end of the bytes it returns zeros and sets
// failed.
type checkpointReader struct {
	rest   []byte
	failed bool
}

func (r *checkpointReader) bytes(n int) []byte {
	if n > len(r.rest) {
		r.failed, r.rest = true, nil
		return nil
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *checkpointReader) byte() byte {
	b := r.bytes(1)
	if r.failed {
		return 0
	}
	return b[0]
}

func (r *checkpointReader) uvarint() uint64 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 {
		r.failed, r.rest = true, nil
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

// count reads the number of elements that follow. size is the minimum size of an element in bytes.
// If the remaining bytes cannot hold that many elements, count sets failed.
func (r *checkpointReader) count(size int) int {
	n := r.uvarint()
	if n > uint64(len(r.rest)/size) {
		r.failed, r.rest = true, nil
		return 0
	}
	return int(n) //nolint:gosec // at most len(rest)
}
