package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ingot-run/ingot/bench"
	"github.com/ingot-run/ingot/engine/cpu"
	"github.com/ingot-run/ingot/internal/filesum"
	"github.com/ingot-run/ingot/internal/progress"
	"github.com/ingot-run/ingot/internal/textfmt"
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
	f, err := openModel(args[0])
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
	return c.out.write(cmd, info, func(w io.Writer) error { return writeModelInfo(w, info) })
}

func writeModelInfo(w io.Writer, m *bench.ModelInfo) error {
	t := textfmt.NewTable(w)
	line := t.Linef
	count := func(name string, n uint64) {
		if n > 0 {
			line(name, "%d", n)
		}
	}
	line("file", "%s", m.Path)
	line("size", "%s", textfmt.Bytes(uint64(m.Bytes)))
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
	line("tokenizer", "%s", m.TokenizerText())
	line("chat template", "%s", map[bool]string{true: "yes", false: "no"}[m.ChatTemplate])
	if m.Tools != "" {
		line("tools", "%s", m.Tools)
	}
	if m.Sampling != "" {
		line("recommended sampling", "%s (%s)", strings.ReplaceAll(m.Sampling, ",", ", "), m.SamplingSource)
	}
	if m.CacheBytesPerToken > 0 {
		line("cache", "%s per token in f16%s", textfmt.Bytes(m.CacheBytesPerToken), textfmt.Window(m.WindowedBytesPerToken, m.Window))
	}
	if m.StateBytes > 0 {
		line("state", "%s per row", textfmt.Bytes(m.StateBytes))
	}
	if m.Run != nil {
		writeModelRun(t, m.Run)
	}
	if err := t.Flush(); err != nil || len(m.Tensors) == 0 {
		return err
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	line("type", "tensors\tsize")
	for _, s := range m.Tensors {
		line(s.Type, "%d\t%s", s.Count, textfmt.Bytes(s.Bytes))
	}
	return t.Flush()
}

func writeModelRun(t textfmt.Table, r *bench.ModelRun) {
	line := t.Linef
	states := ""
	if r.States > 0 {
		states = fmt.Sprintf(", states of %d rows %s", r.Sequences, textfmt.Bytes(uint64(r.States)))
	}
	line("memory", "weights %s, steps %s%s, rows %s; the rest of %s is for the cache",
		textfmt.Bytes(uint64(r.Weights)), textfmt.Bytes(uint64(r.Steps)), states, textfmt.Bytes(uint64(r.Rows)), textfmt.Bytes(uint64(r.Memory)))
	if r.Fits {
		line("fits here", "yes, with a context of %d tokens and %d in all rows together", r.Context, r.Tokens)
	} else {
		line("fits here", "no: %s", r.Reason)
	}
	line("speed here", "at most %s tokens/s for one row and %s for %d rows without drafts, since memory is read at %s/s",
		progress.Rate(r.TokensPerS), progress.Rate(r.ManyTokensPerS), bench.ManyRows, textfmt.Bytes(uint64(r.Bandwidth)))
}
