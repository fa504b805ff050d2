// Package manual formats the help and the manual pages of commands.
package manual

import (
	"embed"
	"io/fs"
	"strings"

	template "github.com/DataDog/datadog-agent/pkg/template/text"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Help describes commands.
type Help struct {
	Sections []string // titles of the sections of flags, in the order of the help; flags without a section come first
}

// KeepOrder makes the help list flags in the order in which they were added, for cmd and all
// commands below it.
func KeepOrder(cmd *cobra.Command) {
	cmd.Flags().SortFlags = false
	cmd.PersistentFlags().SortFlags = false
	for _, c := range cmd.Commands() {
		KeepOrder(c)
	}
}

const sectionKey = "ingot_section"

// Section puts flags into a section, which is a heading in the help.
func Section(flags *pflag.FlagSet, title string, names ...string) {
	for _, name := range names {
		if err := flags.SetAnnotation(name, sectionKey, []string{title}); err != nil {
			panic(err) // the flag does not exist
		}
	}
}

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

// synopsis returns the forms of a command line: the command itself, if it can run without a
// subcommand, and the form with a subcommand.
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

type view struct {
	*cobra.Command
	Forms         []string
	Subcommands   []commandGroup
	Sections      []flagSection
	Related       []*cobra.Command // the command above, and those below
	Version, Date string           // only for pages
}

func (h *Help) view(cmd *cobra.Command) *view {
	v := &view{Command: cmd, Forms: synopsis(cmd), Subcommands: commandGroups(cmd), Sections: h.sections(cmd)}
	if cmd.HasParent() {
		v.Related = append(v.Related, cmd.Parent())
	}
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			v.Related = append(v.Related, c)
		}
	}
	if !cmd.HasAvailableSubCommands() {
		v.Subcommands = nil
	}
	return v
}

//go:embed usage.txt page.man
var templateFiles embed.FS

var templates = template.Must(template.New("").Funcs(template.FuncMap{
	"upper": strings.ToUpper, "escape": Escape, "fill": roffText, "page": PageName,
	"name": (*cobra.Command).Name, "path": (*cobra.Command).CommandPath, "groups": (*cobra.Command).Groups,
	"usages": flagSection.usages, "described": flagSection.described,
}).ParseFS(templateFiles, "*"))

// Usage prints a command's help except its description.
func (h *Help) Usage(cmd *cobra.Command) error {
	return templates.ExecuteTemplate(cmd.OutOrStderr(), "usage.txt", h.view(cmd))
}

type commandGroup struct {
	Title    string
	Commands []*cobra.Command
}

// commandGroups returns the subcommands of cmd by group. Commands without a group come last.
func commandGroups(cmd *cobra.Command) []commandGroup {
	var groups []commandGroup
	add := func(title, id string) {
		g := commandGroup{Title: title}
		for _, c := range cmd.Commands() {
			if c.GroupID == id && (c.IsAvailableCommand() || c.Name() == "help") {
				g.Commands = append(g.Commands, c)
			}
		}
		if len(g.Commands) > 0 {
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

type flagSection struct {
	Title string
	Flags *pflag.FlagSet
}

func (h *Help) sections(cmd *cobra.Command) []flagSection {
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
	for _, title := range append([]string{""}, h.Sections...) {
		add(strings.TrimSpace(title+" Flags"), cmd.LocalFlags().VisitAll, func(f *pflag.Flag) bool {
			return strings.Join(f.Annotations[sectionKey], "") == title
		})
	}
	add("Global Flags", cmd.InheritedFlags().VisitAll, func(*pflag.Flag) bool { return true })
	return sections
}

// usages returns the lines of the help about the flags, of at most 118 columns.
func (s flagSection) usages() string { return s.Flags.FlagUsagesWrapped(118) }

// flagHelp is what the help says about a flag: its form, such as "-o, --out OUT", and its use.
type flagHelp struct{ Form, Usage string }

func (s flagSection) described() []flagHelp {
	var all []flagHelp
	for line := range strings.Lines(s.Flags.FlagUsages()) {
		form, usage, _ := strings.Cut(strings.TrimSpace(line), "   ") // pflag separates them by three spaces or more
		all = append(all, flagHelp{form, strings.TrimSpace(usage)})
	}
	return all
}
