package cuda

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestWhyPortable checks which kernels the environment variable and the compute capability select.
func TestWhyPortable(t *testing.T) {
	for _, c := range []struct {
		value        string
		major, minor int
		want, err    string
	}{
		{value: "", major: 8, minor: 0},
		{value: "", major: 12, minor: 0},
		{value: "", major: 7, minor: 5, want: "NVIDIA's kernels need compute capability 8.0, and this GPU has 7.5"},
		{value: "portable", major: 9, minor: 0, want: "INGOT_CUDA_KERNELS is portable"},
		{value: "metal", major: 9, minor: 0, err: `INGOT_CUDA_KERNELS is "metal": unset it`},
	} {
		t.Setenv(kernelsVariable, c.value)
		why, err := whyPortable(c.major, c.minor)
		if c.err != "" {
			require.ErrorContains(t, err, c.err)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, c.want, why, "%q, %d.%d", c.value, c.major, c.minor)
	}
}
