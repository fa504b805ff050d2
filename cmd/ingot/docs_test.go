package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDefectsNameTests checks that every test that docs/operations.md lists by package and name
// exists.
func TestDefectsNameTests(t *testing.T) {
	t.Parallel()
	_, table, found := strings.Cut(readFile(t, "../../docs/operations.md"), "## Defects that tests keep away")
	require.True(t, found)
	named := 0
	for row := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(row), "|"), " | ")
		if len(cells) != 2 || !strings.Contains(cells[1], "`") {
			continue
		}
		for part := range strings.SplitSeq(cells[1], ";") {
			m := regexp.MustCompile("^`([a-z/]+)` (.*)$").FindStringSubmatch(strings.TrimSpace(part))
			require.NotNil(t, m, "%q in %s", part, row)
			source := sourceOf(t, filepath.Join("..", "..", m[1]))
			for name := range strings.SplitSeq(m[2], ", ") {
				name = strings.TrimSpace(name)
				exists := strings.Contains(source, "func "+name+"(") || strings.Contains(source, `"`+name+`":`) // a case of a suite
				require.True(t, exists, "package %s has no test %s", m[1], name)
				named++
			}
		}
	}
	require.Greater(t, named, 10)
}

// TestAlarmsNameMetrics checks that docs/operations.md names only metrics that workers have.
func TestAlarmsNameMetrics(t *testing.T) {
	t.Parallel()
	source := sourceOf(t, "../../worker")
	names := regexp.MustCompile(`ingot_[a-z_]+`).FindAllString(readFile(t, "../../docs/operations.md"), -1)
	require.NotEmpty(t, names)
	for _, name := range names {
		require.Contains(t, source, `"`+strings.TrimSuffix(name, "_bucket")+`"`)
	}
}

// sourceOf returns the text of a package's Go files.
func sourceOf(t *testing.T, folder string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	require.NoError(t, err)
	require.NotEmpty(t, files, folder)
	var all strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		all.Write(text)
	}
	return all.String()
}
