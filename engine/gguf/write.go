package gguf

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
)

// Write writes a GGUF file of version 3: the metadata (nil for none) in order, then the tensors in
// order. Each tensor starts at a multiple of general.alignment (32 by default). The length of a
// tensor's Data must match its Shape and Type. If an argument is not valid, Write returns an error
// and writes nothing.
func Write(w io.Writer, meta *Metadata, tensors []Tensor) error {
	if meta == nil {
		meta = NewMetadata()
	}
	alignment, err := alignmentOf(meta)
	if err != nil {
		return fmt.Errorf("write GGUF file: %w", err)
	}
	head, err := encodeHead(meta, tensors, alignment)
	if err != nil {
		return fmt.Errorf("write GGUF file: %w", err)
	}
	out := bufio.NewWriterSize(w, 1<<16)
	padding := make([]byte, alignment)
	padded := func(b []byte) {
		_, _ = out.Write(b) // bufio keeps the first error for Flush
		n := uint64(len(b))
		_, _ = out.Write(padding[:alignUp(n, alignment)-n])
	}
	padded(head)
	for _, t := range tensors {
		padded(t.Data)
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write GGUF file: %w", err)
	}
	return nil
}

func encodeHead(meta *Metadata, tensors []Tensor, alignment uint64) ([]byte, error) {
	le := binary.LittleEndian
	b := le.AppendUint32([]byte(magic), 3)
	b = le.AppendUint64(b, uint64(len(tensors)))
	b = le.AppendUint64(b, uint64(len(meta.keys)))
	var err error
	for _, key := range meta.keys {
		if err := checkName(key); err != nil {
			return nil, fmt.Errorf("metadata key %q: %w", key, err)
		}
		if b, err = appendValue(appendString(b, key), meta.values[key]); err != nil {
			return nil, fmt.Errorf("metadata %s: %w", key, err)
		}
	}
	var offset uint64
	seen := make(map[string]bool, len(tensors))
	for _, t := range tensors {
		if err := checkTensor(t); err != nil {
			return nil, fmt.Errorf("tensor %q: %w", t.Name, err)
		}
		if seen[t.Name] {
			return nil, fmt.Errorf("tensor %q occurs twice", t.Name)
		}
		seen[t.Name] = true
		b = le.AppendUint32(appendString(b, t.Name), uint32(len(t.Shape)))
		for _, d := range t.Shape {
			b = le.AppendUint64(b, uint64(d))
		}
		b = le.AppendUint64(le.AppendUint32(b, uint32(t.Type)), offset)
		offset += alignUp(uint64(len(t.Data)), alignment)
	}
	return b, nil
}
