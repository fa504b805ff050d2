package task

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// scoringKeys are the keys that decide how answers are scored. Prompts, targets and rows are
// compared by themselves.
var scoringKeys = []string{"filter_list", "judge", "metric_list", "process_results"}

// scoring returns a hash of what scores the answers to the task's rows: filters and metrics with
// their settings, schemas, and the source files of functions that run in Python. Comments and the
// order of keys do not change it.
func (r *reader) scoring(keys map[string]*keyValue) (string, error) {
	h := sha256.New()
	for _, name := range scoringKeys {
		if n := keys[name]; n != nil {
			fmt.Fprintf(h, "%s: ", name) //nolint:errcheck // a hash does not fail
			writeNode(h, n.Node)
		}
	}
	for _, text := range r.schemas {
		fmt.Fprintf(h, "\nschema %q", text) //nolint:errcheck // a hash does not fail
	}
	var files []string
	for _, f := range r.called {
		files = addSources(files, f.file)
	}
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			return "", fmt.Errorf("read a Python function: %w", err)
		}
		fmt.Fprintf(h, "\n%s %q", filepath.Base(path), text) //nolint:errcheck // a hash does not fail
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// writeNode writes a YAML value in a form that depends on the value alone.
func writeNode(w io.Writer, n *yaml.Node) {
	switch n.Kind {
	case yaml.AliasNode:
		writeNode(w, n.Alias)
	case yaml.MappingNode:
		var pairs []string
		for key, value := range inPairs(n.Content) {
			var b strings.Builder
			writeNode(&b, key)
			b.WriteString(":")
			writeNode(&b, value)
			pairs = append(pairs, b.String())
		}
		slices.Sort(pairs)
		fmt.Fprintf(w, "{%s}", strings.Join(pairs, ",")) //nolint:errcheck // neither a hash nor a builder fails
	case yaml.SequenceNode:
		io.WriteString(w, "[") //nolint:errcheck // neither a hash nor a builder fails
		for _, each := range n.Content {
			writeNode(w, each)
			io.WriteString(w, ",") //nolint:errcheck // neither a hash nor a builder fails
		}
		io.WriteString(w, "]") //nolint:errcheck // neither a hash nor a builder fails
	default:
		fmt.Fprintf(w, "%s%q", n.ShortTag(), n.Value) //nolint:errcheck // neither a hash nor a builder fails
	}
}

// importPattern matches the modules of an import in Python.
var importPattern = regexp.MustCompile(`(?m)^[ \t]*(?:from[ \t]+\.*([\w.]+)[ \t]+import\b|import[ \t]+([\w., \t]+))`)

// addSources adds a Python file to a list, and the files beside it that it imports.
func addSources(files []string, path string) []string {
	if slices.Contains(files, path) {
		return files
	}
	files = append(files, path)
	text, _ := os.ReadFile(path) // scoring returns the error
	for _, found := range importPattern.FindAllStringSubmatch(string(text), -1) {
		for _, module := range strings.Split(found[1]+found[2], ",") {
			name, _, _ := strings.Cut(strings.TrimSpace(module), " ") // "import a as b"
			beside := filepath.Join(filepath.Dir(path), strings.ReplaceAll(name, ".", "/")+".py")
			if info, err := os.Stat(beside); err == nil && info.Mode().IsRegular() {
				files = addSources(files, beside)
			}
		}
	}
	return files
}
