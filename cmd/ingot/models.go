package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/ingot-run/ingot/config/launch"
	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/engine/cpu"
	"github.com/ingot-run/ingot/engine/gguf"
	"github.com/ingot-run/ingot/hub"
	"github.com/ingot-run/ingot/internal/textfmt"
)

func newModels() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "models [flags]", // the command also runs without a subcommand
		Short: "List models to begin with, and those on this machine",
		Args:  noCommand,
		RunE:  runModelsCatalog,
	}
	cmd.AddCommand(newModelsList(), newModelsInfo(), newModelsRemove())
	return cmd
}

func runModelsCatalog(cmd *cobra.Command, _ []string) error {
	if _, err := settings(cmd); err != nil {
		return err
	}
	memory, err := freeMemory()
	if err != nil {
		return err
	}
	store := modelStore()
	t := textfmt.NewTable(cmd.OutOrStdout(), "NAME", "DOWNLOAD", "MEMORY", "LICENCE", "HERE", "GOOD FOR")
	for _, e := range hub.Catalog {
		n, err := hub.ParseName(e.File)
		if err != nil {
			return err
		}
		here := "fits"
		if e.Memory() > memory {
			here = "too large"
		}
		if _, err := store.Find(n); err == nil {
			here = "on disk"
			if e.Memory() > memory {
				here = "on disk, too large"
			}
		}
		t.Line(e.Name, humanize.Bytes(uint64(e.Bytes)), humanize.Bytes(uint64(e.Memory())), e.Licence, here, e.For)
	}
	for _, path := range bundledModels() {
		info, err := os.Stat(path)
		if err != nil {
			continue
		}
		t.Line(path, humanize.Bytes(uint64(info.Size())), "", "Apache-2.0", "on disk", "a toy to try commands with: it answers ten kinds of questions")
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "\n%s of memory can be used here, by default %d%% of what is free. Sizes are approximate.\n", humanize.Bytes(uint64(memory)), engine.DefaultMemoryPercent)
	return err
}

// bundledModels returns the paths of the models that come with the source, if the program runs in a
// clone.
func bundledModels() []string {
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

func newModelsList() *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: "List the models on this machine", Args: arguments()}
	return printing(cmd, func([]string) ([]hub.Model, error) {
		_, err := settings(cmd)
		return append([]hub.Model{}, modelStore().List()...), err
	}, writeModels)
}

func writeModels(w io.Writer, list []hub.Model) error {
	unfinished := modelStore().Unfinished()
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

func newModelsRemove() *cobra.Command {
	return &cobra.Command{
		Use:   "rm NAME",
		Short: "Delete a model from this machine",
		Args:  arguments("NAME"),
		RunE:  runModelsRemove,
	}
}

func runModelsRemove(cmd *cobra.Command, args []string) error {
	if _, err := settings(cmd); err != nil {
		return err
	}
	n, err := hub.ParseName(args[0])
	if err != nil {
		return &usageError{err}
	}
	m, freed, err := modelStore().Remove(n)
	if err != nil {
		return err
	}
	cmd.PrintErrf("%s is deleted: %s are free again\n", textfmt.Printable(m.Name), humanize.Bytes(uint64(freed)))
	return nil
}

func freeMemory() (free int64, err error) {
	be, err := cpu.New(1)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, be.Close()) }()
	free, err = be.Free()
	return free / 100 * engine.DefaultMemoryPercent, err
}

func modelStore() hub.Store { return hub.Store{Env: hub.ReadEnv()} }

// openModel opens a model's file, given its path or a model name.
func openModel(name string) (*gguf.File, error) {
	path, err := launch.ModelFile(name)
	if err != nil {
		return nil, err
	}
	return gguf.Open(path)
}

// suggestions lists models for this machine, for a user who has no model yet.
func suggestions() string {
	memory, err := freeMemory()
	if err != nil {
		return ""
	}
	var b strings.Builder
	b.WriteString("Models for this machine's memory and cores; download one, then give its name with --model:\n")
	t := textfmt.NewTable(&b)
	for _, e := range hub.Fitting(memory, runtime.NumCPU(), 3) {
		t.Line("  ingot pull "+e.Name, humanize.Bytes(uint64(e.Bytes)), e.For)
	}
	_ = t.Flush()
	b.WriteString("\"ingot models\" lists more, \"ingot models list\" those on this machine.\n")
	return b.String()
}
