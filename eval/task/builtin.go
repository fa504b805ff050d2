package task

import (
	"embed"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// builtin holds task files for the row formats of published benchmarks. Prompts and scores are the
// same as in the harness's tasks.
//
//go:embed builtin/*.yaml
var builtin embed.FS

// Builtin returns the names of the built-in tasks. Read accepts such a name instead of a path.
// Users supply the rows of these tasks.
func Builtin() []string {
	files, _ := fs.Glob(builtin, "builtin/*.yaml") // the pattern is valid
	for i, f := range files {
		files[i] = strings.TrimSuffix(path.Base(f), ".yaml")
	}
	return files
}

func isBuiltin(name string) bool { return slices.Contains(Builtin(), name) }
