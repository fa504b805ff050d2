package metal

import (
	"fmt"
	"slices"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/gguf"
)

// sources are the kernel files in the order of compilation.
var sources = []string{
	"rows.metal", "norm.metal", "product.metal", "absorb.metal", "store.metal", "attention.metal", "experts.metal",
	"tiles.metal", "expert_tiles.metal", "route.metal", "sample.metal", "draw.metal",
	"attention_tile.metal", "states.metal", "recurrence.metal", "recurrence_chunks.metal",
}

// Files returns the names of the kernel files, all of which every driver compiles.
func Files() []string { return slices.Clone(sources) }

const (
	maxNormGroups    = 8        // maximum number of simdgroups per row of a norm
	storeGroups      = 4        // simdgroups per threadgroup of rope_store, and per row of store_gated
	threadgroupBytes = 32 << 10 // threadgroup memory that every device has
	smallTile        = 32       // smallest number of rows of a tile

	// attentionGroups is the number of simdgroups per threadgroup of attention.metal, one per block
	// of 32 keys, and of attention_tile.metal.
	attentionGroups = splitKeys / 32
)

// compiled is a kernel for few rows, with its geometry.
type compiled struct {
	rows, inputs, simdgroups int
	byAlignment
}

// byAlignment is a kernel that is compiled for rows of activations at multiples of 16 bytes, or for
// keys and values of a multiple of four dimensions, as models have them, and again for others when
// these come.
type byAlignment struct {
	aligned    Pipeline
	file, name string
	kind       gguf.Type
	in         int      // length of a row of weights
	constants  []uint32 // after the first one, which is the alignment
}

func alignedRows(x compute.Tensor) bool { return x.Offset%4 == 0 && (x.Stride%4 == 0 || x.Rows == 1) }

// pipeline returns the pipeline for rows of activations. matrix is the number of values between the
// activations of one matrix and of the next.
func (k *byAlignment) pipeline(p *portable, x compute.Tensor, matrix int) Pipeline {
	return k.choose(p, alignedRows(x) && matrix%4 == 0 && k.in%4 == 0)
}

func (k *byAlignment) choose(p *portable, aligned bool) Pipeline {
	if aligned {
		return k.aligned
	}
	m := maker{set: p.kernels, kind: k.kind.String()}
	made := m.pipeline(k.file, k.name, append([]uint32{0}, k.constants...)...)
	if m.err != nil {
		p.fail(m.err)
	}
	return made
}

// groups returns the number of threadgroups for a weight. out is the number of its rows.
func (c compiled) groups(out int) int {
	each := teams * c.rows * c.simdgroups
	return (out + each - 1) / each
}

// grid returns the grid of a kernel with the given number of threadgroups for the weights. The
// parameter rows is the number of rows of activations, n the number of values of a row.
func (c compiled) grid(groups, rows, n int) grid {
	return grid{x: groups, y: (rows + c.inputs - 1) / c.inputs, simdgroups: c.simdgroups, shared: c.room(n)}
}

// room returns the bytes of threadgroup memory for rows of n activations, of which several are
// staged there.
func (c compiled) room(n int) int {
	const eight = 16 * strands // values of the chunks that are staged together
	if c.inputs == 1 && n > stagedRow {
		return 16
	}
	return 4 * c.inputs * min((n+eight-1)/eight*eight, stagedFloats/c.inputs)
}

// forRows returns the kernel with the fewest inputs that processes all rows at once. If there is
// none, it returns the kernel with the most inputs.
func forRows(kernels []compiled, rows int) compiled {
	for _, k := range kernels {
		if k.inputs >= rows {
			return k
		}
	}
	return kernels[len(kernels)-1]
}

// tiled is a tiled kernel with its geometry. A tile has the products of some rows of weights with
// some rows of activations.
type tiled struct {
	rows, inputs int // numbers of rows of weights and of activations in a tile
	weights      int // number of weights that share the rows: 2 for gate and up, else 1
	from, tiles  int // minimum numbers of rows of activations and of tiles for which the kernel is used
	byAlignment
	wide *tiled // the kernel of wide tiles; nil if they are not used
}

