package model

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestYarnOfDeepSeekV2 checks the frequencies of DeepSeek-V2-Lite's configuration: base 10000, 64
// values, factor 40, context 4096, betas 32 and 1. The expected values were computed by hand from
// the formulas of Peng et al. 2023. The correction range is 10.47 to 22.51, which is rounded
// outwards to 10 and 23. Pairs up to 10 keep their frequency. From pair 23 on, frequencies are
// divided by 40. Pairs in between are interpolated: pair 16 by 6/13, pair 17 by 7/13.
func TestYarnOfDeepSeekV2(t *testing.T) {
	const base, factor = 10000.0, 40.0
	plain := make([]float64, 32)
	for i := range plain {
		plain[i] = math.Pow(base, -float64(i)/32)
	}
	got := append([]float64{}, plain...)
	yarn(got, base, factor, 4096, yarnBetaFast, yarnBetaSlow, false)
	for i, f := range got {
		switch {
		case i <= 10:
			require.InEpsilon(t, plain[i], f, 1e-12, "pair %d", i)
		case i >= 23:
			require.InEpsilon(t, plain[i]/40, f, 1e-12, "pair %d", i)
		case i == 16:
			require.InEpsilon(t, 0.01*(7.0/13+6.0/13/40), f, 1e-12)
		default:
			slowed := float64(i-10) / 13
			require.InEpsilon(t, plain[i]*(1-slowed+slowed/40), f, 1e-12, "pair %d", i)
		}
	}
}

// TestYarnScale checks DeepSeek's softmax scale. It is mscale squared, with mscale =
// 0.1·0.707·ln(40) + 1 = 1.2608.
func TestYarnScale(t *testing.T) {
	l := settings(t, map[string]any{"rope.scaling.yarn_log_multiplier": float32(0.0707)})
	require.InDelta(t, 1.5896, l.yarnScale(40), 1e-4)
	require.InDelta(t, 1, l.yarnScale(1), 0)
	require.NoError(t, l.err)
}
