package roofline_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/bench/roofline"
	"github.com/ingot-run/ingot/engine/gguf"
)

// all is a device on which every kernel is measured. The kernels reach half of 1,000 GB/s: they
// take 10 microseconds for 5 MB, and 1 microsecond if they read nothing.
const all = `{"device": "all", "gb_per_s": 1000, "tflops": 1000, "cores": 1, "kernels": [
	{"kernel":"product","type":"Q4_0","rows":1,"groups":1,"us":1,"source":"x"},
	{"kernel":"product","type":"Q4_0","rows":1,"groups":1,"mb":5,"us":10,"source":"x"},
	{"kernel":"gated_product","type":"Q4_0","rows":1,"groups":1,"us":1,"source":"x"},
	{"kernel":"gated_product","type":"Q4_0","rows":1,"groups":1,"mb":5,"us":10,"source":"x"},
	{"kernel":"attention_v4","type":"F16","rows":1,"groups":1,"us":1,"source":"x"},
	{"kernel":"attention_v4","type":"F16","rows":1,"groups":1,"mb":5,"us":10,"source":"x"},
	{"kernel":"attention_join","rows":1,"groups":1,"us":1,"source":"x"},
	{"kernel":"rope_store","type":"F16","rows":1,"groups":1,"us":1,"source":"x"},
	{"kernel":"rms_norm","rows":1,"groups":1,"us":1,"source":"x"},
	{"kernel":"embed","type":"Q8_0","rows":1,"groups":1,"us":1,"source":"x"},
	{"kernel":"gather","rows":1,"groups":1,"us":1,"source":"x"},
	{"kernel":"top_parts","rows":1,"groups":1,"us":1,"source":"x"},
	{"kernel":"top_parts","rows":1,"groups":1,"mb":5,"us":10,"source":"x"},
	{"kernel":"top_join","rows":1,"groups":1,"us":1,"source":"x"}
]}`

// TestPredict compares predictions with a calculation by hand, for SmolLM-135M with 4.5 bits per
// weight. The output head is also the embedding; it has 8.5 bits per weight, because its rows are
// not whole blocks of Q6_K.
func TestPredict(t *testing.T) {
	t.Parallel()
	const (
		qkv, output, gated, down = (576*576 + 2*576*192) * 4.5 / 8, 576 * 576 * 4.5 / 8, 2 * 576 * 1536 * 4.5 / 8, 576 * 1536 * 4.5 / 8
		head                     = 576 * 49152 * 8.5 / 8
		cache                    = 2 * 192 * 2 * 1001
		logits                   = 4 * 49152
		small                    = 30*4 + 1 + 3 // dispatches that read nothing: two norms, rotation, join; the last norm; embed, gather and join
	)
	chip, err := roofline.ParseChip("m4 max")
	require.NoError(t, err)
	m := read(t, all)
	f := layout(t, "smollm-135m", gguf.TypeQ40)
	list, err := roofline.Predict(f, gguf.TypeF16, chip, roofline.Workload{Streams: 1, Context: 1000}, &m)
	require.NoError(t, err)
	require.Len(t, list, 2)
	for i, bandwidth := range []float64{410e9, 546e9} {
		p := list[i]
		require.Equal(t, bandwidth, p.Bandwidth)
		require.InDelta(t, 30*(qkv+output+gated+down+cache)+head+logits, p.BytesPerStep, 1)
		require.Equal(t, 30*9+6, p.Dispatches)
		require.Zero(t, p.UnmeasuredMs)
		require.Equal(t, roofline.Gaps{OtherType: []string{"product Q8_0"}}, p.Gaps)
		launches := float64(p.Dispatches) * 3.8e-6
		require.InDelta(t, 1/(p.BytesPerStep/bandwidth+launches), p.LimitTokensPerS, 1e-6)
		expected := launches + small*1e-6 + head/(bandwidth/2)
		for bytes, times := range map[float64]float64{qkv: 30, output: 30, gated: 30, down: 30, cache: 30, logits: 1} {
			expected += times * max(1e-6+9e-6*bytes/5e6, bytes/(bandwidth/2))
		}
		require.InDelta(t, 1/expected, p.ExpectedTokensPerS, 1e-6)
	}
}

