package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ingot-run/ingot/table"
)

// Commands are listed in the order of addCommands.
func init() { cobra.EnableCommandSorting = false }

// keepFlagOrder lists the flags of cmd and the commands below it in the order in which they were added.
func keepFlagOrder(cmd *cobra.Command) {
	cmd.Flags().SortFlags = false
	cmd.PersistentFlags().SortFlags = false
	for _, c := range cmd.Commands() {
		keepFlagOrder(c)
	}
}

// Sections of a command's flags in its help, after the flags that belong to none.
const (
	tuning    = "Tuning"
	debugging = "Debugging"
)

// sectionKey is the annotation of a flag that names its section.
const sectionKey = "ingot_section"

// section puts flags into a section.
func section(flags *pflag.FlagSet, title string, names ...string) {
	for _, name := range names {
		if err := flags.SetAnnotation(name, sectionKey, []string{title}); err != nil {
			panic(err) // the flag does not exist
		}
	}
}

// helpWidth is the number of columns at which descriptions of flags are wrapped.
const helpWidth = 118

// usage prints a command's help except its description.
func usage(cmd *cobra.Command) error {
	var b strings.Builder
	b.WriteString("Usage:\n")
	if cmd.Use != cmd.Name() || !cmd.HasAvailableSubCommands() { // the command can be run itself
		fmt.Fprintf(&b, "  %s\n", cmd.UseLine())
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "  %s COMMAND\n", cmd.CommandPath())
	}
	if cmd.HasExample() {
		fmt.Fprintf(&b, "\nExamples:\n%s\n", cmd.Example)
	}
	if cmd.HasAvailableSubCommands() {
		b.WriteString("\nAvailable Commands:\n")
		writeCommands(&b, cmd)
	}
	writeFlags(&b, cmd)
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "\nUse \"%s COMMAND --help\" for more about a command.\n", cmd.CommandPath())
	}
	_, err := io.WriteString(cmd.OutOrStderr(), b.String())
	return err
}

// writeCommands lists the commands below cmd by group. Commands without a group come last.
func writeCommands(w io.Writer, cmd *cobra.Command) {
	list := func(group string) {
		for _, c := range cmd.Commands() {
			if c.GroupID == group && (c.IsAvailableCommand() || c.Name() == "help") {
				fmt.Fprintf(w, "  %-12s%s\n", c.Name(), c.Short) //nolint:errcheck // a strings.Builder
			}
		}
	}
	for _, g := range cmd.Groups() {
		fmt.Fprintf(w, "\n %s:\n", g.Title) //nolint:errcheck // a strings.Builder
		list(g.ID)
	}
	if len(cmd.Groups()) > 0 {
		fmt.Fprint(w, "\n Other:\n") //nolint:errcheck // a strings.Builder
	}
	list("")
}

// writeFlags lists the flags of cmd by section, and then those of all commands.
func writeFlags(w io.Writer, cmd *cobra.Command) {
	for _, title := range []string{"", prompting, sampling, tuning, debugging} {
		in := newFlagSet()
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if strings.Join(f.Annotations[sectionKey], "") == title {
				in.AddFlag(f)
			}
		})
		heading := "Flags"
		if title != "" {
			heading = title + " Flags"
		}
		writeFlagSet(w, heading, in)
	}
	global := newFlagSet()
	cmd.InheritedFlags().VisitAll(global.AddFlag)
	writeFlagSet(w, "Global Flags", global)
}

func newFlagSet() *pflag.FlagSet {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.SortFlags = false
	return flags
}

func writeFlagSet(w io.Writer, heading string, flags *pflag.FlagSet) {
	if flags.HasAvailableFlags() {
		fmt.Fprintf(w, "\n%s:\n%s", heading, flags.FlagUsagesWrapped(helpWidth)) //nolint:errcheck // a strings.Builder
	}
}

// formatsHelp describes the formats of input files.
func formatsHelp() string {
	var b strings.Builder
	for name, text := range table.Formats() {
		fmt.Fprintf(&b, "\n  %-9s%s", name, text)
	}
	return b.String()
}
