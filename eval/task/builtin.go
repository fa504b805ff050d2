package task

import (
	"embed"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// builtin are task files for the row shapes of published benchmarks. Their prompts and scores are those of the harness's tasks.
//
//go:embed builtin/*.yaml
var builtin embed.FS

// Builtin returns the names of the built-in tasks, which Read takes in place of a file. Users supply the rows of these tasks.
func Builtin() []string {
	files, err := fs.Glob(builtin, "builtin/*.yaml")
	if err != nil {
		panic(err) // the pattern is a constant
	}
	for i, f := range files {
		files[i] = strings.TrimSuffix(path.Base(f), ".yaml")
	}
	return files
}

// isBuiltin reports whether a path is the name of a built-in task.
func isBuiltin(name string) bool { return slices.Contains(Builtin(), name) }
