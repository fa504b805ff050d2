package roofline_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

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
			gguf.Dequantize(values, tensor.Type, tensor.Data)
			n, err := to.RowBytes(len(values))
			require.NoError(t, err)
			tensor.Type, tensor.Data = to, make([]byte, n)
			require.NoError(t, gguf.Quantize(tensor.Data, to, values))
		}
		list = append(list, tensor)
	}
	return gguf.New(f.Path(), f.Meta(), list)
}

// counted returns the number of dispatches on the emulator for a step with the given number of rows at a position.
func counted(t *testing.T, f *gguf.File, rows, position int) int {
	t.Helper()
	dev, err := emulator.Open(emulator.Options{})
	if errors.Is(err, emulator.ErrNoCompiler) {
		t.Skipf("cannot compare predicted dispatches with those on the emulator: %v", err)
	}
	require.NoError(t, err)
	be, err := metal.New(dev, metal.Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, be.Close()) }()
	m, err := model.Load(be, f, model.Limits{Rows: 8, Outputs: 8, Context: pages * pageSize, Pages: 8 * pages, PageSize: pageSize})
	require.NoError(t, err)
	b := &compute.Batch{Top: 1}
	for row := range rows {
		table := make([]int32, pages)
		for i := range table {
			table[i] = int32(row*pages + i)
		}
		b.Tokens = append(b.Tokens, 5)
		b.Positions = append(b.Positions, int32(position))
		b.Outputs = append(b.Outputs, int32(row))
		b.Seqs = append(b.Seqs, compute.Seq{Rows: 1, Pages: table})
	}
	before := be.Counters().Dispatches
	_, err = m.Forward(b)
	require.NoError(t, err)
	return be.Counters().Dispatches - before
}

// TestDispatches compares the result of Dispatches with the dispatches on the emulator. Some files have weights of one type, others of
// several types.
func TestDispatches(t *testing.T) {
	const (
		llama = "../../models/tiny-llama.q4_0.gguf"
		glm   = "../../models/tiny-glm.q8_0.gguf"
		micro = "../../engine/model/testdata/micro-glm.gguf"
	)
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
			for _, at := range []struct{ rows, position int }{{1, 0}, {1, 255}, {1, 256}, {8, 300}} {
				want := counted(t, f, at.rows, at.position)
				got, err := roofline.Dispatches(f, gguf.TypeF32, at.rows, at.position)
				require.NoError(t, err)
				require.Equal(t, want, got, "%d rows at position %d", at.rows, at.position)
			}
		})
	}
}

func parse(t *testing.T, name string) *gguf.File {
	t.Helper()
	s, err := shape.Parse(name)
	require.NoError(t, err)
	f, err := s.Layout(gguf.TypeQ40)
	require.NoError(t, err)
	return f
}

// TestPredict compares predictions with a calculation by hand, for SmolLM-135M with 4.5 bits per weight. The output head is also the
// embedding; it has 8.5 bits per weight, because its rows are not whole blocks of Q6_K.
func TestPredict(t *testing.T) {
	t.Parallel()
	const (
		layer = (576*576*2 + 576*192*2 + 3*576*1536) * 4.5 / 8
		norms = (2*30 + 1) * 576 * 4
		head  = 576 * 49152 * 8.5 / 8
		row   = 576 * 8.5 / 8
		cache = 30 * 2 * 192 * 2 // bytes of the cache per position
	)
	chip, err := roofline.ParseChip("m4 max")
	require.NoError(t, err)
	list, err := roofline.Predict(parse(t, "smollm-135m"), gguf.TypeF16, chip, 1, 1000)
	require.NoError(t, err)
	require.Len(t, list, 2)
	for i, bandwidth := range []float64{410e9, 546e9} {
		p := list[i]
		require.Equal(t, bandwidth, p.Bandwidth)
		require.InDelta(t, 30*layer+norms+head+row+1001*cache, p.BytesPerStep, 1)
		require.Equal(t, 30*9+5, p.Dispatches)
		require.InDelta(t, 1/(p.BytesPerStep/bandwidth+float64(p.Dispatches)*3.8e-6), p.LimitTokensPerS, 1e-6)
		// The shares for one row in shares.json.
		slowed := (30*layer+norms+row)/0.20 + head/0.87 + 1001*cache/0.16
		require.InDelta(t, 1/(slowed/bandwidth+float64(p.Dispatches)*3.8e-6), p.ExpectedTokensPerS, 1e-6)
	}
	var table bytes.Buffer
	require.NoError(t, roofline.WriteTable(&table, list))
	require.Contains(t, table.String(), "A prediction, not a measurement")
}

// TestPredictionsOfMoreStreams checks that a step of several streams reads the dense weights once, and more experts
// than a step of one stream.
func TestPredictionsOfMoreStreams(t *testing.T) {
	t.Parallel()
	f := parse(t, "glm-4.7-flash")
	chip, err := roofline.ParseChip("M1")
	require.NoError(t, err)
	one, err := roofline.Predict(f, gguf.TypeF16, chip, 1, 2048)
	require.NoError(t, err)
	eight, err := roofline.Predict(f, gguf.TypeF16, chip, 8, 2048)
	require.NoError(t, err)
	require.Equal(t, 12+46*13+5, one[0].Dispatches)
	require.Greater(t, eight[0].BytesPerStep, one[0].BytesPerStep)
	require.Less(t, eight[0].BytesPerStep, 8*one[0].BytesPerStep)
	for _, batch := range []int{0, 9} {
		_, err := roofline.Predict(f, gguf.TypeF16, chip, batch, 0)
		require.ErrorContains(t, err, "must be from 1 to 8")
	}
}

func TestParseChip(t *testing.T) {
	t.Parallel()
	_, err := roofline.ParseChip("M6")
	require.ErrorContains(t, err, `chip "M6" is not known: use M1, M1-Pro, `)
}