// newTiled returns a kernel without its pipelines.
func newTiled(kernel string, c *Choice) tiled {
	t := tiled{rows: c.Rows, inputs: c.Inputs, weights: 1, from: c.From, tiles: c.Tiles}
	if kernel == GatedTile || kernel == ExpertGatedTile {
		t.weights = 2
	}
	if c.Wide > 0 {
		t.wide = &tiled{rows: wideTileRows, inputs: wideTileInputs, weights: t.weights, from: c.Wide, tiles: c.WideTiles}
	}
	return t
}

// fits reports whether tiles compute the product of a weight with some rows of activations.
func (t *tiled) fits(w *weight, rows int) bool {
	g := t.grid(w.out, rows)
	return rows >= t.from && g.x*g.y*w.matrices >= t.tiles
}

// forRows returns the kernel for the product of a weight with some rows of activations that fit.
func (t *tiled) forRows(w *weight, rows int) *tiled {
	if t.wide != nil && t.wide.fits(w, rows) {
		return t.wide
	}
	return t
}

// room returns the threadgroup memory of a tile in bytes (see tile.h).
func (t *tiled) room() int {
	if t.rows == wideTileRows {
		return 4 * wideTileRows * wideTileInputs // two staged chunks take less
	}
	return 4 * tileGroups * (16*t.rows + tileStride*t.inputs + 8)
}

// grid returns the grid of a product. The weight has as many rows as out says. The parameter rows
// is the number of rows of activations.
func (t *tiled) grid(out, rows int) grid {
	each := t.rows / t.weights
	return grid{
		x: (out + each - 1) / each, y: (rows + t.inputs - 1) / t.inputs,
		simdgroups: tileGroups, shared: t.room(),
	}
}

// weightShape has the properties of a weight that determine its kernels.
type weightShape struct {
	kind    gguf.Type
	in, out int
}

// weightKernels are the pipelines for weights of a type and shape.
type weightKernels struct {
	embed                     Pipeline
	product, gated, absorb    []compiled
	gatedExperts, expertsDown []compiled
	expertsAdd                compiled

	productTile, gatedTile, expertGatedTile, expertDownTile tiled
}

// kernelSet holds the compiled kernels. The pipelines for a type and shape are made when the first
// weight or cache with that type and shape is made.
type kernelSet struct {
	device    *compiler
	mode      Mode
	libraries map[unit]Library
	defaults  Geometry        // DefaultGeometry, for the device
	compiled  Geometry        // its choices have instances in the libraries
	more      map[string]unit // the units of instances that are not in the units of all types, by name
	geometry  Geometry
	pipelines map[string]Pipeline
	weights   map[weightShape]*weightKernels
	pages     map[gguf.Type]*pageKernels

	plainTiles bool // tiles do not use simdgroup matrices

	norm, gather, affine, gate, attentionJoin Pipeline
	sigmoidGate, softCap                      Pipeline
	chooseExperts, groupExperts, weighExperts Pipeline
	topParts, topJoin                         Pipeline
	drawEdits, drawParts, draw                Pipeline
	drawGroups                                int          // simdgroups per row of draw
	states                                    stateKernels // made when they are needed
}

func newKernelSet(dev *compiler, g Geometry) (*kernelSet, error) {
	k := &kernelSet{device: dev, mode: dev.mode, libraries: map[unit]Library{}, pipelines: map[string]Pipeline{}}
	k.defaults = DefaultGeometry().ofDevice(deviceName(dev.Info()))
	if err := k.use(g); err != nil {
		return nil, err
	}
	k.compiled = k.geometry
	k.findMore()
	if err := k.compile(); err != nil {
		return nil, err
	}
	m := maker{set: k}
	k.norm, k.gather = m.pipeline("norm.metal", "rms_norm"), m.pipeline("rows.metal", "gather")
	k.affine = m.pipeline("rows.metal", "affine")
	k.sigmoidGate, k.softCap = m.pipeline("rows.metal", "sigmoid_gate"), m.pipeline("rows.metal", "soft_cap")
	k.gate, k.attentionJoin = m.pipeline("product.metal", "gate"), m.pipeline("attention.metal", "attention_join")
	k.chooseExperts = m.pipeline("route.metal", "choose_experts")
	k.groupExperts, k.weighExperts = m.pipeline("route.metal", "group_experts"), m.pipeline("route.metal", "weigh_experts")
	k.topParts, k.topJoin = m.pipeline("sample.metal", "top_parts"), m.pipeline("sample.metal", "top_join")
	k.drawEdits, k.drawParts, k.draw = m.pipeline("draw.metal", "draw_edits"), m.pipeline("draw.metal", "draw_parts"), m.pipeline("draw.metal", "draw")
	k.drawGroups = min(m.simdgroups(k.draw), chooseThreads/32)
	return k, m.err
}

