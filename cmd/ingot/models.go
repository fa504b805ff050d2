package main

import (
	"errors"
	"fmt"
	"io"
	"runtime"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/engine/cpu"
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
	if err := modelStore().WriteCatalog(cmd.OutOrStdout(), memory); err != nil {
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "\n%s of memory can be used here, by default %d%% of what is free. Sizes are approximate.\n", humanize.Bytes(uint64(memory)), engine.DefaultMemoryPercent)
	return err
}

func newModelsList() *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: "List the models on this machine", Args: arguments()}
	return printing(cmd, func([]string) ([]hub.Model, error) {
		_, err := settings(cmd)
		return append([]hub.Model{}, modelStore().List()...), err
	}, func(w io.Writer, list []hub.Model) error { return modelStore().WriteModels(w, list) })
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

// suggestions lists models for this machine, for a user who has no model yet.
func suggestions() string {
	memory, err := freeMemory()
	if err != nil {
		return ""
	}
	return hub.Suggestions(memory, runtime.NumCPU())
}
