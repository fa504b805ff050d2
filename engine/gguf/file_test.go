package gguf

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSmoke(t *testing.T) {
	for _, dir := range []string{os.Getenv("INGOT_MODELS"), os.Getenv("INGOT_VECTORS"), filepath.Join(os.Getenv("INGOT_VECTORS"), "tokenizers")} {
		m, _ := filepath.Glob(filepath.Join(dir, "*.gguf"))
		for _, p := range m {
			f, err := Open(p)
			require.NoError(t, err)
			t.Log(p, len(f.Tensors()), len(f.Meta().Keys()))
			for _, x := range f.Tensors() {
				dst := make([]float32, x.Elements())
				Dequantize(dst, x.Type, x.Data)
			}
			require.NoError(t, f.Close())
		}
	}
}