// compile compiles the kernels that every model needs, several files at once.
func (k *kernelSet) compile() error {
	var sources []Source
	for _, u := range k.units() {
		src, err := k.source(u)
		if err != nil {
			return err
		}
		sources = append(sources, src)
	}
	k.device.start(sources...)
	for _, u := range k.units() {
		if _, err := k.library(u); err != nil {
			return err
		}
	}
	return nil
}

// use sets the geometry for later choices of kernels: DefaultGeometry with the choices of g added.
func (k *kernelSet) use(g Geometry) error {
	if err := g.Check(); err != nil {
		return err
	}
	k.geometry = slices.Concat(k.defaults, g.ofDevice(deviceName(k.device.Info())))
	k.weights, k.pages = map[weightShape]*weightKernels{}, map[gguf.Type]*pageKernels{}
	return nil
}

// maker makes pipelines. After the first error, which it stores in err, it makes no more pipelines.
type maker struct {
	set  *kernelSet
	kind string // type of the weights or of the KV pages; empty for kernels that do not depend on it
	err  error
}

// pipeline returns the pipeline of a kernel. The first constant has index 0. Each pipeline is made
// once.
func (m *maker) pipeline(file, name string, values ...uint32) (p Pipeline) {
	key := fmt.Sprint(name, values)
	if have, ok := m.set.pipelines[key]; ok || m.err != nil {
		return have
	}
	lib, err := m.set.library(m.set.unitOf(file, name, m.kind, values))
	if err == nil {
		p, err = m.set.device.Pipeline(lib, name, constants(values...))
	}
	if m.err = err; err == nil {
		m.set.pipelines[key] = p
	}
	return p
}

// byAlignment returns a kernel with its pipeline for aligned rows of activations. The values are
// those of the function constants after the first one.
func (m *maker) byAlignment(file, name string, kind gguf.Type, in int, values ...uint32) byAlignment {
	return byAlignment{m.pipeline(file, name, append([]uint32{1}, values...)...), file, name, kind, in, values}
}

// few returns the kernel for few rows that the geometry chooses. The number of simdgroups is
// limited to what the device allows.
func (m *maker) few(file, kernel string, w weightShape, inputs int) compiled {
	c := m.set.geometry.find(kernel, w.kind, w.in, w.out, inputs)
	k := m.byAlignment(file, instance(kernel, w.kind, c.Rows, inputs), w.kind, w.in)
	return compiled{c.Rows, inputs, min(c.Simdgroups, m.simdgroups(k.aligned)), k}
}

// simdgroups returns the maximum number of simdgroups per threadgroup of a pipeline.
func (m *maker) simdgroups(p Pipeline) int {
	if m.err != nil {
		return 0
	}
	return m.set.device.PipelineInfo(p).MaxThreads / 32
}

// all returns the chosen kernel for each number of inputs.
func (m *maker) all(file, kernel string, w weightShape) (list []compiled) {
	for _, n := range Inputs(kernel) {
		list = append(list, m.few(file, kernel, w, n))
	}
	return list
}

