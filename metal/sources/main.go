// Command sources writes the kernels in Metal's language to a folder, as the backend passes them to
// Metal's compiler: with their headers, the instances of the default geometry and the constants.
// Apple's offline compiler then checks them (.ci/mac kernels).
//
//	go run ./metal/sources FOLDER
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/ingot-run/ingot/metal"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: sources FOLDER")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "write kernels:", err)
		os.Exit(1)
	}
}

func write(folder string) error {
	for _, name := range metal.Files() {
		src, err := metal.Kernel(name, metal.DefaultGeometry())
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(folder, name), []byte(src.Text), 0o600); err != nil {
			return err
		}
	}
	return nil
}
