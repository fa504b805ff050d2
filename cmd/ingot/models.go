package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/ingot-run/ingot/config"
	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/engine/cpu"
	"github.com/ingot-run/ingot/hub"
)

func newModels() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "models [flags]", // the command also runs without a subcommand
		Short: "List models to begin with, and those on this machine",
		Long: fmt.Sprintf(`Models lists a few models to begin with. For each it prints the size of the download, the memory for %d rows of %d
tokens, and whether this machine has that much free. Many other models work: "ingot pull" takes the name of any GGUF repository
on Hugging Face.`, hub.MemoryRows, hub.MemoryTokens),
		Example: `  ingot models
  ingot models list
  ingot models rm qwen3-4b`,
		Args: noCommand,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, err := settings(cmd); err != nil {
				return err
			}
			free, err := freeMemory()
			if err != nil {
				return err
			}
			return writeCatalog(cmd.OutOrStdout(), hub.Store{Env: hub.ReadEnv()}, free)
		},
	}
	cmd.AddCommand(newModelsList(), newModelsRemove())
	return cmd
}

func newModelsList() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the models on this machine",
		Long: `List shows the models on this machine by the names that --model takes. These are the models in the cache of Hugging
Face's tools, which "ingot pull" uses too, files from other servers, and models of LM Studio and ollama in their usual
folders. The variable OLLAMA_MODELS names another folder of ollama.`,
		Example: `  ingot models list
  ingot models list --json | jq -r '.[].path'`,
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, err := settings(cmd); err != nil {
				return err
			}
			store := hub.Store{Env: hub.ReadEnv()}
			if asJSON {
				return writeJSON(cmd.OutOrStdout(), append([]hub.Model{}, store.List()...))
			}
			return writeModels(cmd.OutOrStdout(), store)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON array")
	return cmd
}

func newModelsRemove() *cobra.Command {
	return &cobra.Command{
		Use:   "rm NAME",
		Short: "Delete a model from this machine",
		Long: `Rm deletes a model from the cache, also one that is only partly downloaded. Other models of its repository stay. Models of
LM Studio and ollama are not deleted.`,
		Example: `  ingot models rm qwen3-4b
  ingot models rm Qwen/Qwen3-4B-GGUF:Q4_K_M`,
		Args: arguments("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := settings(cmd); err != nil {
				return err
			}
			n, err := hub.ParseName(args[0])
			if err != nil {
				return &usageError{err}
			}
			m, freed, err := hub.Store{Env: hub.ReadEnv()}.Remove(n)
			if err != nil {
				return err
			}
			cmd.PrintErrf("%s is deleted: %s are free again\n", printable(m.Name), humanize.Bytes(uint64(freed)))
			return nil
		},
	}
}

// freeMemory returns the number of bytes that a model may use by default.
func freeMemory() (free int64, err error) {
	be, err := cpu.New(1)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, be.Close()) }()
	free, err = be.Free()
	return free / 100 * engine.DefaultMemoryPercent, err
}

// writeCatalog lists the catalog. memory is the number of bytes that a model may use on this machine.
func writeCatalog(w io.Writer, store hub.Store, memory int64) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "NAME\tDOWNLOAD\tMEMORY\tLICENCE\tHERE\tGOOD FOR") //nolint:errcheck // Flush reports it
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
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", e.Name, humanize.Bytes(uint64(e.Bytes)), humanize.Bytes(uint64(e.Memory())), e.Licence, here, e.For) //nolint:errcheck // Flush reports it
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%s of memory can be used here, by default %d%% of what is free. Sizes are approximate.\n", humanize.Bytes(uint64(memory)), engine.DefaultMemoryPercent)
	return err
}

// writeModels lists the models on this machine.
func writeModels(w io.Writer, store hub.Store) error {
	list, unfinished := store.List(), store.Unfinished()
	if len(list)+len(unfinished) == 0 {
		_, err := fmt.Fprintln(w, `There are no models yet. "ingot models" lists some to begin with.`)
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "NAME\tSIZE\tFROM") //nolint:errcheck // Flush reports it
	for _, m := range list {
		fmt.Fprintf(t, "%s\t%s\t%s\n", printable(m.Name), humanize.Bytes(uint64(m.Bytes)), m.Owner) //nolint:errcheck // Flush reports it
	}
	for _, m := range unfinished {
		fmt.Fprintf(t, "%s\t%s\t%s\n", printable(m.Name), humanize.Bytes(uint64(m.Bytes)), "unfinished download") //nolint:errcheck // Flush reports it
	}
	return t.Flush()
}

// requireModel checks that a model is given. If not, it prints models for this machine before it returns the error.
func requireModel(cmd *cobra.Command, cfg *config.Config) error {
	if err := cfg.Require(config.Model); err != nil {
		cmd.PrintErr(suggestions())
		return &usageError{err}
	}
	return nil
}

// suggestions lists models for this machine, for a user who has no model yet.
func suggestions() string {
	memory, err := freeMemory()
	if err != nil {
		return ""
	}
	var b strings.Builder
	b.WriteString("Models for this machine's memory; download one, then give its name with --model:\n")
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, e := range hub.Fitting(memory, 3) {
		fmt.Fprintf(t, "  ingot pull %s\t%s\t%s\n", e.Name, humanize.Bytes(uint64(e.Bytes)), e.For) //nolint:errcheck // a strings.Builder
	}
	_ = t.Flush()
	b.WriteString("\"ingot models\" lists more, \"ingot models list\" those on this machine.\n")
	return b.String()
}
