package kernels

import (
	"sync"

	"golang.org/x/sys/cpu"

	"github.com/ingot-run/ingot/engine/gguf"
)

// amx is the level that multiplies many rows by AMX, or nil if the processor or the system does not
// support it.
var amx = sync.OnceValue(func() *Set {
	if !cpu.X86.HasAMXTile || !cpu.X86.HasAMXBF16 || !permitTiles() {
		return nil
	}
	return avx512.withTiles("amx")
})

// withTiles returns a level that also has the products of tiles in its code.
func (s Set) withTiles(name string) *Set {
	s.Name = name
	s.high.addTiles(s.code, "", 2)
	s.fast.addTiles(s.code, "8", 1)
	s.high.MinTileRows, s.fast.MinTileRows = 12, 24
	return &s
}

// addTiles adds the products of tiles with activations of so many bytes.
func (p *Products) addTiles(c code, suffix string, activation int) {
	p.QuantiseTiles = kernel[QuantiseArgs](c, "quantise_tiles"+suffix)
	p.TileBytes = TileRows * (4*4 + activation*2*32) // four floats of each row, and a bfloat16 for each byte
	p.tiles = map[gguf.Type]func(*ProductArgs){}
	for t := range layouts {
		if t.BlockSize() > 1 {
			p.tiles[t] = kernel[ProductArgs](c, kernelName(t)+"_tile_product")
		}
	}
}
