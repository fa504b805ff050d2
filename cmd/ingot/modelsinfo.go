package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/ingot-run/ingot/bench"
	"github.com/ingot-run/ingot/config/launch"
	"github.com/ingot-run/ingot/engine/cpu"
	"github.com/ingot-run/ingot/internal/filesum"
)

type modelsInfoCommand struct {
	out    jsonFlag
	sha256 bool
}

func newModelsInfo() *cobra.Command {
	var c modelsInfoCommand
	cmd := &cobra.Command{
		Use:   "info FILE",
		Short: "Describe a model file",
		Args:  arguments("FILE"),
		RunE:  c.run,
	}
	c.out.add(cmd.Flags())
	cmd.Flags().BoolVar(&c.sha256, "sha256", false, "add the file's SHA-256; this reads the whole file")
	return cmd
}

// newModel returns the former form of the command, "ingot model info".
func newModel() *cobra.Command {
	cmd := &cobra.Command{Use: "model", Short: "Inspect model files", Hidden: true, Args: noCommand, RunE: noneGiven}
	info := newModelsInfo()
	cmd.Example, info.Example = "  ingot model info model.gguf", "  ingot model info model.gguf"
	cmd.AddCommand(info)
	return cmd
}

func (c *modelsInfoCommand) run(cmd *cobra.Command, args []string) (err error) {
	f, err := launch.OpenModel(args[0])
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // the file was only read
	info := bench.DescribeModel(f)
	if c.sha256 {
		if info.SHA256, err = filesum.SHA256(cmd.Context(), f.Paths()...); err != nil {
			return err
		}
	}
	if info.Unsupported == "" {
		be, err := cpu.New(0)
		if err != nil {
			return err
		}
		if err := errors.Join(info.Examine(f, be), be.Close()); err != nil {
			return err
		}
	}
	return c.out.write(cmd, info, info.Write)
}
