package queue

import (
	"bytes"
	"cmp"
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
	r := bytes.NewReader(b)
	var failed error // the first error
	number := func() uint64 {
		n, err := binary.ReadUvarint(r)
		failed = cmp.Or(failed, err)
		return n
	}
	// count reads the number of elements that follow. size is the minimum size of an element in
	// bytes. It fails if the remaining bytes cannot hold that many elements.
	count := func(size int) int {
		n := number()
		if n > uint64(r.Len()/size) {
			failed, n = errCheckpoint, 0
		}
		return int(n) //nolint:gosec // at most len(b)
	}
	read := func(to any) { failed = cmp.Or(failed, binary.Read(r, binary.LittleEndian, to)) }

	if number() != checkpointVersion {
		return nil, errCheckpoint
	}
	fingerprint := make([]byte, count(1))
	read(fingerprint)
	c := &Checkpoint{Fingerprint: string(fingerprint), Prompts: make([]generation.Progress, count(9))}
	for i := range c.Prompts {
		p := &c.Prompts[i]
		read(&p.Prompt)
		if n := count(1); n > 0 {
			p.Choices = make([][]int32, n)
		}
		for j := range p.Choices {
			p.Choices[j] = make([]int32, count(1))
			for k := range p.Choices[j] {
				p.Choices[j][k] = int32(uint32(number())) //nolint:gosec // a negative id is refused by the engine
			}
		}
	}
	if failed != nil || r.Len() > 0 {
		return nil, errCheckpoint
	}
	return c, nil
}

var errCheckpoint = errors.New("read a checkpoint: the data is damaged, or another version of ingot wrote it")
