// Command cut copies GGUF files with only the first rows of every tensor, so that tests can read files quantised by other programs without
// having the whole files:
//
//	go run ./engine/gguf/testdata/cut FROM/tiny-llama.*.gguf TO
//
// The files in engine/gguf/testdata were cut from tiny-llama's files. The gguf package wrote the files in F16, Q8_0 and
// Q4_0 (see models/train). ik_llama.cpp's llama-quantise made the files in Q4_K_M, Q5_K_M and Q6_K from the F16 file. Rows
// are copied byte for byte.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/ingot-run/ingot/engine/gguf"
)

const rows = 4

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: cut FILE... FOLDER")
		os.Exit(2)
	}
	to := os.Args[len(os.Args)-1]
	for _, path := range os.Args[1 : len(os.Args)-1] {
		if err := cut(path, filepath.Join(to, filepath.Base(path))); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

func cut(from, to string) error {
	f, err := gguf.Open(from)
	if err != nil {
		return err
	}
	defer f.Close()
	meta := gguf.NewMetadata()
	architecture, err := f.Meta().String("general.architecture")
	if err != nil {
		return err
	}
	meta.Set("general.architecture", architecture)
	var tensors []gguf.Tensor
	for _, t := range f.Tensors() {
		if len(t.Shape) == 2 {
			bytes, err := t.Type.RowBytes(t.Shape[0])
			if err != nil {
				return err
			}
			t.Shape = []int{t.Shape[0], rows}
			t.Data = t.Data[:rows*bytes]
		}
		tensors = append(tensors, t)
	}
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	defer out.Close()
	return gguf.Write(out, meta, tensors)
}
