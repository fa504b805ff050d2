package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

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
			return tokenize(t, opts, cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	config.AddFlag(cmd.Flags(), config.Model)
	cmd.Flags().BoolVar(&opts.Special, "special", false, "recognise special tokens in the text")
	cmd.Flags().BoolVar(&opts.BOS, "bos", false, "begin with the BOS token")
	return cmd
}

// tokenize encodes line by line. An error in a line does not affect the output of the lines before
// it.
func tokenize(t *tokenizer.Tokenizer, opts tokenizer.EncodeOptions, in io.Reader, out io.Writer) (err error) {
	r, w := bufio.NewReaderSize(in, 64<<10), bufio.NewWriterSize(out, 64<<10)
	defer func() { err = errors.Join(err, w.Flush()) }()
	enc := json.NewEncoder(w)
	for line := 1; ; line++ {
		raw, readErr := r.ReadBytes('\n')
		if readErr != nil && !errors.Is(readErr, io.EOF) {
			return fmt.Errorf("read stdin: %w", readErr)
		}
		if readErr != nil && len(raw) == 0 {
			return nil
		}
		text, err := jsonString(raw)
		if err != nil {
			return fmt.Errorf("read stdin: line %d: %w", line, err)
		}
		err = enc.Encode(append([]int32{}, t.Encode(text, opts)...)) // not nil, which would be null
		if err == nil && r.Buffered() == 0 {
			err = w.Flush() // a caller may wait for the ids of a line before it writes the next line
		}
		if err != nil {
			return fmt.Errorf("write ids: %w", err)
		}
	}
}

func jsonString(raw []byte) (string, error) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || raw[0] != '"' {
		return "", errors.New("the line is not a JSON string")
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return "", fmt.Errorf("the line is not a JSON string: %w", err)
	}
	return s, nil
}
