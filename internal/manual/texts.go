package manual

import (
	"io/fs"
	"strings"

	"github.com/spf13/cobra"
)

// SetTexts sets the descriptions and examples of cmd and of all commands below it from files: the
// description and, below a line "Examples:", the examples. The name of a command's file is its path
// below the program, such as eval-run.txt for "ingot eval run".
func SetTexts(cmd *cobra.Command, files fs.FS, values *strings.Replacer) {
	name := strings.TrimPrefix(PageName(cmd), cmd.Root().Name()+"-") + ".txt"
	if text, err := fs.ReadFile(files, name); err == nil {
		whole := values.Replace("\n\n" + strings.TrimSuffix(string(text), "\n"))
		cmd.Long, cmd.Example, _ = strings.Cut(whole, "\n\nExamples:\n")
		cmd.Long = strings.TrimPrefix(cmd.Long, "\n\n")
	}
	for _, c := range cmd.Commands() {
		SetTexts(c, files, values)
	}
}
