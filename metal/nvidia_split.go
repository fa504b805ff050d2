package metal

import "github.com/ingot-run/ingot/engine/compute"

const (
	// splitWave is the maximum number of threadgroups of a split product: two on each of an H100's
	// 132 multiprocessors. With more, the last ones would run alone.
	splitWave = 264
	// minSplitBlocks is the minimum number of blocks of a row. Shorter sums take less time in one
	// threadgroup.
	minSplitBlocks = 64
	// maxSplitTiles is the maximum number of tiles of a split product, each of which has a counter.
	maxSplitTiles = 1024
	// balancedThreadgroups is the number of threadgroups of a balanced product: one on each of an
	// H100's multiprocessors. They divide fewer than twice as many tiles, but more than one each.
	balancedThreadgroups = 132
)

// balancedArgs is BalancedArgs of split.h.
type balancedArgs struct {
	product packedProductArgs
	tiles   uint32
}

// splitFor returns the shortest tile whose products of weights with the rows of x, divided by
// strands, all run at the same time, or false if there is none, or if scratch memory is in use.
func (n *nvidia) splitFor(splits []packedKernel, ws []compute.Weight, dst, x compute.Tensor) (packedKernel, bool) {
	columns := dst.Rows
	if dst.Buffer == &n.scratch.memory || x.Buffer == &n.scratch.memory {
		return packedKernel{}, false
	}
	limits, given := n.tiles[ProductTile]
	for _, k := range splits {
		from, busy, wave, blocks := k.from, k.busy, splitWave, minSplitBlocks
		if given {
			from, busy, wave, blocks = limits.rows, limits.threadgroups, strands*maxSplitTiles, 0
		}
		w, tiles := weightOf(ws[0]), threadgroups(k, ws, columns)
		if columns >= from && k.takes(w, columns) && w.activationBlocks() >= blocks && k.algorithm.fits(n.memory) && w.matrices == 1 && (limits.tall == 0 || k.rows() <= limits.tall) &&
			strands*tiles >= busy && strands*tiles <= wave && k.splitBytes(tiles) <= n.scratch.bytes {
			return k, true
		}
	}
	return packedKernel{}, false
}

// splitBytes returns the bytes of scratch memory for the sums of the strands of some tiles.
func (k packedKernel) splitBytes(tiles int) int {
	return tiles * strands * k.rows() * k.algorithm.columns() * 4
}

// splitProduct records a product with quantised activations whose strands are divided among
// threadgroups. In the argument struct, the caller sets the fields that quantisedProduct sets too,
// except for the tiles.
func (n *nvidia) splitProduct(name string, k packedKernel, dst compute.Tensor, ws []compute.Weight, a packedProductArgs) {
	bound, out, groups := bindProducts(ws, k.groups)
	a.out, a.tiles, a.columnTiles = out, firstTiles(groups), 1
	g := grid{x: strands * sum(groups), y: 1, simdgroups: k.simdgroups(), shared: k.algorithm.memory()}
	record(n.step, name, k.pipeline, g, &a, bound[0], bound[1], bound[2], bound[3], n.held(), into(dst), n.scratch.write(), n.counters.read())
}

// balances reports whether a balanced product takes less time for products of weights than tile,
// the kernel that would compute them otherwise.
func (n *nvidia) balances(tile, balanced packedKernel, ws []compute.Weight, dst, x compute.Tensor) bool {
	if _, given := n.tiles[ProductTile]; given || !n.hopper || tile.template != "PRODUCT" || dst.Rows <= bulkColumns {
		return false
	}
	w, tiles := weightOf(ws[0]), threadgroups(balanced, ws, dst.Rows)
	return w.matrices == 1 && w.activationBlocks() >= minSplitBlocks && tiles > balancedThreadgroups && tiles < 2*balancedThreadgroups &&
		dst.Buffer != &n.scratch.memory && x.Buffer != &n.scratch.memory &&
		balancedThreadgroups*balanced.rows()*balanced.algorithm.columns()*4 <= n.scratch.bytes && balanced.algorithm.fits(n.memory)
}

// balancedProduct is splitProduct for a product whose strands are divided evenly.
func (n *nvidia) balancedProduct(name string, k packedKernel, dst compute.Tensor, ws []compute.Weight, a packedProductArgs) {
	bound, out, groups := bindProducts(ws, k.groups)
	a.out, a.tiles, a.columnTiles = out, firstTiles(groups), uint32(k.tiles(dst.Rows))
	b := balancedArgs{a, uint32(sum(groups) * k.tiles(dst.Rows))}
	finished := n.counters.read()
	finished.Offset += 4 * maxSplitTiles
	g := grid{x: balancedThreadgroups, y: 1, simdgroups: k.simdgroups(), shared: k.algorithm.memory()}
	record(n.step, name, k.pipeline, g, &b, bound[0], bound[1], bound[2], bound[3], n.held(), into(dst), n.scratch.write(), finished)
}
