package roofline_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ingot-run/ingot/bench/roofline"
	"github.com/ingot-run/ingot/engine/gguf"
)

// small is a device of 1,000 GB/s, 10 TFLOPS and 8 cores.
const small = `{"device": "small", "gb_per_s": 1000, "tflops": 10, "cores": 8, "kernels": [
	{"kernel":"product","type":"Q4_K","rows":1,"groups":8,"mb":2,"mmac":4,"us":10,"share":0.2,"source":"x"},
	{"kernel":"product","type":"Q4_K","rows":1,"groups":80,"mb":100,"mmac":200,"us":200,"share":0.5,"source":"x"},
	{"kernel":"product","type":"Q4_K","rows":16,"groups":80,"mb":100,"mmac":3200,"us":1600,"arithmetic":0.4,"source":"x"},
	{"kernel":"product","type":"Q4_0","rows":1,"groups":80,"mb":1,"us":2,"source":"x"},
	{"kernel":"route","type":"F32","rows":1,"groups":1,"mb":1,"us":50,"source":"x"},
	{"kernel":"rms_norm","rows":1,"groups":1,"us":5,"source":"x"}
]}`

func read(t *testing.T, text string) roofline.Measurements {
	t.Helper()
	m, err := roofline.ReadMeasurements(strings.NewReader(text))
	require.NoError(t, err)
	return m
}

