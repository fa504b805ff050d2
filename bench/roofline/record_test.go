package roofline_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/bench"
	"github.com/ingot-run/ingot/bench/roofline"
	"github.com/ingot-run/ingot/bench/shape"
	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/gguf"
	"github.com/ingot-run/ingot/engine/model"
	"github.com/ingot-run/ingot/metal"
	"github.com/ingot-run/ingot/metal/emulator"
)

const (
	pageSize = 16
	pages    = 24
)

// retyped returns a file whose matrices with the given suffixes have another type.
func retyped(t *testing.T, path string, to gguf.Type, suffixes ...string) *gguf.File {
	t.Helper()
	f, err := gguf.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	var list []gguf.Tensor
	for _, tensor := range f.Tensors() {
		for _, suffix := range suffixes {
			if !strings.HasSuffix(tensor.Name, "."+suffix+".weight") {
				continue
			}
			values := make([]float32, tensor.Elements())
			gguf.Dequantise(values, tensor.Type, tensor.Data)
			n, err := to.RowBytes(len(values))
			require.NoError(t, err)
			tensor.Type, tensor.Data = to, make([]byte, n)
			require.NoError(t, gguf.Quantise(tensor.Data, to, values))
		}
		list = append(list, tensor)
	}
	return gguf.New(f.Path(), f.Meta(), list)
}

// counted returns the number of dispatches of a step on a device.
func counted(t *testing.T, dev metal.Device, f *gguf.File, s roofline.Step) int {
	t.Helper()
	be, err := metal.New(dev, metal.Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, be.Close()) }()
	m, err := model.Load(be, f, model.Limits{Rows: 64, Outputs: 8, Context: pages * pageSize, Pages: 8 * pages, PageSize: pageSize})
	require.NoError(t, err)
	b := &compute.Batch{Top: 1}
	for i := range s.Sequences {
		table := make([]int32, pages)
		for p := range table {
			table[p] = int32(i*pages + p)
		}
		for r := range s.Rows {
			b.Tokens = append(b.Tokens, 5)
			b.Positions = append(b.Positions, int32(s.Context+r))
		}
		b.Outputs = append(b.Outputs, int32(len(b.Tokens)-1))
		b.Seqs = append(b.Seqs, compute.Seq{Rows: s.Rows, Pages: table})
	}
	before := be.Counters().Dispatches
	_, err = m.Forward(b)
	require.NoError(t, err)
	return be.Counters().Dispatches - before
}

// TestRecord compares the number of recorded dispatches with the number on the emulator. Some files
// have weights of one type, others of several types.
func TestRecord(t *testing.T) {
	const (
		llama = "../../models/tiny-llama.q4_0.gguf"
		glm   = "../../models/tiny-glm.q8_0.gguf"
		micro = "../../engine/model/testdata/micro-glm.gguf"
	)
	dev, err := emulator.Open(emulator.Options{})
	if errors.Is(err, emulator.ErrNoCompiler) {
		t.Skipf("cannot compare predicted dispatches with those on the emulator: %v", err)
	}
	require.NoError(t, err)
	cached := metal.NewCachedDevice(dev)
	defer func() { require.NoError(t, cached.CloseDevice()) }()
	for name, f := range map[string]*gguf.File{
		"llama":                     retyped(t, llama, 0),
		"llama, other values":       retyped(t, llama, gguf.TypeF16, "attn_v"),
		"llama, gate and key":       retyped(t, llama, gguf.TypeF16, "ffn_gate", "attn_k"),
		"glm":                       retyped(t, glm, 0),
		"micro-glm":                 retyped(t, micro, 0),
		"glm, other shared experts": retyped(t, glm, gguf.TypeF16, "ffn_gate_shexp", "ffn_up_shexp", "ffn_down_shexp"),
		"glm, shared of two types":  retyped(t, glm, gguf.TypeF16, "ffn_up_shexp", "attn_kv_a_mqa", "ffn_up"),
	} {
		t.Run(name, func(t *testing.T) {
			for _, step := range []roofline.Step{
				{Sequences: 1, Rows: 1}, {Sequences: 1, Rows: 1, Context: 255}, {Sequences: 1, Rows: 1, Context: 256},
				{Sequences: 8, Rows: 1, Context: 300}, {Sequences: 1, Rows: 48, Context: 20},
			} {
				step.Outputs = true
				want := counted(t, cached, f, step)
				got, err := roofline.Record(f, gguf.TypeF32, step)
				require.NoError(t, err)
				require.Len(t, got, want, "%+v", step)
			}
		})
	}
}

func layout(t *testing.T, name string, quant gguf.Type) *gguf.File {
	t.Helper()
	s, err := shape.Parse(name)
	require.NoError(t, err)
	f, err := s.Layout(quant)
	require.NoError(t, err)
	return f
}

// TestBytes compares the bytes of all dispatches with those of package bench, which adds up the
// tensors of the file. The differences are rows of the embedding, norms and biases, and logits,
// which package bench does not count.
func TestBytes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		shape string
		quant gguf.Type
	}{{"glm-4.7-flash", gguf.TypeQ4K}, {"smollm-135m", gguf.TypeQ40}, {"qwen3-30b-a3b:4", gguf.TypeQ40}} {
		f := layout(t, c.shape, c.quant)
		traffic, err := bench.NewTraffic(f, gguf.TypeF16, 512)
		require.NoError(t, err)
		for _, streams := range []int{1, 16, 64} {
			list, err := roofline.Record(f, gguf.TypeF16, roofline.Step{Sequences: streams, Rows: 1, Context: 2048, Outputs: true})
			require.NoError(t, err)
			sum := 0.0
			for _, d := range list {
				if d.Kernel != "top_parts" {
					sum += d.Bytes
				}
			}
			require.InEpsilon(t, traffic.Decode(float64(streams), 1, 2049).Sum(), sum, 0.002, "%s, %d streams", c.shape, streams)
		}
	}
}

// TestMacs compares the number of multiply-adds in a prompt's step with a calculation by hand.
func TestMacs(t *testing.T) {
	t.Parallel()
	const (
		rows, context = 512, 1024
		matrices      = 30 * (576*576*2 + 576*192*2 + 3*576*1536)
		head          = 576 * 49152 // multiply-adds of the output head, which has only the last row
		seen          = rows*context + rows*(rows+1)/2
		attention     = 30 * 9 * (64 + 64) * seen
	)
	list, err := roofline.Record(layout(t, "smollm-135m", gguf.TypeQ40), gguf.TypeF16, roofline.Step{Sequences: 1, Rows: rows, Context: context, Outputs: true})
	require.NoError(t, err)
	sum := 0.0
	for _, d := range list {
		sum += d.Macs
	}
	require.InDelta(t, rows*matrices+head+attention, sum, 1)
}
