package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ingot-run/ingot/files/table"
)

// Commands are listed in the order of addCommands.
func init() { cobra.EnableCommandSorting = false }

// keepFlagOrder makes the help list flags in the order in which they were added, for cmd and all commands below it.
func keepFlagOrder(cmd *cobra.Command) {
	cmd.Flags().SortFlags = false
	cmd.PersistentFlags().SortFlags = false
	for _, c := range cmd.Commands() {
		keepFlagOrder(c)
	}
}

// Titles of sections of a command's flags in its help. Flags without a section come first.
const (
	tuning    = "Tuning"
	debugging = "Debugging"
)

// sectionKey is the key of a flag's annotation that has the title of the flag's section.
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

// synopsis returns the forms of a command line: the command itself, if it can run without a subcommand, and the form with a subcommand.
func synopsis(cmd *cobra.Command) []string {
	var forms []string
	if cmd.Use != cmd.Name() || !cmd.HasAvailableSubCommands() { // cmd can be run without a subcommand
		forms = append(forms, cmd.UseLine())
	}
	if cmd.HasAvailableSubCommands() {
		forms = append(forms, cmd.CommandPath()+" COMMAND")
	}
	return forms
}

// usage prints a command's help except its description.
func usage(cmd *cobra.Command) error {
	var b strings.Builder
	b.WriteString("Usage:\n")
	for _, form := range synopsis(cmd) {
		fmt.Fprintf(&b, "  %s\n", form)
	}
	if cmd.HasExample() {
		fmt.Fprintf(&b, "\nExamples:\n%s\n", cmd.Example)
	}
	if cmd.HasAvailableSubCommands() {
		b.WriteString("\nAvailable Commands:\n")
		for _, g := range commandGroups(cmd) {
			if len(cmd.Groups()) > 0 {
				fmt.Fprintf(&b, "\n %s:\n", g.title)
			}
			for _, c := range g.commands {
				fmt.Fprintf(&b, "  %-12s%s\n", c.Name(), c.Short)
			}
		}
	}
	for _, s := range flagSections(cmd) {
		fmt.Fprintf(&b, "\n%s:\n%s", s.title, s.flags.FlagUsagesWrapped(helpWidth))
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "\nUse \"%s COMMAND --help\" for more about a command.\n", cmd.CommandPath())
	}
	_, err := io.WriteString(cmd.OutOrStderr(), b.String())
	return err
}

// listed reports whether the help lists a command.
func listed(cmd *cobra.Command) bool { return cmd.IsAvailableCommand() || cmd.Name() == "help" }

// commandGroup has the commands of one group, in the order of the help.
type commandGroup struct {
	title    string
	commands []*cobra.Command
}

// commandGroups returns the subcommands of cmd by group. Commands without a group come last.
func commandGroups(cmd *cobra.Command) []commandGroup {
	var groups []commandGroup
	add := func(title, id string) {
		g := commandGroup{title: title}
		for _, c := range cmd.Commands() {
			if c.GroupID == id && listed(c) {
				g.commands = append(g.commands, c)
			}
		}
		if len(g.commands) > 0 {
			groups = append(groups, g)
		}
	}
	rest := "Commands"
	for _, g := range cmd.Groups() {
		add(g.Title, g.ID)
		rest = "Other"
	}
	add(rest, "")
	return groups
}

// flagSection has the flags under one heading.
type flagSection struct {
	title string
	flags *pflag.FlagSet
}

// flagSections returns the flags of cmd by section, and after them the global flags.
func flagSections(cmd *cobra.Command) []flagSection {
	var sections []flagSection
	add := func(title string, visit func(func(*pflag.Flag)), in func(*pflag.Flag) bool) {
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		flags.SortFlags = false
		visit(func(f *pflag.Flag) {
			if in(f) {
				flags.AddFlag(f)
			}
		})
		if flags.HasAvailableFlags() {
			sections = append(sections, flagSection{title, flags})
		}
	}
	for _, title := range []string{"", prompting, choosing, sampling, outputs, filters, tuning, debugging} {
		add(strings.TrimSpace(title+" Flags"), cmd.LocalFlags().VisitAll, func(f *pflag.Flag) bool {
			return strings.Join(f.Annotations[sectionKey], "") == title
		})
	}
	add("Global Flags", cmd.InheritedFlags().VisitAll, func(*pflag.Flag) bool { return true })
	return sections
}

// flagHelp is what the help says about a flag: its form, such as "-o, --out OUT", and its use.
type flagHelp struct{ form, usage string }

// describeFlags returns the help of flags that are not hidden.
func describeFlags(flags *pflag.FlagSet) []flagHelp {
	var all []flagHelp
	for line := range strings.Lines(flags.FlagUsages()) {
		form, usage, _ := strings.Cut(strings.TrimSpace(line), "   ") // pflag separates them by three spaces or more
		all = append(all, flagHelp{form, strings.TrimSpace(usage)})
	}
	return all
}

// formatsHelp describes the formats of input files.
func formatsHelp() string {
	var b strings.Builder
	for name, text := range table.Formats() {
		fmt.Fprintf(&b, "\n  %-9s%s", name, text)
	}
	return b.String()
}
