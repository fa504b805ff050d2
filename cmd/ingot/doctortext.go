package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/ingot-run/ingot/config"
	"github.com/ingot-run/ingot/metal/drivers"
)

// write writes the diagnosis as text.
func (d *diagnosis) write(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(name, format string, args ...any) {
		fmt.Fprintf(t, "%s\t%s\n", name, printable(fmt.Sprintf(format, args...))) //nolint:errcheck // Flush reports it
	}
	line("ingot", "%s (%s)", d.Version, d.Go)
	line("system", "%s, %d processors", d.System, d.Processors)
	line("CPU kernels", "%s", used(d.Kernels))
	free := "not known"
	if d.MemoryFree > 0 {
		free = bytesText(uint64(d.MemoryFree))
	}
	line("free memory", "%s", free)
	for _, b := range d.Backends {
		b.write(line)
	}
	chosen := d.Chosen.Backend
	if chosen == "" {
		chosen = "none"
	}
	line(fmt.Sprintf("--backend %s", d.Chosen.Setting), "%s: %s", chosen, d.Chosen.Why)
	if r := d.Redis; r != nil {
		if r.Error == "" {
			line("redis", "answers")
		} else {
			line("redis", "%s", r.Error)
		}
		for _, text := range r.Warnings {
			line("", "%s", text)
		}
	}
	if d.Model != nil {
		d.Model.write(line)
	}
	return t.Flush()
}

// used formats a list of which only the first element is used.
func used(list []string) string {
	if len(list) == 1 {
		return list[0]
	}
	return fmt.Sprintf("%s (this processor also has %s)", list[0], strings.Join(list[1:], ", "))
}

func (s *backendState) write(line func(name, format string, args ...any)) {
	name := "backend " + s.Name
	if !s.Available {
		line(name, "cannot be used: %s", s.Reason)
		return
	}
	note := ""
	if d, _ := drivers.Find(s.Name); d.Note != "" {
		note = " (" + d.Note + ")"
	}
	line(name, "%s%s", s.Device, note)
	if s.Swept > 0 {
		line("", "geometry from %s, choices: %d", config.GeometryFile(), s.Swept)
	}
	if s.Matrices != "" {
		line("", "simdgroup matrices: %s (used only if they add in the same order as the kernels for one row)", s.Matrices)
	}
	if s.Family == "" {
		return
	}
	line("", "family %s, working set %s, buffers up to %s", s.Family, bytesText(uint64(s.WorkingSet)), bytesText(uint64(s.MaxBuffer)))
	line("", "threadgroups of up to %d threads with %s of memory", s.MaxThreadgroup, bytesText(uint64(s.ThreadgroupMemory)))
	line("", "kernel language %s, %s arithmetic, unified memory: %t, residency sets: %t", s.LanguageVersion, s.MathMode, s.UnifiedMemory, s.ResidencySets)
}

func (m *modelFit) write(line func(name, format string, args ...any)) {
	line("model", "%s", m.Path)
	if m.Weights > 0 {
		line("", "weights %s, steps %s, rows %s, cache %s per token%s; together they may use %s", bytesText(uint64(m.Weights)),
			bytesText(uint64(m.Steps)), bytesText(uint64(m.Rows)), bytesText(uint64(m.PerToken)),
			windowText(uint64(m.Windowed), m.Window), bytesText(uint64(m.Memory)))
	}
	if !m.Fits {
		line("", "cannot be run: %s", m.Error)
		return
	}
	line("", "fits, with a context of %d tokens (trained for %d) and %d in all rows together", m.Context, m.Trained, m.Tokens)
}
