package cuda

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestKernelsVariable checks which kernels the environment variable selects.
func TestKernelsVariable(t *testing.T) {
	for value, want := range map[string]bool{"": true, "portable": false} {
		t.Setenv(kernelsVariable, value)
		nvidia, err := nvidiaKernels()
		require.NoError(t, err)
		require.Equal(t, want, nvidia, value)
	}
	t.Setenv(kernelsVariable, "metal")
	_, err := nvidiaKernels()
	require.ErrorContains(t, err, `INGOT_CUDA_KERNELS is "metal": unset it`)
}
