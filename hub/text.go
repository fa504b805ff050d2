package hub

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/ingot-run/ingot/internal/textfmt"
)

// WriteCatalog prints the catalog, and the models that come with the source. memory is the number
// of bytes that a model may use on this machine.
func (s Store) WriteCatalog(w io.Writer, memory int64) error {
	t := textfmt.NewTable(w, "NAME", "DOWNLOAD", "MEMORY", "LICENCE", "HERE", "GOOD FOR")
	for _, e := range Catalog {
		n, err := ParseName(e.File)
		if err != nil {
			return err
		}
		here := "fits"
		if e.Memory() > memory {
			here = "too large"
		}
		if _, err := s.Find(n); err == nil {
			here = "on disk"
			if e.Memory() > memory {
				here = "on disk, too large"
			}
		}
		t.Line(e.Name, humanize.Bytes(uint64(e.Bytes)), humanize.Bytes(uint64(e.Memory())), e.Licence, here, e.For)
	}
	for _, path := range bundled() {
		info, err := os.Stat(path)
		if err != nil {
			continue
		}
		t.Line(path, humanize.Bytes(uint64(info.Size())), "", "Apache-2.0", "on disk", "a toy to try commands with: it answers ten kinds of questions")
	}
	return t.Flush()
}

// bundled returns the paths of the models that come with the source, if the program runs in a
// clone.
func bundled() []string {
	folders := []string{"models"}
	if program, err := os.Executable(); err == nil {
		folders = append(folders, filepath.Join(filepath.Dir(filepath.Dir(program)), "models"))
	}
	for _, folder := range folders {
		if found, err := filepath.Glob(filepath.Join(folder, "tiny-*.gguf")); err == nil && len(found) > 0 {
			return found
		}
	}
	return nil
}

// WriteModels prints models of List, and the unfinished downloads.
func (s Store) WriteModels(w io.Writer, list []Model) error {
	unfinished := s.Unfinished()
	if len(list)+len(unfinished) == 0 {
		_, err := fmt.Fprintln(w, `There are no models yet. "ingot models" lists some to begin with.`)
		return err
	}
	t := textfmt.NewTable(w, "NAME", "SIZE", "FROM")
	for _, m := range list {
		t.Line(m.Name, humanize.Bytes(uint64(m.Bytes)), m.Owner)
	}
	for _, m := range unfinished {
		t.Line(m.Name, humanize.Bytes(uint64(m.Bytes)), "unfinished download")
	}
	return t.Flush()
}

// Suggestions lists models for a user who has none yet, as Fitting chooses them.
func Suggestions(memory int64, cores int) string {
	var b strings.Builder
	b.WriteString("Models for this machine's memory and cores; download one, then give its name with --model:\n")
	t := textfmt.NewTable(&b)
	for _, e := range Fitting(memory, cores, 3) {
		t.Line("  ingot pull "+e.Name, humanize.Bytes(uint64(e.Bytes)), e.For)
	}
	_ = t.Flush() // a strings.Builder takes everything
	b.WriteString("\"ingot models\" lists more, \"ingot models list\" those on this machine.\n")
	return b.String()
}

// Describe says what a Pull has done in the given time.
func (p Pulled) Describe(took time.Duration) string {
	size := humanize.Bytes(uint64(p.Bytes))
	switch {
	case p.Owner != "":
		return fmt.Sprintf("%s: %s has the model already", size, p.Owner)
	case p.Moved == 0:
		return size + ": the model is on this machine already"
	}
	speed := float64(p.Moved) / max(took.Seconds(), 1e-3)
	text := fmt.Sprintf("%s in %s, %s/s", humanize.Bytes(uint64(p.Moved)), took.Round(100*time.Millisecond), humanize.Bytes(uint64(speed)))
	if p.Commit != "" {
		return text + ", SHA-256 matches the hub's"
	}
	return text + ", SHA-256 " + p.SHA256
}
