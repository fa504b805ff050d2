package manual

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
)

// WriteShare writes the manual pages and the completions of shells to the folder share, below which
// packages install them. date is the date of the pages.
func (h *Help) WriteShare(share string, root *cobra.Command, version, date string) error {
	if err := h.writePages(filepath.Join(share, "man", "man1"), root, version, date); err != nil {
		return fmt.Errorf("write manual pages: %w", err)
	}
	for path, write := range map[string]func(string) error{
		"bash-completion/completions/" + root.Name():         func(path string) error { return root.GenBashCompletionFileV2(path, true) },
		"zsh/site-functions/_" + root.Name():                 root.GenZshCompletionFile,
		"fish/vendor_completions.d/" + root.Name() + ".fish": func(path string) error { return root.GenFishCompletionFile(path, true) },
	} {
		path = filepath.Join(share, filepath.FromSlash(path))
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		if err == nil {
			err = write(path)
		}
		if err != nil {
			return fmt.Errorf("write shell completions: %w", err)
		}
	}
	return nil
}