// tiles returns the tiled kernel that the geometry chooses. If the device does not allow enough
// threads for the chosen tile, tiles chooses a smaller one, which needs fewer registers.
func (m *maker) tiles(file, kernel string, w weightShape) tiled {
	c := m.set.geometry.find(kernel, w.kind, w.in, w.out, 0)
	made := newTiled(kernel, &c)
	for m.err == nil {
		made.byAlignment = m.byAlignment(file, kernel+"_"+w.kind.String(), w.kind, w.in, flag(m.set.plainTiles), uint32(made.rows), uint32(made.inputs))
		limit := m.simdgroups(made.aligned)
		switch {
		case tileGroups <= limit:
			m.compileWide(&made, file, kernel, w)
			return made
		case made.rows > smallTile:
			made.rows = smallTile
		case m.err == nil:
			m.err = fmt.Errorf("make a pipeline of kernel %s for weights of type %v: the device allows %d simdgroups per threadgroup, but a tile needs %d",
				kernel, w.kind, limit, tileGroups)
		}
	}
	return made
}

// compileWide compiles the kernel of wide tiles. If tiles do not use simdgroup matrices, no library
// has such wide tiles, or the device does not allow enough threads, it removes the kernel.
func (m *maker) compileWide(t *tiled, file, kernel string, w weightShape) {
	if t.wide == nil {
		return
	}
	if !m.set.plainTiles && slices.Contains(m.set.wideTypes(file), w.kind) {
		t.wide.byAlignment = m.byAlignment(file, kernel+"_"+w.kind.String(), w.kind, w.in, flag(false), wideTileRows, wideTileInputs)
	}
	if t.wide.aligned == 0 || tileGroups > m.simdgroups(t.wide.aligned) {
		t.wide = nil
	}
}

// tileConstants returns the function constants with which the geometry's tiles for a type of
// weights are made, unless a device or a shape needs smaller tiles.
func (k *kernelSet) tileConstants(u unit) (sets [][]Constant) {
	for _, kernel := range tileKernels[u.file] {
		c := k.geometry.find(kernel, typeNamed(u.kind), 0, 0, 0)
		chosen := [][]Constant{constants(1, flag(k.plainTiles), uint32(c.Rows), uint32(c.Inputs))}
		if c.Wide > 0 && !k.plainTiles {
			chosen = append(chosen, constants(1, flag(k.plainTiles), wideTileRows, wideTileInputs))
		}
		for _, set := range chosen {
			if !slices.ContainsFunc(sets, func(have []Constant) bool { return slices.Equal(have, set) }) {
				sets = append(sets, set)
			}
		}
	}
	return sets
}

func typeNamed(name string) gguf.Type {
	i := slices.IndexFunc(weightTypes, func(t gguf.Type) bool { return t.String() == name })
	return weightTypes[i]
}

// constants returns function constants with the given values. The first one has index 0.
func constants(values ...uint32) []Constant {
	list := make([]Constant, len(values))
	for i, v := range values {
		list[i] = Constant{Index: i, Value: v}
	}
	return list
}

// forWeight returns the pipelines for a weight. The pipelines of a type and shape are made once.
func (k *kernelSet) forWeight(w weightShape) (*weightKernels, error) {
	if have, ok := k.weights[w]; ok {
		return have, nil
	}
	m := maker{set: k, kind: w.kind.String()}
	made := &weightKernels{
		embed:        m.pipeline("rows.metal", "embed_"+w.kind.String()),
		product:      m.all("product.metal", Product, w),
		gated:        m.all("product.metal", GatedProduct, w),
		absorb:       m.all("absorb.metal", Absorb, w),
		gatedExperts: m.all("experts.metal", GatedExperts, w),
		expertsDown:  m.all("experts.metal", ExpertsDown, w),
		expertsAdd:   m.few("experts.metal", ExpertsAdd, w, 1),

		productTile:     m.tiles("tiles.metal", ProductTile, w),
		gatedTile:       m.tiles("tiles.metal", GatedTile, w),
		expertGatedTile: m.tiles("expert_tiles.metal", ExpertGatedTile, w),
		expertDownTile:  m.tiles("expert_tiles.metal", ExpertDownTile, w),
	}
	if m.err != nil {
		return nil, m.err
	}
	k.weights[w] = made
	return made, nil
}
