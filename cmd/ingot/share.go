package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

func newShare() *cobra.Command {
	return &cobra.Command{
		Use:    "share FOLDER",
		Hidden: true, // only makers of packages need it
		Short:  "Write manual pages and shell completions",
		Long: `Share writes manual pages and shell completions below FOLDER, where packages install them: share/man/man1,
share/bash-completion/completions, share/zsh/site-functions and share/fish/vendor_completions.d.

The pages have the date of SOURCE_DATE_EPOCH if it is set, else today's.`,
		Example: "  ingot share /usr/local",
		Args:    arguments("FOLDER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			date, err := pageDate(os.Getenv("SOURCE_DATE_EPOCH"))
			if err != nil {
				return err
			}
			share := filepath.Join(args[0], "share")
			if err := writePages(filepath.Join(share, "man", "man1"), cmd.Root(), date); err != nil {
				return fmt.Errorf("write manual pages: %w", err)
			}
			if err := writeCompletions(share, cmd.Root()); err != nil {
				return fmt.Errorf("write shell completions: %w", err)
			}
			return nil
		},
	}
}

// pageDate returns the date, in UTC, of a number of seconds since 1970. If seconds is empty, it returns today.
func pageDate(seconds string) (string, error) {
	if seconds == "" {
		return time.Now().UTC().Format(time.DateOnly), nil
	}
	var s int64
	if _, err := fmt.Sscan(seconds, &s); err != nil {
		return "", usagef("SOURCE_DATE_EPOCH is %q: it must be a number of seconds since 1970", seconds)
	}
	return time.Unix(s, 0).UTC().Format(time.DateOnly), nil
}

// writePages writes the page of cmd and of every command below it, except hidden ones.
func writePages(folder string, cmd *cobra.Command, date string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(folder, pageName(cmd)+".1"), []byte(page(cmd, date)), 0o644); err != nil {
		return err
	}
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			if err := writePages(folder, sub, date); err != nil {
				return err
			}
		}
	}
	return nil
}

func writeCompletions(share string, root *cobra.Command) error {
	for path, write := range map[string]func(string) error{
		"bash-completion/completions/" + root.Name():         func(path string) error { return root.GenBashCompletionFileV2(path, true) },
		"zsh/site-functions/_" + root.Name():                 root.GenZshCompletionFile,
		"fish/vendor_completions.d/" + root.Name() + ".fish": func(path string) error { return root.GenFishCompletionFile(path, true) },
	} {
		path = filepath.Join(share, filepath.FromSlash(path))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := write(path); err != nil {
			return err
		}
	}
	return nil
}

// pageName returns the name of a command's manual page, such as ingot-eval-run.
func pageName(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

// page returns a command's help as a manual page, in the macros of man(7).
func page(cmd *cobra.Command, date string) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	heading := func(text string) { line(".SH %s", strings.ToUpper(text)) }

	line(".TH %s 1 %s %q %q", roff(strings.ToUpper(pageName(cmd))), date, "ingot "+programVersion(), "Ingot")
	heading("Name")
	line(`%s \- %s`, roff(pageName(cmd)), roff(cmd.Short))
	heading("Synopsis")
	for i, form := range synopsis(cmd) {
		if i > 0 {
			line(".br")
		}
		line(".B %s", roff(form))
	}
	heading("Description")
	b.WriteString(roffText(cmp.Or(cmd.Long, cmd.Short)))
	for _, g := range commandGroups(cmd) {
		heading(g.title)
		for _, c := range g.commands {
			line(".TP\n.B %s\n%s", roff(c.Name()), roff(c.Short))
		}
	}
	for _, s := range flagSections(cmd) {
		heading(s.title)
		for _, f := range describeFlags(s.flags) {
			line(".TP\n.B %s\n%s", roff(f.form), roff(f.usage))
		}
	}
	if cmd.HasExample() {
		heading("Examples")
		b.WriteString(roffText(cmd.Example))
	}
	if related := relatedPages(cmd); len(related) > 0 {
		heading("See also")
		line("%s", strings.Join(related, ",\n"))
	}
	return b.String()
}

// relatedPages returns references to the pages of the command above cmd and of those below it.
func relatedPages(cmd *cobra.Command) []string {
	var pages []string
	add := func(c *cobra.Command) { pages = append(pages, `\fB`+roff(pageName(c))+`\fR(1)`) }
	if cmd.HasParent() {
		add(cmd.Parent())
	}
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			add(c)
		}
	}
	return pages
}

// roffText formats text for man(7). Indented lines keep their line breaks, and other paragraphs are filled.
func roffText(text string) string {
	var b strings.Builder
	asIs := false
	set := func(on bool) {
		if on != asIs {
			b.WriteString(map[bool]string{true: ".nf\n", false: ".fi\n"}[on])
			asIs = on
		}
	}
	for line := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n") {
		if line == "" {
			set(false)
			b.WriteString(".PP\n")
			continue
		}
		set(strings.HasPrefix(line, " ") || strings.HasPrefix(line, "\t"))
		b.WriteString(roff(line) + "\n")
	}
	set(false)
	return b.String()
}

// roff escapes a line of text for man(7).
func roff(line string) string {
	line = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(line)
	if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
		line = `\&` + line
	}
	return line
}
