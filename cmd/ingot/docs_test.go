package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
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

// TestSettingsNameTheirCommands: docs/settings.md has, for each setting, the commands that have its
// flag.
func TestSettingsNameTheirCommands(t *testing.T) {
	t.Parallel()
	with := map[string][]string{} // commands by setting
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if fmt.Sprintf("%T", f.Value) == "*config.flagValue" && !f.Hidden && !c.Hidden && !strings.HasPrefix(c.CommandPath(), "ingot eval schedule ") {
				with[f.Name] = append(with[f.Name], strings.TrimPrefix(c.CommandPath(), "ingot "))
			}
		})
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit(newRoot())
	described := map[string]bool{}
	for row := range strings.Lines(readFile(t, "../../docs/settings.md")) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(strings.Replace(row, "| |", "| - |", 1)), "|"), " | ")
		if len(cells) != 4 || !strings.Contains(cells[1], "`INGOT_") {
			continue
		}
		head, _, _ := strings.Cut(cells[0], ":")
		for _, m := range regexp.MustCompile("`([a-z-]+)`").FindAllStringSubmatch(head, -1) {
			described[m[1]] = true
			if strings.TrimSpace(cells[3]) != "all" {
				require.ElementsMatch(t, with[m[1]], strings.Split(strings.TrimSpace(cells[3]), ", "), m[1])
			}
		}
	}
	for name := range with {
		require.Contains(t, described, name)
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
