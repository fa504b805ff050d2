package queue

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/openai"
)

func TestPinsAgree(t *testing.T) {
	t.Parallel()
	f16, q4 := Pin("sha", "", "1/cpu/f16"), Pin("sha", "", "1/cpu/q4_0")
	recommended := Pin("sha", "temperature=0.6,top_k=20", "1/cpu/f16")
	for _, c := range []struct {
		first, pin string
		agree      bool
		difference string
	}{
		{"", f16, true, ""},
		{f16, "", true, ""},
		{f16, f16, true, ""},
		{Pin("sha", "", ""), f16, true, ""},
		{f16, q4, false, "answers with --kv f16; this worker has --kv q4_0"},
		{f16, Pin("sha", "", "1/metal-fast/q8_0"), false, "answers with kernels cpu, --kv f16; this worker has kernels metal-fast, --kv q8_0"},
		{Pin("sha", "", "2/cpu/f16"), f16, false, "answers with arithmetic of version 2; this worker has arithmetic of version 1"},
		{Pin("sha", "", "1/cpu/f16/short"), Pin("sha", "", "1/cpu/f16/long"), false, "answers with short RoPE factors; this worker has long RoPE factors"},
		{f16, Pin("other", "", "1/cpu/f16"), false, "answers of the model file with the SHA-256 sha…; this worker has other…"},
		{Pin("other", "", ""), f16, false, "answers of the model file with the SHA-256 other…; this worker has sha…"},
		{"sha/00000000", f16, false, "answers with the sampling defaults 00000000, those of another version; this worker has " + openai.DefaultsID()},
		{f16, recommended, false, "answers with --sampling plain for rows that set no sampling option; this worker has temperature=0.6,top_k=20"},
		{recommended, f16, false, "answers with temperature=0.6,top_k=20 for rows that set no sampling option; this worker has --sampling plain"},
		{recommended, recommended, true, ""},
		{Pin("sha", "", ""), recommended, false, "answers with --sampling plain for rows that set no sampling option; this worker has temperature=0.6,top_k=20"},
		{Pin("sha", "temperature=0.6", "1/cpu/f16"), recommended, false, "answers with temperature=0.6 for rows that set no sampling option; this worker has temperature=0.6,top_k=20"},
		{Pin("sha", "", "1/cpu/f1"), f16, false, "answers with --kv f1; this worker has --kv f16"},
	} {
		require.Equal(t, c.agree, PinsAgree(c.first, c.pin), "%s, %s", c.first, c.pin)
		if !c.agree {
			require.Equal(t, c.difference, PinDifference(c.first, c.pin, "this worker"))
		}
	}
}

func TestDifferencesFromUnknownPins(t *testing.T) {
	t.Parallel()
	require.Equal(t, "answers of another worker", PinDifference("", "sha/1", "this worker"))
	require.Equal(t, "answers with --kv f16; this run has --kv unknown", ArithmeticDifference("1/cpu/f16", "1/cpu", "this run"))
	require.Equal(t, "answers with kernels unknown; this run has kernels cpu", ArithmeticDifference("1//f16", "1/cpu/f16", "this run"))
}

func TestFingerprint(t *testing.T) {
	t.Parallel()
	o := testOrigin
	require.Equal(t, "fp_cpu_0123456789ab", o.Fingerprint())
	o.Arithmetic, o.Context = "1/cpu/f16", 4096
	require.Equal(t, "fp_0123456789ab_1-cpu-f16-4096", o.Fingerprint())
	o.Sampling = "temperature=0.6"
	require.Regexp(t, "^fp_0123456789ab_1-cpu-f16-4096-[0-9a-f]{8}$", o.Fingerprint())
}
