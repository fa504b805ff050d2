package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/internal/bounded"
	"github.com/ingot-run/ingot/internal/manual"
)

// TestManualPages: every command has a page with its description and flags, for which mandoc prints
// no warning.
func TestManualPages(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "86400")
	folder := t.TempDir()
	r := ingot(t, "", "share", folder)
	require.Equal(t, exitOK, r.code, r.stderr)
	pages := filepath.Join(folder, "share", "man", "man1")

	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		text := readFile(t, filepath.Join(pages, manual.PageName(cmd)+".1"))
		require.Contains(t, text, ".TH "+manual.Escape(strings.ToUpper(manual.PageName(cmd)))+" 1 1970-01-02 ")
		require.Contains(t, text, manual.Escape(cmd.Short))
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			require.Equal(t, !f.Hidden, strings.Contains(text, manual.Escape("--"+f.Name)), cmd.CommandPath()+" --"+f.Name)
		})
		for _, sub := range cmd.Commands() {
			if sub.IsAvailableCommand() {
				visit(sub)
			}
		}
	}
	visit(newRoot())
	require.NoFileExists(t, filepath.Join(pages, "ingot-share.1"), "the command is hidden")

	t.Run("mandoc", func(t *testing.T) {
		mandoc, err := exec.LookPath("mandoc")
		if err != nil {
			t.Skip("the manual pages are not checked: install mandoc")
		}
		files, err := filepath.Glob(filepath.Join(pages, "*.1"))
		require.NoError(t, err)
		require.Greater(t, len(files), 20)
		warnings, err := bounded.Command(t, mandoc, append([]string{"-T", "lint", "-W", "warning"}, files...)...).CombinedOutput()
		require.NoError(t, err, string(warnings))
	})
}

// TestCompletions: each shell's completions are in the file where packages install them, and bash
// can parse its file.
func TestCompletions(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	r := ingot(t, "", "share", folder)
	require.Equal(t, exitOK, r.code, r.stderr)
	share := filepath.Join(folder, "share")
	require.Contains(t, readFile(t, filepath.Join(share, "zsh", "site-functions", "_ingot")), "#compdef ingot\n")
	require.Contains(t, readFile(t, filepath.Join(share, "fish", "vendor_completions.d", "ingot.fish")), "complete -c ingot ")
	message, err := bounded.Command(t, "bash", "-n", filepath.Join(share, "bash-completion", "completions", "ingot")).CombinedOutput()
	require.NoError(t, err, string(message))
}

func TestShareErrors(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	r := ingot(t, "", "share", file)
	require.Equal(t, exitFailure, r.code)
	require.Contains(t, r.stderr, "write manual pages: mkdir "+file)
	t.Setenv("SOURCE_DATE_EPOCH", "yesterday")
	r = ingot(t, "", "share", t.TempDir())
	require.Equal(t, exitUsage, r.code)
	require.Contains(t, r.stderr, `SOURCE_DATE_EPOCH is "yesterday": it must be a number of seconds since 1970`)
}
