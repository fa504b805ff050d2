package bench

import (
	"fmt"
	"io"
	"strings"

	"github.com/ingot-run/ingot/internal/progress"
	"github.com/ingot-run/ingot/internal/textfmt"
)

// Write prints what is known about the model, a line for each property.
func (m *ModelInfo) Write(w io.Writer) error {
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
	line("tokenizer", "%s", m.tokenizerText())
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
		m.Run.write(t)
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

func (r *ModelRun) write(t textfmt.Table) {
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
		progress.Rate(r.TokensPerS), progress.Rate(r.ManyTokensPerS), ManyRows, textfmt.Bytes(uint64(r.Bandwidth)))
}

// tokenizerText describes the tokenizer.
func (m *ModelInfo) tokenizerText() string {
	switch {
	case m.Tokenizer == "":
		return "none"
	case m.PreTokenizer == "":
		return m.Tokenizer
	}
	return fmt.Sprintf("%s, split rule %s", m.Tokenizer, m.PreTokenizer)
}
