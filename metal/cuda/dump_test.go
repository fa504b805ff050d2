package cuda

import ("testing";"os";"github.com/ingot-run/ingot/metal")

func TestDump(t *testing.T) {
	for _, n := range []string{"rows.metal", "norm.metal", "product.metal", "absorb.metal", "store.metal", "attention.metal", "experts.metal","tiles.metal", "expert_tiles.metal", "sample.metal","attention_tile.metal"} {
		s, err := metal.Kernel(n, metal.DefaultGeometry())
		if err != nil { t.Fatal(err) }
		o, err := source(s.Text)
		if err != nil { t.Fatal(err) }
		os.WriteFile("/tmp/nvrtc/"+n+".cu", []byte(o), 0o644)
	}
}
