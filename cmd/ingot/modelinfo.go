package main

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"

	"github.com/ingot-run/ingot/bench"
	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/engine/cpu"
	"github.com/ingot-run/ingot/engine/gguf"
	"github.com/ingot-run/ingot/engine/model"
)

// modelInfo is what "model info" prints. Sizes that the file does not give are 0.
type modelInfo struct {
	Path         string `json:"path"`
	Bytes        int64  `json:"bytes"`
	SHA256       string `json:"sha256,omitempty"`
	Name         string `json:"name"`
	Architecture string `json:"architecture"`
	Unsupported  string `json:"unsupported,omitempty"` // the reason why the model cannot be run
	Parameters   uint64 `json:"parameters"`

	Layers        uint64 `json:"layers"` // without MTP layers
	MTPLayers     uint64 `json:"mtp_layers"`
	Hidden        uint64 `json:"hidden"`
	Heads         uint64 `json:"heads"`
	KVHeads       uint64 `json:"kv_heads"`
	Experts       uint64 `json:"experts"`
	ExpertsUsed   uint64 `json:"experts_used"`
	ExpertsShared uint64 `json:"experts_shared"`
	Context       uint64 `json:"context"`
	Vocab         uint64 `json:"vocab"`

	Tokenizer    string `json:"tokenizer"`
	PreTokenizer string `json:"pre_tokenizer"`
	ChatTemplate bool   `json:"chat_template"`

	CacheBytesPerToken uint64 `json:"cache_bytes_per_token"` // all layers, in f16; 0 if the model cannot be run
	// WindowedBytesPerToken is the part of CacheBytesPerToken that is freed after Window further tokens.
	WindowedBytesPerToken uint64     `json:"cache_bytes_per_token_windowed,omitempty"`
	Window                int        `json:"window,omitempty"`
	Tensors               []typeInfo `json:"tensors"` // by type; the type with the most bytes is first

	Run *modelRun `json:"run,omitempty"` // absent if the model cannot be run
}

// modelRun describes how a model runs on this machine: on the CPU, or on a GPU with the same memory.
type modelRun struct {
	Fits   bool   `json:"fits"`
	Reason string `json:"reason,omitempty"` // why it does not fit
	engine.Fit
	// Bandwidth is the measured number of bytes per second that the processors read from memory.
	Bandwidth float64 `json:"bandwidth"`
	// TokensPerS and ManyTokensPerS are the tokens per second that Bandwidth allows at most, for one row and for manyRows at a time.
	TokensPerS     float64 `json:"max_tokens_per_s"`
	ManyTokensPerS float64 `json:"max_tokens_per_s_of_16_rows"`
}

// manyRows is the number of rows in ManyTokensPerS. One reading of the weights serves all of them.
const manyRows = 16

type typeInfo struct {
	Type  string `json:"type"`
	Count int    `json:"count"`
	Bytes uint64 `json:"bytes"`
}

func (m modelInfo) tokenizerText() string {
	switch {
	case m.Tokenizer == "":
		return "none"
	case m.PreTokenizer == "":
		return m.Tokenizer
	}
	return fmt.Sprintf("%s, split rule %s", m.Tokenizer, m.PreTokenizer)
}

// sizeOf returns the number under a key of the architecture, such as block_count; 0 if it is absent or not a single number.
func sizeOf(meta *gguf.Metadata, arch, key string) uint64 {
	n, err := meta.Uint(arch + "." + key)
	if err != nil {
		return 0
	}
	return n
}

// textOf returns the string under a key; empty if it is absent or not a string.
func textOf(meta *gguf.Metadata, key string) string {
	s, err := meta.String(key)
	if err != nil {
		return ""
	}
	return s
}

func describe(f *gguf.File) modelInfo {
	meta := f.Meta()
	arch := textOf(meta, "general.architecture")
	size := func(key string) uint64 { return sizeOf(meta, arch, key) }
	info := modelInfo{
		Path: f.Path(), Bytes: f.Size(), Architecture: arch, Name: textOf(meta, "general.name"),
		Layers: size("block_count"), MTPLayers: size("nextn_predict_layers"), Hidden: size("embedding_length"),
		Heads: size("attention.head_count"), KVHeads: size("attention.head_count_kv"), Context: size("context_length"),
		Experts: size("expert_count"), ExpertsUsed: size("expert_used_count"), ExpertsShared: size("expert_shared_count"),
		Tokenizer: textOf(meta, "tokenizer.ggml.model"), PreTokenizer: textOf(meta, "tokenizer.ggml.pre"),
		ChatTemplate: textOf(meta, "tokenizer.chat_template") != "",
	}
	if tokens, err := meta.Strings("tokenizer.ggml.tokens"); err == nil {
		info.Vocab = uint64(len(tokens))
	}
	info.Tensors, info.Parameters = countTypes(f.Tensors())

	c, err := model.ReadConfig(f)
	if err != nil {
		info.Unsupported = err.Error()
		return info
	}
	info.Layers = uint64(c.Layers)
	layer := uint64(c.KeyCols+c.ValueCols) * 2
	info.CacheBytesPerToken = uint64(c.Layers+c.DraftLayers) * layer
	if g := c.Groups(model.Limits{Context: c.Context, FreeWindows: true}); g.Sliding > 0 {
		info.WindowedBytesPerToken, info.Window = uint64(c.Sliding)*layer, g.Window
	}
	return info
}

// examine computes how the model runs on this machine. It sets Unsupported if Ingot cannot run the model on any machine.
func (m *modelInfo) examine(f *gguf.File) (err error) {
	be, err := cpu.New(0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, be.Close()) }()
	run := &modelRun{Fits: true}
	var fitErr error
	if run.Fit, fitErr = engine.CheckFit(f.Path(), be, engine.Options{}); fitErr != nil {
		if run.Weights == 0 { // the model is not supported
			m.Unsupported = fitErr.Error()
			return nil
		}
		run.Fits, run.Reason = false, fitErr.Error()
	}
	traffic, err := bench.NewTraffic(f, gguf.TypeF16, 1)
	if err != nil {
		return err
	}
	if run.Bandwidth, err = bench.Bandwidth(runtime.GOMAXPROCS(0)); err != nil {
		return err
	}
	run.TokensPerS = run.Bandwidth / traffic.Decode(1, 1, 0).Sum()
	run.ManyTokensPerS = manyRows * run.Bandwidth / traffic.Decode(manyRows, 1, 0).Sum()
	m.Run = run
	return nil
}

// countTypes adds up tensors by type. It also returns the number of weights.
func countTypes(tensors []gguf.Tensor) (types []typeInfo, weights uint64) {
	byType := map[gguf.Type]*typeInfo{}
	for _, t := range tensors {
		s := byType[t.Type]
		if s == nil {
			s = &typeInfo{Type: t.Type.String()}
			byType[t.Type] = s
		}
		s.Count++
		s.Bytes += uint64(len(t.Data))
		weights += uint64(t.Elements())
	}
	for _, s := range byType {
		types = append(types, *s)
	}
	slices.SortFunc(types, func(a, b typeInfo) int {
		return cmp.Or(-cmp.Compare(a.Bytes, b.Bytes), cmp.Compare(a.Type, b.Type))
	})
	return types, weights
}

// sha256Files returns the SHA-256 of the concatenated content of files, in hexadecimal.
func sha256Files(paths []string) (string, error) {
	h := sha256.New()
	for _, path := range paths {
		if err := readInto(h, path); err != nil {
			return "", fmt.Errorf("read %s: %w", path, err)
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

func readInto(w io.Writer, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // the file was only read
	_, err = io.Copy(w, f)
	return err
}