// TestPredictWithoutMeasurements checks that no expected speed is printed if much of a step was not
// measured, and that the table names the kernels without measurements.
func TestPredictWithoutMeasurements(t *testing.T) {
	t.Parallel()
	chip, err := roofline.ParseChip("M1")
	require.NoError(t, err)
	m := read(t, all)
	f := layout(t, "glm-4.7-flash:16", gguf.TypeQ4K)
	list, err := roofline.Predict(f, gguf.TypeF16, chip, roofline.Workload{Streams: 1}, &m)
	require.NoError(t, err)
	require.Zero(t, list[0].ExpectedTokensPerS)
	require.Positive(t, list[0].UnmeasuredMs)
	require.Less(t, list[0].UnmeasuredMs, list[0].ExpectedMs)
	var table bytes.Buffer
	require.NoError(t, roofline.WriteTable(&table, list))
	require.Contains(t, table.String(), "A prediction, not a measurement: nothing was run.")
	require.Contains(t, table.String(), "reached on an all. No Mac was measured.")
	require.Contains(t, table.String(), ": absorb Q5_0, attention_v16 F16, experts_add Q4_K, gated_experts Q4_K, latents F16.\n")
	require.Contains(t, table.String(), "another type of weights or cache: embed Q4_K, gated_product Q4_K, product F32, product Q4_K, product Q6_K.\n")
}

// TestPredictPrompt checks that a prompt takes the time of its steps, of which only the last has an
// output.
func TestPredictPrompt(t *testing.T) {
	t.Parallel()
	chip, err := roofline.ParseChip("M1")
	require.NoError(t, err)
	m := read(t, all)
	f := layout(t, "smollm-135m", gguf.TypeQ40)
	predict := func(prompt, context int) roofline.Prediction {
		list, err := roofline.Predict(f, gguf.TypeF16, chip, roofline.Workload{Streams: 1, Context: context, Prompt: prompt}, &m)
		require.NoError(t, err)
		return list[0]
	}
	whole, first, second := predict(1000, 0), predict(512, 0), predict(488, 512)
	require.Equal(t, 2, whole.Steps)
	const head = 576 * 49152
	headMs := 1e3*max(head*8.5/8/68e9, 2*head/whole.FLOPS) + 1e3*4*49152/68e9 + 4*3.8e-3 // with gather and top
	require.InDelta(t, first.LimitMs+second.LimitMs-headMs, 2*whole.LimitMs, 1e-6)
	require.InDelta(t, 1000/(2*whole.LimitMs*1e-3), whole.LimitTokensPerS, 1e-6)
}

// TestPredictionsOfMoreStreams checks that a step of several streams reads the dense weights once,
// and more experts than a step of one stream.
func TestPredictionsOfMoreStreams(t *testing.T) {
	t.Parallel()
	f := layout(t, "glm-4.7-flash", gguf.TypeQ40)
	chip, err := roofline.ParseChip("M1")
	require.NoError(t, err)
	m := roofline.Measured()
	predict := func(streams int) roofline.Prediction {
		list, err := roofline.Predict(f, gguf.TypeF16, chip, roofline.Workload{Streams: streams, Context: 2048}, &m)
		require.NoError(t, err)
		return list[0]
	}
	one, eight := predict(1), predict(8)
	require.Equal(t, 12+46*13+6, one.Dispatches)
	require.Greater(t, eight.BytesPerStep, one.BytesPerStep)
	require.Less(t, eight.BytesPerStep, 8*one.BytesPerStep)
	require.Greater(t, eight.LimitTokensPerS, one.LimitTokensPerS)
}

func TestParseChip(t *testing.T) {
	t.Parallel()
	_, err := roofline.ParseChip("M6")
	require.ErrorContains(t, err, `chip "M6" is not known: use M1, M1-Pro, `)
}
