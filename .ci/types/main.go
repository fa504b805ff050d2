// Command types checks the types of all packages of the module for Apple silicon, and prints
// errors as the compiler does. It reads sources, so nothing is compiled: of packages outside of
// the module, it checks declarations alone.
//
//	go run ./.ci/types
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

// listed is a package as `go list -json` prints it, after those that it imports.
type listed struct {
	ImportPath, Dir string
	GoFiles         []string
	ImportMap       map[string]string // paths in sources to import paths, where they differ
	Module          *struct {
		Main      bool
		GoVersion string
	}
}

func main() {
	found, err := check(context.Background(), "darwin", "arm64", "./...")
	for _, e := range found {
		fmt.Fprintln(os.Stderr, e)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "types:", err)
	}
	if err != nil || len(found) > 0 {
		os.Exit(1)
	}
}

// check returns the errors of packages and of everything that they import.
func check(ctx context.Context, system, architecture string, packages ...string) ([]error, error) {
	cmd := exec.CommandContext(ctx, "go", append([]string{"list", "-deps", "-json=ImportPath,Dir,GoFiles,ImportMap,Module"}, packages...)...)
	cmd.Env = append(os.Environ(), "GOOS="+system, "GOARCH="+architecture, "CGO_ENABLED=0")
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("run go list: %w", err)
	}
	c := checker{files: token.NewFileSet(), sizes: types.SizesFor("gc", architecture), known: map[string]*types.Package{"unsafe": types.Unsafe}}
	for in := json.NewDecoder(stdout); ; {
		var p listed
		if err := in.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("read the output of go list: %w", err)
		}
		if p.ImportPath != "unsafe" {
			c.add(&p)
		}
	}
	if err := cmd.Wait(); err != nil {
		return nil, fmt.Errorf("run go list: %w", err)
	}
	return c.found, nil
}

type checker struct {
	files *token.FileSet
	sizes types.Sizes
	known map[string]*types.Package // checked packages, by import path
	found []error
}

// add checks a package. All packages that it imports were added before.
func (c *checker) add(p *listed) {
	own := p.Module != nil && p.Module.Main
	report := func(err error) { c.found = append(c.found, err) }
	var parsed []*ast.File
	for _, name := range p.GoFiles {
		f, err := parser.ParseFile(c.files, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			report(err)
			continue
		}
		parsed = append(parsed, f)
	}
	config := types.Config{Importer: imports{c, p.ImportMap}, Sizes: c.sizes, IgnoreFuncBodies: !own, Error: func(error) {}}
	if own {
		config.Error = report
	}
	if p.Module != nil && p.Module.GoVersion != "" {
		config.GoVersion = "go" + p.Module.GoVersion
	}
	c.known[p.ImportPath], _ = config.Check(p.ImportPath, c.files, parsed, nil)
}

type imports struct {
	*checker
	paths map[string]string
}

// Import implements types.Importer.
func (i imports) Import(path string) (*types.Package, error) {
	if other, ok := i.paths[path]; ok {
		path = other
	}
	if p := i.known[path]; p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("package %s was not listed", path)
}
