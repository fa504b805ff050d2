package main

import (
	"embed"
	"fmt"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ingot-run/ingot/eval/task"
	"github.com/ingot-run/ingot/files/table"
	"github.com/ingot-run/ingot/hub"
	"github.com/ingot-run/ingot/internal/manual"
)

// Commands are listed in the order of addCommands.
func init() { cobra.EnableCommandSorting = false }

// Titles of sections of a command's flags in its help.
const (
	tuning    = "Tuning"
	debugging = "Debugging"
)

var help = manual.Help{Sections: []string{prompting, answerForm, choosing, sampling, outputs, filters, tuning, debugging}}

func section(flags *pflag.FlagSet, title string, names ...string) {
	manual.Section(flags, title, names...)
}

// helpTexts has a file of text a command, for manual.SetTexts.
//
//go:embed help/*.txt
var helpTexts embed.FS

func setHelp(root *cobra.Command) {
	texts, err := fs.Sub(helpTexts, "help")
	if err != nil {
		panic(err) // the folder is embedded
	}
	var formats strings.Builder
	for name, text := range table.Formats() {
		fmt.Fprintf(&formats, "\n  %-9s%s", name, text)
	}
	manual.SetTexts(root, texts, strings.NewReplacer(
		"[[formats]]", formats.String(),
		"[[tasks]]", strings.Join(task.Builtin(), ", "),
		"[[memory-rows]]", fmt.Sprint(hub.MemoryRows),
		"[[memory-tokens]]", fmt.Sprint(hub.MemoryTokens),
	))
}
