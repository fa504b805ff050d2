package manual

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
)

// writePages writes the manual page of cmd and of every command below it, except hidden ones. date
// is the date of the pages.
func (h *Help) writePages(folder string, cmd *cobra.Command, version, date string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	v := h.view(cmd)
	v.Version, v.Date = "ingot "+version, date
	var page bytes.Buffer
	if err := templates.ExecuteTemplate(&page, "page.man", v); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(folder, PageName(cmd)+".1"), page.Bytes(), 0o644); err != nil {
		return err
	}
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			if err := h.writePages(folder, sub, version, date); err != nil {
				return err
			}
		}
	}
	return nil
}

// PageName returns the name of a command's manual page, such as ingot-eval-run.
func PageName(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

// roffText formats text for man(7). Indented lines keep their line breaks, and other paragraphs are
// filled.
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
		b.WriteString(Escape(line) + "\n")
	}
	set(false)
	return b.String()
}

// Escape escapes a line of text for man(7).
func Escape(line string) string {
	line = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(line)
	if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
		line = `\&` + line
	}
	return line
}
