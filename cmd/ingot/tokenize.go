package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/ingot-run/ingot/config"
	"github.com/ingot-run/ingot/config/launch"
	"github.com/ingot-run/ingot/engine/tokenizer"
)

func newTokenize() *cobra.Command {
	var opts tokenizer.EncodeOptions
	cmd := &cobra.Command{
		Use:   "tokenize --model MODEL",
		Short: "Turn texts into token ids",
		Args:  arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := settings(cmd, config.Model)
			if err != nil {
				return err
			}
			f, err := launch.OpenModel(cfg.Model)
			if err != nil {
				return err
			}
			defer f.Close() //nolint:errcheck // the file was only read
			t, err := tokenizer.New(f.Meta())
			if err != nil {
				return fmt.Errorf("read %s: %w", cfg.Model, err)
			}
			return t.EncodeLines(cmd.InOrStdin(), cmd.OutOrStdout(), opts)
		},
	}
	config.AddFlag(cmd.Flags(), config.Model)
	cmd.Flags().BoolVar(&opts.Special, "special", false, "recognise special tokens in the text")
	cmd.Flags().BoolVar(&opts.BOS, "bos", false, "begin with the BOS token")
	return cmd
}