// TestExpect compares expectations with a calculation by hand, for a chip of 100 GB/s and 5 TFLOPS.
func TestExpect(t *testing.T) {
	t.Parallel()
	m := read(t, small)
	chip := roofline.Limits{Bandwidth: 100e9, FLOPS: 5e12}
	product := func(mb, mmac float64) roofline.Dispatch {
		return roofline.Dispatch{Kernel: "product", Type: "Q4_K", Groups: 80, Bytes: mb * 1e6, Macs: mmac * 1e6}
	}
	for name, c := range map[string]struct {
		d    roofline.Dispatch
		rows int
		us   float64
		gaps roofline.Gaps
	}{
		"latency, below the smallest size": {product(0.1, 0.2), 1, 10, roofline.Gaps{}},
		"bandwidth":                        {product(100, 200), 1, 100 / 0.1 / 0.5, roofline.Gaps{}},
		"bandwidth, two rows":              {product(100, 400), 2, 100 / 0.1 / 0.5, roofline.Gaps{}},
		"arithmetic":                       {product(100, 3200), 16, 2 * 3200 / 5 / 0.4, roofline.Gaps{}},
		"only measured at far fewer rows":  {product(100, 25600), 128, 2 * 25600 / 5 / 0.4, roofline.Gaps{OtherRows: []string{"product Q4_K"}}},
		"another type":                     {roofline.Dispatch{Kernel: "product", Type: "Q6_K", Bytes: 100e6}, 1, 2000, roofline.Gaps{OtherType: []string{"product Q6_K"}}},
		"too short for a share":            {roofline.Dispatch{Kernel: "product", Type: "Q4_0", Bytes: 1e6}, 1, 20, roofline.Gaps{OtherType: []string{"product Q4_0"}}},
		"only a time":                      {roofline.Dispatch{Kernel: "rms_norm"}, 1, 5, roofline.Gaps{}},
		"too few threadgroups":             {roofline.Dispatch{Kernel: "route", Type: "F32", Bytes: 1e6}, 1, 50, roofline.Gaps{Missing: []string{"route F32"}}},
		"too few threadgroups, larger":     {roofline.Dispatch{Kernel: "route", Type: "F32", Bytes: 10e6}, 1, 100, roofline.Gaps{Missing: []string{"route F32"}}},
		"not measured":                     {roofline.Dispatch{Kernel: "gate", Bytes: 1e6, Macs: 50e6}, 1, 20, roofline.Gaps{Missing: []string{"gate"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var gaps roofline.Gaps
			for range 2 { // a gap is listed once
				seconds, known := m.Expect(c.d, c.rows, chip, &gaps)
				require.InDelta(t, c.us, seconds*1e6, 1e-6)
				require.Equal(t, c.d.Kernel != "gate" && c.rows <= 16, known)
			}
			require.Equal(t, c.gaps, gaps)
		})
	}
	t.Run("latency between two sizes", func(t *testing.T) {
		t.Parallel()
		seconds, _ := m.Expect(product(51, 102), 1, roofline.Limits{Bandwidth: 1e15, FLOPS: 1e15}, &roofline.Gaps{})
		require.InDelta(t, 10+190.0/2, seconds*1e6, 1e-6)
	})
}

// TestExpectOnTheMeasuredDevice predicts the times of all measured kernels on the measured device.
// They must equal the measured times. The test leaves out times that are too short to give a share,
// and sizes with two measurements, which come from two models.
func TestExpectOnTheMeasuredDevice(t *testing.T) {
	t.Parallel()
	m := roofline.Measured()
	l := roofline.Limits{Bandwidth: m.GBPerS * 1e9, FLOPS: m.TFLOPS * 1e12}
	compared := 0
	for i, k := range m.Kernels {
		twice := slices.ContainsFunc(slices.Delete(slices.Clone(m.Kernels), i, i+1), func(o roofline.Measurement) bool {
			return o.Kernel == k.Kernel && o.Type == k.Type && o.Rows == k.Rows && o.MB == k.MB
		})
		if twice || k.Microseconds < 5 {
			continue
		}
		compared++
		d := roofline.Dispatch{Kernel: k.Kernel, Type: k.Type, Groups: k.Groups, Bytes: k.MB * 1e6, Macs: k.Mmac * 1e6}
		seconds, known := m.Expect(d, k.Rows, l, &roofline.Gaps{})
		require.True(t, known)
		require.InEpsilon(t, max(k.Microseconds*1e-6, l.Limit(d)), seconds, 0.05, "%+v", k)
	}
	require.GreaterOrEqual(t, compared, 10)
}

// TestExpectIsMonotonic checks that more bandwidth or arithmetic never makes a dispatch slower, and
// that no expectation is faster than the limit.
func TestExpectIsMonotonic(t *testing.T) {
	t.Parallel()
	m := roofline.Measured()
	rapid.Check(t, func(t *rapid.T) {
		k := rapid.SampledFrom(m.Kernels).Draw(t, "kernel")
		d := roofline.Dispatch{Kernel: k.Kernel, Type: k.Type, Bytes: rapid.Float64Range(0, 1e9).Draw(t, "bytes"), Macs: rapid.Float64Range(0, 1e10).Draw(t, "macs")}
		l := roofline.Limits{Bandwidth: rapid.Float64Range(1e10, 1e13).Draw(t, "bandwidth"), FLOPS: rapid.Float64Range(1e12, 1e14).Draw(t, "flops")}
		rows := rapid.IntRange(1, 512).Draw(t, "rows")
		more := l
		if rapid.Bool().Draw(t, "more bandwidth") {
			more.Bandwidth *= rapid.Float64Range(1, 10).Draw(t, "factor")
		} else {
			more.FLOPS *= rapid.Float64Range(1, 10).Draw(t, "factor")
		}
		slow, _ := m.Expect(d, rows, l, &roofline.Gaps{})
		fast, _ := m.Expect(d, rows, more, &roofline.Gaps{})
		require.LessOrEqual(t, fast, slow)
		require.GreaterOrEqual(t, slow, l.Limit(d))
	})
}

// TestKernelsAreMeasuredOrListed checks that each kernel of the predicted steps has a measurement
// at a similar number of rows, or is listed in Gaps.
func TestKernelsAreMeasuredOrListed(t *testing.T) {
	t.Parallel()
	m := roofline.Measured()
	chip, err := roofline.ParseChip("M5-Max")
	require.NoError(t, err)
	limits := chip.Variants[0].Limits()
	for name, f := range map[string]*gguf.File{"glm": layout(t, "glm-4.7-flash:3", gguf.TypeQ4K), "smollm": layout(t, "smollm-135m", gguf.TypeQ40)} {
		for _, step := range []roofline.Step{
			{Sequences: 1, Rows: 1, Context: 2048, Outputs: true}, {Sequences: 16, Rows: 1, Context: 2048, Outputs: true},
			{Sequences: 64, Rows: 1, Context: 2048, Outputs: true}, {Sequences: 1, Rows: 512, Context: 512, Outputs: true},
		} {
			list, err := roofline.Record(f, gguf.TypeF16, step)
			require.NoError(t, err)
			require.NotEmpty(t, list)
			for _, d := range list {
				var gaps roofline.Gaps
				_, known := m.Expect(d, step.Sequences*step.Rows, limits, &gaps)
				measured := slices.ContainsFunc(m.Kernels, func(k roofline.Measurement) bool { return k.Kernel == d.Kernel })
				switch {
				case !measured:
					require.False(t, known, "%s: %s", name, d.Kernel)
					require.Len(t, gaps.Missing, 1, "%s: %s", name, d.Kernel)
					require.Contains(t, gaps.Missing[0], d.Kernel)
				case !known:
					require.Len(t, gaps.OtherRows, 1, "%s: %s", name, d.Kernel)
				}
			}
		}
	}
}

// TestReadMeasurements checks the errors of files that are incomplete or inconsistent.
func TestReadMeasurements(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ from, to, want string }{
		"no device":       {`"small"`, `""`, `"device" is missing`},
		"no bandwidth":    {`"gb_per_s": 1000`, `"gb_per_s": 0`, `take them from its data sheet`},
		"no cores":        {`"cores": 8`, `"cores": 0`, `"cores" is 0`},
		"no kernel":       {`"kernel":"rms_norm"`, `"kernel":""`, `measurement 6, kernel "": "kernel" or "source" is missing`},
		"unknown type":    {`"type":"F32"`, `"type":"F33"`, `measurement 5, kernel "route": type "F33" is not known`},
		"no rows":         {`"rms_norm","rows":1`, `"rms_norm","rows":0`, `"rows" is 0`},
		"a negative time": {`"us":5,`, `"us":-5,`, `must not be negative`},
		"a wrong share":   {`"share":0.5`, `"share":0.7`, `measurement 2, kernel "product": "share" is 0.7 and "arithmetic" is 0, but the time and the size give 0.500 and 0.200`},
		"another field":   {`"us":5,`, `"ms":5,`, `unknown field "ms"`},
		"no list":         {`"rows":1,"groups":1,"us":5,"source":"x"}` + "\n]}", ``, `read measurements: unexpected EOF`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Contains(t, small, c.from)
			_, err := roofline.ReadMeasurements(strings.NewReader(strings.Replace(small, c.from, c.to, 1)))
			require.ErrorContains(t, err, c.want)
		})
	}
	m := read(t, small)
	var text bytes.Buffer
	require.NoError(t, m.Write(&text))
	require.Equal(t, m, read(t, text.String()))
}
