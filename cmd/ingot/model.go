package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/ingot-run/ingot/engine/gguf"
)

func newModel() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "model",
		Short:   "Inspect model files",
		Example: "  ingot model info model.gguf",
		Args:    noCommand,
		RunE:    noneGiven,
	}
	cmd.AddCommand(newModelInfo())
	return cmd
}

func newModelInfo() *cobra.Command {
	var asJSON, sum bool
	cmd := &cobra.Command{
		Use:   "info FILE",
		Short: "Describe a model file",
		Long: `Info describes a GGUF file: architecture, sizes, tokenizer, chat template, tensors by type, and the memory of a token in
the KV cache (as f16, the default). It reports whether the model runs, whether it fits into this machine's memory, and an
upper bound of its speed: a step reads all weights, so it takes at least their size divided by the measured bandwidth. The
file's weights are read only for --sha256. For a model in several files, give the first file.`,
		Example: `  ingot model info model.gguf
  ingot model info model.gguf --json --sha256 | jq .sha256`,
		Args: arguments("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			path, err := modelFile(args[0])
			if err != nil {
				return err
			}
			f, err := gguf.Open(path)
			if err != nil {
				return err
			}
			defer f.Close() //nolint:errcheck // the file was only read
			info := describe(f)
			if sum {
				if info.SHA256, err = sha256Files(f.Paths()); err != nil {
					return err
				}
			}
			if info.Unsupported == "" {
				if err := info.examine(f); err != nil {
					return err
				}
			}
			if asJSON {
				return writeJSON(cmd.OutOrStdout(), info)
			}
			return writeInfo(cmd.OutOrStdout(), info)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().BoolVar(&sum, "sha256", false, "add the file's SHA-256; this reads the whole file")
	return cmd
}

func writeInfo(w io.Writer, m modelInfo) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(name, format string, args ...any) {
		fmt.Fprintf(t, "%s\t%s\n", name, printable(fmt.Sprintf(format, args...))) //nolint:errcheck // Flush reports it
	}
	count := func(name string, n uint64) {
		if n > 0 {
			line(name, "%d", n)
		}
	}
	line("file", "%s", m.Path)
	line("size", "%s", bytesText(uint64(m.Bytes)))
	if m.SHA256 != "" {
		line("sha256", "%s", m.SHA256)
	}
	line("name", "%s", m.Name)
	line("architecture", "%s", m.Architecture)
	if m.Unsupported != "" {
		line("cannot be run", "%s", m.Unsupported)
	}
	line("parameters", "%d", m.Parameters)
	count("layers", m.Layers)
	count("MTP layers", m.MTPLayers)
	count("hidden size", m.Hidden)
	count("heads", m.Heads)
	count("KV heads", m.KVHeads)
	if m.Experts > 0 {
		line("experts", "%d, %d used per token, %d shared", m.Experts, m.ExpertsUsed, m.ExpertsShared)
	}
	count("context", m.Context)
	count("vocabulary", m.Vocab)
	line("tokenizer", "%s", m.tokenizerText())
	line("chat template", "%s", map[bool]string{true: "yes", false: "no"}[m.ChatTemplate])
	if m.CacheBytesPerToken > 0 {
		line("cache", "%s per token in f16%s", bytesText(m.CacheBytesPerToken), windowText(m.WindowedBytesPerToken, m.Window))
	}
	if m.Run != nil {
		m.Run.write(line)
	}
	if err := t.Flush(); err != nil || len(m.Tensors) == 0 {
		return err
	}
	line("\ntype", "tensors\tsize")
	for _, s := range m.Tensors {
		line(s.Type, "%d\t%s", s.Count, bytesText(s.Bytes))
	}
	return t.Flush()
}

func (r *modelRun) write(line func(name, format string, args ...any)) {
	line("memory", "weights %s, steps %s, rows %s; the rest of %s is for the cache",
		bytesText(uint64(r.Weights)), bytesText(uint64(r.Steps)), bytesText(uint64(r.Rows)), bytesText(uint64(r.Memory)))
	if r.Fits {
		line("fits here", "yes, with a context of %d tokens and %d in all rows together", r.Context, r.Tokens)
	} else {
		line("fits here", "no: %s", r.Reason)
	}
	line("speed here", "at most %s tokens/s for one row and %s for %d rows, since memory is read at %s/s",
		rateText(r.TokensPerS), rateText(r.ManyTokensPerS), manyRows, bytesText(uint64(r.Bandwidth)))
}

// windowText describes how many of the cache's bytes per token are kept only for the tokens in a sliding window. It returns an empty string
// if the model has no window.
func windowText(windowed uint64, window int) string {
	if window == 0 {
		return ""
	}
	return fmt.Sprintf(", %s of it only for the last %d tokens of a row", bytesText(windowed), window)
}

// rateText formats a rate, with one decimal if it is below 10.
func rateText(v float64) string {
	if v < 10 {
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.0f", v)
}

func bytesText(n uint64) string {
	const unit = 1024
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	value, prefix := float64(n)/unit, "KMGTPE"
	for value >= unit {
		value, prefix = value/unit, prefix[1:]
	}
	return fmt.Sprintf("%.1f %ciB", value, prefix[0])
}
