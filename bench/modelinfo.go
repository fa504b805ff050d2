package bench

import (
	"cmp"
	"runtime"
	"slices"

	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/gguf"
	"github.com/ingot-run/ingot/engine/model"
	"github.com/ingot-run/ingot/engine/recommended"
)

// ModelInfo describes a model file. Sizes that the file does not give are 0.
type ModelInfo struct {
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
	Tools        string `json:"tools,omitempty"` // how the model gets tools and calls them; empty without a chat template

	Sampling       string `json:"recommended_sampling,omitempty"` // the settings of rows that set no sampling option; empty for temperature 1
	SamplingSource string `json:"recommended_sampling_source,omitempty"`

	CacheBytesPerToken uint64 `json:"cache_bytes_per_token"` // all layers, in f16; 0 if the model cannot be run
	StateBytes         uint64 `json:"state_bytes,omitempty"` // recurrent state of a sequence, without room for drafts; 0 if there are no recurrent layers
	// WindowedBytesPerToken is the part of CacheBytesPerToken that is freed after Window further
	// tokens.
	WindowedBytesPerToken uint64     `json:"cache_bytes_per_token_windowed,omitempty"`
	Window                int        `json:"window,omitempty"`
	Tensors               []TypeInfo `json:"tensors"` // by type; the type with the most bytes is first

	Run *ModelRun `json:"run,omitempty"` // absent if the model cannot be run
}

// ModelRun describes how a model runs on this machine: on the CPU, or on a GPU with the same
// memory.
type ModelRun struct {
	Fits   bool   `json:"fits"`
	Reason string `json:"reason,omitempty"` // why it does not fit
	engine.Fit
	// Bandwidth is the measured number of bytes per second that the processors read from memory.
	Bandwidth float64 `json:"bandwidth"`
	// TokensPerS and ManyTokensPerS are the tokens per second that Bandwidth allows at most, for
	// one row and for ManyRows at a time.
	TokensPerS     float64 `json:"max_tokens_per_s"`
	ManyTokensPerS float64 `json:"max_tokens_per_s_of_16_rows"`
}

// ManyRows is the number of rows in ManyTokensPerS. One reading of the weights serves all of them.
const ManyRows = 16

// TypeInfo adds up the tensors of one type.
type TypeInfo struct {
	Type  string `json:"type"`
	Count int    `json:"count"`
	Bytes uint64 `json:"bytes"`
}

// DescribeModel returns what a model's file states.
func DescribeModel(f *gguf.File) *ModelInfo {
	meta := f.Meta()
	text := func(key string) string {
		s, _ := meta.String(key)
		return s
	}
	arch := text("general.architecture")
	size := func(key string) uint64 {
		n, _ := meta.Uint(arch + "." + key)
		return n
	}
	info := &ModelInfo{
		Path: f.Path(), Bytes: f.Size(), Architecture: arch, Name: text("general.name"),
		Layers: size("block_count"), MTPLayers: size("nextn_predict_layers"), Hidden: size("embedding_length"),
		Heads: size("attention.head_count"), KVHeads: size("attention.head_count_kv"), Context: size("context_length"),
		Experts: size("expert_count"), ExpertsUsed: size("expert_used_count"), ExpertsShared: size("expert_shared_count"),
		Tokenizer: text("tokenizer.ggml.model"), PreTokenizer: text("tokenizer.ggml.pre"),
		ChatTemplate: text("tokenizer.chat_template") != "", Tools: engine.DescribeTools(meta),
	}
	if tokens, err := meta.Strings("tokenizer.ggml.tokens"); err == nil {
		info.Vocab = uint64(len(tokens))
	}
	if r := recommended.Of(f); r.String() != "" {
		info.Sampling, info.SamplingSource = r.String(), r.Source
	}
	info.Tensors, info.Parameters = countTypes(f.Tensors())

	c, err := model.ReadConfig(f)
	if err != nil {
		info.Unsupported = err.Error()
		return info
	}
	info.Layers = uint64(c.Layers)
	position, err := c.PositionBytes(gguf.TypeF16)
	if err != nil {
		info.Unsupported = err.Error()
		return info
	}
	info.CacheBytesPerToken, info.StateBytes = uint64(position), uint64(c.States.SlotBytes())
	if g := c.Groups(model.Limits{Context: c.Context, FreeWindows: true}); g.Sliding > 0 {
		windowed, _ := c.WindowedBytes(gguf.TypeF16) // it fails only if PositionBytes does
		info.WindowedBytesPerToken, info.Window = uint64(windowed), g.Window
	}
	return info
}

// Examine computes how the model runs on this machine, whose memory the backend reports. It sets
// Unsupported if Ingot cannot run the model on any machine.
func (m *ModelInfo) Examine(f *gguf.File, be compute.Backend) error {
	run := &ModelRun{Fits: true}
	var fitErr error
	if run.Fit, fitErr = engine.CheckFit(f.Path(), be, engine.Options{}); fitErr != nil {
		if run.Weights == 0 { // the model is not supported
			m.Unsupported = fitErr.Error()
			return nil
		}
		run.Fits, run.Reason = false, fitErr.Error()
	}
	traffic, err := NewTraffic(f, gguf.TypeF16, 1)
	if err != nil {
		return err
	}
	if run.Bandwidth, err = Bandwidth(runtime.GOMAXPROCS(0)); err != nil {
		return err
	}
	run.TokensPerS = run.Bandwidth / traffic.Decode(1, 1, 0).Sum()
	run.ManyTokensPerS = ManyRows * run.Bandwidth / traffic.Decode(ManyRows, 1, 0).Sum()
	m.Run = run
	return nil
}

func countTypes(tensors []gguf.Tensor) (types []TypeInfo, weights uint64) {
	byType := map[gguf.Type]*TypeInfo{}
	for _, t := range tensors {
		s := byType[t.Type]
		if s == nil {
			s = &TypeInfo{Type: t.Type.String()}
			byType[t.Type] = s
		}
		s.Count++
		s.Bytes += uint64(len(t.Data))
		weights += uint64(t.Elements())
	}
	for _, s := range byType {
		types = append(types, *s)
	}
	slices.SortFunc(types, func(a, b TypeInfo) int {
		return cmp.Or(-cmp.Compare(a.Bytes, b.Bytes), cmp.Compare(a.Type, b.Type))
	})
	return types, weights
}
